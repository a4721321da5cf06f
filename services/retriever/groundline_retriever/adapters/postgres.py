"""ChunkStore on PostgreSQL: one partition table per collection, a BM25 and an HNSW index on each."""

import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import lru_cache
from typing import Any

import asyncpg
from google.protobuf import json_format
from groundline.v1 import options_pb2
from groundline_embedding.ports import Vectors
from groundline_filters import Columns, compile_sql
from groundline_lexical import Connection, LexicalIndex
from groundline_runtime.errors import FailedPreconditionError, UnavailableError
from groundline_runtime.postgres import require_schema_version
from pgvector import HalfVector
from pgvector.asyncpg import register_vector

from groundline_retriever.converters import to_options
from groundline_retriever.domain import Chunk, Collection, Hit, IterativeScan, RetrievalOptions, Selection
from groundline_retriever.ports import EncodedVector

__all__ = ["SERVER_SETTINGS", "PostgresChunkStore", "keep_settings", "prepare_connection"]

SCHEMA_VERSION = 1

EF_SEARCH, ITERATIVE_SCAN = 100, IterativeScan.STRICT_ORDER
"""What connections start with, so that a search with the defaults needs no statement to set them."""

SERVER_SETTINGS: Mapping[str, str] = {
    "hnsw.ef_search": str(EF_SEARCH),
    "hnsw.iterative_scan": ITERATIVE_SCAN.value,
    # On SSDs; at PostgreSQL's default of 4 the planner passes HNSW by for a full scan of a small partition.
    "random_page_cost": "1.1",
    # Starting workers and compiling take longer than these searches.
    "max_parallel_workers_per_gather": "0",
    "jit": "off",
    # Planning takes as long as searching. Limits are literals in the statements: a parameter is unknown in a
    # generic plan, and pg_search would then rank every match.
    "plan_cache_mode": "force_generic_plan",
}

PROBED_PARTITIONS = 4
"""Partitions that one readiness check probes; the next check goes on with the next ones."""

_READABLE = """
    SELECT c.collection_id, c.partition_id, p.embedding_model, p.dimensions, p.lexical_backend,
        c.settings ->> 'retrieval' AS defaults
    FROM collections c JOIN chunk_partitions p USING (partition_id)
    WHERE (c.readers = '{}' OR c.readers && $1::text[] OR c.writers && $1::text[])
"""
_READABLE_NAMED = f"{_READABLE} AND c.collection_id = ANY ($2::text[]) ORDER BY c.collection_id"
_READABLE_ALL = f"{_READABLE} ORDER BY c.collection_id"

_VISIBLE = "({0}allowed_principals = '{{}}' OR {0}allowed_principals && ${1}::text[])"

MOST_OVERFETCH = 250
"""How many times its limit a keyword search takes from the index at most before it takes all that match."""

_SELECTED = """
    SELECT chunk_id, score FROM ({ranked}) AS ranked
    WHERE selected ORDER BY score DESC, chunk_id LIMIT {limit:d}
"""

_SEMANTIC = """
    SELECT chunk_id, 1 - ({distance}) AS score
    FROM {table}
    WHERE {selected}
    ORDER BY {order}
    LIMIT {limit:d}
"""

_CHUNKS = """
    SELECT c.chunk_id, c.document_id::text, c.chunk_index, c.original_text, c.context_annotation,
        d.title, d.uri, c.source_type, d.mime_type, c.start_offset, c.end_offset,
        c.metadata::text, c.update_time{embedding}
    FROM {table} c JOIN documents d USING (document_id)
    WHERE c.partition_id = {partition_id} AND {visible} AND {wanted}
"""
_BY_ID = "c.chunk_id = ANY ($2::bigint[])"
_BY_POSITION = """
    (c.document_id, c.chunk_index) IN (SELECT * FROM unnest($2::uuid[], $3::int[]))
"""

_PROBED = """
    SELECT p.partition_id, p.lexical_backend FROM chunk_partitions p JOIN collections c USING (partition_id)
    WHERE p.partition_id > $1 ORDER BY p.partition_id LIMIT $2
"""


_UNREACHABLE = (
    OSError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.InterfaceError,  # a connection that was lost, a pool that is closing
)


async def keep_settings(connection: "asyncpg.Connection[Any]") -> None:
    """Nothing to reset when a connection goes back: whatever is set here is set for one transaction.

    asyncpg's own reset is a round trip before each answer.
    """


async def prepare_connection(connection: "asyncpg.Connection[Any]") -> None:
    """Codecs of a new connection."""
    await register_vector(connection)


