"""Weaviate as the search index that is fed."""

from collections.abc import Sequence
from uuid import UUID

import numpy as np
from groundline_runtime.errors import UnavailableError
from groundline_weaviate import IndexedChunk, Space, Weaviate, stored_words

from groundline_ingestor.domain.feeding import FedChunk, FedPartition, Refusals

__all__ = ["WeaviateIndex", "indexed_chunk"]


class WeaviateIndex:
    """Implements IndexWriter; makes the class of an embedding space before it first writes there."""

    def __init__(self, weaviate: Weaviate) -> None:
        self._weaviate = weaviate
        self._created: set[Space] = set()

    async def write(self, partition: FedPartition, chunks: Sequence[FedChunk]) -> Refusals:
        space = _space(partition)
        if space not in self._created:
            await self._weaviate.create(space)
            self._created.add(space)
        try:
            failures = await self._weaviate.write(
                space, (indexed_chunk(partition, chunk) for chunk in chunks)
            )
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

    def content_hash(self, partition: FedPartition, chunk: FedChunk) -> str:
        return indexed_chunk(partition, chunk).content_hash


def _space(partition: FedPartition) -> Space:
    return Space(partition.embedding_model, partition.dimensions)


def indexed_chunk(partition: FedPartition, chunk: FedChunk) -> IndexedChunk:
    """What Weaviate holds of a chunk."""
    return IndexedChunk(
        chunk_id=chunk.chunk_id,
        partition_id=partition.partition_id,
        collection_id=chunk.collection_id,
        document_id=UUID(chunk.document_id),
        words=stored_words(chunk.lexical_text, chunk.language),
        vector=chunk.vector.astype(np.float32),
        principals=chunk.allowed_principals,
        source_type=chunk.source_type,
        update_time=chunk.update_time,
        metadata=chunk.metadata,
    )
