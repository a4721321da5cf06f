"""TensorChord's VectorChord-BM25 0.3, on PostgreSQL's text search configurations."""

import re
from collections.abc import Mapping
from typing import Final, Self

import asyncpg

from groundline_lexical.configurations import configuration, warn_if_missing
from groundline_lexical.errors import LexicalIndexError
from groundline_lexical.languages import without_stop_words
from groundline_lexical.ports import Capabilities, Connection
from groundline_lexical.tables import build_index, plain_name, rebuild_index
from groundline_lexical.text import searched_text

# 0.4 takes tsvector in place of bm25vector, and its functions are others.
_SUPPORTED: Final = (0, 3)

# A vector's terms are numbers. Each stem that PostgreSQL's configuration of the language makes gets the one
# that it hashes to: no vocabulary is trained, loaded or restored, and no word is unknown. An index has a
# counter for every number up to the largest, so there are no more than these; of a language's words few share
# one. The subwords of pg_tokenizer's vocabularies, in their place, find less in code: nDCG@10 .734, not .763.
_TERMS: Final = 2**18

# hashtextextended is what hash partitions rely on: it stays what it is. An index needs an IMMUTABLE function,
# and one in SQL would be inlined. The extension's casts look for their types in search_path, which is
# pg_catalog alone while an index is built.
_CREATE_FUNCTION: Final = f"""
    CREATE FUNCTION groundline_terms(words text, configuration regconfig) RETURNS bm25_catalog.bm25vector
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT
    SET search_path = bm25_catalog, pg_catalog AS $body$
    BEGIN
        RETURN ARRAY(
            SELECT (hashtextextended(lexeme, 0) & {_TERMS - 1})::int
            FROM unnest(to_tsvector(configuration, words)) AS stem, unnest(stem.positions)
        )::bm25_catalog.bm25vector;
    END
    $body$
"""  # noqa: S608
_HAS_FUNCTION: Final = "SELECT to_regprocedure('groundline_terms(text, regconfig)') IS NOT NULL"

_TERMS_OF: Final = "groundline_terms({words}, '{configuration}'::regconfig)"
_INDEX: Final = "ON {table} USING bm25 (({terms}) bm25_catalog.bm25_ops)"

# <&> is the negative score; 0 is a row with none of the terms, which a scan of the index leaves out, and any
# other does not. The query names the index that is scanned, unchecked: it must be this table's. It is a query
# of its own so that its words are taken apart once, not for each row.
_SEARCH: Final = """
    SELECT chunk_id, -distance AS score{columns}
    FROM (
        SELECT *, {terms} <&> (
            SELECT bm25_catalog.to_bm25query('{table}_bm25'::regclass, {query})
        ) AS distance
        FROM {table} ORDER BY distance LIMIT {limit}
    ) AS {table}
    WHERE distance < 0
    ORDER BY distance, chunk_id
"""

# The index gives no more rows than this setting, whatever LIMIT says; -1 looks at every row. A scan looks for
# the extension's own type by its bare name.
_LIMIT_SETTING: Final = "bm25_catalog.bm25_limit"
_MOST: Final = 65_535
_ALL: Final = -1
_SEARCH_PATH: Final = '"$user", public, bm25_catalog'

# The oldest and the newest row that have a term to be found by; their first words are enough.
_KNOWN: Final = """
    SELECT chunk_id, words FROM (SELECT chunk_id, left(lexical_text, 200) AS words FROM {table}) AS {table}
    WHERE chunk_id IN ((SELECT min(chunk_id) FROM {table}), (SELECT max(chunk_id) FROM {table}))
        AND {terms}::text <> '{{}}'
"""
# A search that reaches the engine's limit of hits does not tell whether a row that is missing would be found.
_FINDS: Final = f"""
    SELECT coalesce(bool_or(chunk_id = $2), false) OR count(*) = {_MOST} FROM ({{search}}) AS best
"""  # noqa: S608
_DEFINITION: Final = "SELECT pg_get_indexdef($1::text::regclass)"


class VchordBm25Index:
    """LexicalIndex on vchord_bm25 0.3.

    After an unclean stop searches may raise "range end index … out of range" until the index is rebuilt.
    """

    name = "vchord_bm25"
    capabilities = Capabilities(
        survives_unclean_stop=False,
        answers_on_standby=True,
        filters_in_index=False,
        filters_collections=False,
    )

    @classmethod
    def of_version(cls, version: str) -> Self:
        """Return the index for an extension version. Raises LexicalIndexError for an unsupported one."""
        number = re.match(r"(\d+)\.(\d+)", version)
        if number is None or (int(number[1]), int(number[2])) != _SUPPORTED:
            raise LexicalIndexError(
                f"vchord_bm25 {version} is not supported; install {'.'.join(map(str, _SUPPORTED))}.x"
            )
        return cls()

    async def create_extension(self, connection: Connection) -> None:
        try:
            async with connection.transaction():
                await connection.execute("CREATE EXTENSION IF NOT EXISTS vchord_bm25")
                if not await connection.fetchval(_HAS_FUNCTION):
                    await connection.execute(_CREATE_FUNCTION)
        except asyncpg.InsufficientPrivilegeError:
            raise LexicalIndexError(
                "this role may not create vchord_bm25, or may not use its schema: let a superuser create it "
                "and grant the role what the README of groundline-lexical says"
            ) from None

    async def create_index(
        self,
        connection: Connection,
        table: str,
        language: str,
        *,
        is_shared: bool = False,
        concurrently: bool = False,
    ) -> None:
        if is_shared:
            raise ValueError("vchord_bm25 does not filter collections")
        warn_if_missing(language)
        definition = _INDEX.format(table=plain_name(table), terms=_terms("lexical_text", language))
        await build_index(connection, table, definition, concurrently=concurrently)

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
        return _SEARCH.format(
            table=plain_name(table),
            terms=_terms("lexical_text", language),
            query=_terms("$1::text", language),
            limit="ALL" if limit is None else f"{limit:d}",
            columns=f", {columns}" if columns else "",
        )

    def search_settings(self, limit: int | None) -> Mapping[str, str]:
        most = _ALL if limit is None or limit > _MOST else limit
        return {_LIMIT_SETTING: str(most), "search_path": _SEARCH_PATH}

    def prepare_query(self, query: str, language: str) -> str:
        return without_stop_words(searched_text(query), language)

    async def probe(self, connection: Connection, table: str) -> bool:
        table = plain_name(table)
        definition = await connection.fetchval(_DEFINITION, f"{table}_bm25")
        found = re.search(r"'([a-z]+)'::regconfig", definition)
        assert found is not None, "not an index of this backend"
        language = found[1]
        search = self.search_sql(table, language, limit=_MOST)
        statement = _FINDS.format(search=search)
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            # Forces a search in this index.
            await connection.execute(
                f"SET LOCAL enable_sort = off; SET LOCAL {_LIMIT_SETTING} = {_MOST}; "
                f"SET LOCAL search_path = {_SEARCH_PATH}"
            )
            known = _KNOWN.format(table=table, terms=_terms("words", language))
            for row in await connection.fetch(known):
                if not await connection.fetchval(statement, row["words"], row["chunk_id"]):
                    return False
        return True

    async def missing_rows(self, connection: Connection, table: str) -> int | None:
        return None

    async def rebuild(self, connection: Connection, table: str) -> None:
        await rebuild_index(connection, table)


def _terms(words: str, language: str) -> str:
    """Return the SQL expression of the words' terms."""
    return _TERMS_OF.format(words=words, configuration=configuration(language))
