"""Changes for a search index outside PostgreSQL, and its progress."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from groundline_weaviate import IndexedChunk

type Refusals = Mapping[int, str]
"""By chunk id, why the index did not take its object in."""


@dataclass(frozen=True, slots=True)
class FedPartition:
    """A partition of chunks, and the space in which the index keeps its objects."""

    partition_id: int
    embedding_model: str
    dimensions: int
    is_quantized: bool = False


@dataclass(frozen=True, slots=True)
class Batch:
    """Chunks that the index is to store in their current state, and ids of those that it is to drop."""

    chunks: Sequence[IndexedChunk]
    gone: Sequence[int]
    change_ids: Sequence[int] = ()
    """Changes that are done when the index has the batch; a page of a fill has none."""

    def __bool__(self) -> bool:
        return bool(self.chunks or self.gone)


@dataclass(frozen=True, slots=True)
class PartitionState:
    """Progress of the index in a partition."""

    partition: FedPartition
    collection_id: str
    """Collection; "" for a partition that small collections share, and for a dropped one."""
    chunk_count: int
    """Number of chunks, as PostgreSQL last estimated it."""
    filled_count: int
    is_filled: bool
    is_gone: bool
    """Whether the partition was dropped; its objects are still to be deleted."""
    pending_count: int
    set_aside_count: int
    behind_seconds: float
    """Age of the oldest change that the index lacks, in seconds; 0 without one."""


@dataclass(frozen=True, slots=True)
class FeedState:
    """Progress of the index in all partitions."""

    partition_count: int
    unfilled_count: int
    pending_count: int
    """Number of changes that wait, without those set aside."""
    set_aside_count: int
    behind_seconds: float


class IndexWriter(Protocol):
    """A search index outside PostgreSQL. It has an object for each chunk, by partition and chunk id.

    Any method raises UnavailableError while the index, or too much of it, is out of reach, and
    FailedPreconditionError if it refuses the call.
    """

    async def write(self, partition: FedPartition, chunks: Sequence[IndexedChunk]) -> Refusals:
        """Put an object for each chunk in the place of its older one; a refused chunk keeps its older one."""

    async def delete(self, partition: FedPartition, chunk_ids: Sequence[int]) -> None:
        """Delete objects; missing ones count as deleted."""

    async def delete_partition(self, partition: FedPartition) -> None:
        """Delete all objects of a partition."""

    async def entries(self, partition: FedPartition, *, after: int, limit: int) -> Sequence[tuple[int, str]]:
        """Return chunk id and content hash of the first `limit` objects above the chunk id `after`, by chunk
        id."""
