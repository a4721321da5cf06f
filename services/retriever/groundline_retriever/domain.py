"""What retrieval is about; no I/O."""

import enum
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import NamedTuple

from groundline_filters import Filter

__all__ = [
    "Arm",
    "ArmScore",
    "Candidate",
    "Chunk",
    "Collection",
    "Degradation",
    "Hit",
    "IterativeScan",
    "Mode",
    "Parameters",
    "Query",
    "Ranked",
    "Retrieval",
    "RetrievalOptions",
    "Selection",
    "around",
    "ranked",
    "union",
]

MAX_EF_SEARCH = 1000
"""pgvector's own limit."""


class Mode(enum.Enum):
    HYBRID = "hybrid"
    SEMANTIC = "semantic"
    KEYWORD = "keyword"


class Arm(enum.Enum):
    KEYWORD = "keyword"
    SEMANTIC = "semantic"


class IterativeScan(enum.Enum):
    """Values of pgvector's `hnsw.iterative_scan`."""

    OFF = "off"
    STRICT_ORDER = "strict_order"
    RELAXED_ORDER = "relaxed_order"


_ARMS: Mapping[Mode, frozenset[Arm]] = {
    Mode.HYBRID: frozenset(Arm),
    Mode.SEMANTIC: frozenset({Arm.SEMANTIC}),
    Mode.KEYWORD: frozenset({Arm.KEYWORD}),
}


@dataclass(frozen=True, slots=True)
class RetrievalOptions:
    """What a request or a collection sets; None is not set."""

    mode: Mode | None = None
    keyword_limit: int | None = None
    semantic_limit: int | None = None
    ef_search: int | None = None
    iterative_scan: IterativeScan | None = None
    min_similarity: float | None = None
    min_bm25: float | None = None
    include_vectors: bool | None = None
    neighbour_chunks: int | None = None

    def over(self, defaults: "RetrievalOptions") -> "RetrievalOptions":
        """These options, and where they set nothing, the defaults."""
        own = {f.name: getattr(self, f.name) for f in fields(self)}
        return RetrievalOptions(
            **{name: getattr(defaults, name) if value is None else value for name, value in own.items()}
        )


@dataclass(frozen=True, slots=True)
class Parameters:
    """How one collection is searched."""

    arms: frozenset[Arm]
    keyword_limit: int
    semantic_limit: int
    ef_search: int
    iterative_scan: IterativeScan
    min_similarity: float
    min_bm25: float
    include_vectors: bool
    neighbour_chunks: int

    @classmethod
    def of(cls, options: RetrievalOptions) -> "Parameters":
        """The options with the suite's defaults; the search list is never shorter than the limit."""
        semantic_limit = options.semantic_limit or 50
        return cls(
            arms=_ARMS[options.mode or Mode.HYBRID],
            keyword_limit=options.keyword_limit or 50,
            semantic_limit=semantic_limit,
            ef_search=min(max(options.ef_search or 100, semantic_limit), MAX_EF_SEARCH),
            iterative_scan=options.iterative_scan or IterativeScan.STRICT_ORDER,
            min_similarity=-math.inf if options.min_similarity is None else options.min_similarity,
            min_bm25=-math.inf if options.min_bm25 is None else options.min_bm25,
            include_vectors=options.include_vectors or False,
            neighbour_chunks=options.neighbour_chunks or 0,
        )


@dataclass(frozen=True, slots=True)
class Query:
    """What to search for; no collection ids means every collection that the caller may read."""

    text: str
    collection_ids: tuple[str, ...] = ()
    options: RetrievalOptions = field(default_factory=RetrievalOptions)
    filter: Filter | None = None


@dataclass(frozen=True, slots=True)
class Selection:
    """Which chunks take part: those that the principals may read and, if there is one, the filter selects."""

    principals: Sequence[str]
    filter: Filter | None = None


@dataclass(frozen=True, slots=True)
class Collection:
    """A collection that the caller may read, with the partition that holds its chunks."""

    collection_id: str
    partition_id: int
    embedding_model: str
    dimensions: int
    language: str
    lexical_backend: str
    defaults: RetrievalOptions = field(default_factory=RetrievalOptions)


