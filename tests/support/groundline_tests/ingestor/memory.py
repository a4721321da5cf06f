"""The stores in memory."""

import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from groundline_filters import Filter
from groundline_ingestor.crawling import CrawlRequest
from groundline_ingestor.domain import (
    Chunk,
    ChunkCounts,
    Claim,
    Collection,
    CollectionStats,
    Document,
    DocumentInput,
    DocumentVersion,
    FileContent,
    IngestionFailure,
    IngestionOutcome,
    IngestionState,
    Item,
    Job,
    JobKind,
    JobState,
    LeasedItem,
    NewCollection,
    NewVersion,
    Partition,
    Progress,
    StoredText,
    Usage,
    VectorIndexState,
    Vectors,
    is_document_readable,
    is_readable,
)
from groundline_ingestor.ports import ClaimLostError, HandedIn
from groundline_runtime.errors import AbortedError, AlreadyExistsError, NotFoundError

from groundline_tests.ingestor.filters import is_selected

__all__ = ["MemoryDocuments", "MemoryStores"]


@dataclass
class _Entry:
    job_id: str
    collection_id: str
    given: DocumentInput | None
    """None of a crawl, and of a page that could not be had."""
    item: Item
    lease_id: str = ""
    crawl: CrawlRequest | None = None
    is_page: bool = False

    @property
    def is_missing(self) -> bool:
        """A page that could not be had."""
        return self.is_page and self.given is None

    def cancel(self) -> None:
        if not self.item.has_ended:
            self.item = replace(self.item, state=IngestionState.CANCELLED)
            self.lease_id = ""


@dataclass
class _Data:
    collections: dict[str, Collection] = field(default_factory=dict)
    requests: dict[str, str] = field(default_factory=dict)
    documents: dict[str, Document] = field(default_factory=dict)
    chunks: dict[str, Sequence[Chunk]] = field(default_factory=dict)
    jobs: dict[str, tuple[Job, str]] = field(default_factory=dict)
    entries: list[_Entry] = field(default_factory=list)
    deletions: dict[tuple[str, str], int] = field(default_factory=dict)
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

    def items(self, job_id: str) -> list[Item]:
        return [entry.item for entry in self.entries if entry.job_id == job_id]

    def job(self, job_id: str) -> Job:
        job, _ = self.jobs[job_id]
        every = self.items(job_id)
        lost = (IngestionState.FAILED, IngestionState.CANCELLED)
        items = [item for item in every if not item.is_crawl or item.state in lost]
        states = Counter(item.state for item in items)
        if not all(item.has_ended for item in every):
            begun = any(item.attempts for item in every)
            return replace(job, state=JobState.RUNNING if begun else JobState.QUEUED, item_count=len(items))
        done, failed = states[IngestionState.DONE], states[IngestionState.FAILED]
        state = JobState.DONE if done or not items else JobState.FAILED if failed else JobState.CANCELLED
        return replace(
            job,
            state=state,
            end_time=job.create_time,
            item_count=len(items),
            done_count=done,
            unchanged_count=sum(item.outcome is IngestionOutcome.UNCHANGED for item in items),
            failed_count=failed,
            cancelled_count=states[IngestionState.CANCELLED],
            chunks=sum((item.chunks for item in items), ChunkCounts()),
        )

    def held(self, claim: Claim) -> _Entry:
        for entry in self.entries:
            if (entry.job_id, entry.item.index, entry.lease_id) == (
                claim.job_id,
                claim.item_index,
                claim.lease_id,
            ):
                return entry
        raise ClaimLostError(claim)

    def finish(self, claim: Claim, document_id: str, outcome: IngestionOutcome, chunks: ChunkCounts) -> None:
        entry = self.held(claim)
        entry.lease_id = ""
        entry.item = replace(
            entry.item,
            state=IngestionState.DONE,
            document_id=document_id,
            outcome=outcome,
            failure=None,
            chunks=chunks,
        )


