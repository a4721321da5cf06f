"""Indexes that a search reads, each a partition of chunks, and what the arms' statements have in common."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final

import asyncpg
from groundline.v1 import passage_pb2
from groundline_database import is_readable_document, position_of, quantized
from groundline_filters import Columns, compile_sql
from groundline_ranking import Hit

from groundline_retriever.domain import IndexedCollection, Selection

EXACT_COLLECTIONS: Final = 100
"""Maximum collections of a shared partition that are searched exactly by their rows; for more, HNSW is
faster."""

PARTITIONS_PER_STATEMENT: Final = 50

STATEMENTS_AT_ONCE: Final = 4
"""Maximum concurrent statements of one arm that searches many partitions."""

KEPT_STATEMENTS: Final = 200
"""Number of statements that are kept of each kind, one for each shape of a search."""

# Columns that ranking needs, in the order of Hit's fields after the score and the collection.
_FEATURES: Final = (
    "chunk_index, floor(extract(epoch FROM update_time))::bigint AS update_seconds, source_type, signature"
)
FEATURE_NAMES: Final = "collection_id, chunk_index, update_seconds, source_type, signature"

_hides_documents: Final = attrgetter("hides_documents")

SOURCE_TYPES: Final[Mapping[str, passage_pb2.SourceType.ValueType]] = {
    "file": passage_pb2.SOURCE_TYPE_FILE,
    "object": passage_pb2.SOURCE_TYPE_OBJECT,
    "web": passage_pb2.SOURCE_TYPE_WEB,
}


@dataclass(frozen=True, slots=True)
class Index:
    """A partition, and those of its collections that are searched. Equal ones have the same statements."""

    partition_id: int
    is_shared: bool
    dimensions: int
    language: str
    collection_ids: Sequence[str] = field(compare=False)
    hides_documents: bool = field(default=False, compare=False)
    """Whether the collection of a partition of its own has documents that the caller may not read."""
    is_past: bool = False
    """Whether it holds chunks that were replaced."""

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
    def hamming_distance(self) -> str:
        """SQL expression of the distance by which a quantized index orders its rows."""
        row, query = (quantized(vector, self.dimensions) for vector in ("embedding", "$1"))
        return f"({row}) <~> ({query})"

    @property
    def is_searched_exactly(self) -> bool:
        return self.is_shared and len(self.collection_ids) <= EXACT_COLLECTIONS


def indexes_of(collections: Sequence[IndexedCollection]) -> Sequence[Index]:
    """Return the partitions of collections; small ones share one, and one search of it covers all of them."""
    of: dict[int, list[IndexedCollection]] = defaultdict(list)
    for collection in collections:
        of[collection.partition_id].append(collection)
    return [
        Index(
            partition_id,
            group[0].is_shared,
            group[0].dimensions,
            group[0].language,
            [collection.collection_id for collection in group],
            any(map(_hides_documents, group)),
            group[0].in_use is not None,
        )
        for partition_id, group in of.items()
    ]


def position_for(collections: Sequence[IndexedCollection], selection: Selection) -> int:
    """Return the position that a standby must have reached, so that its partitions are those of the
    collections as they were read."""
    return max([position_of(selection.min_position), *(one.position for one in collections)])


@dataclass(frozen=True, slots=True)
class RowCondition:
    """Condition on the rows of a search: SQL with parameters from `first_parameter` on. Equal ones have the
    same SQL."""

    text: str
    values: Sequence[object] = field(compare=False)
    first_parameter: int
    filter: str = "true"
    """The part of it that is the caller's filter."""
    moment: str = ""
    """Parameter with the time at which rows were current; empty for now."""

    @classmethod
    def of(cls, selection: Selection, *, first_parameter: int) -> "RowCondition":
        visible = is_readable_document(f"${first_parameter}")
        values: tuple[object, ...] = (selection.principals,)
        moment = ""
        if selection.as_of is not None:
            moment, values = f"${first_parameter + 1}::timestamptz", (*values, selection.as_of)
        if selection.filter is None:
            return cls(visible, values, first_parameter, moment=moment)
        condition = compile_sql(
            selection.filter, Columns(documents="documents"), first_parameter=first_parameter + len(values)
        )
        values = (*values, *condition.arguments)
        return cls(f"({visible} AND {condition.text})", values, first_parameter, condition.text, moment)

    @property
    def collections(self) -> str:
        """Parameter with the collections of partitions of which not everything may be read."""
        return f"${len(self.values) + self.first_parameter}"

    def current(self, index: Index) -> str:
        """Return the condition on rows that were current at the time of the search, if it has one. In the
        past also on documents that the caller may read now: a row has the principals of then."""
        if not self.moment:
            return "true"
        if not index.is_past:
            return f"coalesce(valid_from, update_time) <= {self.moment}"
        readable = is_readable_document(f"${self.first_parameter}", "now")
        # Not EXISTS: the planner would read all documents, for a few rows.
        document = f"SELECT {readable} FROM documents now WHERE now.document_id = {index.table}.document_id"  # noqa: S608
        return f"(valid_from <= {self.moment} AND valid_to > {self.moment} AND ({document}))"

    def selecting(self, index: Index) -> str:
        """Return the part of the condition that is not about access to rows."""
        return f"({self.filter} AND {self.current(index)})" if self.moment else self.filter

    def row(self, index: Index) -> str:
        """Return the condition without the searched collections of a shared partition."""
        return f"({self.text} AND {self.current(index)})" if self.moment else self.text

    def within(self, index: Index) -> str:
        """Return the condition; in a shared partition, also on the searched collections."""
        if not index.is_shared:
            return self.row(index)
        return f"({self.row(index)} AND collection_id = ANY ({self.collections}::text[]))"

    def readable(self, index: Index) -> str:
        """Return the condition on all that the caller may read, without the filter."""
        visible = is_readable_document(f"${self.first_parameter}")
        of_collections = f"collection_id = ANY ({self.collections}::text[])"
        if index.is_shared:
            return f"{visible} AND {of_collections}"
        # By their documents: by their own principals the planner reads all chunks.
        documents = f"SELECT document_id FROM documents WHERE {of_collections} AND {visible}"  # noqa: S608
        return f"document_id = ANY (ARRAY({documents}))"

    def arguments(self, indexes: Sequence[Index]) -> Sequence[object]:
        """Return the values for a statement over these; a collection is in one of them only."""
        shared = [index for index in indexes if index.is_shared]
        return self.readable_arguments(shared) if shared else self.values

    def readable_arguments(self, indexes: Sequence[Index]) -> Sequence[object]:
        """Return the values for a statement with `readable`."""
        return (*self.values, [one for index in indexes for one in index.collection_ids])


