"""Tables and their BM25 indexes, which are named `<table>_bm25`."""

import re
from typing import Final

from groundline_lexical.ports import Connection

BUILD_SECONDS: Final = 6 * 3600.0
"""Maximum time of a build, in seconds, whatever a connection's other statements may take."""

_TABLE: Final = re.compile(r"[a-z_][a-z0-9_]{0,50}")


def plain_name(table: str) -> str:
    """Return the name if it is safe in a statement. Raises ValueError for any other."""
    if not _TABLE.fullmatch(table):
        raise ValueError(f"not the plain name of a table: {table!r}")
    return table


def has_index(table: str) -> str:
    """Return the SQL condition that a table, named by an expression, has its index, built to the end."""
    return f"EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass({table} || '_bm25') AND indisvalid)"


async def build_index(connection: Connection, table: str, definition: str, *, concurrently: bool) -> None:
    """Build the index by a definition, which is what follows its name; see LexicalIndex.create_index."""
    table = plain_name(table)
    if concurrently:
        # An interrupted build leaves an index that no search may use, and every write keeps up.
        await connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {table}_bm25", timeout=BUILD_SECONDS)
    how = "CONCURRENTLY" if concurrently else ""
    await connection.execute(f"CREATE INDEX {how} {table}_bm25 {definition}", timeout=BUILD_SECONDS)


async def rebuild_index(connection: Connection, table: str) -> None:
    """Rebuild the index by PostgreSQL's own REINDEX; see LexicalIndex.rebuild."""
    table = plain_name(table)
    # The remains of an interrupted rebuild would be written to for ever.
    await connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {table}_bm25_ccnew", timeout=BUILD_SECONDS)
    await connection.execute(f"REINDEX INDEX CONCURRENTLY {table}_bm25", timeout=BUILD_SECONDS)