class MemoryStores:
    """All repositories over the same data; `documents` of another class for faults."""

    def __init__(self, documents: "type[MemoryDocuments] | None" = None) -> None:
        data = _Data()
        self.collections = MemoryCollections(data)
        self.documents = (documents or MemoryDocuments)(data)
        self.jobs = MemoryJobs(data)
        self.queue = MemoryQueue(data)
        self.crawls = MemoryCrawls(data)
        self.reindex = NoReindex()
        self.vector_indexes = NoVectorIndexes()
        self.embeddings = MemoryEmbeddings()
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

    async def store(
        self, collection: Collection, versions: Sequence[NewVersion]
    ) -> Sequence[tuple[str, IngestionOutcome]]:
        self._data.hold(collection)
        for new in versions:
            assert len(new.vectors) == len(new.chunks)
            if new.claim:
                self._data.held(new.claim)
        outcomes = []
        for new in versions:
            current = self._by_uri(collection, new.version.uri)
            count = len(new.chunks)
            stored = self._store(collection, new.version, current, chunk_count=count)
            self._data.chunks[stored.document_id] = tuple(new.chunks)
            is_new = current is None or not current.ingestion_hash
            outcome = IngestionOutcome.CREATED if is_new else IngestionOutcome.UPDATED
            if new.claim:
                self._data.finish(
                    new.claim, stored.document_id, outcome, ChunkCounts(count, count, count, count)
                )
            outcomes.append((stored.document_id, outcome))
        return outcomes

    async def refresh(
        self, collection: Collection, version: DocumentVersion, claim: Claim | None = None
    ) -> tuple[str, IngestionOutcome] | None:
        self._data.hold(collection)
        current = self._by_uri(collection, version.uri)
        if current is None or current.ingestion_hash != version.ingestion_hash:
            return None
        unchanged = (current.metadata, current.allowed_principals) == (
            version.metadata,
            version.allowed_principals,
        )
        outcome = IngestionOutcome.UNCHANGED if unchanged else IngestionOutcome.UPDATED
        if claim:
            self._data.finish(claim, current.document_id, outcome, ChunkCounts())
        self._data.documents[current.document_id] = replace(
            current,
            metadata=version.metadata,
            allowed_principals=version.allowed_principals,
            state=IngestionState.DONE,
            failure=None,
            update_time=current.update_time if unchanged else datetime.now(UTC),
        )
        return current.document_id, outcome

    async def delete(self, collection: Collection, document_id: str) -> bool:
        self._data.hold(collection)
        document = await self.find(collection.collection_id, document_id)
        if document is None:
            return False
        del self._data.documents[document_id]
        self._data.chunks.pop(document_id, None)
        for entry in self._data.entries:
            if (entry.collection_id, entry.item.uri) == (collection.collection_id, document.uri):
                entry.cancel()
        return True

    async def count_selected(
        self, collection: Collection, selection: Filter, principals: Sequence[str]
    ) -> int:
        return len(self._selected(collection, selection, principals))

    async def delete_selected(
        self, collection: Collection, selection: Filter, principals: Sequence[str], request_id: str
    ) -> int:
        self._data.hold(collection)
        key = (collection.collection_id, request_id)
        if request_id and key in self._data.deletions:
            return self._data.deletions[key]
        selected = self._selected(collection, selection, principals)
        for document in selected:
            await self.delete(collection, document.document_id)
        self._data.deletions[key] = len(selected)
        return len(selected)

    async def stats(self, collection: Collection) -> CollectionStats:
        documents = [
            document
            for document in self._data.documents.values()
            if document.collection_id == collection.collection_id
        ]
        chunks = [
            chunk for document in documents for chunk in self._data.chunks.get(document.document_id, ())
        ]
        text_bytes = sum(len(chunk.section.text.encode()) for chunk in chunks)
        return CollectionStats(
            states=Counter(document.state for document in documents),
            chunk_count=len(chunks),
            vector_count=len(chunks),
            orphan_count=0,
            document_bytes=sum(document.size_bytes for document in documents if document.chunk_count),
            text_bytes=text_bytes,
            storage_bytes=text_bytes,
            token_count=0,
            vector_index=VectorIndexState.NONE,
        )

    def add_queued(self, collection: Collection, version: DocumentVersion) -> Document:
        """A document that is handed in, without chunks."""
        version = replace(version, ingestion_hash=b"")
        return self._store(collection, version, None, chunk_count=0, state=IngestionState.QUEUED)

    def by_uri(self, collection: Collection, uri: str) -> Document | None:
        """The document of a uri."""
        return self._by_uri(collection, uri)

    def _selected(
        self, collection: Collection, selection: Filter, principals: Sequence[str]
    ) -> list[Document]:
        return [
            document
            for document in self._data.documents.values()
            if document.collection_id == collection.collection_id
            and is_document_readable(document, principals)
            and is_selected(document, selection)
        ]

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
        chunk_count: int,
        state: IngestionState = IngestionState.DONE,
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
            failure=None,
            create_time=current.create_time if current else now,
            update_time=now,
        )
        self._data.documents[document.document_id] = document
        return document


