"""ChunkStore and SearchIndex on PostgreSQL: partitions of chunks, a BM25 and an HNSW index on each.

The arms' statements read what ranking needs and no texts; `fetch` reads the chunks that are kept, and decides
what exists and may be read.
"""

# ruff: noqa: S608 - what is put into SQL here are constants and names of our own
import asyncio
import itertools
import json
import math
import time
from collections import defaultdict
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache, partial
from typing import Any, Final

import asyncpg
import structlog
from google.protobuf import json_format
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp
from groundline.v1 import collection_pb2, options_pb2, passage_pb2
from groundline_database import (
    WRITTEN_POSITION,
    DatabaseSettings,
    Pool,
    acquire,
    is_readable_collection,
    is_readable_document,
    keep_session,
    open_pool,
    position_of,
    register_vectors,
    require_schema,
    stored_embedding_models,
)
from groundline_embedding import require_agreement
from groundline_embedding.ports import Vectors
from groundline_filters import Columns, compile_sql
from groundline_lexical import Connection, LexicalIndex, detect_lexical_index
from groundline_ranking import Hit
from groundline_runtime.errors import FailedPreconditionError, UnavailableError
from pgvector import HalfVector
from pydantic import SecretStr

from groundline_retriever.adapters.sizes import REMEMBERED_PARTITIONS, PartitionSizes
from groundline_retriever.adapters.soundness import SoundIndexes
from groundline_retriever.adapters.standbys import Standbys, urls_of_hosts
from groundline_retriever.domain import (
    DEFAULT_EF_SEARCH,
    Hits,
    IndexedCollection,
    Selection,
    search_list_of,
)
from groundline_retriever.passages import FetchedChunk, Wanted, with_adjacent

__all__ = ["SERVER_SETTINGS", "PostgresChunkStore", "open_chunk_store"]

SCHEMA: Final = {"ingestor": 1}
"""Minimum version of the tables that it reads."""

ITERATIVE_SCAN: Final = options_pb2.ITERATIVE_SCAN_RELAXED_ORDER
"""Setting of new connections, with DEFAULT_EF_SEARCH, so that most searches need no statement to set it."""

_SCANS: Final[Mapping[int, str]] = {
    options_pb2.ITERATIVE_SCAN_OFF: "off",
    options_pb2.ITERATIVE_SCAN_STRICT_ORDER: "strict_order",
    options_pb2.ITERATIVE_SCAN_RELAXED_ORDER: "relaxed_order",
}

SERVER_SETTINGS: Final[Mapping[str, str]] = {
    "hnsw.ef_search": str(DEFAULT_EF_SEARCH),
    "hnsw.iterative_scan": _SCANS[ITERATIVE_SCAN],
    # For SSDs; at PostgreSQL's default of 4 the planner prefers a full scan of a small partition to HNSW.
    "random_page_cost": "1.1",
    # Starting workers and compiling take longer than these searches.
    "max_parallel_workers_per_gather": "0",
    "jit": "off",
    # Planning takes as long as searching. Limits are literals in the statements: a parameter is unknown in a
    # generic plan, and pg_search would then rank every match.
    "plan_cache_mode": "force_generic_plan",
}

PROBED_PARTITIONS: Final = 4
"""Partitions whose keyword indexes are checked together; the next check continues with the next ones."""

PROBE_SECONDS: Final = 5.0
"""Time between two checks, in seconds."""

_PROBE_PATIENCE_SECONDS: Final = 1.0
"""Maximum wait for a check, in seconds; shorter than a readiness check may take."""

EXACT_COLLECTIONS: Final = 100
"""Maximum collections of a shared partition that are searched exactly by their rows; for more, HNSW is
faster."""

PARTITIONS_PER_STATEMENT: Final = 50
STATEMENTS_AT_ONCE: Final = 4
"""Maximum concurrent statements of one arm that searches many partitions."""

MOST_OVERFETCH: Final = 250
"""Multiple of its limit that a keyword search takes from the index at most before it takes all matches."""

SCANNED_DEPTH: Final = 13
"""Multiple of its limit that HNSW may have to scan until enough rows are selected. Recall falls with the
depth: of the 50 nearest of 100,000 chunks about 200 topics .98 are found if one in 10 is selected, .87 if one
in 20 is, and .7 if one in 5 is, but of other topics than the query."""

FEW_CHUNKS: Final = 1500
FEW_SHARE: Final = 0.015
MOST_FEW_CHUNKS: Final = 50_000
"""Where a filter leaves no more than that number, or that share of what is searched, keyword search is given
their ids, MOST_FEW_CHUNKS at most. Each costs some 0.02 ms; looking through what the index ranks, which is
done otherwise, takes some 35 ms of 100,000 chunks, and grows with them."""

KEPT_METADATA: Final = 1000
"""Cached metadata. Documents have many chunks, and popular ones are found again: their metadata is parsed
once."""

_READABLE: Final = f"""
    SELECT c.collection_id, c.xmin, c.partition_id, p.collection_id IS NULL AS is_shared,
        p.embedding_model, p.dimensions, p.language,
        p.lexical_backend, jsonb_build_object('retrieval', c.settings -> 'retrieval',
            'rerank', c.settings -> 'rerank',
            'generationLimits', c.settings -> 'generationLimits')::text AS settings
    FROM collections c JOIN chunk_partitions p USING (partition_id)
    WHERE {is_readable_collection("$1", "c")}
"""
_READABLE_NAMED: Final = f"{_READABLE} AND c.collection_id = ANY ($2::text[]) ORDER BY c.collection_id"
_READABLE_ALL: Final = f"{_READABLE} ORDER BY c.collection_id"

