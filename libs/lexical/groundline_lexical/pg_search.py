"""ParadeDB's pg_search: a BM25 index on Tantivy."""

import json
import re
from collections.abc import Mapping
from typing import Final, Self

import asyncpg

from groundline_lexical.errors import LexicalIndexError
from groundline_lexical.languages import ENGLISH_STOP_STEMS, ENGLISH_STOP_WORDS, STEMMED
from groundline_lexical.ports import Capabilities, Connection
from groundline_lexical.tables import BUILD_SECONDS, build_index, plain_name, rebuild_index
from groundline_lexical.text import searched_text

# The functions used below exist from 0.21 on; versions after 0.24 have not been checked.
_OLDEST: Final = (0, 21)
_BEFORE: Final = (0, 25)

# By default the last thousand rows stay in a mutable segment, which every search tokenizes again: 12,000
# chunks written in batches took 600 ms to search, and 7 ms without it. A search looks each word up in every
# segment, which is most of its cost when few rows are wanted. So one segment is built, though by one process
# (by default four, by two), and new rows are merged repeatedly (layer_sizes), beside the writers. Each size
# is a third of the next, not a tenth: that costs writers nothing measurable.
_INDEX: Final = """
    ON {table} USING bm25 (chunk_id, {columns})
    WITH (
        key_field = 'chunk_id', text_fields = '{fields}',
        mutable_segment_rows = 0, target_segment_count = 1,
        layer_sizes = '10kb, 30kb, 100kb, 300kb, 1mb, 3mb, 10mb, 30mb, 100mb'
    )
"""

# paradedb.match tokenizes its text and searches for any of the tokens; its text has no syntax.
_MATCH: Final = "paradedb.match('lexical_text', $1::text)"
# A plain condition beside the match would be counted into the score.
_IN_COLLECTIONS: Final = """paradedb.const_score(0.0, paradedb.term_set(
        terms => ARRAY(SELECT paradedb.term('collection_id', id) FROM unnest({collections}::text[]) AS id)
    ))"""
_SEARCH: Final = """
    SELECT chunk_id, paradedb.score(chunk_id) AS score{columns}
    FROM {table}
    WHERE chunk_id @@@ {query}
    ORDER BY paradedb.score(chunk_id) DESC, chunk_id
    LIMIT {limit}
"""

_KNOWN: Final = "SELECT min(chunk_id), max(chunk_id) FROM {table}"
_FOUND: Final = """
    SELECT count(*) FROM {table}
    WHERE chunk_id @@@ paradedb.boolean(
        should => ARRAY[paradedb.term('chunk_id', $1::bigint), paradedb.term('chunk_id', $2::bigint)]
    )
"""

_MISSING: Final = """
    SELECT (SELECT count(*) FROM {table})
        - (SELECT count(*) FROM {table} WHERE chunk_id @@@ paradedb.all())
"""


class PgSearchIndex:
    """LexicalIndex on pg_search 0.21 to 0.24.

    Before 0.24 the extension writes no WAL: after a crash the index is empty, silently, until it is
    rebuilt.
    """

    name = "pg_search"
    capabilities = Capabilities(
        survives_unclean_stop=False,
        answers_on_standby=False,
        filters_in_index=False,
        filters_collections=True,
        # Otherwise the planner consults the index for every condition on the table.
        standby_settings=(("paradedb.enable_custom_scan", "off"),),
    )

    @classmethod
    def of_version(cls, version: str) -> Self:
        """Return the index for an extension version. Raises LexicalIndexError for an unsupported one."""
        number = re.match(r"(\d+)\.(\d+)", version)
        if number is None or not _OLDEST <= (int(number[1]), int(number[2])) < _BEFORE:
            raise LexicalIndexError(
                f"pg_search {version} is not supported; install a version from "
                f"{'.'.join(map(str, _OLDEST))} on and before {'.'.join(map(str, _BEFORE))}"
            )
        return cls()

    async def create_extension(self, connection: Connection) -> None:
        try:
            await connection.execute("CREATE EXTENSION IF NOT EXISTS pg_search")
        except asyncpg.InsufficientPrivilegeError:
            raise LexicalIndexError(
                "this role may not create pg_search: let a superuser run CREATE EXTENSION pg_search"
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
        # Without the positions of words, which a match reads if they exist, though only phrases need them.
        fields: dict[str, object] = {"lexical_text": {"tokenizer": _tokenizer(language), "record": "freq"}}
        if is_shared:
            fields["collection_id"] = {"tokenizer": {"type": "keyword"}, "record": "basic"}
        definition = _INDEX.format(
            table=plain_name(table), columns=", ".join(fields), fields=json.dumps(fields)
        )
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
        if condition:
            raise ValueError("pg_search does not filter in its index")
        query = _MATCH
        if collections:
            in_collections = _IN_COLLECTIONS.format(collections=collections)
            query = f"paradedb.boolean(must => ARRAY[{_MATCH}, {in_collections}])"
        return _SEARCH.format(
            table=plain_name(table),
            query=query,
            limit="ALL" if limit is None else f"{limit:d}",
            columns=f", {columns}" if columns else "",
        )

    def search_settings(self, limit: int | None) -> Mapping[str, str]:
        return {}

    def prepare_query(self, query: str, language: str) -> str:
        return searched_text(query)

    async def probe(self, connection: Connection, table: str) -> bool:
        table = plain_name(table)
        # One snapshot for both statements: a row deleted in between is still there.
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            known = await connection.fetchrow(_KNOWN.format(table=table))
            if known is None or known[0] is None:
                return True
            found = await connection.fetchval(_FOUND.format(table=table), *known)
        return bool(found == len(set(known)))

    async def missing_rows(self, connection: Connection, table: str) -> int | None:
        missing = await connection.fetchval(_MISSING.format(table=plain_name(table)), timeout=BUILD_SECONDS)
        assert isinstance(missing, int)
        return missing

    async def rebuild(self, connection: Connection, table: str) -> None:
        await rebuild_index(connection, table)


def _tokenizer(language: str) -> Mapping[str, object]:
    """Return a tokenizer that splits at characters other than letters and digits and lower-cases; for a known
    language it drops stop words and stems.

    Without its stop words ("how does the ...") a question about code finds markedly more, and no query walks
    the posting lists that nearly every chunk is in.
    """
    if language not in STEMMED:
        return {"type": "default"}
    name = language.capitalize()
    if language == "english":
        # The extension's list for English, unlike the others, is Lucene's 33 words, without "what" and "how".
        # It drops stop words after stemming.
        words = (*ENGLISH_STOP_WORDS, *ENGLISH_STOP_STEMS)
        return {"type": "default", "stopwords": words, "stemmer": name}
    return {"type": "default", "stopwords_language": name, "stemmer": name}
