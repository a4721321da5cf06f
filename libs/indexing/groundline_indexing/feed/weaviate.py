"""Weaviate as the search index outside PostgreSQL."""

from collections.abc import Sequence

from groundline_runtime.errors import UnavailableError
from groundline_weaviate import IndexedChunk, Space, Weaviate

from groundline_indexing.feed.changes import FedPartition, Refusals


class WeaviateIndex:
    """An IndexWriter that creates the class of an embedding space before it first writes there."""

    def __init__(self, weaviate: Weaviate) -> None:
        self._weaviate = weaviate
        self._created: set[Space] = set()

    async def write(self, partition: FedPartition, chunks: Sequence[IndexedChunk]) -> Refusals:
        space = _space(partition)
        if space not in self._created:
            await self._weaviate.create(space)
            self._created.add(space)
        try:
            failures = await self._weaviate.write(space, chunks)
        except UnavailableError:  # perhaps since somebody dropped the class
            self._created.discard(space)
            raise
        return {failure.chunk_id: failure.message for failure in failures}

    async def delete(self, partition: FedPartition, chunk_ids: Sequence[int]) -> None:
        await self._weaviate.delete(_space(partition), partition.partition_id, chunk_ids)

    async def delete_partition(self, partition: FedPartition) -> None:
        await self._weaviate.delete_partition(_space(partition), partition.partition_id)

    async def entries(self, partition: FedPartition, *, after: int, limit: int) -> Sequence[tuple[int, str]]:
        return await self._weaviate.entries(
            _space(partition), partition.partition_id, after=after, limit=limit
        )


def _space(partition: FedPartition) -> Space:
    return Space(partition.embedding_model, partition.dimensions, partition.is_quantized)