# Columns that ranking needs, in the order of Hit's fields after the score and the collection.
_FEATURES: Final = (
    "chunk_index, floor(extract(epoch FROM update_time))::bigint AS update_seconds, source_type, signature"
)
_FEATURE_NAMES: Final = "collection_id, chunk_index, update_seconds, source_type, signature"

# Selected rows among the first `limit` that the index ranks keep their order; see LexicalIndex.search_sql.
_KEYWORD: Final = """
    SELECT {partition_id:d}::bigint AS partition_id, chunk_id, score, selected, {features}
    FROM ({ranked}) AS ranked
"""
_KEYWORD_AMONG: Final = """
    SELECT {partition_id:d}::bigint AS partition_id, chunk_id, score, true AS selected, {features}
    FROM ({ranked}) AS ranked
"""
_FILTERED: Final = "SELECT chunk_id FROM {table} WHERE {selected}"
_FEW_FILTERED: Final = """
    WITH few AS (
        SELECT least({most:d}, greatest({few:d}, {share} * sum(reltuples)))::bigint AS maximum
        FROM pg_class WHERE oid = ANY ('{{{tables}}}'::regclass[])
    )
    SELECT (SELECT maximum FROM few) AS maximum,
        ARRAY(SELECT chunk_id FROM ({filtered}) AS filtered LIMIT (SELECT maximum + 1 FROM few)) AS chunk_ids
"""
_SELECTED: Final = (
    "SELECT * FROM ({statement}) AS found WHERE selected ORDER BY score DESC, chunk_id LIMIT {limit:d}"
)

# What one scan of HNSW gives, and of that what is selected: with no condition on the scan, the planner cannot
# pass HNSW by for it. A relaxed scan is a little out of order, which the planner does not know: it leaves out
# a sort by the distance, but not one by the score.
_NEAREST: Final = """
    SELECT {partition_id:d}::bigint AS partition_id, chunk_id, 1 - distance AS score, selected, {features}
    FROM (
        SELECT chunk_id, {distance} AS distance, {selected} AS selected, {features_sql} FROM {table}
        ORDER BY {distance} LIMIT {scanned:d}
    ) AS nearest
    WHERE selected ORDER BY score DESC LIMIT {limit:d}
"""

# If no index orders the rows, this computes the distance of each once, by which they are ordered.
_SELECTED_NEAREST: Final = """
    SELECT {partition_id:d}::bigint AS partition_id, chunk_id, 1 - distance AS score, true AS selected,
        {features}
    FROM (
        SELECT chunk_id, {distance} AS distance, {features_sql} FROM {table}
        WHERE {selected} ORDER BY {distance} LIMIT {limit:d}
    ) AS nearest
    ORDER BY score DESC
"""

# Existing, selected and readable chunks of another index's proposals; `selected` is what _by_index keeps.
_DECIDED: Final = """
    SELECT {partition_id:d}::bigint AS partition_id, chunk_id, 0::float8 AS score, true AS selected,
        {features_sql}
    FROM {table}
    WHERE partition_id = {partition_id:d} AND chunk_id = ANY ($1::bigint[]) AND {selected}
"""
# More than nothing wherever a change waits, also one of this moment.
_LAGS: Final = """
    SELECT partition_id, CASE WHEN behind_since IS NULL THEN 0
        ELSE greatest(extract(epoch FROM clock_timestamp() - behind_since), 0.000001)
        END::float8 AS lag_seconds
    FROM search_index_coverage WHERE partition_id = ANY ($1::bigint[]) AND is_filled
"""

# Adjacent chunks come with the wanted ones; `wanted_id` names the chunk that each is next to. The same
# statement decides whether the collection may be read, and its partition is the one in use.
_FETCH: Final = """
    SELECT wanted.chunk_id AS wanted_id, k.xmin AS version,
        c.chunk_id, d.collection_id, c.document_id, c.chunk_index, c.original_text, c.context_annotation,
        d.title, d.uri, c.source_type, d.mime_type, c.start_offset, c.end_offset,
        c.metadata::text, c.update_time, d.has_original
    FROM {table} wanted
    JOIN {table} c ON c.partition_id = wanted.partition_id AND {place}
    JOIN documents d ON d.document_id = c.document_id
    JOIN collections k ON k.collection_id = d.collection_id AND k.partition_id = c.partition_id
    WHERE wanted.partition_id = {partition_id:d} AND wanted.chunk_id = ANY ($2::bigint[])
        AND d.collection_id = ANY ($3::text[]) AND {visible} AND {readable}
"""
_ITSELF: Final = "c.chunk_id = wanted.chunk_id"
_NEARBY: Final = """c.document_id = wanted.document_id
        AND c.chunk_index BETWEEN wanted.chunk_index - {before} AND wanted.chunk_index + {after}"""
_PARTITIONS: Final = (
    "SELECT collection_id, partition_id FROM collections WHERE collection_id = ANY ($1::text[])"
)

_PROBED: Final = """
    SELECT p.partition_id, p.lexical_backend FROM chunk_partitions p
    WHERE p.partition_id > $1
        AND EXISTS (SELECT FROM collections c WHERE c.partition_id = p.partition_id)
    ORDER BY p.partition_id LIMIT $2
"""

