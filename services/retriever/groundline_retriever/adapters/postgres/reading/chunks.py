"""Texts of chunks, and what decides whether they may be read."""

# ruff: noqa: S608 - what is put into SQL here are conditions and names that are made of numbers

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Final

import asyncpg
from cachetools import LRUCache
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp
from groundline.v1 import options_pb2, passage_pb2
from groundline.v1 import retriever_service_pb2 as pb
from groundline_database import Connection, current_revision, is_readable_collection, is_readable_document

from groundline_retriever.adapters.postgres.collections import PARTITION_COLUMNS
from groundline_retriever.adapters.postgres.indexes import SOURCE_TYPES
from groundline_retriever.adapters.postgres.reads import Reads
from groundline_retriever.adapters.postgres.sizes import REMEMBERED_PARTITIONS
from groundline_retriever.passages import FetchedChunk, Wanted, with_adjacent

KEPT_METADATA: Final = 1000
"""Cached metadata. Documents have many chunks, and popular ones are found again: their metadata is parsed
once."""

MAX_SPAN: Final = 100_000
"""Maximum characters of a span's text, as the contract says."""

# Adjacent chunks come with the wanted ones; `wanted_id` names the chunk that each is next to. The same
# statement decides whether the collection may be read, and its partition is the one in use.
_FETCH: Final = """
    SELECT wanted.chunk_id AS wanted_id, k.xmin AS version, {vector}, {lines} AS lines,
        c.chunk_id, d.collection_id, c.document_id::text, c.chunk_index, c.original_text,
        c.context_annotation, d.title, d.uri, c.source_type, d.mime_type, c.start_offset, c.end_offset,
        c.metadata::text, c.update_time, d.has_original, {revision}
    FROM {table} wanted
    JOIN {table} c ON c.partition_id = wanted.partition_id AND {place}
    JOIN documents d ON d.document_id = c.document_id
    JOIN collections k ON k.collection_id = d.collection_id AND k.{column} = c.partition_id
    {unchanged}
    WHERE wanted.partition_id = {partition_id:d} AND wanted.chunk_id = ANY ($2::bigint[])
        AND d.collection_id = ANY ($3::text[]) AND {visible} AND {readable}{unchanged_since}
"""

# An earlier release leaves chunks of documents that it changes in an index that is not in use.
_UNCHANGED: Final = """JOIN reindexed_documents r ON r.partition_id = c.partition_id
        AND r.document_id = d.document_id AND r.version = d.version"""

_VECTOR: Final = "CASE WHEN c.chunk_id = wanted.chunk_id THEN c.embedding::real[] END"
_NO_VECTOR: Final = "NULL"
# From the page on that the chunk begins on.
_LINES: Final = """ARRAY(
        SELECT p.lines FROM document_pages p
        WHERE p.document_id = c.document_id AND p.start_offset < c.end_offset AND p.start_offset >= coalesce((
            SELECT max(before.start_offset) FROM document_pages before
            WHERE before.document_id = c.document_id AND before.start_offset <= c.start_offset
        ), 0)
    )"""

_ITSELF: Final = "c.chunk_id = wanted.chunk_id"

_UNCHANGED_SINCE: Final = " AND d.update_time <= $4"

_NEARBY: Final = """c.document_id = wanted.document_id
        AND c.chunk_index BETWEEN wanted.chunk_index - {before} AND wanted.chunk_index + {after}"""

