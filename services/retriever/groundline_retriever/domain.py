"""What a search is made of, and what is done with what it finds; no I/O."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from groundline.v1 import candidate_pb2, options_pb2, passage_pb2
from groundline_filters import Filter
from groundline_ranking import ArmList, Candidates, ChunkFeatures
from groundline_signatures import SIGNATURE_BYTES, as_matrix

__all__ = [
    "ArmHits",
    "Hit",
    "Hits",
    "IndexedCollection",
    "Parameters",
    "Selection",
    "candidates_found",
    "features_of",
    "lists_of",
    "ranked",
    "search_list_of",
    "with_adjacent",
]

MAX_EF_SEARCH = 1000
"""pgvector's own limit."""

DEFAULT_EF_SEARCH, CHUNKS_PER_ENTRY = 100, 1000
"""Of a search list; see search_list_of."""

_KEYWORD, _SEMANTIC = candidate_pb2.SEARCH_ARM_KEYWORD, candidate_pb2.SEARCH_ARM_SEMANTIC
_ARMS: Mapping[int, frozenset[int]] = {
    options_pb2.RETRIEVAL_MODE_UNSPECIFIED: frozenset({_KEYWORD, _SEMANTIC}),
    options_pb2.RETRIEVAL_MODE_HYBRID: frozenset({_KEYWORD, _SEMANTIC}),
    options_pb2.RETRIEVAL_MODE_SEMANTIC: frozenset({_SEMANTIC}),
    options_pb2.RETRIEVAL_MODE_KEYWORD: frozenset({_KEYWORD}),
}
_NO_SIGNATURE = bytes(SIGNATURE_BYTES)

_chunk_id, _score = attrgetter("chunk_id"), attrgetter("score")


@dataclass(frozen=True, slots=True)
class Parameters:
    """How collections are searched: options with the suite's defaults in place of what is not set."""

    arms: frozenset[int]
    """Of candidate_pb2.SearchArm."""
    keyword_limit: int
    semantic_limit: int
    ef_search: int | None
    """Never below semantic_limit; None: by the size of what is searched, see search_list_of."""
    iterative_scan: options_pb2.IterativeScan.ValueType
    min_similarity: float
    min_bm25: float

    @classmethod
    def of(cls, options: options_pb2.RetrievalOptions) -> "Parameters":
        """The parameters that options mean which a request and its collection's defaults have been merged
        to."""
        semantic_limit = options.semantic_limit or 50
        return cls(
            arms=_ARMS[options.mode],
            keyword_limit=options.keyword_limit or 50,
            semantic_limit=semantic_limit,
            ef_search=max(options.ef_search, semantic_limit) if options.ef_search else None,
            iterative_scan=options.iterative_scan or options_pb2.ITERATIVE_SCAN_RELAXED_ORDER,
            min_similarity=options.min_similarity if options.HasField("min_similarity") else -math.inf,
            min_bm25=options.min_bm25 if options.HasField("min_bm25") else -math.inf,
        )