_WRITTEN: Final = f"SELECT {WRITTEN_POSITION}"

_SOURCE_TYPES: Final[Mapping[str, passage_pb2.SourceType.ValueType]] = {
    "file": passage_pb2.SOURCE_TYPE_FILE,
    "object": passage_pb2.SOURCE_TYPE_OBJECT,
    "web": passage_pb2.SOURCE_TYPE_WEB,
}

_log = structlog.get_logger(__name__)


@asynccontextmanager
async def open_chunk_store(
    settings: DatabaseSettings,
    lexical_backend: str | None = None,
    *,
    read_url: SecretStr | None = None,
    max_lag_seconds: float = 2.0,
) -> AsyncIterator["PostgresChunkStore"]:
    """Open the store on a pool of its own, with the lexical backend of this name, or the server's.

    Search arms read from the standbys of `read_url` too. Raises LexicalIndexError, the errors of open_pool,
    and FailedPreconditionError for a read_url that cannot be used.
    """
    sound = SoundIndexes()

    async def prepare(connection: "asyncpg.Connection[Any]") -> None:
        await register_vectors(connection)
        await sound.refresh(connection)

    async with open_pool(settings, init=prepare, reset=keep_session, server_settings=SERVER_SETTINGS) as pool:
        async with pool.acquire() as connection:
            lexical = await detect_lexical_index(connection, lexical_backend)
        if read_url is None:
            yield PostgresChunkStore(pool, lexical, sound)
            return
        async with (
            _open_standbys(settings, read_url, lexical) as pools,
            Standbys.following(pool, pools, max_lag_seconds) as standbys,
        ):
            store = PostgresChunkStore(pool, lexical, sound, standbys)
            _log.info(
                "reads_on_standbys",
                standbys=list(pools),
                semantic_search=True,
                keyword_search=store.searches_keywords_on_standbys,
            )
            yield store


@asynccontextmanager
async def _open_standbys(
    settings: DatabaseSettings, url: SecretStr, lexical: LexicalIndex
) -> AsyncIterator[Mapping[str, Pool]]:
    """Open a pool for each host. A host may be down: connections are made on demand."""
    try:
        urls = urls_of_hosts(url.get_secret_value(), settings.database_url.get_secret_value())
    except ValueError as error:
        raise FailedPreconditionError(
            "DATABASE_URL_INVALID", f"read_database_url cannot be used: {error}"
        ) from None
    async with AsyncExitStack() as pools:
        yield {
            name: await pools.enter_async_context(
                open_pool(
                    settings.model_copy(update={"database_url": SecretStr(one), "pool_min_size": 0}),
                    init=register_vectors,
                    reset=keep_session,
                    server_settings={**SERVER_SETTINGS, **dict(lexical.capabilities.standby_settings)},
                )
            )
            for name, one in urls.items()
        }


