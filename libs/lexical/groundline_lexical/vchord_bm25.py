"""TensorChord's VectorChord-BM25 0.3 with pg_tokenizer.

NOT RUN YET: written from the extensions' sources. No server at hand offers them, so the contract tests skip
this backend, with a warning. Run tests/integration/lexical on a server that has both before relying on it;
the tests of stemming, stop words and text without spaces are expected to fail there: subwords are no stems,
none of them is a stop word, and one may be a single character.
"""

import re
from collections.abc import Mapping
from typing import Self

import asyncpg

from groundline_lexical.errors import LexicalIndexError
from groundline_lexical.ports import Capabilities, Connection
from groundline_lexical.tables import plain_name
from groundline_lexical.text import searched_text

__all__ = ["VchordBm25Index"]

# 0.4 takes tsvector in place of bm25vector, and its functions are others.
_SUPPORTED = (0, 3)

_EXTENSIONS = ("pg_tokenizer", "vchord_bm25")

# A multilingual vocabulary of subwords that is compiled into pg_tokenizer: nothing is downloaded or trained,
# no word is unknown, and subwords do some of what stemming does.
_TOKENIZER, _CONFIGURATION = "groundline", 'model = "llmlingua2"'

# tokenize() is STABLE, since a tokenizer can be dropped; this one never is. An index needs an IMMUTABLE
# function, and one in SQL would be inlined.
_CREATE_TOKENS = f"""
    CREATE FUNCTION bm25_catalog.groundline_tokens(text) RETURNS bm25_catalog.bm25vector
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT AS $body$
    BEGIN
        RETURN tokenizer_catalog.tokenize($1, '{_TOKENIZER}')::bm25_catalog.bm25vector;
    END
    $body$
"""
_HAS_TOKENS = "SELECT to_regproc('bm25_catalog.groundline_tokens') IS NOT NULL"
_CREATE_TOKENIZER = "SELECT tokenizer_catalog.create_tokenizer($1, $2)"

_CREATE_INDEX = """
    CREATE INDEX {table}_bm25 ON {table}
    USING bm25 ((bm25_catalog.groundline_tokens(lexical_text)) bm25_catalog.bm25_ops)
"""

# <&> is the negative score. The query names the index that is scanned, unchecked: it must be this table's.
# Rows that share no token score 0; a scan of the index leaves them out, any other does not.
_DISTANCE = """
    (bm25_catalog.groundline_tokens(lexical_text) <&> bm25_catalog.to_bm25query(
        '{table}_bm25'::regclass, bm25_catalog.groundline_tokens($1::text)))
"""
_SEARCH = """
    SELECT chunk_id, -{distance} AS score{columns} FROM {table}
    WHERE {distance} < 0 ORDER BY {distance}, chunk_id LIMIT {limit}
"""

# The index gives no more rows than this setting, whatever LIMIT says; -1 looks at every row.
_LIMIT_SETTING, _MOST, _ALL = "bm25_catalog.bm25_limit", 65_535, -1

_KNOWN = """
    SELECT lexical_text FROM {table}
    WHERE chunk_id IN ((SELECT min(chunk_id) FROM {table}), (SELECT max(chunk_id) FROM {table}))
"""


class VchordBm25Index:
    """LexicalIndex on vchord_bm25 0.3; every language is tokenized alike. See the module: not run yet."""

    name = "vchord_bm25"
    capabilities = Capabilities(
        survives_unclean_stop=False,
        answers_on_standby=True,
        filters_in_index=False,
        filters_collections=False,
    )

    @classmethod
    def of_version(cls, version: str) -> Self:
        """The index for an extension version; raises LexicalIndexError for one not known to work."""
        number = re.match(r"(\d+)\.(\d+)", version)
        if number is None or (int(number[1]), int(number[2])) != _SUPPORTED:
            raise LexicalIndexError(
                f"vchord_bm25 {version} is not supported; install {'.'.join(map(str, _SUPPORTED))}.x"
            )
        return cls()

    async def create_extension(self, connection: Connection) -> None:
        try:
            async with connection.transaction():
                for extension in _EXTENSIONS:
                    await connection.execute(f"CREATE EXTENSION IF NOT EXISTS {extension}")
                if not await connection.fetchval(_HAS_TOKENS):
                    await connection.execute(_CREATE_TOKENIZER, _TOKENIZER, _CONFIGURATION)
                    await connection.execute(_CREATE_TOKENS)
        except asyncpg.InsufficientPrivilegeError:
            raise LexicalIndexError(
                "this role may not create pg_tokenizer and vchord_bm25: let a superuser migrate once"
            ) from None
        except (asyncpg.FeatureNotSupportedError, asyncpg.UndefinedFileError) as error:
            raise LexicalIndexError(
                "vchord_bm25 needs pg_tokenizer, installed and in shared_preload_libraries "
                f"({type(error).__name__})"
            ) from None

    async def create_index(
        self, connection: Connection, table: str, language: str, *, is_shared: bool = False
    ) -> None:
        if is_shared:
            raise ValueError("vchord_bm25 does not filter collections")
        await connection.execute(_CREATE_INDEX.format(table=plain_name(table)))

    def search_sql(
        self,
        table: str,
        language: str,
        *,
        limit: int | None,
        columns: str = "",
        condition: str = "",
        collections: str = "",
    ) -> str:
        if condition or collections:
            raise ValueError("vchord_bm25 does not filter in its index")
        table = plain_name(table)
        return _SEARCH.format(
            table=table,
            distance=_DISTANCE.format(table=table),
            limit="ALL" if limit is None else f"{limit:d}",
            columns=f", {columns}" if columns else "",
        )

    def search_settings(self, limit: int | None) -> Mapping[str, str]:
        return {_LIMIT_SETTING: str(_ALL if limit is None or limit > _MOST else limit)}

    def prepare_query(self, query: str, language: str) -> str:
        return searched_text(query)

    async def probe(self, connection: Connection, table: str) -> bool:
        statement = self.search_sql(table, "", limit=1)
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            for row in await connection.fetch(_KNOWN.format(table=plain_name(table))):
                # Whichever row has these words; of equal rows any is as good as the known one.
                if row["lexical_text"].strip() and not await connection.fetch(statement, row["lexical_text"]):
                    return False
        return True
