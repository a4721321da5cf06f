"""The candidates of a request as columns, which fusion and deduplication compute with."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from groundline.v1 import candidate_pb2
from groundline_signatures import as_matrix
from numpy.typing import NDArray

__all__ = [
    "ArmList",
    "Candidates",
    "ChunkFeatures",
    "Floats",
    "Integers",
    "arm_scores",
    "candidates_of",
    "is_weak",
]

type Integers = NDArray[np.int64]
type Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ArmList:
    """A ranked list: `rows` are rows of the candidates, best first, with the arm's scores."""

    arm: candidate_pb2.SearchArm.ValueType
    rows: Integers
    scores: Floats


@dataclass(frozen=True, slots=True)
class ChunkFeatures:
    """What the weighted strategy alone looks at; rows are the candidates'."""

    chunk_indexes: Integers
    update_seconds: Integers
    source_types: Integers


@dataclass(frozen=True, slots=True)
class Candidates:
    """All chunks of a request, each once, by rising id: a row of every column is one chunk."""

    chunk_ids: Integers
    """Ascending."""
    collection_ids: Sequence[str]
    collections: Integers
    """Positions in collection_ids."""
    features: Callable[[], ChunkFeatures]
    signatures: NDArray[np.uint8]
    """(rows, SIGNATURE_BYTES), zeros where a chunk has none."""
    sets: Sequence[Sequence[ArmList]]
    """The lists of each query."""

    def __len__(self) -> int:
        return len(self.chunk_ids)

    def collection_of(self, row: int) -> str:
        return self.collection_ids[int(self.collections[row])]


def candidates_of(candidate_sets: Iterable[candidate_pb2.CandidateSet]) -> Candidates:
    """The columns of a request that has been validated."""
    sets = list(candidate_sets)
    features = [each.features for each in sets]
    collection_ids = list(dict.fromkeys(name for each in features for name in each.collection_ids))
    positions = {name: position for position, name in enumerate(collection_ids)}
    all_ids = _joined([_integers(each.chunk_ids) for each in features])
    chunk_ids, first = np.unique(all_ids, return_index=True)

    def column(parts: Iterable[Integers]) -> Integers:
        return _joined(list(parts))[first]

    return Candidates(
        chunk_ids=chunk_ids,
        collection_ids=collection_ids,
        collections=column(_collections(each, positions) for each in features),
        features=lambda: ChunkFeatures(
            chunk_indexes=column(_integers(each.chunk_indexes) for each in features),
            update_seconds=column(_integers(each.update_seconds) for each in features),
            source_types=column(_integers(each.source_types) for each in features),
        ),
        signatures=as_matrix(b"".join(each.signatures for each in features))[first],
        sets=[
            [
                ArmList(
                    ranked.arm,
                    np.searchsorted(chunk_ids, _integers(ranked.chunk_ids)),
                    np.array(ranked.scores, np.float64),
                )
                for ranked in each.lists
            ]
            for each in sets
        ],
    )


type ArmScored = tuple[candidate_pb2.SearchArm.ValueType, Sequence[float]]
"""An arm, and the scores of a list of its, best first."""


def arm_scores(sets: Iterable[candidate_pb2.CandidateSet]) -> Iterable[ArmScored]:
    """Those of every list."""
    return ((ranked.arm, ranked.scores) for each in sets for ranked in each.lists)


def is_weak(found: Iterable[ArmScored], weak_similarity: float) -> bool:
    """Whether a search found nothing, or nothing that is at least this similar.

    Without the semantic arm nothing is known of similarity, and what was found counts as good.
    """
    lists = [(arm, scores) for arm, scores in found if scores]
    best = [scores[0] for arm, scores in lists if arm == candidate_pb2.SEARCH_ARM_SEMANTIC]
    return not lists or (bool(best) and max(best) < weak_similarity)


def _collections(features: candidate_pb2.CandidateFeatures, positions: dict[str, int]) -> Integers:
    own = np.array([positions[name] for name in features.collection_ids], np.int64)
    return own[_integers(features.collections)]


def _integers(values: Sequence[int]) -> Integers:
    return np.array(values, np.int64)


def _joined(parts: list[Integers]) -> Integers:
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)