class PostgresChunkStore:
    """ChunkStore and SearchIndex, opened by open_chunk_store."""

    def __init__(
        self, pool: Pool, lexical: LexicalIndex, sound: SoundIndexes, standbys: Standbys | None = None
    ) -> None:
        self._pool = pool
        self._standbys = standbys
        self._lexical = lexical
        self._sound = sound
        self._sizes = PartitionSizes()
        self._probed_up_to = 0
        self._probed_until = 0.0
        self._partitions: dict[str, int] = {}
        """Partitions in which collections were found last."""
        self._seen: dict[str, tuple[int, int]] = {}
        """Last version of a collection, and the primary's position when it was first read."""

    @property
    def searches_keywords_on_standbys(self) -> bool:
        """Whether standbys answer keyword searches: if an unclean stop may lose rows, only the primary knows
        the sound indexes."""
        can = self._lexical.capabilities
        return self._standbys is not None and can.answers_on_standby and can.survives_unclean_stop

    async def collections(
        self, collection_ids: Sequence[str], principals: Sequence[str]
    ) -> Sequence[IndexedCollection]:
        async with self._connection() as connection:
            if collection_ids:
                rows = await connection.fetch(_READABLE_NAMED, principals, collection_ids)
            else:
                rows = await connection.fetch(_READABLE_ALL, principals)
            positions = await self._positions_of(connection, rows)
        return [
            IndexedCollection(
                collection_id=row["collection_id"],
                version=row["xmin"],
                partition_id=row["partition_id"],
                is_shared=row["is_shared"],
                embedding_model=row["embedding_model"],
                dimensions=row["dimensions"],
                language=row["language"],
                lexical_backend=row["lexical_backend"],
                settings=_settings(row["settings"]),
                position=positions.get(row["collection_id"], 0),
            )
            for row in rows
        ]

    async def _positions_of(
        self, connection: Connection, rows: Sequence["asyncpg.Record"]
    ) -> Mapping[str, int]:
        """Return, by collection, a position at which it is as its row says; empty if nobody needs it."""
        if self._standbys is None:
            return {}
        if any(self._seen.get(row["collection_id"], (None, 0))[0] != row["xmin"] for row in rows):
            written = await connection.fetchval(_WRITTEN)
            if len(self._seen) + len(rows) > REMEMBERED_PARTITIONS:
                self._seen.clear()
            for row in rows:
                version, _ = self._seen.get(row["collection_id"], (None, 0))
                if version != row["xmin"]:
                    self._seen[row["collection_id"]] = row["xmin"], written
        return {row["collection_id"]: self._seen[row["collection_id"]][1] for row in rows}

    async def keyword(
        self, collections: Sequence[IndexedCollection], query: str, *, limit: int, selection: Selection
    ) -> Hits:
        for collection in collections:
            self._require_backend(collection)
        condition = _Condition.of(selection, first_parameter=2)
        languages: dict[str, list[_Index]] = defaultdict(list)
        for index in _indexes(collections):
            languages[index.language].append(index)
        unsound: list[str] = []
        after = _position(collections, selection)
        found = await asyncio.gather(
            *(
                self._keyword_in(language, group, query, limit, selection, condition, unsound, after)
                for language, group in languages.items()
            )
        )
        return Hits([hits for of_language in found for hits in of_language], unsound)

    async def _keyword_in(
        self,
        language: str,
        indexes: Sequence["_Index"],
        query: str,
        limit: int,
        selection: Selection,
        condition: "_Condition",
        unsound: list[str],
        after: int,
    ) -> list[list[Hit]]:
        """Return the hits of each index, which are all of one language; add the collections of those left
        out."""
        prepared = self._lexical.prepare_query(query, language)

        async def search(connection: Connection, group: Sequence[_Index]) -> list[list[Hit]]:
            # On the connection that searches: only it is sure to be of the same life of the server.
            left_out = await self._unsound(connection, [index.partition_id for index in group])
            unsound.extend(
                one for index in group if index.partition_id in left_out for one in index.collection_ids
            )
            group = [index for index in group if index.partition_id not in left_out]
            if not group:
                return []
            if selection.filter is not None and self._lexical.capabilities.filters_chunks:
                few = await _few_filtered(connection, group, selection)
                if few is not None:
                    return await self._keyword_among(connection, group, few, prepared, limit)

            async def rows_of(taken: int | None, each: Sequence[_Index]) -> list["asyncpg.Record"]:
                statements = [self._keyword_sql(one, condition, taken) for one in each]
                if taken != limit:
                    statements = [_SELECTED.format(statement=one, limit=limit) for one in statements]
                return await self._lexical_rows(
                    connection, _union(statements), taken, prepared, *condition.arguments(each)
                )

            found = _by_index(await rows_of(limit, group), group)
            # If the index cannot filter, the condition is evaluated for its ranked rows, of which more are
            # taken as needed. If it can, every row is selected, and no more are taken.
            for position, index in enumerate(group):
                hits, seen = found[position]
                for taken in _more(limit, len(hits)) if len(hits) < seen == limit else ():
                    [(hits, _)] = _by_index(await rows_of(taken, [index]), [index])
                    found[position] = hits, 0
                    if len(hits) == limit:
                        break
            return [hits for hits, _ in found]

        async def read(group: Sequence[_Index]) -> list[list[Hit]]:
            if not self.searches_keywords_on_standbys:
                return await self._on_primary(partial(search, group=group))
            return await self._read(partial(search, group=group), after)

        return await _in_groups(indexes, read)

    async def _keyword_among(
        self,
        connection: Connection,
        indexes: Sequence["_Index"],
        chunk_ids: Sequence[int],
        prepared: str,
        limit: int,
    ) -> list[list[Hit]]:
        """Return the hits of each index among chunks that are known to be selected."""
        if not chunk_ids:
            return [[] for _ in indexes]
        statements = [
            _KEYWORD_AMONG.format(
                partition_id=index.partition_id,
                features=_FEATURE_NAMES,
                ranked=self._lexical.search_sql(
                    index.table, index.language, limit=limit, columns=index.features, chunk_ids="$2"
                ),
            )
            for index in indexes
        ]
        rows = await self._lexical_rows(connection, _union(statements), limit, prepared, chunk_ids)
        return [hits for hits, _ in _by_index(rows, indexes)]

    def _keyword_sql(self, index: "_Index", condition: "_Condition", limit: int | None) -> str:
        filters = self._lexical.capabilities.filters_in_index
        ranked = self._lexical.search_sql(
            index.table,
            index.language,
            limit=limit,
            columns=f"{'true' if filters else condition.text} AS selected, {index.features}",
            condition=condition.text if filters else "",
            collections=condition.collections if index.is_shared else "",
        )
        return _KEYWORD.format(partition_id=index.partition_id, features=_FEATURE_NAMES, ranked=ranked)

    async def _lexical_rows(
        self, connection: Connection, statement: str, limit: int | None, *arguments: object
    ) -> list["asyncpg.Record"]:
        settings = self._lexical.search_settings(limit)
        if not settings:
            return await connection.fetch(statement, *arguments)
        async with connection.transaction(readonly=True):
            for name, value in settings.items():
                await connection.execute("SELECT set_config($1, $2, true)", name, value)
            return await connection.fetch(statement, *arguments)

    async def semantic(
        self,
        collections: Sequence[IndexedCollection],
        vector: Vectors,
        *,
        limit: int,
        ef_search: int | None,
        iterative_scan: options_pb2.IterativeScan.ValueType,
        selection: Selection,
    ) -> Hits:
        indexes = _indexes(collections)
        # Partitions whose lists are equally long are searched together.
        of: dict[int, list[_Index]] = defaultdict(list)
        if ef_search is not None:
            of[ef_search] = list(indexes)
        else:
            chunks = await self._chunks_in(indexes)
            for index in indexes:
                of[search_list_of(chunks[index.partition_id], limit)].append(index)
        after = _position(collections, selection)
        found = await asyncio.gather(
            *(
                self._semantic_in(group, vector, limit, size, iterative_scan, selection, after)
                for size, group in of.items()
            )
        )
        return Hits([hits for of_group in found for hits in of_group])

    async def _chunks_in(self, indexes: Sequence["_Index"]) -> Mapping[int, int]:
        """Return the number of chunks by partition, as of some time ago."""
        partition_ids = [index.partition_id for index in indexes]
        if (known := self._sizes.known(partition_ids)) is not None:
            return known
        async with self._connection() as connection:
            return await self._sizes.read(connection, partition_ids)

    async def _semantic_in(
        self,
        indexes: Sequence["_Index"],
        vector: Vectors,
        limit: int,
        ef_search: int,
        iterative_scan: options_pb2.IterativeScan.ValueType,
        selection: Selection,
        after: int,
    ) -> list[list[Hit]]:
        """Return the hits of each index."""
        condition, encoded = _Condition.of(selection, first_parameter=2), HalfVector(vector)
        goes_on = iterative_scan != options_pb2.ITERATIVE_SCAN_OFF
        scanned = limit if selection.filter is None and goes_on else ef_search

        async def search(connection: Connection, group: Sequence[_Index]) -> list[list[Hit]]:
            async def found_in(each: Sequence[_Index], sql: Callable[[_Index], str]) -> list[list[Hit]]:
                rows = await connection.fetch(
                    _union([sql(index) for index in each]), encoded, *condition.arguments(each)
                )
                return [hits for hits, _ in _by_index(rows, each)]

            found = await found_in(group, lambda index: _nearest_sql(index, condition, limit, scanned))

            async def complete(sql: Callable[[_Index], str], least: float) -> None:
                """Search again the indexes whose lists are short though they have at least this many
                chunks."""
                short = [
                    position
                    for position, hits in enumerate(found)
                    if least <= len(hits) < limit and not group[position].is_searched_exactly
                ]
                if short:
                    again = await found_in([group[position] for position in short], sql)
                    for position, hits in zip(short, again, strict=True):
                        found[position] = hits

            if goes_on:
                # Where enough of the nearest are selected, the index is scanned on, up to
                # hnsw.max_scan_tuples. What is short then, or finds too few there, is searched without it.
                await complete(lambda index: _filtered_sql(index, condition, limit), scanned / SCANNED_DEPTH)
                await complete(lambda index: _exact_sql(index, condition, limit), 0)
            return found

        async def read(connection: Connection, group: Sequence[_Index]) -> list[list[Hit]]:
            if (ef_search, iterative_scan) == (DEFAULT_EF_SEARCH, ITERATIVE_SCAN):
                return await search(connection, group)
            async with connection.transaction(readonly=True):
                # Both are our own values.
                await connection.execute(
                    f"SET LOCAL hnsw.ef_search = {ef_search:d}; "
                    f"SET LOCAL hnsw.iterative_scan = {_SCANS[iterative_scan]}"
                )
                return await search(connection, group)

        return await _in_groups(indexes, lambda group: self._read(partial(read, group=group), after))

    async def decided(
        self,
        collections: Sequence[IndexedCollection],
        proposed: Mapping[tuple[int, int], float],
        selection: Selection,
    ) -> Sequence[Hit]:
        """Return those of another index's proposals, given by partition and id with their scores, that exist,
        are selected and may be read; in any order."""
        condition = _Condition.of(selection, first_parameter=2)
        wanted = {partition_id for partition_id, _ in proposed}
        indexes = [index for index in _indexes(collections) if index.partition_id in wanted]
        chunk_ids = [chunk_id for _, chunk_id in proposed]

        async def decide(group: Sequence[_Index]) -> list[list[Hit]]:
            statement = _union(
                [
                    _DECIDED.format(
                        partition_id=each.partition_id,
                        features_sql=each.features,
                        table=each.table,
                        selected=condition.within(each),
                    )
                    for each in group
                ]
            )
            async with self._connection() as connection:
                rows = await connection.fetch(statement, chunk_ids, *condition.arguments(group))
            return [hits for hits, _ in _by_index(rows, group)]

        found = await _in_groups(indexes, decide) if indexes else []
        return [
            hit._replace(score=proposed[index.partition_id, hit.chunk_id])
            for index, hits in zip(indexes, found, strict=True)
            for hit in hits
            # A chunk that is being moved is in two partitions.
            if (index.partition_id, hit.chunk_id) in proposed
        ]

    async def index_lags(self, partition_ids: Collection[int]) -> Mapping[int, float]:
        """Return the delay, in seconds, of the index that the ingestor feeds, for those of the partitions
        that it has been filled with: earlier changes are in it."""
        async with self._connection() as connection:
            rows = await connection.fetch(_LAGS, list(partition_ids))
        return {row["partition_id"]: row["lag_seconds"] for row in rows}

    async def fetch(self, wanted: Sequence[Wanted], principals: Sequence[str]) -> Sequence[FetchedChunk]:
        known = {
            each.collection_id: self._partitions[each.collection_id]
            for each in wanted
            if each.collection_id in self._partitions
        }
        async with self._connection() as connection:
            fetched = await _fetched_from(connection, known, wanted, principals)
            found = {one.chunk.collection_id for one in fetched}
            missed = [each for each in wanted if each.collection_id not in found]
            if not missed:
                return fetched
            # The statement finds nothing in a partition that no longer belongs to the collection.
            rows = await connection.fetch(_PARTITIONS, [each.collection_id for each in missed])
            current = {row["collection_id"]: row["partition_id"] for row in rows}
            if len(self._partitions) + len(current) > REMEMBERED_PARTITIONS:
                self._partitions.clear()
            self._partitions |= current
            elsewhere = {name: place for name, place in current.items() if known.get(name) != place}
            return [*fetched, *await _fetched_from(connection, elsewhere, missed, principals)]

    async def require_models(self, running: Collection[tuple[str, int]]) -> None:
        """Raise ModelError unless some collection is of a running model with these dimensions."""
        async with self._connection() as connection:
            require_agreement(running, await stored_embedding_models(connection))

    async def require_schema(self) -> None:
        """Raise unless the database can be reached and its schema is new enough."""
        await require_schema(self._pool, SCHEMA)

    async def require_sound_indexes(self) -> None:
        """Raise FailedPreconditionError if BM25 cannot be searched, or does not find known chunks in one of
        the next few partitions.

        Indexes that await a rebuild after an unclean stop are not probed: searches say that they left them
        out. An index that could not be checked does not count as unsound; `require_schema` tells whether the
        database answers. After a success, the next check is PROBE_SECONDS later.
        """
        if time.monotonic() < self._probed_until:
            return
        try:
            async with asyncio.timeout(_PROBE_PATIENCE_SECONDS):
                await self._probe_indexes()
        except (TimeoutError, UnavailableError):
            return
        self._probed_until = time.monotonic() + PROBE_SECONDS

    async def _probe_indexes(self) -> None:
        async with self._connection() as connection:
            await self._sound.refresh(connection)
            if self._sound.is_on_standby and not self._lexical.capabilities.answers_on_standby:
                raise FailedPreconditionError(
                    "LEXICAL_INDEX_UNAVAILABLE",
                    f"{self._lexical.name} cannot be searched on a standby: connect to the primary",
                )
            partitions = await connection.fetch(_PROBED, self._probed_up_to, PROBED_PARTITIONS)
            unsound = await self._unsound(connection, [row["partition_id"] for row in partitions])
            for row in partitions:
                if row["lexical_backend"] != self._lexical.name or row["partition_id"] in unsound:
                    continue
                if not await self._finds_known(connection, f"chunks_p{row['partition_id']}"):
                    raise FailedPreconditionError(
                        "LEXICAL_INDEX_UNSOUND",
                        f"the BM25 index of partition {row['partition_id']} lacks chunks: REINDEX it",
                    )
        self._probed_up_to = partitions[-1]["partition_id"] if partitions else 0

    async def _unsound(self, connection: Connection, partition_ids: Sequence[int]) -> set[int]:
        """Return the partitions whose index may have lost rows in an unclean stop, and was not rebuilt
        since."""
        if self._lexical.capabilities.survives_unclean_stop:
            return set()
        return await self._sound.unsound(connection, partition_ids)

    async def _finds_known(self, connection: Connection, table: str) -> bool:
        try:
            return await self._lexical.probe(connection, table)
        except asyncpg.UndefinedTableError:
            return True  # its collection was deleted or rebuilt a moment ago

    async def _read[T](self, work: Callable[[Connection], Awaitable[T]], after: int) -> T:
        """Read on a standby that has everything up to that position, or else on the primary."""
        if self._standbys is not None:
            found = await self._standbys.read(work, after)
            if found is not None:
                return found
        return await self._on_primary(work)

    async def _on_primary[T](self, work: Callable[[Connection], Awaitable[T]]) -> T:
        async with self._connection() as connection:
            return await work(connection)

    def _require_backend(self, collection: IndexedCollection) -> None:
        if collection.lexical_backend != self._lexical.name:
            raise FailedPreconditionError(
                "LEXICAL_BACKEND_MISMATCH",
                f"collection {collection.collection_id} was indexed with {collection.lexical_backend}, "
                f"but {self._lexical.name} is running; reindex the collection",
            )

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Connection]:
        with _collection_changes():
            async with acquire(self._pool) as connection:
                yield connection


