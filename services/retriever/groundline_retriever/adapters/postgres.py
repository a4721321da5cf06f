"""ChunkStore on PostgreSQL: one partition table per collection, a BM25 and an HNSW index on each."""

# ruff: noqa: S608 - what is put into SQL here are constants

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from functools import lru_cache

import asyncpg
from google.protobuf import json_format
from groundline.v1 import options_pb2
from groundline_database import Pool, acquire, is_readable_collection, is_readable_document, require_schema
from groundline_embedding.ports import Vectors
from groundline_filters import Columns, compile_sql
from groundline_lexical import Connection, LexicalIndex
from groundline_runtime.errors import FailedPreconditionError, UnavailableError
from pgvector import HalfVector

from groundline_retriever.converters import to_options
from groundline_retriever.domain import Chunk, Collection, Hit, IterativeScan, RetrievalOptions, Selection
from groundline_retriever.ports import EncodedVector

__all__ = ["SERVER_SETTINGS", "PostgresChunkStore"]

SCHEMA = {"ingestor": 1}
"""Least version of the tables that it reads."""

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

_READABLE = f"""
    SELECT c.collection_id, c.partition_id, p.embedding_model, p.dimensions, p.language, p.lexical_backend,
        c.settings ->> 'retrieval' AS defaults
    FROM collections c JOIN chunk_partitions p USING (partition_id)
    WHERE {is_readable_collection("$1", "c")}
"""
_READABLE_NAMED = f"{_READABLE} AND c.collection_id = ANY ($2::text[]) ORDER BY c.collection_id"
_READABLE_ALL = f"{_READABLE} ORDER BY c.collection_id"

MOST_OVERFETCH = 250
"""How many times its limit a keyword search takes from the index at most before it takes all that match."""

_SELECTED = """
    SELECT chunk_id, score, selected FROM ({ranked}) AS ranked
    WHERE selected ORDER BY score DESC, chunk_id LIMIT {limit:d}
"""

# Where no index orders the rows, this computes the distance of each once: it is what they are ordered by.
_SEMANTIC = """
    SELECT chunk_id, 1 - distance AS score, true AS selected
    FROM (
        SELECT chunk_id, {distance} AS distance FROM {table}
        WHERE {selected} ORDER BY {distance} LIMIT {limit:d}
    ) AS nearest
"""

# Both arms bring the texts of what they find: that takes them less than another round trip would.
_CHUNK = """
    c.chunk_id, c.document_id::text, c.chunk_index, c.original_text, c.context_annotation,
    d.title, d.uri, c.source_type, d.mime_type, c.start_offset, c.end_offset, c.metadata::text, c.update_time,
    {embedding} AS embedding
"""
_HITS = """
    SELECT hits.score, {chunk}
    FROM ({hits}) AS hits
    LEFT JOIN {table} c
        ON hits.selected AND c.partition_id = {partition_id:d} AND c.chunk_id = hits.chunk_id
    LEFT JOIN documents d ON d.document_id = c.document_id
"""
_NEIGHBOURS = """
    SELECT {chunk}
    FROM {table} c JOIN documents d USING (document_id)
    WHERE c.partition_id = {partition_id:d} AND {visible}
        AND (c.document_id, c.chunk_index) IN (SELECT * FROM unnest($2::uuid[], $3::int[]))
"""

_PROBED = """
    SELECT p.partition_id, p.lexical_backend FROM chunk_partitions p JOIN collections c USING (partition_id)
    WHERE p.partition_id > $1 ORDER BY p.partition_id LIMIT $2
"""