def union(statements: Sequence[str]) -> str:
    return statements[0] if len(statements) == 1 else " UNION ALL ".join(f"({one})" for one in statements)


def by_index(
    rows: Sequence["asyncpg.Record | tuple[Any, ...]"], indexes: Sequence[Index]
) -> list[tuple[list[Hit], int]]:
    """Return the selected hits of each index, and the number of its rows."""
    if len(indexes) == 1:  # which is usual
        return [(_hits_of(rows, indexes[0]), len(rows))]
    of: dict[int, list[Any]] = {index.partition_id: [] for index in indexes}
    for row in rows:
        of[row[0]].append(row)
    return [(_hits_of(of[index.partition_id], index), len(of[index.partition_id])) for index in indexes]


def _hits_of(rows: Sequence["asyncpg.Record | tuple[Any, ...]"], index: Index) -> list[Hit]:
    owner, source_type = index.collection_ids[0], SOURCE_TYPES.get
    return [
        Hit(
            chunk_id,
            score,
            collection_id or owner,
            place,
            seconds,
            source_type(source, passage_pb2.SOURCE_TYPE_UNSPECIFIED),
            signature,
        )
        for _, chunk_id, score, selected, collection_id, place, seconds, source, signature in rows
        if selected
    ]


def merged(lists: Sequence[Sequence[Hit]], limit: int) -> list[list[Hit]]:
    """Return one list of the best hits: partitions of the past and of the present are one index."""
    hits = sorted((hit for each in lists for hit in each), key=lambda hit: (-hit.score, hit.chunk_id))
    return [hits[:limit]]


async def at_once[Result](works: Sequence[Callable[[], Awaitable[Result]]]) -> Sequence[Result]:
    """Return the results of works, a few of which run at a time; a single one, as is usual, needs no task."""
    if len(works) == 1:
        return [await works[0]()]
    turns = asyncio.Semaphore(STATEMENTS_AT_ONCE)

    async def in_turn(work: Callable[[], Awaitable[Result]]) -> Result:
        async with turns:
            return await work()

    return await asyncio.gather(*map(in_turn, works))
