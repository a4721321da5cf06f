"""Names of tables, which become part of statements."""

import re

__all__ = ["plain_name"]

_TABLE = re.compile(r"[a-z_][a-z0-9_]{0,50}")


def plain_name(table: str) -> str:
    """The name, which is safe in a statement. Raises ValueError for any other."""
    if not _TABLE.fullmatch(table):
        raise ValueError(f"not the plain name of a table: {table!r}")
    return table