class PostgresChunkStore:
    """`pool` must have been opened with SERVER_SETTINGS and prepare_connection."""

    def __init__(self, pool: "asyncpg.Pool[Any]", lexical: LexicalIndex) -> None:
        self._pool = pool
        self._lexical = lexical
        self._probed_up_to = 0

    async def collections(
        self, collection_ids: Sequence[str], principals: Sequence[str]
    ) -> Sequence[Collection]:
        async with self._connection() as connection:
            if collection_ids:
                rows = await connection.fetch(_READABLE_NAMED, principals, collection_ids)
            else:
                rows = await connection.fetch(_READABLE_ALL, principals)
        return [
            Collection(
                collection_id=row["collection_id"],
                partition_id=row["partition_id"],
                embedding_model=row["embedding_model"],
                dimensions=row["dimensions"],
                lexical_backend=row["lexical_backend"],
                defaults=_defaults(row["defaults"]),
            )
            for row in rows
        ]

    async def keyword(
        self, collection: Collection, query: str, *, limit: int, selection: Selection
    ) -> Sequence[Hit]:
        self._require_backend(collection)
        table = _table(collection)
        prepared = self._lexical.prepare_query(query)
        selected, arguments = _selected(selection)
        # The condition is looked at for what the index ranked, of which more is taken as needed. Why it is no
        # condition of the statement: see LexicalIndex.search_sql.
        columns = f"{selected} AS selected"
        async with self._connection() as connection:
            ranked = self._lexical.search_sql(table, limit=limit, columns=columns)
            rows = await self._lexical_rows(connection, ranked, limit, prepared, *arguments)
            found = [row for row in rows if row["selected"]]
            for taken in _more(limit, len(found)) if len(found) < len(rows) == limit else ():
                ranked = self._lexical.search_sql(table, limit=taken, columns=columns)
                statement = _SELECTED.format(ranked=ranked, limit=limit)
                found = await self._lexical_rows(connection, statement, taken, prepared, *arguments)
                if len(found) == limit:
                    break
        return [Hit(row["chunk_id"], row["score"]) for row in found]

    async def _lexical_rows(
        self,
        connection: Connection,
        statement: str,
        limit: int | None,
        *arguments: object,
    ) -> list["asyncpg.Record"]:
        settings = self._lexical.search_settings(limit)
        if not settings:
            return await connection.fetch(statement, *arguments)
        async with connection.transaction(readonly=True):
            for name, value in settings.items():
                await connection.execute("SELECT set_config($1, $2, true)", name, value)
            return await connection.fetch(statement, *arguments)

    def encode(self, vector: Vectors) -> EncodedVector:
        return HalfVector(vector)

    async def semantic(
        self,
        collection: Collection,
        vector: EncodedVector,
        *,
        limit: int,
        ef_search: int,
        iterative_scan: IterativeScan,
        selection: Selection,
    ) -> Sequence[Hit]:
        selected, arguments = _selected(selection)
        distance = f"{_column(collection)} <=> $1::halfvec({collection.dimensions})"
        statement = _SEMANTIC.format(
            distance=distance, table=_table(collection), selected=selected, order=distance, limit=limit
        )
        async with self._connection() as connection:
            if (ef_search, iterative_scan) == (EF_SEARCH, ITERATIVE_SCAN):
                rows = await connection.fetch(statement, vector, *arguments)
            else:
                async with connection.transaction(readonly=True):
                    # Both are our own values.
                    await connection.execute(
                        f"SET LOCAL hnsw.ef_search = {ef_search:d}; "
                        f"SET LOCAL hnsw.iterative_scan = {iterative_scan.value}"
                    )
                    rows = await connection.fetch(statement, vector, *arguments)
            if len(rows) < limit and iterative_scan is not IterativeScan.OFF:
                # The scan of the index ends at hnsw.max_scan_tuples. Few are selected, or few there are.
                exact = _SEMANTIC.format(
                    distance=distance,
                    table=_table(collection),
                    selected=selected,
                    order=f"({distance}) + 0",
                    limit=limit,
                )
                rows = await connection.fetch(exact, vector, *arguments)
        return [Hit(row["chunk_id"], row["score"]) for row in rows]

    async def chunks(
        self,
        collection: Collection,
        chunk_ids: Sequence[int],
        *,
        include_vectors: bool,
        principals: Sequence[str],
    ) -> Mapping[int, Chunk]:
        rows = await self._fetch(
            collection, _BY_ID, chunk_ids, include_vectors=include_vectors, principals=principals
        )
        return {row["chunk_id"]: _chunk(row, collection.collection_id, include_vectors) for row in rows}

    async def neighbours(
        self, collection: Collection, hits: Sequence[Chunk], *, distance: int, principals: Sequence[str]
    ) -> Mapping[int, Sequence[Chunk]]:
        wanted = {
            hit.chunk_id: [
                (hit.document_id, index)
                for index in range(max(hit.chunk_index - distance, 0), hit.chunk_index + distance + 1)
                if index != hit.chunk_index
            ]
            for hit in hits
        }
        positions = list({position for around in wanted.values() for position in around})
        rows = await self._fetch(
            collection,
            _BY_POSITION,
            [document_id for document_id, _ in positions],
            [index for _, index in positions],
            include_vectors=False,
            principals=principals,
        )
        chunks = [_chunk(row, collection.collection_id, with_vector=False) for row in rows]
        known = {(chunk.document_id, chunk.chunk_index): chunk for chunk in chunks}
        return {
            chunk_id: [known[position] for position in around if position in known]
            for chunk_id, around in wanted.items()
        }

    async def _fetch(
        self,
        collection: Collection,
        wanted: str,
        *arguments: object,
        include_vectors: bool,
        principals: Sequence[str],
    ) -> Sequence["asyncpg.Record"]:
        statement = _CHUNKS.format(
            table=_table(collection),
            partition_id=collection.partition_id,
            visible=_VISIBLE.format("c.", 1),
            wanted=wanted,
            embedding=", c.embedding" if include_vectors else "",
        )
        async with self._connection() as connection:
            rows: Sequence[asyncpg.Record] = await connection.fetch(statement, principals, *arguments)
        return rows

    async def require_schema(self) -> None:
        """Raise unless the database can be reached and its schema is new enough."""
        with _database_errors():
            await require_schema_version(self._pool, SCHEMA_VERSION)

    async def require_sound_indexes(self) -> None:
        """Raise FailedPreconditionError unless BM25 finds known chunks in the next few partitions."""
        async with self._connection() as connection:
            partitions = await connection.fetch(_PROBED, self._probed_up_to, PROBED_PARTITIONS)
            for row in partitions:
                if row["lexical_backend"] != self._lexical.name:
                    continue
                if not await self._sound(connection, f"chunks_p{row['partition_id']}"):
                    raise FailedPreconditionError(
                        "LEXICAL_INDEX_UNSOUND",
                        f"the BM25 index of partition {row['partition_id']} lacks chunks: REINDEX it",
                    )
        self._probed_up_to = partitions[-1]["partition_id"] if partitions else 0

    async def _sound(self, connection: Connection, table: str) -> bool:
        try:
            return await self._lexical.probe(connection, table)
        except asyncpg.UndefinedTableError:
            return True  # its collection was deleted or rebuilt a moment ago

    def _require_backend(self, collection: Collection) -> None:
        if collection.lexical_backend != self._lexical.name:
            raise FailedPreconditionError(
                "LEXICAL_BACKEND_MISMATCH",
                f"collection {collection.collection_id} was indexed with {collection.lexical_backend}, "
                f"but {self._lexical.name} is running; reindex the collection",
            )

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator["asyncpg.pool.PoolConnectionProxy[Any]"]:
        with _database_errors():
            async with self._pool.acquire() as connection:
                yield connection