# Whoever may not read a document now may not read its past, and whoever was let in later sees nothing from
# before.
_TEXTS: Final = f"""
    SELECT wanted.place, t.text
    FROM unnest($2::text[], $3::uuid[], $4::text[], $5::int[], $6::int[]) WITH ORDINALITY
        AS wanted (collection_id, document_id, revision, start_offset, end_offset, place)
    JOIN documents d ON (d.document_id, d.collection_id) = (wanted.document_id, wanted.collection_id)
    JOIN collections k ON k.collection_id = d.collection_id
    LEFT JOIN document_revisions r ON (r.document_id, r.revision) = (d.document_id, wanted.revision)
    CROSS JOIN document_text(
        wanted.document_id, wanted.revision, wanted.start_offset, wanted.end_offset
    ) t
    WHERE {is_readable_collection("$1", "k")} AND {is_readable_document("$1", "d")}
        AND (r.revision IS NULL OR {is_readable_document("$1", "r")}) AND t.size IS NOT NULL
"""

_PARTITIONS: Final = """
    SELECT collection_id, {column} AS partition_id FROM collections
    WHERE collection_id = ANY ($1::text[]) AND {column} IS NOT NULL
"""


class ReadableChunks:
    """Chunks that exist and may be read, from the partitions in which their collections were found last."""

    def __init__(self, reads: Reads) -> None:
        self._reads = reads
        self._partitions: LRUCache[tuple[str, str], int] = LRUCache(REMEMBERED_PARTITIONS)
        """Partitions by collection and column."""

    async def fetch(
        self,
        wanted: Sequence[Wanted],
        principals: Sequence[str],
        index: options_pb2.IndexChoice.ValueType = options_pb2.INDEX_CHOICE_CURRENT,
        *,
        as_of: datetime | None = None,
    ) -> Sequence[FetchedChunk]:
        """See ChunkStore.fetch. `as_of`: time since when their documents must not have changed."""
        column = PARTITION_COLUMNS[index]
        known = {
            each.collection_id: self._partitions[each.collection_id, column]
            for each in wanted
            if (each.collection_id, column) in self._partitions
        }
        async with self._reads.connection() as connection:
            fetched = await _fetched_from(connection, column, known, wanted, principals, as_of)
            found = {one.chunk.collection_id for one in fetched}
            missed = [each for each in wanted if each.collection_id not in found]
            if not missed:
                return fetched
            # The statement finds nothing in a partition that no longer belongs to the collection.
            statement = _PARTITIONS.format(column=column)
            rows = await connection.fetch(statement, [each.collection_id for each in missed])
            current = {row["collection_id"]: row["partition_id"] for row in rows}
            self._partitions.update({(name, column): place for name, place in current.items()})
            elsewhere = {name: place for name, place in current.items() if known.get(name) != place}
            return [*fetched, *await _fetched_from(connection, column, elsewhere, missed, principals, as_of)]

    async def revision_texts(
        self, spans: Sequence[pb.RevisionSpan], principals: Sequence[str]
    ) -> Sequence[pb.RevisionText]:
        """See ChunkStore.revision_texts."""
        async with self._reads.connection() as connection:
            rows = await connection.fetch(
                _TEXTS,
                principals,
                [each.collection_id for each in spans],
                [each.document_id for each in spans],
                [each.revision for each in spans],
                [each.start_offset for each in spans],
                [min(each.end_offset, each.start_offset + MAX_SPAN) for each in spans],
            )
        return [pb.RevisionText(span=spans[row["place"] - 1], text=row["text"]) for row in rows]


async def _fetched_from(
    connection: Connection,
    column: str,
    partitions: Mapping[str, int],
    wanted: Iterable[Wanted],
    principals: Sequence[str],
    as_of: datetime | None,
) -> list[FetchedChunk]:
    """Read the wanted chunks of the collections whose partition, by a column of `collections`, is given, each
    with those next to it; one statement for each partition, and none in a dropped table."""
    groups: dict[tuple[int, tuple[str, str, str, str]], list[Wanted]] = defaultdict(list)
    for each in wanted:
        if each.collection_id in partitions:
            shape = (
                _place(each.with_parents, each.adjacent_chunks),
                _VECTOR if each.with_vectors else _NO_VECTOR,
                _LINES if each.with_lines else "NULL::bytea[]",
                column,
            )
            groups[partitions[each.collection_id], shape].append(each)
    fetched: list[FetchedChunk] = []
    for (partition_id, shape), group in groups.items():
        statement = _statement(partition_id, shape, is_past=as_of is not None)
        chunk_ids = [chunk_id for each in group for chunk_id in each.chunk_ids]
        names = [each.collection_id for each in group]
        arguments = (principals, chunk_ids, names) if as_of is None else (principals, chunk_ids, names, as_of)
        try:
            fetched += found_chunks(await connection.fetch(statement, *arguments))
        except asyncpg.UndefinedTableError:
            continue
    return fetched


