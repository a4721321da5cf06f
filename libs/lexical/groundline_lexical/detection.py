"""Which backend a database has."""

from collections.abc import Mapping

from groundline_lexical.errors import LexicalIndexError
from groundline_lexical.pg_search import PgSearchIndex
from groundline_lexical.pg_textsearch import PgTextsearchIndex
from groundline_lexical.ports import Connection, LexicalIndex
from groundline_lexical.vchord_bm25 import VchordBm25Index

__all__ = ["BACKENDS", "detect_lexical_index"]

BACKENDS: Mapping[str, type[PgTextsearchIndex | PgSearchIndex | VchordBm25Index]] = {
    "pg_textsearch": PgTextsearchIndex,
    "pg_search": PgSearchIndex,
    "vchord_bm25": VchordBm25Index,
}
"""In the order in which a server that offers several is used."""

_EXTENSIONS = """
    SELECT name, coalesce(installed_version, default_version) AS version,
        installed_version IS NOT NULL AS installed
    FROM pg_available_extensions
    WHERE name = ANY ($1::text[])
    ORDER BY installed_version IS NULL, array_position($1::text[], name::text)
"""


async def detect_lexical_index(connection: Connection, backend: str | None = None) -> LexicalIndex:
    """The backend named, else the one whose extension is installed, else the first that could be installed.

    Raises LexicalIndexError when there is none, or no version of one that is known to work.
    """
    if backend is not None and backend not in BACKENDS:
        raise LexicalIndexError(f"no lexical backend {backend!r}; there are: {', '.join(BACKENDS)}")
    wanted = list(BACKENDS) if backend is None else [backend]
    refused = []
    for row in await connection.fetch(_EXTENSIONS, wanted):
        try:
            return BACKENDS[row["name"]].of_version(row["version"])
        except LexicalIndexError as error:
            if row["installed"]:
                # Every backend names its access method bm25: no other can be installed beside it.
                raise
            refused.append(str(error))
    if refused:
        raise LexicalIndexError("; ".join(refused))
    raise LexicalIndexError(
        f"the PostgreSQL server offers no lexical index; install an extension: {', '.join(wanted)}"
    )
