"""Tables and their BM25 indexes, which are named `<table>_bm25`."""

import re
from typing import Final

from groundline_lexical.ports import Connection

__all__ = ["plain_name", "rebuild_index"]

_TABLE: Final = re.compile(r"[a-z_][a-z0-9_]{0,50}")


def plain_name(table: str) -> str:
    """Return the name if it is safe in a statement. Raises ValueError for any other."""
    if not _TABLE.fullmatch(table):
        raise ValueError(f"not the plain name of a table: {table!r}")
    return table


async def rebuild_index(connection: Connection, table: str) -> None:
    """Rebuild the index by PostgreSQL's own REINDEX; see LexicalIndex.rebuild."""
    table = plain_name(table)
    # The remains of an interrupted rebuild would be written to for ever.
    await connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {table}_bm25_ccnew")
    await connection.execute(f"REINDEX INDEX CONCURRENTLY {table}_bm25", timeout=None)
