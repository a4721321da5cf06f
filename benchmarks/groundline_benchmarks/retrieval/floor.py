"""Reference for retrieval: the arms' two statements by asyncpg alone, in the caller's process."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import asyncpg
from groundline_database import register_vectors
from groundline_lexical import LexicalIndex, detect_lexical_index
from groundline_retriever.adapters.postgres.store import SERVER_SETTINGS
from pgvector import HalfVector

from groundline_benchmarks.retrieval.cases import CLIENTS, Case
from groundline_benchmarks.retrieval.corpus import filter_sql, partition_of

LIMIT: Final = 50
"""Maximum candidates of each arm, the suite's default."""

_TEXTS: Final = """
    SELECT chunk_id, original_text FROM {table}
    WHERE partition_id = {partition_id:d} AND chunk_id = ANY ($1::bigint[])
"""
_SEMANTIC: Final = """
    SELECT chunk_id, 1 - (embedding::halfvec(384) <=> $1) FROM {table} {where}
    ORDER BY embedding::halfvec(384) <=> $1 LIMIT {limit}
"""

# pg_search refuses the condition beside its own and gets the keys that an index on the metadata finds; what
# filters by itself gets the condition, and what does neither is asked for all matches.
_PG_SEARCH_FILTERED: Final = """
    SELECT chunk_id, paradedb.score(chunk_id) AS score FROM {table}
    WHERE chunk_id @@@ paradedb.boolean(must => ARRAY[
        paradedb.match('lexical_text', $1::text),
        paradedb.const_score(0.0, paradedb.term_set(terms => ARRAY(
            SELECT paradedb.term('chunk_id', chunk_id) FROM {table} WHERE {condition}
        )))
    ])
    ORDER BY score DESC, chunk_id LIMIT {limit}
"""
_SELECTED: Final = "SELECT chunk_id, score FROM ({ranked}) AS ranked WHERE selected LIMIT {limit}"


class Floor:
    """Both statements at the same time on open connections, and the sum of their reciprocal ranks."""

    def __init__(
        self,
        pool: "asyncpg.Pool[Any]",
        partition_id: int,
        lexical: LexicalIndex,
        vectors: Mapping[str, HalfVector],
    ) -> None:
        self._pool, self._lexical, self._vectors = pool, lexical, vectors
        self._table = table = f"chunks_p{partition_id}"
        self._keyword = lexical.search_sql(table, "english", limit=LIMIT)
        self._texts = _TEXTS.format(table=table, partition_id=partition_id)

    async def search(self, case: Case, query: str) -> None:
        await self.ranked(case, query)

    async def search_and_fetch(self, case: Case, query: str) -> None:
        """Search and fetch the texts of both arms' hits, as a caller needs them."""
        await self.texts(list(await self.ranked(case, query)))

    async def ranked(self, case: Case, query: str) -> Mapping[int, float]:
        """Return the hits of both arms with their scores, best first."""
        arms = []
        if case.mode != "semantic":
            arms.append(self._keyword_arm(case, query))
        if case.mode != "keyword":
            arms.append(self._semantic_arm(case, query))
        scores: dict[int, float] = defaultdict(float)
        for hits in await asyncio.gather(*arms):
            for rank, (chunk_id, _) in enumerate(hits, 1):
                scores[chunk_id] += 1 / (60 + rank)
        return {chunk_id: scores[chunk_id] for chunk_id in sorted(scores, key=lambda one: -scores[one])}

    async def texts(self, chunk_ids: Sequence[int]) -> Sequence[str]:
        """Return the texts in any order."""
        return [text for _, text in await self._pool.fetch(self._texts, chunk_ids)]

    async def _keyword_arm(self, case: Case, query: str) -> Sequence[Any]:
        # Collections are in English unless their settings say otherwise.
        prepared = self._lexical.prepare_query(query, "english")
        if case.one_in is None:
            return await self._pool.fetch(self._keyword, prepared)
        condition = filter_sql(case.one_in)
        if self._lexical.name == "pg_search":
            filtered = _PG_SEARCH_FILTERED.format(table=self._table, condition=condition, limit=LIMIT)
        elif self._lexical.capabilities.filters_in_index:
            filtered = self._lexical.search_sql(self._table, "english", limit=LIMIT, condition=condition)
        else:
            columns = f"{condition} AS selected"
            ranked = self._lexical.search_sql(self._table, "english", limit=None, columns=columns)
            filtered = _SELECTED.format(ranked=ranked, limit=LIMIT)
        return await self._pool.fetch(filtered, prepared)

    async def _semantic_arm(self, case: Case, query: str) -> Sequence[Any]:
        where = f"WHERE {filter_sql(case.one_in)}" if case.one_in is not None else ""
        statement = _SEMANTIC.format(table=self._table, where=where, limit=LIMIT)
        return await self._pool.fetch(statement, self._vectors[query])


@asynccontextmanager
async def open_floor(
    database_url: str, collection: str, vectors: Mapping[str, HalfVector]
) -> AsyncIterator[Floor]:
    """Provide a floor with a connection for each statement of all clients."""
    async with asyncpg.create_pool(
        database_url,
        min_size=2 * CLIENTS,
        max_size=2 * CLIENTS,
        init=register_vectors,
        reset=_nothing,
        server_settings=dict(SERVER_SETTINGS),
    ) as pool:
        async with pool.acquire() as connection:
            lexical = await detect_lexical_index(connection)
            partition_id = await partition_of(connection, collection)
        yield Floor(pool, partition_id, lexical, vectors)


async def _nothing(connection: "asyncpg.Connection[Any]") -> None:
    """Do nothing: the connections' settings are never changed."""