@lru_cache
def _place(with_parents: bool, adjacent_chunks: int) -> str:
    """Return the SQL condition of the chunks of its document that come with a wanted one."""
    if not with_parents and not adjacent_chunks:
        return _ITSELF
    before, after = chunks_around(with_parents, adjacent_chunks)
    return _NEARBY.format(before=before, after=after)


def chunks_around(with_parents: bool, distance: int) -> tuple[str, str]:
    """Return the SQL of how many chunks before and after a wanted one come with it."""
    if with_parents:
        return (
            f"greatest(wanted.siblings_before, {distance:d})",
            f"greatest(wanted.siblings_after, {distance:d})",
        )
    return f"{distance:d}", f"{distance:d}"


@lru_cache(maxsize=1000)
def _statement(partition_id: int, shape: tuple[str, str, str, str], *, is_past: bool) -> str:
    """Return the statement for a partition. `shape` is the SQL of which chunks come with a wanted one, of its
    vector, of lines, and the column of `collections` that names the partition."""
    place, vector_column, lines, column = shape
    return _FETCH.format(
        table=f"chunks_p{partition_id:d}",
        partition_id=partition_id,
        place=place,
        column=column,
        unchanged="" if column == "partition_id" else _UNCHANGED,
        vector=vector_column,
        lines=lines,
        revision=current_revision("d"),
        visible=is_readable_document("$1", "c"),
        readable=is_readable_collection("$1", "k"),
        unchanged_since=_UNCHANGED_SINCE if is_past else "",
    )


def found_chunks(rows: Iterable[asyncpg.Record]) -> Sequence[FetchedChunk]:
    """Return the chunks of rows of _FETCH, each with those next to it."""
    found: dict[int, tuple[passage_pb2.Chunk, int, Sequence[float], Sequence[bytes]]] = {}
    adjacent: dict[int, list[passage_pb2.Chunk]] = defaultdict(list)
    for wanted_id, version, vector, pages, *columns in rows:
        chunk = _chunk(*columns)
        if columns[0] == wanted_id:
            found[wanted_id] = chunk, version, vector or (), pages or ()
        else:
            adjacent[wanted_id].append(chunk)
    return [
        FetchedChunk(
            chunk_id,
            chunk,
            version,
            with_adjacent(chunk, adjacent[chunk_id]) if chunk_id in adjacent else (),
            vector,
            list(map(passage_pb2.PageLines.FromString, pages)),
        )
        for chunk_id, (chunk, version, vector, pages) in found.items()
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
    revision: str,
) -> passage_pb2.Chunk:
    """Build a chunk from the columns of _FETCH except the first four, in their order: reading them by name
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
        source_type=SOURCE_TYPES.get(source_type, passage_pb2.SOURCE_TYPE_UNSPECIFIED),
        mime_type=mime_type,
        start_offset=start_offset,
        end_offset=end_offset,
        metadata=_struct(metadata),
        update_time=Timestamp(
            seconds=math.floor(update_time.timestamp()), nanos=update_time.microsecond * 1000
        ),
        has_original=has_original,
        revision=revision,
    )


@lru_cache(maxsize=KEPT_METADATA)
def _struct(metadata: str) -> Struct | None:
    if metadata == "{}":
        return None
    struct = Struct()
    struct.update(json.loads(metadata))
    return struct