class MemoryJobs:
    """Implements JobRepository."""

    def __init__(self, data: _Data) -> None:
        self._data = data

    async def enqueue(self, collection: Collection, handed_in: Sequence[HandedIn], request_id: str) -> Job:
        data = self._data
        if collection.collection_id not in data.collections:
            raise NotFoundError("COLLECTION_NOT_FOUND", f"no collection {collection.collection_id!r}")
        if request_id and (earlier := await self.find_by_request_id(collection.collection_id, request_id)):
            return earlier
        job_id, now = str(uuid.uuid4()), datetime.now(UTC)
        documents = MemoryDocuments(data)
        for index, (given, version) in enumerate(handed_in):
            document = documents.by_uri(collection, version.uri) or documents.add_queued(collection, version)
            item = Item(index, version.uri, document.document_id, IngestionState.QUEUED, attempts=0)
            if isinstance(given.content, FileContent):
                given = replace(given, content=b"".join(given.content.parts(1 << 20)))
            data.entries.append(_Entry(job_id, collection.collection_id, given, item))
        data.jobs[job_id] = (
            Job(job_id, collection.collection_id, JobState.QUEUED, now, None, None),
            request_id,
        )
        return data.job(job_id)

    async def find(self, job_id: str) -> Job | None:
        return self._data.job(job_id) if job_id in self._data.jobs else None

    async def find_by_request_id(self, collection_id: str, request_id: str) -> Job | None:
        for job, made_by in self._data.jobs.values():
            if (job.collection_id, made_by) == (collection_id, request_id):
                return self._data.job(job.job_id)
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
        return [
            item
            for item in self._data.items(job_id)
            if item.index > after
            and (item.state is IngestionState.FAILED or not only_failed)
            and (principals is None or self._readable(item, principals))
        ][:limit]

    async def changed_items(
        self, job_id: str, principals: Sequence[str], *, within_seconds: float, limit: int
    ) -> Sequence[Item]:
        return await self.items(job_id, principals, after=-1, limit=limit)

    async def list_readable(
        self,
        principals: Sequence[str],
        *,
        collection_id: str | None,
        before: tuple[datetime, str] | None,
        limit: int,
    ) -> Sequence[Job]:
        found = [
            self._data.job(job_id)
            for job_id, (job, _) in self._data.jobs.items()
            if is_readable(self._data.collections[job.collection_id], principals)
            and collection_id in (None, job.collection_id)
            and (before is None or (job.create_time, job.job_id) < before)
        ]
        return sorted(found, key=lambda job: (job.create_time, job.job_id), reverse=True)[:limit]

    async def cancel(self, job_id: str) -> None:
        for entry in self._data.entries:
            if entry.job_id == job_id:
                entry.cancel()

    async def retry(self, job_id: str) -> int:
        ended = (IngestionState.FAILED, IngestionState.CANCELLED)
        entries = [entry for entry in self._data.entries if entry.job_id == job_id]
        missing = any(entry.is_missing for entry in entries)
        again = [
            entry
            for entry in entries
            if (entry.item.state in ended and not entry.is_missing)
            or (entry.crawl and entry.item.has_ended and missing)
        ]
        for entry in again:
            entry.item = replace(entry.item, state=IngestionState.QUEUED, failure=None, chunks=ChunkCounts())
        return len(again)

    def _readable(self, item: Item, principals: Sequence[str]) -> bool:
        document = self._data.documents.get(item.document_id or "")
        return document is None or is_document_readable(document, principals)