@contextmanager
def _collection_changes() -> Iterator[None]:
    """Translate the error of a missing table: it was dropped with its collection, or replaced by a re-index,
    at this moment."""
    try:
        yield
    except asyncpg.UndefinedTableError:
        raise UnavailableError(
            "COLLECTION_CHANGED",
            "the collection was deleted or rebuilt while it was searched",
            retry_after_seconds=0.0,
        ) from None


async def _in_groups(
    indexes: Sequence["_Index"],
    search: Callable[[Sequence["_Index"]], Awaitable[list[list[Hit]]]],
) -> list[list[Hit]]:
    """Search a number of partitions in each statement, in concurrent statements."""
    groups = list(itertools.batched(indexes, PARTITIONS_PER_STATEMENT))
    if len(groups) == 1:
        return await search(groups[0])
    turns = asyncio.Semaphore(STATEMENTS_AT_ONCE)

    async def in_turn(group: Sequence[_Index]) -> list[list[Hit]]:
        async with turns:
            return await search(group)

    found = await asyncio.gather(*(in_turn(group) for group in groups))
    return [hits for of_group in found for hits in of_group]


@dataclass(frozen=True, slots=True)
class _Index:
    """A partition, and those of its collections that are searched."""

    partition_id: int
    is_shared: bool
    dimensions: int
    language: str
    collection_ids: Sequence[str]

    @property
    def table(self) -> str:
        return f"chunks_p{self.partition_id:d}"

    @property
    def features(self) -> str:
        """Columns that ranking needs. A partition of one collection need not name it."""
        return f"{'' if self.is_shared else 'NULL::text AS '}collection_id, {_FEATURES}"

    @property
    def distance(self) -> str:
        """SQL expression of the distance to the query's vector, $1; the embedding is spelled as the HNSW
        index spells it."""
        return f"(embedding::halfvec({self.dimensions})) <=> $1::halfvec({self.dimensions})"

    @property
    def is_searched_exactly(self) -> bool:
        return self.is_shared and len(self.collection_ids) <= EXACT_COLLECTIONS


