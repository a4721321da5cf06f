"""What a search index outside PostgreSQL is fed with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from groundline_ingestor.domain.texts import Vectors

__all__ = ["Batch", "FedChunk", "FedPartition", "FeedState", "PartitionState", "Refusals"]

type Refusals = Mapping[int, str]
"""By chunk id, why the index did not take its object in."""


@dataclass(frozen=True)
class FedPartition:
    """A partition of chunks, and where the index keeps its objects."""

    partition_id: int
    embedding_model: str
    dimensions: int


@dataclass(frozen=True)
class FedChunk:
    """What searches look at of a chunk."""

    chunk_id: int
    collection_id: str
    document_id: str
    lexical_text: str
    language: str
    vector: Vectors
    """Of one dimension."""
    allowed_principals: Sequence[str]
    source_type: str
    update_time: datetime
    metadata: Mapping[str, Any]


@dataclass(frozen=True)
class Batch:
    """Chunks that the index is to have as they are now, and ids of those that it is to have no more."""

    chunks: Sequence[FedChunk]
    gone: Sequence[int]
    change_ids: Sequence[int] = ()
    """The changes that are done when the index has the batch; of a page of a fill there are none."""

    def __bool__(self) -> bool:
        return bool(self.chunks or self.gone)


@dataclass(frozen=True)
class PartitionState:
    """How far the index has a partition."""

    partition: FedPartition
    collection_id: str
    """Empty for a partition that small collections share, and for one that is gone."""
    chunk_count: int
    """As PostgreSQL last estimated it."""
    filled_count: int
    is_filled: bool
    is_gone: bool
    """Its objects are still to be deleted."""
    pending_count: int
    set_aside_count: int
    behind_seconds: float
    """Age of the oldest change that the index lacks; 0 without one."""


@dataclass(frozen=True)
class FeedState:
    """How far the index has all partitions."""

    partition_count: int
    unfilled_count: int
    pending_count: int
    """Changes that wait, those set aside not counted."""
    set_aside_count: int
    behind_seconds: float