class MemoryQueue:
    """Implements WorkQueue; leases do not run out."""

    def __init__(self, data: _Data) -> None:
        self._data = data

    async def lease(
        self, lease_id: str, *, model: str, limit: int, seconds: float, max_attempts: int
    ) -> Sequence[LeasedItem]:
        leased: list[LeasedItem] = []
        waiting: set[tuple[str, str]] = set()
        for entry in self._data.entries:
            key = (entry.collection_id, entry.item.uri)
            collection = self._data.collections.get(entry.collection_id)
            if entry.item.has_ended or entry.crawl:
                continue
            if not collection or collection.partition.embedding_model != model:
                continue
            if not entry.lease_id and key not in waiting and len(leased) < limit:
                entry.lease_id = lease_id
                attempts = entry.item.attempts + 1
                entry.item = replace(entry.item, state=IngestionState.EXTRACTING, attempts=attempts)
                claim = Claim(entry.job_id, entry.item.index, lease_id)
                leased.append(
                    LeasedItem(
                        claim,
                        JobKind.INGEST,
                        *key,
                        document_id=entry.item.document_id,
                        attempts=attempts,
                        input={},
                    )
                )
            waiting.add(key)
        return leased

    async def given(self, item: LeasedItem) -> DocumentInput:
        given = self._data.held(item.claim).given
        assert given is not None, "only documents are leased"
        return given

    async def require(self, claim: Claim) -> None:
        self._data.held(claim)

    async def extend(self, lease_ids: Sequence[str], seconds: float) -> None:
        """Nothing: leases do not run out."""

    async def progress(self, progress: Sequence[Progress]) -> None:
        for one in progress:
            entry = self._data.held(one.claim)
            entry.item = replace(entry.item, state=one.state, chunks=one.chunks)

    async def spend(self, claim: Claim, usage: Usage) -> None:
        entry = self._data.held(claim)
        entry.item = replace(entry.item, usage=entry.item.usage + usage)

    async def fail(self, claim: Claim, failure: IngestionFailure, chunks: ChunkCounts) -> None:
        entry = self._data.held(claim)
        entry.lease_id = ""
        entry.item = replace(entry.item, state=IngestionState.FAILED, failure=failure, chunks=chunks)
        if document := self._data.documents.get(entry.item.document_id or ""):
            self._data.documents[document.document_id] = replace(
                document, state=IngestionState.FAILED, failure=failure
            )

    async def postpone(self, claim: Claim, seconds: float, failure: IngestionFailure) -> None:
        entry = self._data.held(claim)
        entry.lease_id = ""
        entry.item = replace(entry.item, state=IngestionState.QUEUED, failure=failure)

    async def release(self, lease_ids: Sequence[str]) -> None:
        for entry in self._data.entries:
            if entry.lease_id in lease_ids:
                entry.lease_id = ""
                attempts = entry.item.attempts - 1
                entry.item = replace(entry.item, state=IngestionState.QUEUED, attempts=attempts)

    async def discard(self, older_than_seconds: float) -> None:
        """Nothing: memory goes with the test."""