class PostgresChunkStore:
    """`pool` must have been opened with SERVER_SETTINGS and register_vectors."""

    def __init__(self, pool: Pool, lexical: LexicalIndex) -> None:
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
                language=row["language"],
                lexical_backend=row["lexical_backend"],
                defaults=_defaults(row["defaults"]),
            )
            for row in rows
        ]

    async def keyword(
        self,
        collection: Collection,
        query: str,
        *,
        limit: int,
        selection: Selection,
        include_vectors: bool,
    ) -> Sequence[Hit]:
        self._require_backend(collection)
        table = _table(collection)
        prepared = self._lexical.prepare_query(query, collection.language)
        selected, arguments = _selected(selection)
        # Where the index cannot filter, the condition is looked at for what it ranked, of which more is taken
        # as needed. Where it can, every row is selected, and there is no more to take.
        filters = self._lexical.capabilities.filters_in_index
        columns = "true AS selected" if filters else f"{selected} AS selected"
        async with self._connection() as connection:
            ranked = self._lexical.search_sql(
                table,
                collection.language,
                limit=limit,
                columns=columns,
                condition=selected if filters else "",
            )
            statement = _with_chunks(ranked, collection, include_vectors)
            rows = await self._lexical_rows(connection, statement, limit, prepared, *arguments)
            found = _hits(rows, collection)
            for taken in _more(limit, len(found)) if len(found) < len(rows) == limit else ():
                ranked = self._lexical.search_sql(table, collection.language, limit=taken, columns=columns)
                selected_only = _SELECTED.format(ranked=ranked, limit=limit)
                statement = _with_chunks(selected_only, collection, include_vectors)
                rows = await self._lexical_rows(connection, statement, taken, prepared, *arguments)
                found = _hits(rows, collection)
                if len(found) == limit:
                    break
        return found

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
        include_vectors: bool,
    ) -> Sequence[Hit]:
        selected, arguments = _selected(selection)
        distance = f"{_column(collection)} <=> $1::halfvec({collection.dimensions})"

        def ordered_by(distance: str) -> str:
            nearest = _SEMANTIC.format(
                distance=distance, table=_table(collection), selected=selected, limit=limit
            )
            return _with_chunks(nearest, collection, include_vectors)

        statement = ordered_by(distance)
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
                rows = await connection.fetch(ordered_by(f"({distance}) + 0"), vector, *arguments)
        return _hits(rows, collection)

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
        statement = _NEIGHBOURS.format(
            table=_table(collection),
            partition_id=collection.partition_id,
            visible=is_readable_document("$1", "c"),
            chunk=_CHUNK.format(embedding="NULL"),
        )
        documents, indexes = zip(*positions, strict=True)
        async with self._connection() as connection:
            rows = await connection.fetch(statement, principals, documents, indexes)
        chunks = [_chunk(collection, *row) for row in rows]
        known = {(chunk.document_id, chunk.chunk_index): chunk for chunk in chunks}
        return {
            chunk_id: [known[position] for position in around if position in known]
            for chunk_id, around in wanted.items()
        }

    async def require_schema(self) -> None:
        """Raise unless the database can be reached and its schema is new enough."""
        await require_schema(self._pool, SCHEMA)

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
    async def _connection(self) -> AsyncIterator[Connection]:
        with _changed_collections():
            async with acquire(self._pool) as connection:
                yield connection


@contextmanager
def _changed_collections() -> Iterator[None]:
    try:
        yield
    except asyncpg.UndefinedTableError:
        raise UnavailableError(
            "COLLECTION_CHANGED",
            "the collection was deleted or rebuilt while it was searched",
            retry_after_seconds=0.0,
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
    visible = is_readable_document("$2")
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


def _with_chunks(hits: str, collection: Collection, include_vectors: bool) -> str:
    """Add to hits (chunk_id, score, selected) the chunks of those that are selected."""
    return _HITS.format(
        hits=hits,
        table=_table(collection),
        partition_id=collection.partition_id,
        chunk=_CHUNK.format(embedding="c.embedding" if include_vectors else "NULL"),
    )


def _hits(rows: Sequence["asyncpg.Record"], collection: Collection) -> list[Hit]:
    """Those of the rows that are selected."""
    return [
        Hit(_chunk(collection, *chunk), score)
        for score, *chunk in rows
        if chunk[0] is not None  # its id
    ]


def _chunk(
    collection: Collection,
    chunk_id: int,
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
    embedding: HalfVector | None,
) -> Chunk:
    """From the columns of _CHUNK, in their order: reading them by name takes longer."""
    return Chunk(
        chunk_id,
        document_id,
        collection.collection_id,
        chunk_index,
        text,
        context,
        title,
        uri,
        source_type,
        mime_type,
        start_offset,
        end_offset,
        metadata,
        update_time,
        () if embedding is None else embedding.to_list(),
    )
