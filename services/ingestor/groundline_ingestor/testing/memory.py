"""The stores in memory."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from groundline_runtime.errors import AbortedError, AlreadyExistsError, NotFoundError

from groundline_ingestor.domain import (
    Chunk,
    ChunkCounts,
    Collection,
    Document,
    DocumentVersion,
    IngestionFailure,
    IngestionOutcome,
    IngestionState,
    Item,
    Job,
    NewCollection,
    Partition,
    Vectors,
    is_document_readable,
    is_readable,
)

__all__ = ["MemoryDocuments", "MemoryStores"]


@dataclass
class _Data:
    collections: dict[str, Collection] = field(default_factory=dict)
    requests: dict[str, str] = field(default_factory=dict)
    documents: dict[str, Document] = field(default_factory=dict)
    chunks: dict[str, Sequence[Chunk]] = field(default_factory=dict)
    jobs: dict[str, tuple[Job, Sequence[Item], str]] = field(default_factory=dict)
    partitions: int = 0

    def collection(self, collection_id: str) -> Collection | None:
        collection = self.collections.get(collection_id)
        if collection is None:
            return None
        counts = [
            document.chunk_count
            for document in self.documents.values()
            if document.collection_id == collection_id and document.chunk_count
        ]
        return replace(collection, document_count=len(counts), chunk_count=sum(counts))

    def hold(self, collection: Collection) -> None:
        current = self.collections.get(collection.collection_id)
        if current is None:
            raise NotFoundError("COLLECTION_NOT_FOUND", f"no collection {collection.collection_id!r}")
        if current.partition != collection.partition:
            raise AbortedError("COLLECTION_CHANGED", "the collection was indexed again meanwhile; try again")


class MemoryStores:
    """All three repositories over the same data; `documents` of another class for faults."""

    def __init__(self, documents: "type[MemoryDocuments] | None" = None) -> None:
        data = _Data()
        self.collections = MemoryCollections(data)
        self.documents = (documents or MemoryDocuments)(data)
        self.jobs = MemoryJobs(data)
        self._data = data

    async def texts_of(self, collection: Collection, document_id: str) -> Sequence[str]:
        """The stored chunks of a document, in order."""
        return [chunk.section.text for chunk in self.chunks_of(document_id)]

    def chunks_of(self, document_id: str) -> Sequence[Chunk]:
        """The stored chunks of a document with their context, in order."""
        return self._data.chunks.get(document_id, ())


class MemoryCollections:
    """Implements CollectionRepository."""

    def __init__(self, data: _Data) -> None:
        self._data = data

    async def create(self, new: NewCollection, dimensions: int) -> Collection:
        data = self._data
        if new.request_id in data.requests:
            repeated = data.collection(data.requests[new.request_id])
            assert repeated is not None
            return repeated
        if new.collection_id in data.collections:
            raise AlreadyExistsError("COLLECTION_EXISTS", f"the collection id {new.collection_id!r} is taken")
        data.partitions += 1
        now = datetime.now(UTC)
        collection = Collection(
            collection_id=new.collection_id,
            name=new.name,
            settings=new.settings,
            readers=new.readers,
            writers=new.writers,
            partition=Partition(data.partitions, new.embedding_model, dimensions, new.language),
            create_time=now,
            update_time=now,
        )
        data.collections[new.collection_id] = collection
        if new.request_id:
            data.requests[new.request_id] = new.collection_id
        return collection

    async def find(self, collection_id: str) -> Collection | None:
        return self._data.collection(collection_id)

    async def list_readable(
        self, principals: Sequence[str], *, after: str, limit: int
    ) -> Sequence[Collection]:
        found = [
            collection
            for collection_id in sorted(self._data.collections)
            if collection_id > after and (collection := self._data.collection(collection_id))
        ]
        return [collection for collection in found if is_readable(collection, principals)][:limit]

    async def update(
        self,
        collection_id: str,
        *,
        name: str,
        settings: Mapping[str, Any],
        readers: Sequence[str],
        writers: Sequence[str],
        seen: datetime,
    ) -> bool:
        current = self._data.collections.get(collection_id)
        if current is None or current.update_time != seen:
            return False
        self._data.collections[collection_id] = replace(
            current,
            name=name,
            settings=settings,
            readers=tuple(readers),
            writers=tuple(writers),
            update_time=datetime.now(UTC),
        )
        return True

    async def delete(self, collection_id: str) -> bool:
        data = self._data
        if data.collections.pop(collection_id, None) is None:
            return False
        data.requests = {key: value for key, value in data.requests.items() if value != collection_id}
        data.jobs = {key: job for key, job in data.jobs.items() if job[0].collection_id != collection_id}
        for document in list(data.documents.values()):
            if document.collection_id == collection_id:
                del data.documents[document.document_id]
                data.chunks.pop(document.document_id, None)
        return True


class MemoryDocuments:
    """Implements DocumentRepository."""

    def __init__(self, data: _Data) -> None:
        self._data = data

    async def find(self, collection_id: str, document_id: str) -> Document | None:
        document = self._data.documents.get(document_id)
        return document if document and document.collection_id == collection_id else None

    async def list_readable(
        self, collection_id: str, principals: Sequence[str], *, after: str, limit: int
    ) -> Sequence[Document]:
        found = [
            document
            for document in self._data.documents.values()
            if document.collection_id == collection_id
            and document.uri > after
            and is_document_readable(document, principals)
        ]
        return sorted(found, key=lambda document: document.uri)[:limit]

    async def replace(
        self, collection: Collection, version: DocumentVersion, chunks: Sequence[Chunk], vectors: Vectors
    ) -> tuple[str, IngestionOutcome]:
        assert len(vectors) == len(chunks)
        self._data.hold(collection)
        current = self._by_uri(collection, version.uri)
        stored = self._store(
            collection, version, current, state=IngestionState.DONE, chunk_count=len(chunks), failure=None
        )
        self._data.chunks[stored.document_id] = tuple(chunks)
        return stored.document_id, IngestionOutcome.UPDATED if current else IngestionOutcome.CREATED

    async def refresh(
        self, collection: Collection, version: DocumentVersion
    ) -> tuple[str, IngestionOutcome] | None:
        self._data.hold(collection)
        current = self._by_uri(collection, version.uri)
        if current is None or current.ingestion_hash != version.ingestion_hash:
            return None
        unchanged = (current.metadata, current.allowed_principals) == (
            version.metadata,
            version.allowed_principals,
        )
        self._data.documents[current.document_id] = replace(
            current,
            metadata=version.metadata,
            allowed_principals=version.allowed_principals,
            state=IngestionState.DONE,
            failure=None,
            update_time=current.update_time if unchanged else datetime.now(UTC),
        )
        return current.document_id, IngestionOutcome.UNCHANGED if unchanged else IngestionOutcome.UPDATED

    async def record_failure(
        self, collection: Collection, version: DocumentVersion, failure: IngestionFailure
    ) -> str:
        self._data.hold(collection)
        current = self._by_uri(collection, version.uri)
        if current is not None:
            stored = replace(current, state=IngestionState.FAILED, failure=failure)
            self._data.documents[stored.document_id] = stored
        else:
            stored = self._store(
                collection,
                replace(version, ingestion_hash=b""),
                None,
                state=IngestionState.FAILED,
                chunk_count=0,
                failure=failure,
            )
        return stored.document_id

    async def delete(self, collection: Collection, document_id: str) -> bool:
        self._data.hold(collection)
        if await self.find(collection.collection_id, document_id) is None:
            return False
        del self._data.documents[document_id]
        self._data.chunks.pop(document_id, None)
        return True

    def _by_uri(self, collection: Collection, uri: str) -> Document | None:
        for document in self._data.documents.values():
            if (document.collection_id, document.uri) == (collection.collection_id, uri):
                return document
        return None

    def _store(
        self,
        collection: Collection,
        version: DocumentVersion,
        current: Document | None,
        *,
        state: IngestionState,
        chunk_count: int,
        failure: IngestionFailure | None,
    ) -> Document:
        now = datetime.now(UTC)
        document = Document(
            document_id=current.document_id if current else str(uuid.uuid4()),
            collection_id=collection.collection_id,
            uri=version.uri,
            source_type=version.source_type,
            title=version.title,
            mime_type=version.mime_type,
            content_hash=version.content_hash,
            ingestion_hash=version.ingestion_hash,
            size_bytes=version.size_bytes,
            metadata=version.metadata,
            allowed_principals=version.allowed_principals,
            state=state,
            chunk_count=chunk_count,
            failure=failure,
            create_time=current.create_time if current else now,
            update_time=now,
        )
        self._data.documents[document.document_id] = document
        return document


class MemoryJobs:
    """Implements JobRepository."""

    def __init__(self, data: _Data) -> None:
        self._data = data

    async def record(self, job: Job, items: Sequence[Item], request_id: str) -> Job:
        if job.collection_id not in self._data.collections:
            raise NotFoundError("COLLECTION_NOT_FOUND", f"no collection {job.collection_id!r}")
        if request_id and (earlier := await self.find_by_request_id(job.collection_id, request_id)):
            return earlier
        counted = replace(
            job,
            item_count=len(items),
            done_count=sum(item.state is IngestionState.DONE for item in items),
            unchanged_count=sum(item.outcome is IngestionOutcome.UNCHANGED for item in items),
            failed_count=sum(item.state is IngestionState.FAILED for item in items),
            cancelled_count=sum(item.state is IngestionState.CANCELLED for item in items),
            chunks=sum((item.chunks for item in items), ChunkCounts()),
        )
        self._data.jobs[job.job_id] = (counted, tuple(items), request_id)
        return counted

    async def find(self, job_id: str) -> Job | None:
        stored = self._data.jobs.get(job_id)
        return stored[0] if stored else None

    async def find_by_request_id(self, collection_id: str, request_id: str) -> Job | None:
        for job, _, made_by in self._data.jobs.values():
            if (job.collection_id, made_by) == (collection_id, request_id):
                return job
        return None

    async def items(
        self,
        job_id: str,
        principals: Sequence[str] | None,
        *,
        after: int,
        limit: int,
        only_failed: bool = False,
    ) -> Sequence[Item]:
        _, items, _ = self._data.jobs[job_id]
        return [
            item
            for item in items
            if item.index > after
            and (item.state is IngestionState.FAILED or not only_failed)
            and (principals is None or self._readable(item, principals))
        ][:limit]

    async def list_readable(
        self,
        principals: Sequence[str],
        *,
        collection_id: str | None,
        before: tuple[datetime, str] | None,
        limit: int,
    ) -> Sequence[Job]:
        found = [
            job
            for job, _, _ in self._data.jobs.values()
            if is_readable(self._data.collections[job.collection_id], principals)
            and collection_id in (None, job.collection_id)
            and (before is None or (job.create_time, job.job_id) < before)
        ]
        return sorted(found, key=lambda job: (job.create_time, job.job_id), reverse=True)[:limit]

    def _readable(self, item: Item, principals: Sequence[str]) -> bool:
        document = self._data.documents.get(item.document_id or "")
        return document is None or is_document_readable(document, principals)
