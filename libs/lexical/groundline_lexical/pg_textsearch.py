"""Timescale's pg_textsearch: a BM25 index in PostgreSQL's own pages, on its text search configurations."""

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

# From 1.3 on, rows that are not in a segment yet are in pages under the write-ahead log; before, a crash lost
# them. 0.6 has the same SQL.
_OLDEST: Final = (1, 3)
_BEFORE: Final = (2, 0)
_OLDEST_OF_SAME_SQL: Final = (0, 6)

_INDEX: Final = "ON {table} USING bm25 (lexical_text) WITH (text_config = 'pg_catalog.{name}')"

# <@> gives the negative score; 0 is a row with none of the words. Computing it for a row takes long, but a
# scan of the index has it at hand. The extension puts that in the operator's place where rows are sorted by
# an expression that is not selected, and then wherever the same expression is selected. PostgreSQL's parser
# makes one of two expressions that are spelled alike, so the index's name is spelled in two ways, which are
# the same once the planner has put it together. (bm25_get_current_score() is as quick, but of another row
# where the planner finds something better than a scan of this index, as for a condition that few rows meet.)
_SEARCH: Final = """
    SELECT chunk_id, -distance AS score{columns}
    FROM (
        SELECT *, lexical_text <@> to_bm25query($1::text, '{table}_bm25') AS distance
        FROM {table} {where}
        ORDER BY lexical_text <@> to_bm25query($1::text, '{table}' || '_bm25')
        LIMIT {limit}
    ) AS {table}
    WHERE distance < 0
    ORDER BY distance, chunk_id
"""

# Rows that a scan takes from the index at first, where a plan made before does not say how many it needs, and
# the most it ever takes; it doubles the number as long as too few of them meet the condition.
_FIRST_SETTING: Final = "pg_textsearch.default_limit"
_FIRST: Final = 1000
_MOST: Final = 100_000

# The oldest and the newest row that have a word to be found by; `$1` is the name of the index. Their first
# words are enough: a row with all of them is near the top, or equals those that are in its place.
_KNOWN: Final = """
    WITH ends AS (
        SELECT chunk_id, left(lexical_text, 200) AS words FROM {table}
        WHERE chunk_id IN ((SELECT min(chunk_id) FROM {table}), (SELECT max(chunk_id) FROM {table}))
    ), configured AS (
        SELECT option_value::regconfig AS name
        FROM pg_options_to_table((SELECT reloptions FROM pg_class WHERE oid = $1::text::regclass))
        WHERE option_name = 'text_config'
    )
    SELECT chunk_id, words FROM ends, configured WHERE to_tsvector(name, words) <> ''
"""

# Whether the row `$2` is among the best for its words, or, where these are many, not clearly better than the
# worst of them; the index rounds lengths, and with them scores.
_FINDS: Final = f"""
    WITH best AS (
        SELECT chunk_id, lexical_text <@> to_bm25query($1::text, '{{table}}_bm25') AS distance
        FROM {{table}}
        ORDER BY lexical_text <@> to_bm25query($1::text, '{{table}}' || '_bm25') LIMIT {_FIRST}
    )
    SELECT coalesce(bool_or(chunk_id = $2), false) OR count(*) = {_FIRST} AND max(distance) <= 0.9 * (
        SELECT lexical_text <@> to_bm25query($1::text, '{{table}}_bm25') FROM {{table}} WHERE chunk_id = $2
    )
    FROM best
"""  # noqa: S608


class PgTextsearchIndex:
    """LexicalIndex on pg_textsearch from 1.3 on, below 2. It considers only the best 100,000 matches."""

    name = "pg_textsearch"

    def __init__(self, *, durable: bool = True) -> None:
        self.capabilities = Capabilities(
            survives_unclean_stop=durable,
            answers_on_standby=durable,
            filters_in_index=True,
            filters_collections=True,
            considered_matches=_MOST,
        )

    @classmethod
    def of_version(cls, version: str, *, allow_lossy: bool = False) -> Self:
        """Return the index for an extension version. Raises LexicalIndexError for an unsupported one.

        `allow_lossy` is for tests: versions with the same SQL that lose rows in an unclean stop.
        """
        found = re.match(r"(\d+)\.(\d+)", version)
        number = (int(found[1]), int(found[2])) if found else (0, 0)
        if _OLDEST <= number < _BEFORE:
            return cls()
        if allow_lossy and _OLDEST_OF_SAME_SQL <= number < _OLDEST:
            return cls(durable=False)
        lossy = found is not None and number < _OLDEST
        reason = "it silently loses rows when the server stops uncleanly; " if lossy else ""
        raise LexicalIndexError(
            f"pg_textsearch {version} is not supported; {reason}install a version from "
            f"{'.'.join(map(str, _OLDEST))} on and before {'.'.join(map(str, _BEFORE))}, run ALTER EXTENSION "
            "pg_textsearch UPDATE, and REINDEX what an older one has indexed"
        )

    async def create_extension(self, connection: Connection) -> None:
        try:
            await connection.execute("CREATE EXTENSION IF NOT EXISTS pg_textsearch")
        except asyncpg.InsufficientPrivilegeError:
            raise LexicalIndexError(
                "this role may not create pg_textsearch: let a superuser run CREATE EXTENSION pg_textsearch"
            ) from None
        except (asyncpg.RaiseError, asyncpg.ObjectNotInPrerequisiteStateError):
            raise LexicalIndexError(
                "pg_textsearch is not loaded: add it to shared_preload_libraries and restart the server"
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
        warn_if_missing(language)
        definition = _INDEX.format(table=plain_name(table), name=configuration(language))
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
        conditions = [f"({condition})"] if condition else []
        if collections:
            # The planner takes the CASE to hold for half the rows; of a list, in a plan for any values, it
            # expects few rows, and scores every one of them.
            named = f"collection_id = ANY ({collections}::text[])"
            conditions.append(f"CASE WHEN {named} THEN true ELSE false END")
        return _SEARCH.format(
            table=plain_name(table),
            columns=f", {columns}" if columns else "",
            where=f"WHERE {' AND '.join(conditions)}" if conditions else "",
            limit="ALL" if limit is None else f"{limit:d}",
        )

    def search_settings(self, limit: int | None) -> Mapping[str, str]:
        if limit is not None and limit <= _FIRST:
            return {}
        return {_FIRST_SETTING: str(_MOST if limit is None else min(limit, _MOST))}

    def prepare_query(self, query: str, language: str) -> str:
        return without_stop_words(searched_text(query), language)

    async def probe(self, connection: Connection, table: str) -> bool:
        table = plain_name(table)
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            # Forces a search in this index.
            await connection.execute("SET LOCAL enable_sort = off")
            for row in await connection.fetch(_KNOWN.format(table=table), f"{table}_bm25"):
                if not await connection.fetchval(_FINDS.format(table=table), row["words"], row["chunk_id"]):
                    return False
        return True

    async def missing_rows(self, connection: Connection, table: str) -> int | None:
        return None

    async def rebuild(self, connection: Connection, table: str) -> None:
        await rebuild_index(connection, table)