def _position(collections: Sequence[IndexedCollection], selection: Selection) -> int:
    """Return the position that a standby must have reached, so that its partitions are those of the
    collections as they were read."""
    return max([position_of(selection.min_position), *(one.position for one in collections)])


def _indexes(collections: Sequence[IndexedCollection]) -> Sequence[_Index]:
    """Return the partitions of collections; small ones share one, and one search of it covers all of them."""
    of: dict[int, list[IndexedCollection]] = defaultdict(list)
    for collection in collections:
        of[collection.partition_id].append(collection)
    return [
        _Index(
            partition_id,
            group[0].is_shared,
            group[0].dimensions,
            group[0].language,
            [collection.collection_id for collection in group],
        )
        for partition_id, group in of.items()
    ]


@dataclass(frozen=True, slots=True)
class _Condition:
    """Condition on the rows of a search: SQL with parameters from `first_parameter` on."""

    text: str
    values: Sequence[object]
    first_parameter: int

    @classmethod
    def of(cls, selection: Selection, *, first_parameter: int) -> "_Condition":
        visible = is_readable_document(f"${first_parameter}")
        if selection.filter is None:
            return cls(visible, (selection.principals,), first_parameter)
        condition = compile_sql(
            selection.filter, Columns(documents="documents"), first_parameter=first_parameter + 1
        )
        values = (selection.principals, *condition.arguments)
        return cls(f"({visible} AND {condition.text})", values, first_parameter)

    @property
    def collections(self) -> str:
        """Parameter with the collections of the shared partitions."""
        return f"${len(self.values) + self.first_parameter}"

    def within(self, index: "_Index") -> str:
        """Return the condition; in a shared partition, also on the searched collections."""
        if not index.is_shared:
            return self.text
        return f"({self.text} AND collection_id = ANY ({self.collections}::text[]))"

    def arguments(self, indexes: Sequence[_Index]) -> Sequence[object]:
        """Return the values for a statement over these; a collection is in one of them only."""
        shared = [index for index in indexes if index.is_shared]
        if not shared:
            return self.values
        return (*self.values, [one for index in shared for one in index.collection_ids])