class ArmScore(NamedTuple):
    """Rank (from 1) and score within the arm's list of the chunk's collection."""

    rank: int
    score: float


class Chunk(NamedTuple):
    """A stored chunk with what its document says of it.

    A tuple, since a request makes hundreds: a frozen dataclass takes several times as long to make.
    """

    chunk_id: int
    document_id: str
    collection_id: str
    chunk_index: int
    text: str
    context: str
    title: str
    uri: str
    source_type: str
    mime_type: str
    start_offset: int
    end_offset: int
    metadata: str
    """A JSON object, as it is stored: most of it only passes through."""
    update_time: datetime
    embedding: Sequence[float] = ()


class Hit(NamedTuple):
    """A chunk that an arm found: BM25 score or cosine similarity, higher is better."""

    chunk: Chunk
    score: float


class Ranked(NamedTuple):
    """A chunk in its place in an arm's list."""

    chunk: Chunk
    score: ArmScore


class Candidate(NamedTuple):
    """What the arms said of a chunk."""

    chunk: Chunk
    keyword: ArmScore | None = None
    semantic: ArmScore | None = None
    neighbours: Sequence[Chunk] = ()


@dataclass(frozen=True, slots=True)
class Degradation:
    """An arm that failed or was late: component, UPPER_SNAKE reason, text for people."""

    component: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Retrieval:
    """Outcome: the union of what the arms found, and how long the parts took, in milliseconds."""

    candidates: Sequence[Candidate]
    degraded: Sequence[Degradation] = ()
    timings_ms: Mapping[str, float] = field(default_factory=dict)


def ranked(hits: Iterable[Hit], minimum: float) -> list[Ranked]:
    """In order of rank, without those below `minimum`; ties go to the smaller id."""
    best_first = sorted(hits, key=lambda hit: (-hit.score, hit.chunk.chunk_id))
    kept = (hit for hit in best_first if hit.score >= minimum)
    return [Ranked(hit.chunk, ArmScore(rank, hit.score)) for rank, hit in enumerate(kept, 1)]


def union(keyword: Iterable[Ranked], semantic: Iterable[Ranked]) -> list[Candidate]:
    """Each chunk once, those of the keyword arm first."""
    found = {chunk.chunk_id: Candidate(chunk, keyword=score) for chunk, score in keyword}
    for chunk, score in semantic:
        known = found.get(chunk.chunk_id)
        found[chunk.chunk_id] = (
            Candidate(chunk, semantic=score) if known is None else known._replace(semantic=score)
        )
    return list(found.values())


def around(hit: Chunk, nearby: Sequence[Chunk]) -> list[Chunk]:
    """The chunks next to a hit, in document order, cut so that no text is there twice.

    Chunks overlap; what a neighbour shares with the hit, or with a neighbour nearer to it, is taken from its
    text and offsets, and one that has nothing of its own is left out.
    """
    if not nearby:
        return []
    ordered = sorted(nearby, key=lambda chunk: chunk.chunk_index)
    start, end = hit.start_offset, hit.end_offset
    before: list[Chunk] = []
    for chunk in reversed([chunk for chunk in ordered if chunk.chunk_index < hit.chunk_index]):
        if chunk.start_offset < start:
            before.append(_cut(chunk, chunk.start_offset, min(chunk.end_offset, start)))
            start = chunk.start_offset
    after: list[Chunk] = []
    for chunk in (chunk for chunk in ordered if chunk.chunk_index > hit.chunk_index):
        if chunk.end_offset > end:
            after.append(_cut(chunk, max(chunk.start_offset, end), chunk.end_offset))
            end = chunk.end_offset
    return [*reversed(before), *after]


def _cut(chunk: Chunk, start: int, end: int) -> Chunk:
    if (start, end) == (chunk.start_offset, chunk.end_offset):
        return chunk
    text = chunk.text[start - chunk.start_offset : end - chunk.start_offset]
    return chunk._replace(text=text, start_offset=start, end_offset=end)
