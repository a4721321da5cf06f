"""Parameters and results of searches; no I/O."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import attrgetter
from typing import Final

from groundline.v1 import collection_pb2, options_pb2, reranker_service_pb2
from groundline_contracts import default_of
from groundline_filters import Filter
from groundline_ranking import ArmHits, Hit

MAX_EF_SEARCH: Final = 1000
"""pgvector's own limit."""

DEFAULT_EF_SEARCH: Final = 100
"""Least size of a search list; see search_list_of."""
CHUNKS_PER_ENTRY: Final = 1000
"""Number of chunks for each entry of a search list."""

QUANTIZED_DEPTH: Final = 8
"""Multiple of its limit that is taken from an index of quantized vectors, to be ordered by their distance."""

SCANNED_DEPTH: Final = 13
"""Multiple of its limit that HNSW may have to scan until enough rows are selected. Recall falls with the
depth: of the 50 nearest of 100,000 chunks about 200 topics .98 are found if one in 10 is selected, .87 if one
in 20 is, and .7 if one in 5 is, but of other topics than the query."""

MAX_COMPARED_CHUNKS: Final = 3000
"""Estimated number of selected chunks of an index up to which all are compared rather than HNSW scanned on:
that takes as long (2.7 µs a chunk), and misses none."""

_KEYWORD: Final = reranker_service_pb2.SEARCH_ARM_KEYWORD
_SEMANTIC: Final = reranker_service_pb2.SEARCH_ARM_SEMANTIC
_ARMS: Final[Mapping[int, frozenset[int]]] = {
    options_pb2.RETRIEVAL_MODE_UNSPECIFIED: frozenset({_KEYWORD, _SEMANTIC}),
    options_pb2.RETRIEVAL_MODE_HYBRID: frozenset({_KEYWORD, _SEMANTIC}),
    options_pb2.RETRIEVAL_MODE_SEMANTIC: frozenset({_SEMANTIC}),
    options_pb2.RETRIEVAL_MODE_KEYWORD: frozenset({_KEYWORD}),
}

_chunk_id, _score = attrgetter("chunk_id"), attrgetter("score")
_KEYWORD_LIMIT: Final[int] = default_of(options_pb2.RetrievalOptions, "keyword_limit")
_SEMANTIC_LIMIT: Final[int] = default_of(options_pb2.RetrievalOptions, "semantic_limit")
_ITERATIVE_SCAN: Final = default_of(options_pb2.RetrievalOptions, "iterative_scan")


@dataclass(frozen=True, slots=True)
class Parameters:
    """Parameters of a search: options with the suite's defaults for those that are not set."""

    arms: frozenset[int]
    """Arms to run, values of reranker_service_pb2.SearchArm."""
    keyword_limit: int
    semantic_limit: int
    ef_search: int | None
    """Size of the HNSW search list, never below semantic_limit; None: by the size of what is searched, see
    search_list_of."""
    iterative_scan: options_pb2.IterativeScan.ValueType
    min_similarity: float
    min_bm25: float
    corrects_spelling: bool

    @classmethod
    def of(cls, options: options_pb2.RetrievalOptions) -> "Parameters":
        """Return the parameters of options that merge a request's and its collection's."""
        semantic_limit = options.semantic_limit or _SEMANTIC_LIMIT
        return cls(
            arms=_ARMS[options.mode],
            keyword_limit=options.keyword_limit or _KEYWORD_LIMIT,
            semantic_limit=semantic_limit,
            ef_search=max(options.ef_search, semantic_limit) if options.ef_search else None,
            iterative_scan=options.iterative_scan or _ITERATIVE_SCAN,
            min_similarity=options.min_similarity if options.HasField("min_similarity") else -math.inf,
            min_bm25=options.min_bm25 if options.HasField("min_bm25") else -math.inf,
            corrects_spelling=options.correct_spelling or not options.HasField("correct_spelling"),
        )