def _union(statements: Sequence[str]) -> str:
    return statements[0] if len(statements) == 1 else " UNION ALL ".join(f"({one})" for one in statements)


async def _few_filtered(
    connection: Connection, indexes: Sequence[_Index], selection: Selection
) -> Sequence[int] | None:
    """Return the selected chunks; None if they are not few."""
    condition = _Condition.of(selection, first_parameter=1)
    filtered = [_FILTERED.format(table=index.table, selected=condition.within(index)) for index in indexes]
    statement = _FEW_FILTERED.format(
        most=MOST_FEW_CHUNKS,
        few=FEW_CHUNKS,
        share=FEW_SHARE,
        tables=",".join(index.table for index in indexes),
        filtered=_union(filtered),
    )
    [row] = await connection.fetch(statement, *condition.arguments(indexes))
    chunk_ids: Sequence[int] = row["chunk_ids"]
    return chunk_ids if len(chunk_ids) <= row["maximum"] else None


def _nearest_sql(index: _Index, condition: _Condition, limit: int, scanned: int) -> str:
    """Return the statement for the selected rows of the first `scanned` of HNSW; of a few collections for all
    rows."""
    if index.is_searched_exactly:
        return _exact_sql(index, condition, limit)
    return _NEAREST.format(
        **_semantic_parts(index, limit),
        selected=condition.within(index),
        distance=index.distance,
        scanned=scanned,
    )


def _filtered_sql(index: _Index, condition: _Condition, limit: int) -> str:
    """Return the statement for selected rows by HNSW: no index answers a CASE, and the planner takes it to
    hold for half the rows, so it does not sort a result that it believes to be small."""
    selected = f"CASE WHEN {condition.within(index)} THEN true ELSE false END"
    return _SELECTED_NEAREST.format(
        **_semantic_parts(index, limit), selected=selected, distance=index.distance
    )


def _exact_sql(index: _Index, condition: _Condition, limit: int) -> str:
    """Return the statement for selected rows without HNSW, which has no index on this expression."""
    return _SELECTED_NEAREST.format(
        **_semantic_parts(index, limit), selected=condition.within(index), distance=f"({index.distance}) + 0"
    )


def _semantic_parts(index: _Index, limit: int) -> dict[str, Any]:
    return {
        "partition_id": index.partition_id,
        "features": _FEATURE_NAMES,
        "features_sql": index.features,
        "table": index.table,
        "limit": limit,
    }