@contextmanager
def _database_errors() -> Iterator[None]:
    """Errors of the database become errors of the suite, without its texts: they may hold SQL or the DSN."""
    try:
        yield
    except asyncpg.UndefinedTableError:
        raise UnavailableError(
            "COLLECTION_CHANGED",
            "the collection was deleted or rebuilt while it was searched",
            retry_after_seconds=0.0,
        ) from None
    except _UNREACHABLE as error:
        if isinstance(error, ValueError):  # asyncpg's own for an argument of a wrong type
            raise
        raise UnavailableError(
            "DATABASE_UNAVAILABLE",
            f"the database cannot be reached ({type(error).__name__})",
            retry_after_seconds=1.0,
        ) from None


def _table(collection: Collection) -> str:
    return f"chunks_p{collection.partition_id:d}"


def _column(collection: Collection) -> str:
    """The embedding, spelled as the HNSW index spells it."""
    return f"(embedding::halfvec({collection.dimensions}))"


def _more(limit: int, found: int) -> tuple[int, None]:
    """How many ranked rows to take, one after the other, when of the first `limit` `found` were selected.

    Twice as many as should do at that rate, then all.
    """
    return (limit * min(MOST_OVERFETCH, 2 * limit // found if found else MOST_OVERFETCH), None)


def _selected(selection: Selection) -> tuple[str, Sequence[object]]:
    """The condition on rows and its arguments, from `$2` on."""
    visible = _VISIBLE.format("", 2)
    if selection.filter is None:
        return visible, (selection.principals,)
    condition = compile_sql(selection.filter, Columns(), first_parameter=3)
    return f"({visible} AND {condition.text})", (selection.principals, *condition.arguments)


@lru_cache(maxsize=256)
def _defaults(stored: str | None) -> RetrievalOptions:
    """A collection's defaults; what a newer release added is not for this one."""
    if stored is None:
        return RetrievalOptions()
    message = json_format.Parse(stored, options_pb2.RetrievalOptions(), ignore_unknown_fields=True)
    return to_options(message)


def _chunk(row: "asyncpg.Record", collection_id: str, with_vector: bool) -> Chunk:
    return Chunk(
        chunk_id=row["chunk_id"],
        document_id=row["document_id"],
        collection_id=collection_id,
        chunk_index=row["chunk_index"],
        text=row["original_text"],
        context=row["context_annotation"],
        title=row["title"],
        uri=row["uri"],
        source_type=row["source_type"],
        mime_type=row["mime_type"],
        start_offset=row["start_offset"],
        end_offset=row["end_offset"],
        metadata={} if row["metadata"] == "{}" else json.loads(row["metadata"]),
        update_time=row["update_time"],
        embedding=row["embedding"].to_list() if with_vector else (),
    )
