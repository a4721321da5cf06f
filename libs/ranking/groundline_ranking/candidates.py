"""Results of searches, and the candidates that they propose together."""

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from groundline.v1 import passage_pb2, reranker_service_pb2
from groundline_signatures import SIGNATURE_BYTES, as_matrix
from numpy.typing import NDArray

_NO_SIGNATURE: Final = bytes(SIGNATURE_BYTES)


class Hit(NamedTuple):
    """A chunk that a search found, with the fields that ranking needs."""

    chunk_id: int
    score: float
    collection_id: str
    chunk_index: int
    update_seconds: int
    source_type: passage_pb2.SourceType.ValueType
    signature: bytes
    """Signature of its text (groundline_signatures); empty if the chunk has none."""


class ArmHits(NamedTuple):
    """Hits of an arm in one index, best first."""

    arm: reranker_service_pb2.SearchArm.ValueType
    hits: Sequence[Hit]
    weight: float = 1.0
    """Factor of the arm's weight for this list."""
    is_cut: bool = False
    """Whether the arm may have found more than its limit."""


class ArmList(NamedTuple):
    """A ranked list: `rows` are rows of the candidates, best first, with the arm's scores."""

    arm: reranker_service_pb2.SearchArm.ValueType
    rows: Sequence[int]
    scores: Sequence[float]
    weight: float = 1.0
    is_cut: bool = False


@dataclass(frozen=True, slots=True)
class Candidates:
    """All chunks that were found, each once: its row is its place by rising id."""

    hits: Sequence[Hit]
    """The chunks, each as one of the lists has it."""
    sets: Sequence[Sequence[ArmList]]
    """Lists of each query."""

    def signatures(self, rows: Iterable[int]) -> NDArray[np.uint8]:
        """Return signatures, of shape (rows, SIGNATURE_BYTES), zeros if a chunk has none."""
        return as_matrix([self.hits[row].signature or _NO_SIGNATURE for row in rows])

    @classmethod
    def of(cls, found: Sequence[Sequence[ArmHits]]) -> "Candidates":
        """Number what the arms found for each query."""
        unique = {hit.chunk_id: hit for lists in found for each in lists for hit in each.hits}
        rows = {chunk_id: row for row, chunk_id in enumerate(sorted(unique))}
        return cls(
            [unique[chunk_id] for chunk_id in rows],
            [
                [
                    ArmList(
                        each.arm,
                        [rows[hit.chunk_id] for hit in each.hits],
                        # As messages have them, so that a search is ranked alike wherever it is ranked.
                        array("f", [hit.score for hit in each.hits]).tolist(),
                        each.weight,
                        each.is_cut,
                    )
                    for each in lists
                ]
                for lists in found
            ],
        )


def is_weak(found: Iterable[ArmHits], weak_similarity: float) -> bool:
    """Tell whether a search found nothing, or nothing that is at least this similar.

    Without the semantic arm similarities are unknown, and any hit counts as good.
    """
    lists = [(each.arm, each.hits) for each in found if each.hits]
    best = [hits[0].score for arm, hits in lists if arm == reranker_service_pb2.SEARCH_ARM_SEMANTIC]
    return not lists or (bool(best) and max(best) < weak_similarity)