def search_list_of(chunks: int, limit: int) -> int:
    """Return the size of the HNSW search list with which an index of `chunks` chunks finds `limit` of them.

    Topics grow with a collection, and a list of a fixed size holds less and less of one. Measured with 100
    queries about 200 topics: of the 50 nearest of 100,000 chunks a list of 100 finds .97, of 1,000,000 it
    finds .77, with 200 .84, 400 .89, 600 .92, and .94 with 1,000, for 1.7 times the processor time.
    """
    return min(max(DEFAULT_EF_SEARCH, chunks // CHUNKS_PER_ENTRY, limit), MAX_EF_SEARCH)


@dataclass(frozen=True, slots=True)
class Selection:
    """Chunks that take part: those that the principals may read and, if there is one, the filter selects."""

    principals: Sequence[str]
    filter: Filter | None = None
    min_position: str = ""
    """Position up to which changes must take part; see IngestionJob.position."""
    as_of: datetime | None = None
    """Time at which they were current, in place of now."""

    @property
    def is_partial(self) -> bool:
        """Whether it leaves out chunks for another reason than access."""
        return self.filter is not None or self.as_of is not None


@dataclass(frozen=True, slots=True)
class IndexedCollection:
    """A collection that a caller may read, with the partition that holds its chunks."""

    collection_id: str
    version: int
    """Version, which changes whenever the collection does."""
    partition_id: int
    embedding_model: str
    dimensions: int
    language: str
    lexical_backend: str
    settings: collection_pb2.CollectionSettings = field(default_factory=collection_pb2.CollectionSettings)
    """Defaults and limits of searches, one object for all collections that have the same."""
    is_quantized: bool = False
    """Whether an index outside PostgreSQL keeps the partition among quantized vectors."""
    is_shared: bool = False
    """Whether the partition holds other collections as well."""
    hides_documents: bool = False
    """Whether a partition of its own holds documents that the caller may not read."""
    position: int = 0
    """Position from which on a standby knows the partition as it was when this was read."""
    in_use: "IndexedCollection | None" = None
    """For a partition that holds chunks that were replaced, the collection with its partition in use."""

    @property
    def is_past(self) -> bool:
        return self.in_use is not None

    def options(self, given: options_pb2.RetrievalOptions) -> options_pb2.RetrievalOptions:
        """Return the collection's defaults, with what a request gives in their place."""
        if not self.settings.retrieval.ByteSize():
            return given
        merged = options_pb2.RetrievalOptions()
        merged.CopyFrom(self.settings.retrieval)
        merged.MergeFrom(given)
        return merged


@dataclass(frozen=True, slots=True)
class Hits:
    """Hits of an arm."""

    lists: Sequence[Sequence[Hit]]
    """The hits of each index that was searched."""
    unsound: Sequence[str] = ()
    """Ids of collections that were left out, since their index is missing or may have lost chunks."""
    behind: Sequence[str] = ()
    """Ids of collections of which the index lacks recent changes, or everything."""
    is_incomplete: bool = False
    """Whether a list is short though there may be more: too much was proposed that may not take part."""


def scaled(hits: Iterable[Hit], floor: float) -> list[Hit]:
    """Return hits with similarities from `floor` to 1 drawn out to 0 to 1, so that they mean as much as those
    of other models: to a threshold, in the fusion, and for how sure an answer is."""
    return [hit._replace(score=(hit.score - floor) / (1 - floor)) for hit in hits]


def ranked(
    arm: reranker_service_pb2.SearchArm.ValueType,
    hits: Iterable[Hit],
    minimum: float,
    weight: float = 1.0,
) -> ArmHits:
    """Return the hits of one index in order of rank, without those below `minimum`; ties go to the smaller
    id."""
    kept = [hit for hit in hits if hit.score >= minimum]
    # By the last key first: sorting is stable, and so by a single field each time.
    kept.sort(key=_chunk_id)
    kept.sort(key=_score, reverse=True)
    return ArmHits(arm, kept, weight)
