"""What a search is made of, and what is done with what it finds; no I/O."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

from groundline.v1 import candidate_pb2, options_pb2, passage_pb2
from groundline_filters import Filter
from groundline_signatures import SIGNATURE_BYTES

__all__ = [
    "Hit",
    "Hits",
    "IndexedCollection",
    "Parameters",
    "Selection",
    "features_of",
    "ranked_list",
    "with_adjacent",
]

MAX_EF_SEARCH = 1000
"""pgvector's own limit."""

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
    ef_search: int
    """Never below semantic_limit."""
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
            ef_search=min(max(options.ef_search or 100, semantic_limit), MAX_EF_SEARCH),
            iterative_scan=options.iterative_scan or options_pb2.ITERATIVE_SCAN_RELAXED_ORDER,
            min_similarity=options.min_similarity if options.HasField("min_similarity") else -math.inf,
            min_bm25=options.min_bm25 if options.HasField("min_bm25") else -math.inf,
        )


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


def ranked_list(
    arm: candidate_pb2.SearchArm.ValueType, hits: Iterable[Hit], minimum: float
) -> tuple[candidate_pb2.RankedList, Sequence[Hit]]:
    """The hits of one index in order of rank, without those below `minimum`; ties go to the smaller id."""
    kept = [hit for hit in hits if hit.score >= minimum]
    # By the last key first: sorting is stable, and so by a single field each time.
    kept.sort(key=_chunk_id)
    kept.sort(key=_score, reverse=True)
    ranked = candidate_pb2.RankedList(arm=arm, chunk_ids=map(_chunk_id, kept), scores=map(_score, kept))
    return ranked, kept


def features_of(hits: Iterable[Hit]) -> candidate_pb2.CandidateFeatures:
    """The features of each chunk once."""
    unique = {hit.chunk_id: hit for hit in hits}
    if not unique:
        return candidate_pb2.CandidateFeatures()
    # Columns at once: reading a hundred hits field by field takes longer than fusing them.
    chunk_ids, _, owners, chunk_indexes, update_seconds, source_types, signatures = zip(
        *unique.values(), strict=True
    )
    positions = {name: position for position, name in enumerate(dict.fromkeys(owners))}
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
