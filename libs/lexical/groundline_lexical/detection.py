"""Detection of the keyword backend of a database."""

from collections.abc import Mapping
from typing import Final

from groundline_lexical.errors import LexicalIndexError
from groundline_lexical.pg_search import PgSearchIndex
from groundline_lexical.pg_textsearch import PgTextsearchIndex
from groundline_lexical.ports import Connection, LexicalIndex
from groundline_lexical.vchord_bm25 import VchordBm25Index

BACKENDS: Final[Mapping[str, type[PgTextsearchIndex | PgSearchIndex | VchordBm25Index]]] = {
    "pg_textsearch": PgTextsearchIndex,
    "pg_search": PgSearchIndex,
    "vchord_bm25": VchordBm25Index,
}
"""Backends by name, in order of preference if a server offers several."""

_EXTENSIONS: Final = """
    SELECT name, coalesce(installed_version, default_version) AS version,
        installed_version IS NOT NULL AS installed
    FROM pg_available_extensions
    WHERE name = ANY ($1::text[])
    ORDER BY installed_version IS NULL, array_position($1::text[], name::text)
"""


async def detect_lexical_index(connection: Connection, backend: str | None = None) -> LexicalIndex:
    """Return the backend named, else the one whose extension is installed, else the first that could be
    installed.

    Raises LexicalIndexError if the server has no backend, or only in versions that are not supported.
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