def search_list_of(chunks: int, limit: int) -> int:
    """The size of the HNSW search list with which an index of so many chunks finds `limit` of them.

    Topics grow with a collection, and a list of a fixed size holds less and less of one. Measured with 100
    queries about 200 topics: of the 50 nearest of 100,000 chunks a list of 100 finds .97, of 1,000,000 it
    finds .77, with 200 .84, 400 .89, 600 .92, and .94 with 1,000, for 1.7 times the processor time.
    """
    return min(max(DEFAULT_EF_SEARCH, chunks // CHUNKS_PER_ENTRY, limit), MAX_EF_SEARCH)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which chunks take part: those that the principals may read and, if there is one, the filter selects."""

    principals: Sequence[str]
    filter: Filter | None = None
    min_position: str = ""
    """What was written up to here must take part; see IngestionJob.position."""


@dataclass(frozen=True, slots=True)
class IndexedCollection:
    """A collection that a caller may read, with the partition that holds its chunks."""

    collection_id: str
    version: int
    """Changes whenever the collection does."""
    partition_id: int
    embedding_model: str
    dimensions: int
    language: str
    lexical_backend: str
    defaults: options_pb2.RetrievalOptions = field(default_factory=options_pb2.RetrievalOptions)
    is_shared: bool = False
    """Whether the partition holds other collections as well."""
    position: int = 0
    """A standby that has replayed up to here knows the partition as it was when this was read."""

    def options(self, given: options_pb2.RetrievalOptions) -> options_pb2.RetrievalOptions:
        """The collection's defaults, with what a request gives in their place."""
        merged = options_pb2.RetrievalOptions()
        merged.CopyFrom(self.defaults)
        merged.MergeFrom(given)
        return merged


class Hit(NamedTuple):
    """A chunk that an arm found, with what ranking needs to know of it."""

    chunk_id: int
    score: float
    collection_id: str
    chunk_index: int
    update_seconds: int
    source_type: passage_pb2.SourceType.ValueType
    signature: bytes
    """Empty where the chunk has none."""


@dataclass(frozen=True, slots=True)
class Hits:
    """What an arm found."""

    lists: Sequence[Sequence[Hit]]
    """The hits of each index that was searched."""
    unsound: Sequence[str] = ()
    """Ids of collections that were left out, since their index may have lost chunks and is being rebuilt."""
    behind: Sequence[str] = ()
    """Ids of collections of which the index lacks what was written lately, or all."""
    is_incomplete: bool = False
    """Whether a list is short though there may be more: too much was proposed that may not take part."""


class ArmHits(NamedTuple):
    """What an arm found in one index, best first."""

    arm: candidate_pb2.SearchArm.ValueType
    hits: Sequence[Hit]


def ranked(arm: candidate_pb2.SearchArm.ValueType, hits: Iterable[Hit], minimum: float) -> ArmHits:
    """The hits of one index in order of rank, without those below `minimum`; ties go to the smaller id."""
    kept = [hit for hit in hits if hit.score >= minimum]
    # By the last key first: sorting is stable, and so by a single field each time.
    kept.sort(key=_chunk_id)
    kept.sort(key=_score, reverse=True)
    return ArmHits(arm, kept)


def lists_of(found: Sequence[ArmHits]) -> list[candidate_pb2.RankedList]:
    """What was found, for who ranks it elsewhere, with features_of()."""
    return [
        candidate_pb2.RankedList(arm=arm, chunk_ids=map(_chunk_id, hits), scores=map(_score, hits))
        for arm, hits in found
    ]


def candidates_found(found: Sequence[ArmHits]) -> Candidates:
    """What candidates_of() makes of these messages, without them: they take longer than ranking."""
    unique = _unique(found)
    chunk_ids = sorted(unique)
    hits = [unique[chunk_id] for chunk_id in chunk_ids]
    rows = {chunk_id: row for row, chunk_id in enumerate(chunk_ids)}
    collections = _positions(hit.collection_id for hit in hits)

    def features() -> ChunkFeatures:
        return ChunkFeatures(
            chunk_indexes=np.array([hit.chunk_index for hit in hits], np.int64),
            update_seconds=np.array([hit.update_seconds for hit in hits], np.int64),
            source_types=np.array([hit.source_type for hit in hits], np.int64),
        )

    return Candidates(
        chunk_ids=np.array(chunk_ids, np.int64),
        collection_ids=list(collections),
        collections=np.array([collections[hit.collection_id] for hit in hits], np.int64),
        features=features,
        signatures=as_matrix([hit.signature or _NO_SIGNATURE for hit in hits]),
        sets=[
            [
                ArmList(
                    arm,
                    np.array([rows[hit.chunk_id] for hit in of_arm], np.int64),
                    # As messages have them, so that both ways give the same order.
                    np.array([hit.score for hit in of_arm], np.float32).astype(np.float64),
                )
                for arm, of_arm in found
            ]
        ],
    )


def _unique(found: Iterable[ArmHits]) -> dict[int, Hit]:
    return {hit.chunk_id: hit for _, hits in found for hit in hits}


def _positions(names: Iterable[str]) -> dict[str, int]:
    """Each name with its position among them, without those that come again."""
    return {name: position for position, name in enumerate(dict.fromkeys(names))}


def features_of(found: Sequence[ArmHits]) -> candidate_pb2.CandidateFeatures:
    """The features of each chunk once."""
    unique = _unique(found)
    if not unique:
        return candidate_pb2.CandidateFeatures()
    # Columns at once: reading a hundred hits field by field takes longer than fusing them.
    chunk_ids, _, owners, chunk_indexes, update_seconds, source_types, signatures = zip(
        *unique.values(), strict=True
    )
    positions = _positions(owners)
    return candidate_pb2.CandidateFeatures(
        chunk_ids=chunk_ids,
        collection_ids=positions,
        collections=[positions[name] for name in owners],
        chunk_indexes=chunk_indexes,
        update_seconds=update_seconds,
        source_types=source_types,
        signatures=b"".join([signature or _NO_SIGNATURE for signature in signatures]),
    )


def with_adjacent(
    chunk: passage_pb2.Chunk, collection_version: int, nearby: Sequence[passage_pb2.Chunk]
) -> candidate_pb2.FetchedChunk:
    """A chunk with those next to it, in document order, cut so that no text is there twice.

    Chunks overlap; what an adjacent one shares with the chunk, or with one nearer to it, is taken from its
    text and offsets, and one that has nothing of its own is left out.
    """
    fetched = candidate_pb2.FetchedChunk(chunk=chunk, collection_version=collection_version)
    if not nearby:
        return fetched
    ordered = sorted(nearby, key=lambda each: each.chunk_index)
    start, end = chunk.start_offset, chunk.end_offset
    before: list[passage_pb2.Chunk] = []
    for each in reversed([each for each in ordered if each.chunk_index < chunk.chunk_index]):
        if each.start_offset < start:
            before.append(_cut(each, each.start_offset, min(each.end_offset, start)))
            start = each.start_offset
    fetched.adjacent_chunks.extend(reversed(before))
    for each in ordered:
        if each.chunk_index > chunk.chunk_index and each.end_offset > end:
            fetched.adjacent_chunks.append(_cut(each, max(each.start_offset, end), each.end_offset))
            end = each.end_offset
    return fetched


def _cut(chunk: passage_pb2.Chunk, start: int, end: int) -> passage_pb2.Chunk:
    if (start, end) == (chunk.start_offset, chunk.end_offset):
        return chunk
    cut = passage_pb2.Chunk()
    cut.CopyFrom(chunk)
    cut.text = chunk.text[start - chunk.start_offset : end - chunk.start_offset]
    cut.start_offset, cut.end_offset = start, end
    return cut
