"""Results of searches, and their columns, which fusion and deduplication compute with."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from groundline.v1 import passage_pb2, reranker_service_pb2
from groundline_signatures import SIGNATURE_BYTES, as_matrix
from numpy.typing import NDArray

__all__ = ["ArmHits", "ArmList", "Candidates", "ChunkFeatures", "Floats", "Hit", "Integers", "is_weak"]

type Integers = NDArray[np.int64]
type Floats = NDArray[np.float64]

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


@dataclass(frozen=True, slots=True)
class ArmList:
    """A ranked list: `rows` are rows of the candidates, best first, with the arm's scores."""

    arm: reranker_service_pb2.SearchArm.ValueType
    rows: Integers
    scores: Floats


@dataclass(frozen=True, slots=True)
class ChunkFeatures:
    """Features that only the weighted strategy reads; rows are the candidates'."""

    chunk_indexes: Integers
    update_seconds: Integers
    source_types: Integers


@dataclass(frozen=True, slots=True)
class Candidates:
    """All chunks that were found, each once, by rising id: a row of every column is one chunk."""

    chunk_ids: Sequence[int]
    """Ids of the chunks, ascending."""
    collection_ids: Sequence[str]
    collections: Integers
    """Indexes into collection_ids."""
    features: Callable[[], ChunkFeatures]
    signatures: NDArray[np.uint8]
    """Signatures, of shape (rows, SIGNATURE_BYTES), zeros if a chunk has none."""
    sets: Sequence[Sequence[ArmList]]
    """Lists of each query."""

    def __len__(self) -> int:
        return len(self.chunk_ids)

    def collection_of(self, row: int) -> str:
        return self.collection_ids[int(self.collections[row])]

    @classmethod
    def of(cls, found: Sequence[Sequence[ArmHits]]) -> "Candidates":
        """Put what the arms found for each query into columns."""
        unique = {hit.chunk_id: hit for lists in found for _, hits in lists for hit in hits}
        chunk_ids = sorted(unique)
        hits = [unique[chunk_id] for chunk_id in chunk_ids]
        rows = {chunk_id: row for row, chunk_id in enumerate(chunk_ids)}
        names = dict.fromkeys(hit.collection_id for hit in hits)
        collections = {name: position for position, name in enumerate(names)}

        def features() -> ChunkFeatures:
            return ChunkFeatures(
                chunk_indexes=np.array([hit.chunk_index for hit in hits], np.int64),
                update_seconds=np.array([hit.update_seconds for hit in hits], np.int64),
                source_types=np.array([hit.source_type for hit in hits], np.int64),
            )

        return cls(
            chunk_ids=chunk_ids,
            collection_ids=list(collections),
            collections=np.array([collections[hit.collection_id] for hit in hits], np.int64),
            features=features,
            signatures=as_matrix([hit.signature or _NO_SIGNATURE for hit in hits]),
            sets=[
                [
                    ArmList(
                        arm,
                        np.array([rows[hit.chunk_id] for hit in of_arm], np.int64),
                        # As messages have them, so that a search is ranked alike wherever it is ranked.
                        np.array([hit.score for hit in of_arm], np.float32).astype(np.float64),
                    )
                    for arm, of_arm in lists
                ]
                for lists in found
            ],
        )


def is_weak(found: Iterable[ArmHits], weak_similarity: float) -> bool:
    """Tell whether a search found nothing, or nothing that is at least this similar.

    Without the semantic arm similarities are unknown, and any hit counts as good.
    """
    lists = [(arm, hits) for arm, hits in found if hits]
    best = [hits[0].score for arm, hits in lists if arm == reranker_service_pb2.SEARCH_ARM_SEMANTIC]
    return not lists or (bool(best) and max(best) < weak_similarity)