class MemoryCrawls:
    """Implements CrawlRepository."""

    def __init__(self, data: _Data) -> None:
        self._data = data

    async def enqueue(self, collection: Collection, request: CrawlRequest, request_id: str) -> str:
        jobs = MemoryJobs(self._data)
        job = await jobs.enqueue(collection, [], request_id)
        if not self._data.items(job.job_id):
            item = Item(0, request.start_url, None, IngestionState.QUEUED, attempts=0, is_crawl=True)
            self._data.entries.append(_Entry(job.job_id, collection.collection_id, None, item, crawl=request))
        return job.job_id

    async def lease(
        self, lease_id: str, *, seconds: float, max_attempts: int
    ) -> tuple[LeasedItem, CrawlRequest] | None:
        for entry in self._data.entries:
            if entry.crawl and not entry.item.has_ended and not entry.lease_id:
                entry.lease_id = lease_id
                attempts = entry.item.attempts + 1
                entry.item = replace(entry.item, state=IngestionState.EXTRACTING, attempts=attempts)
                claim = Claim(entry.job_id, entry.item.index, lease_id)
                item = LeasedItem(
                    claim, JobKind.INGEST, entry.collection_id, entry.item.uri, None, attempts, None
                )
                return item, entry.crawl
        return None

    async def is_held(self, claim: Claim) -> bool:
        try:
            self._data.held(claim)
        except ClaimLostError:
            return False
        return True

    async def add_page(self, claim: Claim, collection: Collection, page: HandedIn) -> None:
        given, version = page
        index = self._place(claim, version.uri)
        if index is None:
            return
        documents = MemoryDocuments(self._data)
        document = documents.by_uri(collection, version.uri) or documents.add_queued(collection, version)
        item = Item(index, version.uri, document.document_id, IngestionState.QUEUED, attempts=0)
        self._put(_Entry(claim.job_id, collection.collection_id, given, item, is_page=True))

    async def add_failure(self, claim: Claim, uri: str, failure: IngestionFailure) -> None:
        collection_id = self._data.held(claim).collection_id
        index = self._place(claim, uri)
        if index is not None:
            item = Item(index, uri, None, IngestionState.FAILED, failure=failure, attempts=0)
            self._put(_Entry(claim.job_id, collection_id, None, item, is_page=True))

    async def finish(self, claim: Claim) -> None:
        entry = self._data.held(claim)
        entry.lease_id = ""
        entry.item = replace(entry.item, state=IngestionState.DONE)

    def _place(self, claim: Claim, uri: str) -> int | None:
        self._data.held(claim)
        entries = [entry for entry in self._data.entries if entry.job_id == claim.job_id]
        for entry in entries:
            if entry.is_page and entry.item.uri == uri:
                return entry.item.index if entry.is_missing else None
        return len(entries)

    def _put(self, new: _Entry) -> None:
        for place, entry in enumerate(self._data.entries):
            if (entry.job_id, entry.item.index) == (new.job_id, new.item.index):
                self._data.entries[place] = new
                return
        self._data.entries.append(new)


class NoReindex:
    """Implements ReindexRepository where nothing is indexed again."""

    async def begin(self, *_: object) -> str:
        raise NotImplementedError

    async def text(self, collection_id: str, document_id: str) -> StoredText | None:
        raise NotImplementedError

    async def store(self, item: LeasedItem, version_number: int, new: NewVersion) -> None:
        raise NotImplementedError

    async def skip(self, item: LeasedItem) -> None:
        raise NotImplementedError

    async def settle(self, grace_seconds: float) -> Sequence[str]:
        return ()


class NoVectorIndexes:
    """Implements VectorIndexes for what is never searched."""

    async def build_due(self) -> Sequence[int]:
        return ()


class MemoryEmbeddings:
    """Implements EmbeddingCache."""

    def __init__(self) -> None:
        self._vectors: dict[tuple[str, bytes], Vectors] = {}

    async def get(self, model: str, hashes: Sequence[bytes]) -> Mapping[bytes, Vectors]:
        return {key: self._vectors[model, key] for key in hashes if (model, key) in self._vectors}

    async def put(self, model: str, vectors: Mapping[bytes, Vectors]) -> None:
        self._vectors |= {(model, key): vector for key, vector in vectors.items()}

    async def discard(self, older_than_seconds: float, limit: int) -> int:
        return 0