def _more(limit: int, found: int) -> Sequence[int | None]:
    """Yield how many ranked rows to take, one after the other, when `found` of the first `limit` were
    selected.

    Twice as many as should do at that rate, then MOST_OVERFETCH times the limit, then all, which takes
    seconds for 1,000,000 chunks.
    """
    most = limit * MOST_OVERFETCH
    likely = limit * 2 * limit // found if found else most
    return (likely, most, None) if likely < most else (most, None)


@lru_cache(maxsize=256)
def _settings(stored: str) -> collection_pb2.CollectionSettings:
    """Read a collection's defaults and limits; what a newer release added is not for this one."""
    return json_format.Parse(stored, collection_pb2.CollectionSettings(), ignore_unknown_fields=True)


def _by_index(rows: Sequence["asyncpg.Record"], indexes: Sequence[_Index]) -> list[tuple[list[Hit], int]]:
    """Return the selected hits of each index, and the number of its rows."""
    owners = {index.partition_id: index.collection_ids[0] for index in indexes}
    hits: dict[int, list[Hit]] = {partition_id: [] for partition_id in owners}
    seen = dict.fromkeys(owners, 0)
    for (
        partition_id,
        chunk_id,
        score,
        selected,
        collection_id,
        chunk_index,
        seconds,
        source,
        signature,
    ) in rows:
        seen[partition_id] += 1
        if selected:
            hits[partition_id].append(
                Hit(
                    chunk_id,
                    score,
                    collection_id or owners[partition_id],
                    chunk_index,
                    seconds,
                    _SOURCE_TYPES.get(source, passage_pb2.SOURCE_TYPE_UNSPECIFIED),
                    signature,
                )
            )
    return [(hits[partition_id], seen[partition_id]) for partition_id in owners]


async def _fetched_from(
    connection: Connection,
    partitions: Mapping[str, int],
    wanted: Iterable[Wanted],
    principals: Sequence[str],
) -> list[FetchedChunk]:
    """Read the wanted chunks of the collections whose partition is given; one statement for each
    partition."""
    groups: dict[tuple[int, str], list[Wanted]] = defaultdict(list)
    for each in wanted:
        if each.collection_id in partitions:
            groups[partitions[each.collection_id], _place(each)].append(each)
    fetched: list[FetchedChunk] = []
    for (partition_id, place), group in groups.items():
        fetched += await _fetched(connection, partition_id, place, group, principals)
    return fetched


def _place(wanted: Wanted) -> str:
    """Return the SQL condition of the chunks of its document that come with a wanted one."""
    distance = wanted.adjacent_chunks
    if wanted.with_parents:
        return _NEARBY.format(
            before=f"greatest(wanted.siblings_before, {distance:d})",
            after=f"greatest(wanted.siblings_after, {distance:d})",
        )
    return _NEARBY.format(before=f"{distance:d}", after=f"{distance:d}") if distance else _ITSELF


async def _fetched(
    connection: Connection,
    partition_id: int,
    place: str,
    wanted: Sequence[Wanted],
    principals: Sequence[str],
) -> Sequence[FetchedChunk]:
    """Read the wanted chunks, each with those next to it; none in a dropped table."""
    statement = _FETCH.format(
        table=f"chunks_p{partition_id:d}",
        partition_id=partition_id,
        place=place,
        visible=is_readable_document("$1", "c"),
        readable=is_readable_collection("$1", "k"),
    )
    try:
        rows = await connection.fetch(
            statement,
            principals,
            [chunk_id for each in wanted for chunk_id in each.chunk_ids],
            [each.collection_id for each in wanted],
        )
    except asyncpg.UndefinedTableError:
        return ()
    found: dict[int, tuple[passage_pb2.Chunk, int]] = {}
    adjacent: dict[int, list[passage_pb2.Chunk]] = defaultdict(list)
    for wanted_id, version, *columns in rows:
        chunk = _chunk(*columns)
        if columns[0] == wanted_id:
            found[wanted_id] = chunk, version
        else:
            adjacent[wanted_id].append(chunk)
    return [
        FetchedChunk(
            chunk_id,
            chunk,
            version,
            with_adjacent(chunk, adjacent[chunk_id]) if chunk_id in adjacent else (),
        )
        for chunk_id, (chunk, version) in found.items()
    ]


def _chunk(
    chunk_id: int,
    collection_id: str,
    document_id: str,
    chunk_index: int,
    text: str,
    context: str,
    title: str,
    uri: str,
    source_type: str,
    mime_type: str,
    start_offset: int,
    end_offset: int,
    metadata: str,
    update_time: datetime,
    has_original: bool,
) -> passage_pb2.Chunk:
    """Build a chunk from the columns of _FETCH except the first two, in their order: reading them by name
    takes longer."""
    return passage_pb2.Chunk(
        chunk_id=str(chunk_id),
        document_id=document_id,
        collection_id=collection_id,
        chunk_index=chunk_index,
        text=text,
        context=context,
        title=title,
        uri=uri,
        source_type=_SOURCE_TYPES.get(source_type, passage_pb2.SOURCE_TYPE_UNSPECIFIED),
        mime_type=mime_type,
        start_offset=start_offset,
        end_offset=end_offset,
        metadata=_struct(metadata),
        update_time=Timestamp(
            seconds=math.floor(update_time.timestamp()), nanos=update_time.microsecond * 1000
        ),
        has_original=has_original,
    )


@lru_cache(maxsize=KEPT_METADATA)
def _struct(metadata: str) -> Struct | None:
    if metadata == "{}":
        return None
    struct = Struct()
    struct.update(json.loads(metadata))
    return struct
