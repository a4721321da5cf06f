"""A search index in memory, and what every IndexWriter must do, as tests."""

import uuid
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
from groundline_indexing.feed.changes import FedPartition, IndexWriter, Refusals
from groundline_runtime.errors import FailedPreconditionError, UnavailableError
from groundline_weaviate import IndexedChunk


class MemoryIndex:
    """Implements IndexWriter; may be out of reach, and refuse chunks."""

    def __init__(self) -> None:
        self.objects: dict[tuple[int, int], str] = {}
        self.refused: dict[int, str] = {}
        """By chunk id, what is said when it is to be written."""
        self.fatal: set[int] = set()
        """Chunk ids for which a call is refused whole."""
        self.is_reachable = True
        self.written: list[int] = []
        """Chunk ids in the order of writing."""

    def ids(self, partition_id: int) -> list[int]:
        return sorted(chunk_id for held, chunk_id in self.objects if held == partition_id)

    async def write(self, partition: FedPartition, chunks: Sequence[IndexedChunk]) -> Refusals:
        self._require()
        if any(chunk.chunk_id in self.fatal for chunk in chunks):
            raise FailedPreconditionError("SEARCH_INDEX_REFUSED", "the call is refused")
        for chunk in chunks:
            if chunk.chunk_id not in self.refused:
                self.objects[partition.partition_id, chunk.chunk_id] = chunk.content_hash
                self.written.append(chunk.chunk_id)
        return {chunk.chunk_id: why for chunk in chunks if (why := self.refused.get(chunk.chunk_id))}

    async def delete(self, partition: FedPartition, chunk_ids: Sequence[int]) -> None:
        self._require()
        for chunk_id in chunk_ids:
            self.objects.pop((partition.partition_id, chunk_id), None)

    async def delete_partition(self, partition: FedPartition) -> None:
        await self.delete(partition, self.ids(partition.partition_id))

    async def entries(self, partition: FedPartition, *, after: int, limit: int) -> Sequence[tuple[int, str]]:
        self._require()
        ids = [chunk_id for chunk_id in self.ids(partition.partition_id) if chunk_id > after]
        return [(chunk_id, self.objects[partition.partition_id, chunk_id]) for chunk_id in ids[:limit]]

    def _require(self) -> None:
        if not self.is_reachable:
            raise UnavailableError("SEARCH_INDEX_UNAVAILABLE", "the index of the test is out of reach")


def a_partition(partition_id: int, dimensions: int = 8) -> FedPartition:
    return FedPartition(partition_id, "test/contract", dimensions)


def a_chunk(partition: FedPartition, chunk_id: int, **changes: Any) -> IndexedChunk:
    """Return a chunk of a partition of `a_partition`."""
    values: dict[str, Any] = {
        "partition_id": partition.partition_id,
        "chunk_id": chunk_id,
        "collection_id": "mills",
        "document_id": uuid.UUID(int=7),
        "lexical_text": "old mills grind by the river",
        "language": "english",
        "vector": np.ones(8, np.float16),
        "principals": (),
        "source_type": "file",
        "update_time": datetime(2026, 11, 22, 10, 30, 0, 123456, UTC),
        "metadata": {"year": 1848, "tags": ["water"]},
    }
    return IndexedChunk(**{**values, **changes})


class IndexWriterContract:
    """Subclass it and give the class an `index` fixture. Each test has a partition of its own."""

    async def entries(self, index: IndexWriter, partition: FedPartition) -> list[tuple[int, str]]:
        return list(await index.entries(partition, after=0, limit=100))

    async def test_nothing_was_written_to_a_partition_that_is_not_known(self, index: IndexWriter) -> None:
        partition = a_partition(11)

        await index.delete(partition, [1])
        await index.delete_partition(partition)

        assert await self.entries(index, partition) == []

    async def test_what_is_written_is_listed_by_chunk_id_with_its_content_hash(
        self, index: IndexWriter
    ) -> None:
        partition = a_partition(12)
        chunks = [
            a_chunk(partition, 300),
            a_chunk(partition, 7, lexical_text="another"),
            a_chunk(partition, 2**40),
        ]

        refused = await index.write(partition, chunks)

        assert not refused
        assert await self.entries(index, partition) == [
            (chunk.chunk_id, chunk.content_hash) for chunk in sorted(chunks, key=lambda chunk: chunk.chunk_id)
        ]

    async def test_entries_come_in_pages(self, index: IndexWriter) -> None:
        partition = a_partition(13)
        await index.write(partition, [a_chunk(partition, number) for number in range(1, 8)])

        first = await index.entries(partition, after=0, limit=3)
        second = await index.entries(partition, after=3, limit=3)
        last = await index.entries(partition, after=6, limit=3)

        assert [[chunk_id for chunk_id, _ in page] for page in (first, second, last)] == [
            [1, 2, 3],
            [4, 5, 6],
            [7],
        ]

    async def test_writing_a_chunk_again_replaces_its_object(self, index: IndexWriter) -> None:
        partition = a_partition(14)
        await index.write(partition, [a_chunk(partition, 1)])
        changed = a_chunk(partition, 1, principals=("group:millers",))

        await index.write(partition, [changed])

        assert await self.entries(index, partition) == [(1, changed.content_hash)]
        assert changed.content_hash != replace(changed, principals=()).content_hash

    async def test_one_chunk_id_in_two_partitions_is_two_objects(self, index: IndexWriter) -> None:
        shared, own = a_partition(15), a_partition(16)
        await index.write(shared, [a_chunk(shared, 1)])
        await index.write(own, [a_chunk(own, 1)])

        await index.delete(shared, [1])

        assert await self.entries(index, shared) == []
        assert [chunk_id for chunk_id, _ in await self.entries(index, own)] == [1]

    async def test_deleting_leaves_the_other_chunks(self, index: IndexWriter) -> None:
        partition = a_partition(17)
        await index.write(partition, [a_chunk(partition, 1), a_chunk(partition, 2), a_chunk(partition, 3)])

        await index.delete(partition, [1, 3, 99])

        assert [chunk_id for chunk_id, _ in await self.entries(index, partition)] == [2]

    async def test_deleting_a_partition_leaves_the_others(self, index: IndexWriter) -> None:
        gone, kept = a_partition(18), a_partition(19)
        await index.write(gone, [a_chunk(gone, 1), a_chunk(gone, 2)])
        await index.write(kept, [a_chunk(kept, 3)])

        await index.delete_partition(gone)

        assert await self.entries(index, gone) == []
        assert [chunk_id for chunk_id, _ in await self.entries(index, kept)] == [3]
