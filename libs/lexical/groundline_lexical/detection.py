"""Which backend a database has."""

from collections.abc import Mapping

from groundline_lexical.errors import LexicalIndexError
from groundline_lexical.pg_search import PgSearchIndex
from groundline_lexical.ports import Connection, LexicalIndex
from groundline_lexical.vchord_bm25 import VchordBm25Index

__all__ = ["BACKENDS", "detect_lexical_index"]

BACKENDS: Mapping[str, type[PgSearchIndex | VchordBm25Index]] = {
    "pg_search": PgSearchIndex,
    "vchord_bm25": VchordBm25Index,
}

# In the order in which a server that offers several is used.
_EXTENSIONS = """
    SELECT name, coalesce(installed_version, default_version) AS version
    FROM pg_available_extensions
    WHERE name = ANY ($1::text[])
    ORDER BY installed_version IS NULL, array_position($1::text[], name::text)
"""


async def detect_lexical_index(connection: Connection, backend: str | None = None) -> LexicalIndex:
    """The backend named, else the one whose extension is installed, else one that could be installed.

    Raises LexicalIndexError when there is none or its version is not known to work.
    """
    if backend is not None and backend not in BACKENDS:
        raise LexicalIndexError(f"no lexical backend {backend!r}; there are: {', '.join(BACKENDS)}")
    wanted = list(BACKENDS) if backend is None else [backend]
    offered = await connection.fetchrow(_EXTENSIONS, wanted)
    if offered is None:
        raise LexicalIndexError(
            f"the PostgreSQL server offers no lexical index; install an extension: {', '.join(wanted)}"
        )
    return BACKENDS[offered["name"]].of_version(offered["version"])
