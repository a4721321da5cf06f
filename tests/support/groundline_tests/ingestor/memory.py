"""The stores in memory."""

import operator
import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from google.protobuf.struct_pb2 import Struct
from groundline.v1 import chat_pb2, collection_pb2, document_pb2, error_pb2, job_pb2, passage_pb2
from groundline.v1 import ingestor_service_pb2 as pb
from groundline_filters import Filter
from groundline_ingestor.domain.collections import StoredCollection, is_readable
from groundline_ingestor.domain.documents import (
    DocumentOrder,
    DocumentPlace,
    DocumentVersion,
    FileContent,
    GivenDocument,
    Member,
    StoredText,
    TextPart,
    is_document_readable,
)
from groundline_ingestor.domain.jobs import (
    ItemState,
    JobKind,
    ReindexStep,
    StoredJob,
    Tally,
    begin,
    cancel,
    fail,
    finish,
    lose,
    move,
    next_reindex_step,
    plus,
    postpone,
    release,
    retry,
    skip,
    summarize,
)
from groundline_ingestor.domain.quotas import CallerUse, CollectionUse
from groundline_ingestor.domain.sources import OrderedRun
from groundline_ingestor.domain.texts import DocumentText, PreparedChunk, TextSegment, Vectors
from groundline_ingestor.domain.times import timestamp
from groundline_ingestor.domain.work import (
    ItemClaim,
    LeasedItem,
    NewVersion,
    OrderedCrawl,
    Progress,
    ReindexTarget,
)
from groundline_ingestor.ports import ClaimLostError, HandedIn, StoredOutcome
from groundline_ingestor.segments import kept_segments
from groundline_runtime.errors import (
    AbortedError,
    AlreadyExistsError,
    FailedPreconditionError,
    NotFoundError,
    PermissionDeniedError,
)

from groundline_tests.ingestor.filters import is_selected

__all__ = ["MemoryDocuments", "MemoryStores"]


@dataclass
class _Entry:
    """An item with what is stored beside its state."""

    job_id: str
    collection_id: str
    index: int
    uri: str
    document_id: str = ""
    given: GivenDocument | None = None
    """None of a crawl, of a page that could not be had, and in a re-index."""
    item: ItemState = field(default_factory=ItemState)
    crawl: OrderedCrawl | None = None
    is_page: bool = False
    container_uri: str = ""
    member_count: int = 0
    usage: chat_pb2.Usage = field(default_factory=chat_pb2.Usage)
    create_time: datetime = field(default_factory=lambda: datetime.now(UTC))
    lease_end: float = 0.0
    lease_seconds: float = 0.0

    @property
    def is_missing(self) -> bool:
        """A page that could not be had."""
        is_lost = self.item.state == document_pb2.INGESTION_STATE_FAILED
        return self.is_page and self.given is None and is_lost

    def shown(self) -> job_pb2.IngestionItem:
        return job_pb2.IngestionItem(
            item_index=self.index,
            uri=self.uri,
            document_id=self.document_id,
            state=self.item.state,
            outcome=self.item.outcome,
            failure=self.item.failure,
            attempts=self.item.attempts,
            chunks=self.item.chunks,
            usage=self.usage if self.usage.ByteSize() else None,
            is_crawl=self.crawl is not None,
            container_uri=self.container_uri,
            member_count=self.member_count,
        )

    def tally(self) -> Tally:
        return Tally(
            state=self.item.state,
            is_crawl=self.crawl is not None,
            is_begun=self.item.attempts > 0,
            is_unchanged=self.item.outcome == job_pb2.INGESTION_OUTCOME_UNCHANGED,
            is_skipped=self.item.outcome == job_pb2.INGESTION_OUTCOME_SKIPPED,
            chunks=self.item.chunks,
            usage=self.usage,
            end_time=self.create_time if self.item.has_ended else None,
        )


@dataclass
class _Document:
    """A document with what is stored beside it."""

    message: document_pb2.Document
    version: DocumentVersion
    number: int = 1
    segments: Sequence[TextSegment] = ()
    original: bytes = b""


@dataclass
class _Data:
    collections: dict[str, StoredCollection] = field(default_factory=dict)
    requests: dict[tuple[str, str], str] = field(default_factory=dict)
    """Collections by creator and request."""
    documents: dict[str, _Document] = field(default_factory=dict)
    chunks: dict[tuple[int, str], Sequence[PreparedChunk]] = field(default_factory=dict)
    """By partition and document."""
    jobs: dict[str, StoredJob] = field(default_factory=dict)
    job_requests: dict[tuple[str, str], str] = field(default_factory=dict)
    job_principals: dict[str, tuple[str, ...]] = field(default_factory=dict)
    creators: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Of collections, with the request_id that created each."""
    targets: dict[str, ReindexTarget] = field(default_factory=dict)
    """Of re-indexes, by job."""
    reindexed: dict[tuple[int, str], int] = field(default_factory=dict)
    """The number of the version that a partition being built holds of a document."""
    entries: list[_Entry] = field(default_factory=list)
    deletions: dict[tuple[str, str], int] = field(default_factory=dict)
    partitions: int = 0

    def collection(
        self, collection_id: str, principals: Sequence[str] | None = None
    ) -> StoredCollection | None:
        stored = self.collections.get(collection_id)
        if stored is None:
            return None
        counts = [
            one.message.chunk_count
            for one in self.documents_of(collection_id)
            if principals is None or is_document_readable(one.message, principals)
        ]
        message = collection_pb2.Collection()
        message.CopyFrom(stored.message)
        message.document_count = sum(1 for count in counts if count)
        message.chunk_count = sum(counts)
        return StoredCollection(message, stored.partition_id)

    def documents_of(self, collection_id: str) -> list[_Document]:
        return [one for one in self.documents.values() if one.message.collection_id == collection_id]

    def within(self, collection_id: str, uris: Collection[str]) -> list[_Document]:
        """The documents within those of the uris, at all depths."""
        inside = [one for one in self.documents_of(collection_id) if one.version.container_uri in uris]
        deeper = self.within(collection_id, {one.message.uri for one in inside}) if inside else []
        return inside + deeper

    def hold(self, collection: StoredCollection) -> None:
        current = self.collections.get(collection.collection_id)
        if current is None:
            raise NotFoundError("COLLECTION_NOT_FOUND", f"no collection {collection.collection_id!r}")
        if current.partition_id != collection.partition_id:
            raise AbortedError("COLLECTION_CHANGED", "the collection was indexed again meanwhile; try again")

    def entries_of(self, job_id: str) -> list[_Entry]:
        return [entry for entry in self.entries if entry.job_id == job_id]

    def document(self, collection_id: str, uri: str) -> _Document | None:
        return next((one for one in self.documents_of(collection_id) if one.message.uri == uri), None)

    def is_visible(self, entry: _Entry, principals: Sequence[str] | None) -> bool:
        if principals is None or self.job_principals[entry.job_id][:1] == tuple(principals[:1]) != ():
            return True
        allowed = entry.given.allowed_principals if entry.given else ()
        if allowed and set(allowed).isdisjoint(principals):
            return False
        document = self.document(entry.collection_id, entry.uri)
        return document is None or is_document_readable(document.message, principals)

    def is_replaceable(self, document: _Document, principals: Sequence[str], container_uri: str = "") -> bool:
        return (
            not document.version.ingestion_hash
            or is_document_readable(document.message, principals)
            or (container_uri != "" and document.version.container_uri == container_uri)
        )

    def job(self, job_id: str, principals: Sequence[str] | None) -> job_pb2.IngestionJob:
        tallies = [
            replace(entry.tally(), is_visible=self.is_visible(entry, principals))
            for entry in self.entries_of(job_id)
        ]
        return summarize(self.jobs[job_id], tallies)

    def add_job(
        self,
        collection_id: str,
        request_id: str,
        principals: Sequence[str] = (),
        kind: JobKind = JobKind.INGEST,
    ) -> tuple[str, bool]:
        """Its id, which is the earlier one's for a known request, and whether it is new."""
        if collection_id not in self.collections:
            raise NotFoundError("COLLECTION_NOT_FOUND", f"no collection {collection_id!r}")
        if request_id and (earlier := self.job_requests.get((collection_id, request_id))):
            return earlier, False
        job_id = str(uuid.uuid4())
        self.jobs[job_id] = StoredJob(job_id, collection_id, kind, datetime.now(UTC))
        self.job_principals[job_id] = tuple(principals)
        if request_id:
            self.job_requests[collection_id, request_id] = job_id
        return job_id, True

    def held(self, claim: ItemClaim) -> _Entry:
        for entry in self.entries:
            if (entry.job_id, entry.index, entry.item.lease_id) == (
                claim.job_id,
                claim.item_index,
                claim.lease_id,
            ):
                return entry
        raise ClaimLostError(claim)

    def finish(self, claim: ItemClaim, stored: StoredOutcome, chunk_count: int) -> None:
        entry = self.held(claim)
        entry.document_id, outcome = stored
        entry.item = finish(entry.item, outcome, chunk_count)

    def lease(self, entry: _Entry, lease_id: str, seconds: float, *, alone: bool) -> ItemClaim:
        entry.item = begin(entry.item, lease_id, alone=alone)
        entry.lease_seconds, entry.lease_end = seconds, time.monotonic() + seconds
        return ItemClaim(entry.job_id, entry.index, lease_id)


class MemoryStores:
    """All repositories over the same data; `documents` of another class for faults."""

    def __init__(self, documents: "type[MemoryDocuments] | None" = None) -> None:
        data = _Data()
        self.collections = MemoryCollections(data)
        self.documents = (documents or MemoryDocuments)(data)
        self.jobs = MemoryJobs(data)
        self.queue = MemoryQueue(data)
        self.crawls = MemoryCrawls(data)
        self.reindex = MemoryReindex(data)
        self.lexical_indexes = NoLexicalIndexes()
        self.vector_indexes = NoVectorIndexes()
        self.embeddings = MemoryEmbeddings()
        self.quotas = MemoryQuotas(data)
        self._data = data

    async def texts_of(self, collection: StoredCollection, document_id: str) -> Sequence[str]:
        """The stored chunks of a document, in order."""
        chunks = self._data.chunks.get((collection.partition_id, document_id), ())
        return [chunk.section.text for chunk in chunks]

    def chunks_of(self, document_id: str) -> Sequence[PreparedChunk]:
        """The stored chunks of a document with their context, in order."""
        stored = self._data.documents[document_id].message
        partition_id = self._data.collections[stored.collection_id].partition_id
        return self._data.chunks.get((partition_id, document_id), ())


class MemoryQuotas:
    """Implements QuotaRepository."""

    def __init__(self, data: _Data) -> None:
        self._data = data

    async def used_by(self, owner: str, *, request_id: str = "") -> CallerUse:
        data = self._data
        created = [
            data.creators[name]
            for name in data.collections
            if data.creators[name][0] == owner and not (request_id and data.creators[name][1] == request_id)
        ]
        pending = {entry.job_id for entry in data.entries if not entry.item.has_ended}
        jobs = [job_id for job_id in pending if (data.job_principals[job_id] or ("",))[0] == owner]
        return CallerUse(len(created), len(jobs))

    async def used_in(self, collection_id: str, *, uris: Sequence[str] = ()) -> CollectionUse:
        documents = [
            each.message for each in self._data.documents_of(collection_id) if each.message.uri not in uris
        ]
        return CollectionUse(len(documents), sum(each.size_bytes for each in documents))


class MemoryCollections:
    """Implements CollectionRepository."""

    def __init__(self, data: _Data) -> None:
        self._data = data

    async def create(
        self, collection: collection_pb2.Collection, creator: str, request_id: str
    ) -> StoredCollection:
        data = self._data
        if (creator, request_id) in data.requests:
            repeated = data.collection(data.requests[creator, request_id])
            assert repeated is not None
            return repeated
        if collection.collection_id in data.collections:
            raise AlreadyExistsError(
                "COLLECTION_EXISTS", f"the collection id {collection.collection_id!r} is taken"
            )
        data.partitions += 1
        message = collection_pb2.Collection()
        message.CopyFrom(collection)
        message.create_time.FromDatetime(datetime.now(UTC))
        message.update_time.CopyFrom(message.create_time)
        created = StoredCollection(message, data.partitions)
        data.collections[collection.collection_id] = created
        data.creators[collection.collection_id] = (creator, request_id)
        if request_id:
            data.requests[creator, request_id] = collection.collection_id
        return created

    async def find(
        self, collection_id: str, principals: Sequence[str] | None = None
    ) -> StoredCollection | None:
        return self._data.collection(collection_id, principals)

    async def list_readable(
        self, principals: Sequence[str], *, after: str, limit: int
    ) -> Sequence[StoredCollection]:
        found = [
            collection
            for collection_id in sorted(self._data.collections)
            if collection_id > after and (collection := self._data.collection(collection_id, principals))
        ]
        return [one for one in found if is_readable(one.message, principals)][:limit]

    async def update(self, changed: collection_pb2.Collection) -> bool:
        current = self._data.collections.get(changed.collection_id)
        if current is None or current.message.update_time != changed.update_time:
            return False
        message = collection_pb2.Collection()
        message.CopyFrom(changed)
        message.update_time.FromDatetime(datetime.now(UTC))
        self._data.collections[changed.collection_id] = replace(current, message=message)
        return True

    async def delete(self, collection_id: str) -> bool:
        data = self._data
        if data.collections.pop(collection_id, None) is None:
            return False
        data.requests = {key: value for key, value in data.requests.items() if value != collection_id}
        data.jobs = {key: job for key, job in data.jobs.items() if job.collection_id != collection_id}
        data.job_requests = {key: job for key, job in data.job_requests.items() if key[0] != collection_id}
        for document in data.documents_of(collection_id):
            del data.documents[document.message.document_id]
        return True


class MemoryDocuments:
    """Implements DocumentRepository."""

    def __init__(self, data: _Data) -> None:
        self._data = data

    async def find(self, collection_id: str, document_id: str) -> document_pb2.Document | None:
        document = self._data.documents.get(document_id)
        is_here = document and document.message.collection_id == collection_id
        return document.message if document and is_here else None

    async def list_readable(
        self,
        collection_id: str,
        principals: Sequence[str],
        *,
        selection: Filter,
        order: DocumentOrder,
        after: DocumentPlace | None,
        limit: int,
    ) -> Sequence[document_pb2.Document]:
        found = self._selected(collection_id, selection, principals)
        found.sort(key=order.place_of, reverse=order.is_descending)
        if after is not None:
            beyond: Callable[[Any, Any], bool] = operator.lt if order.is_descending else operator.gt
            found = [one for one in found if beyond(order.place_of(one), after)]
        return found[:limit]

    async def text(
        self, collection_id: str, document_id: str, principals: Sequence[str], *, start: int, limit: int
    ) -> TextPart:
        message = await self.find(collection_id, document_id)
        if message is None or not is_document_readable(message, principals):
            return TextPart("", 0)
        whole = "".join(segment.text for segment in self._data.documents[document_id].segments)
        return TextPart(whole[start : start + limit], len(whole))

    async def original(
        self, document: document_pb2.Document, principals: Sequence[str], *, part: int
    ) -> bytes | None:
        current = self._data.documents.get(document.document_id)
        if current is None or part or current.message.content_hash != document.content_hash:
            return None
        return current.original if is_document_readable(current.message, principals) else None

    async def chunks(
        self,
        collection: StoredCollection,
        document_id: str,
        principals: Sequence[str],
        *,
        after: int,
        limit: int,
    ) -> Sequence[passage_pb2.Chunk]:
        message = await self.find(collection.collection_id, document_id)
        if message is None or not is_document_readable(message, principals):
            return []
        stored = self._data.chunks.get((collection.partition_id, document_id), ())
        chunks = [_chunk(message, index, chunk) for index, chunk in enumerate(stored)]
        return chunks[after + 1 :][:limit]

    async def store(
        self, collection: StoredCollection, versions: Sequence[NewVersion]
    ) -> Sequence[StoredOutcome]:
        self._data.hold(collection)
        for new in versions:
            self._require_replaceable(collection, new.version, new.principals)
            assert len(new.vectors) == len(new.chunks)
            if new.claim:
                self._data.held(new.claim)
        outcomes: list[StoredOutcome] = []
        for new in versions:
            current = self.by_uri(collection, new.version.uri)
            is_new = current is None or not current.version.ingestion_hash
            stored = self._put(
                collection, new.version, current, len(new.chunks), document_pb2.INGESTION_STATE_DONE
            )
            stored.segments = tuple(new.segments)
            document_id = stored.message.document_id
            self._data.chunks[collection.partition_id, document_id] = tuple(new.chunks)
            outcome = job_pb2.INGESTION_OUTCOME_CREATED if is_new else job_pb2.INGESTION_OUTCOME_UPDATED
            outcomes.append((document_id, outcome))
            self._keep_original(collection, stored, new.claim)
            if new.members is not None:
                self._replace_members(collection, new, new.members)
            if new.claim:
                self._data.finish(new.claim, outcomes[-1], len(new.chunks))
        return outcomes

    def _replace_members(
        self, collection: StoredCollection, new: NewVersion, members: Sequence[Member]
    ) -> None:
        data, uri = self._data, new.version.uri
        kept = {one.version.uri for one in members if not one.is_skipped}
        for one in data.within(collection.collection_id, {uri}):
            if one.message.uri not in kept:
                self._delete(one.message)
            else:
                one.version = replace(one.version, allowed_principals=new.version.allowed_principals)
                one.message.allowed_principals[:] = new.version.allowed_principals
        for member in members:
            assert new.claim is not None
            index = len(data.entries_of(new.claim.job_id))
            entry = _Entry(new.claim.job_id, collection.collection_id, index, member.version.uri)
            entry.container_uri = member.given.container_uri
            if member.failure is None:
                content = member.given.content
                if isinstance(content, FileContent):
                    content = b"".join(content.parts(1 << 20))
                entry.given = replace(member.given, content=content)
                known = self.known(collection, member.version)
                principals = data.job_principals[new.claim.job_id]
                if data.is_replaceable(known, principals, entry.container_uri):
                    entry.document_id = known.message.document_id
            elif member.is_skipped:
                entry.item = skip(ItemState(), member.failure)
            else:
                entry.item = fail(ItemState(), member.failure, job_pb2.ChunkCounts())
            data.entries.append(entry)
            data.held(new.claim).member_count += 1

    async def refresh(
        self,
        collection: StoredCollection,
        version: DocumentVersion,
        principals: Sequence[str],
        claim: ItemClaim | None = None,
    ) -> StoredOutcome | None:
        self._data.hold(collection)
        self._require_replaceable(collection, version, principals)
        current = self.by_uri(collection, version.uri)
        if current is None or current.version.ingestion_hash != version.ingestion_hash:
            return None
        is_unchanged = _beside_the_text(current.version) == _beside_the_text(version)
        within = self._data.within(collection.collection_id, {version.uri})
        is_done = all(one.message.state == document_pb2.INGESTION_STATE_DONE for one in within)
        if not version.container_uri and within and not (is_unchanged and is_done):
            return None
        message = current.message
        self._keep_original(collection, current, claim)
        outcome: StoredOutcome = message.document_id, job_pb2.INGESTION_OUTCOME_UNCHANGED
        if not is_unchanged:
            outcome = message.document_id, job_pb2.INGESTION_OUTCOME_UPDATED
        if claim:
            self._data.finish(claim, outcome, 0)
        if not is_unchanged:
            changed = replace(
                current.version,
                metadata=version.metadata,
                allowed_principals=version.allowed_principals,
                container_uri=version.container_uri,
            )
            stored = self._put(
                collection, changed, current, message.chunk_count, document_pb2.INGESTION_STATE_DONE
            )
            stored.segments, stored.original = current.segments, current.original
            stored.message.has_original = bool(stored.original)
        else:
            message.state = document_pb2.INGESTION_STATE_DONE
            message.ClearField("failure")
        return outcome

    async def delete(self, collection: StoredCollection, document_id: str) -> bool:
        self._data.hold(collection)
        document = await self.find(collection.collection_id, document_id)
        if document is None:
            return False
        for one in self._data.within(collection.collection_id, {document.uri}):
            self._delete(one.message)
        self._delete(document)
        return True

    async def count_selected(
        self, collection: StoredCollection, selection: Filter, principals: Sequence[str]
    ) -> int:
        return len(self._with_those_within(collection, selection, principals))

    async def delete_selected(
        self, collection: StoredCollection, selection: Filter, principals: Sequence[str], request_id: str
    ) -> int:
        self._data.hold(collection)
        key = (collection.collection_id, request_id)
        if request_id and key in self._data.deletions:
            return self._data.deletions[key]
        selected = self._with_those_within(collection, selection, principals)
        for document in selected.values():
            self._delete(document)
        self._data.deletions[key] = len(selected)
        return len(selected)

    async def stats(self, collection: StoredCollection, principals: Sequence[str]) -> pb.CollectionStats:
        documents = [
            one.message
            for one in self._data.documents_of(collection.collection_id)
            if is_document_readable(one.message, principals)
        ]
        chunks = [
            chunk
            for document in documents
            for chunk in self._data.chunks.get((collection.partition_id, document.document_id), ())
        ]
        text_bytes = sum(len(chunk.section.text.encode()) for chunk in chunks)
        states = Counter(document.state for document in documents)
        return pb.CollectionStats(
            states=[pb.StateCount(state=state, document_count=states[state]) for state in sorted(states)],
            chunk_count=len(chunks),
            vector_count=len(chunks),
            document_bytes=sum(document.size_bytes for document in documents if document.chunk_count),
            text_bytes=text_bytes,
            storage_bytes=text_bytes,
            vector_index=pb.VECTOR_INDEX_STATE_NONE,
        )

    def _keep_original(
        self, collection: StoredCollection, document: _Document, claim: ItemClaim | None
    ) -> None:
        given = self._data.held(claim).given if claim and collection.settings.keep_originals else None
        if given is not None:
            content = given.content
            assert not isinstance(content, FileContent)
            document.original = content.encode() if isinstance(content, str) else content
            document.message.has_original = True

    def by_uri(self, collection: StoredCollection, uri: str) -> _Document | None:
        """The document of a uri."""
        return self._data.document(collection.collection_id, uri)

    def known(self, collection: StoredCollection, version: DocumentVersion) -> _Document:
        """The document of a uri; a new one is there from now on, without chunks."""
        return self.by_uri(collection, version.uri) or self._put(
            collection,
            replace(version, ingestion_hash=b""),
            None,
            0,
            document_pb2.INGESTION_STATE_QUEUED,
        )

    def _require_replaceable(
        self, collection: StoredCollection, version: DocumentVersion, principals: Sequence[str]
    ) -> None:
        current = self.by_uri(collection, version.uri)
        if current and not self._data.is_replaceable(current, principals, version.container_uri):
            raise PermissionDeniedError("DOCUMENT_NOT_WRITABLE", "the caller may not read it")

    def _selected(
        self, collection_id: str, selection: Filter, principals: Sequence[str]
    ) -> list[document_pb2.Document]:
        return [
            one.message
            for one in self._data.documents_of(collection_id)
            if is_document_readable(one.message, principals)
            and is_selected(one.message, one.version.metadata, selection)
        ]

    def _with_those_within(
        self, collection: StoredCollection, selection: Filter, principals: Sequence[str]
    ) -> dict[str, document_pb2.Document]:
        """By id."""
        selected = self._selected(collection.collection_id, selection, principals)
        within = self._data.within(collection.collection_id, {one.uri for one in selected})
        return {one.document_id: one for one in (*selected, *(inner.message for inner in within))}

    def _delete(self, document: document_pb2.Document) -> None:
        self.remove(document)
        for entry in self._data.entries:
            if (entry.collection_id, entry.uri) == (document.collection_id, document.uri):
                entry.item = cancel(entry.item)

    def remove(self, document: document_pb2.Document) -> None:
        """Delete a document; what is still to be done brings it back."""
        del self._data.documents[document.document_id]
        for key in [key for key in self._data.chunks if key[1] == document.document_id]:
            del self._data.chunks[key]

    def _put(
        self,
        collection: StoredCollection,
        version: DocumentVersion,
        current: _Document | None,
        chunk_count: int,
        state: document_pb2.IngestionState.ValueType,
    ) -> _Document:
        now = datetime.now(UTC)
        metadata = Struct()
        metadata.update(version.metadata)
        message = document_pb2.Document(
            document_id=current.message.document_id if current else str(uuid.uuid4()),
            collection_id=collection.collection_id,
            uri=version.uri,
            source_type=version.source_type,
            title=version.title,
            mime_type=version.mime_type,
            content_hash=version.content_hash.hex(),
            size_bytes=version.size_bytes,
            metadata=metadata,
            allowed_principals=version.allowed_principals,
            state=state,
            chunk_count=chunk_count,
            container_uri=version.container_uri,
            create_time=current.message.create_time if current else timestamp(now),
            update_time=timestamp(now),
        )
        stored = _Document(message, version, current.number + 1 if current else 1)
        self._data.documents[message.document_id] = stored
        return stored


def _beside_the_text(version: DocumentVersion) -> tuple[Any, ...]:
    return version.metadata, version.allowed_principals, version.container_uri


def _chunk(document: document_pb2.Document, index: int, chunk: PreparedChunk) -> passage_pb2.Chunk:
    message = passage_pb2.Chunk(
        chunk_id=str(index),
        document_id=document.document_id,
        collection_id=document.collection_id,
        chunk_index=index,
        text=chunk.section.text,
        context=chunk.context,
        title=document.title,
        uri=document.uri,
        source_type=document.source_type,
        mime_type=document.mime_type,
        start_offset=chunk.section.start,
        end_offset=chunk.section.end,
        metadata=document.metadata,
        update_time=document.update_time,
        has_original=document.has_original,
    )
    if chunk.page and "page" not in message.metadata:
        message.metadata["page"] = chunk.page
    return message


class MemoryJobs:
    """Implements JobRepository."""

    def __init__(self, data: _Data) -> None:
        self._data = data

    async def enqueue(
        self,
        collection: StoredCollection,
        handed_in: Sequence[HandedIn],
        principals: Sequence[str],
        request_id: str,
    ) -> job_pb2.IngestionJob:
        data = self._data
        job_id, is_new = data.add_job(collection.collection_id, request_id, principals)
        documents = MemoryDocuments(data)
        for index, (given, version) in enumerate(handed_in if is_new else ()):
            if isinstance(given.content, FileContent):
                given = replace(given, content=b"".join(given.content.parts(1 << 20)))
            known = documents.known(collection, version)
            document_id = known.message.document_id if data.is_replaceable(known, principals) else ""
            data.entries.append(
                _Entry(job_id, collection.collection_id, index, version.uri, document_id, given)
            )
        return data.job(job_id, principals)

    async def find(self, job_id: str, principals: Sequence[str] | None = None) -> job_pb2.IngestionJob | None:
        return self._data.job(job_id, principals) if job_id in self._data.jobs else None

    async def find_all(
        self, job_ids: Sequence[str], principals: Sequence[str]
    ) -> Mapping[str, job_pb2.IngestionJob]:
        return {one: self._data.job(one, principals) for one in job_ids if one in self._data.jobs}

    async def find_by_request_id(
        self, collection_id: str, request_id: str, principals: Sequence[str] | None = None
    ) -> job_pb2.IngestionJob | None:
        job_id = self._data.job_requests.get((collection_id, request_id))
        return self._data.job(job_id, principals) if job_id else None

    async def items(
        self,
        job_id: str,
        principals: Sequence[str] | None,
        *,
        after: int,
        limit: int,
        only_failed: bool = False,
    ) -> Sequence[job_pb2.IngestionItem]:
        return [
            entry.shown()
            for entry in sorted(self._data.entries_of(job_id), key=lambda entry: entry.index)
            if entry.index > after
            and (entry.item.state == document_pb2.INGESTION_STATE_FAILED or not only_failed)
            and self._data.is_visible(entry, principals)
        ][:limit]

    async def changed_items(
        self, job_id: str, principals: Sequence[str], *, within_seconds: float, limit: int
    ) -> Sequence[job_pb2.IngestionItem]:
        return await self.items(job_id, principals, after=-1, limit=limit)

    async def list_readable(
        self,
        principals: Sequence[str],
        *,
        collection_id: str | None,
        before: tuple[datetime, str] | None,
        limit: int,
    ) -> Sequence[job_pb2.IngestionJob]:
        found = [
            job
            for job in self._data.jobs.values()
            if is_readable(self._data.collections[job.collection_id].message, principals)
            and collection_id in (None, job.collection_id)
            and (before is None or (job.create_time, job.job_id) < before)
        ]
        newest = sorted(found, key=lambda job: (job.create_time, job.job_id), reverse=True)
        return [self._data.job(job.job_id, principals) for job in newest[:limit]]

    async def cancel(self, job_id: str) -> None:
        for entry in self._data.entries_of(job_id):
            entry.item = cancel(entry.item)
        job = self._data.jobs[job_id]
        if job.kind is JobKind.REINDEX and job.end_time is None:
            job = replace(job, state=job_pb2.JOB_STATE_CANCELLED, end_time=datetime.now(UTC))
        self._data.jobs[job_id] = replace(job, is_cancelled=True)

    async def retry(self, job_id: str) -> int:
        entries = self._data.entries_of(job_id)
        is_incomplete = any(entry.is_missing for entry in entries)
        again = [entry for entry in entries if self._can_be_retried(entry, is_incomplete)]
        for entry in again:
            entry.item = retry(entry.item)
        if again:
            self._data.jobs[job_id] = replace(self._data.jobs[job_id], is_cancelled=False)
        return len(again)

    def _can_be_retried(self, entry: _Entry, is_incomplete: bool) -> bool:
        lost = (document_pb2.INGESTION_STATE_FAILED, document_pb2.INGESTION_STATE_CANCELLED)
        if entry.crawl and not entry.crawl.is_dry_run:
            return entry.item.state in lost or (entry.item.has_ended and is_incomplete)
        return entry.item.state in lost and entry.given is not None


class MemoryQueue:
    """Implements WorkQueue."""

    def __init__(self, data: _Data) -> None:
        self._data = data

    async def lease(
        self,
        lease_id: str,
        *,
        model: str,
        limit: int,
        seconds: float,
        suspect: bool = False,
        passed_over: Sequence[str] = (),
    ) -> Sequence[LeasedItem]:
        available = [
            one
            for one in self._available(model)
            if one.item.is_suspect == suspect
            and next(iter(self._data.job_principals[one.job_id]), "") not in passed_over
        ][:limit]
        return [
            LeasedItem(
                self._data.lease(entry, lease_id, seconds, alone=suspect),
                entry.collection_id,
                entry.uri,
                document_id=entry.document_id,
                attempts=entry.item.counted_attempts,
                input={} if entry.given else None,
                target=self._data.targets.get(entry.job_id),
                principals=self._data.job_principals[entry.job_id],
                given=entry.given,
                container_uri=entry.container_uri,
                is_first=self._is_first(entry),
            )
            for entry in available
        ]

    def _is_first(self, entry: _Entry) -> bool:
        document = self._data.documents.get(entry.document_id)
        return document is not None and not document.version.ingestion_hash

    async def has_suspects(self, model: str) -> bool:
        return any(entry.item.is_suspect for entry in self._available(model))

    async def given(self, item: LeasedItem) -> GivenDocument:
        given = self._data.held(item.claim).given
        assert given is not None, "only documents are read"
        return given

    async def require(self, claim: ItemClaim) -> None:
        self._data.held(claim)

    async def extend(self, lease_ids: Sequence[str]) -> None:
        for entry in self._data.entries:
            if entry.item.lease_id in lease_ids:
                entry.lease_end = time.monotonic() + entry.lease_seconds

    async def expire(self, maximum_attempts: int) -> int:
        lost = [
            entry
            for entry in self._data.entries
            if entry.item.lease_id and entry.lease_end < time.monotonic()
        ]
        for entry in lost:
            entry.item = lose(entry.item, maximum_attempts)
            if entry.item.has_ended:
                self._mark_failed(entry)
        return len(lost)

    async def progress(self, progress: Sequence[Progress]) -> None:
        for one in progress:
            self._change(one.claim, partial(move, stage=one.state, chunks=one.chunks))

    async def spend(self, usages: Sequence[tuple[ItemClaim, chat_pb2.Usage]]) -> None:
        for claim, usage in usages:
            with suppress(ClaimLostError):
                entry = self._data.held(claim)
                entry.usage = plus(chat_pb2.Usage, [entry.usage, usage])

    async def fail(
        self, claim: ItemClaim, failure: document_pb2.IngestionFailure, chunks: job_pb2.ChunkCounts
    ) -> None:
        self._mark_failed(self._change(claim, partial(fail, failure=failure, chunks=chunks)))

    async def skip(self, claim: ItemClaim, failure: document_pb2.IngestionFailure) -> None:
        entry = self._change(claim, partial(skip, failure=failure))
        document = self._data.documents.get(entry.document_id)
        principals = self._data.job_principals[entry.job_id]
        if document and self._data.is_replaceable(document, principals, entry.container_uri):
            documents = MemoryDocuments(self._data)
            for one in self._data.within(entry.collection_id, {entry.uri}):
                documents.remove(one.message)
            documents.remove(document.message)
        entry.document_id, entry.given = "", None

    async def postpone(
        self, claim: ItemClaim, seconds: float, failure: document_pb2.IngestionFailure, *, forgiven: bool
    ) -> None:
        self._change(claim, partial(postpone, failure=failure, forgiven=forgiven))

    async def release(self, lease_ids: Sequence[str]) -> None:
        for entry in self._data.entries:
            if entry.item.lease_id in lease_ids:
                entry.item = release(entry.item)

    async def discard(self, older_than_seconds: float) -> None:
        """Nothing: memory goes with the test."""

    def _available(self, model: str) -> list[_Entry]:
        available: list[_Entry] = []
        waiting: set[tuple[str, str]] = set()
        for entry in self._data.entries:
            collection = self._data.collections.get(entry.collection_id)
            if entry.item.has_ended or entry.crawl or not collection:
                continue
            target = self._data.targets.get(entry.job_id)
            key = (entry.collection_id, entry.uri)
            is_turn = target is not None or key not in waiting
            settings = target.settings if target else collection.settings
            if is_turn and not entry.item.lease_id and settings.embedding.model == model:
                available.append(entry)
            waiting.add(key)
        return available

    def _change(self, claim: ItemClaim, transition: Callable[[ItemState], ItemState]) -> _Entry:
        entry = self._data.held(claim)
        entry.item = transition(entry.item)
        return entry

    def _mark_failed(self, entry: _Entry) -> None:
        document = self._data.documents.get(entry.document_id)
        principals = self._data.job_principals[entry.job_id]
        if not document or not entry.given:
            return
        if self._data.is_replaceable(document, principals, entry.container_uri):
            document.message.state = document_pb2.INGESTION_STATE_FAILED
            assert entry.item.failure is not None
            document.message.failure.CopyFrom(entry.item.failure)


class MemoryCrawls:
    """Implements CrawlRepository."""

    def __init__(self, data: _Data) -> None:
        self._data = data

    async def enqueue(
        self,
        collection: StoredCollection,
        crawl: OrderedCrawl,
        principals: Sequence[str],
        request_id: str,
    ) -> str:
        job_id, is_new = self._data.add_job(collection.collection_id, request_id, principals)
        if is_new:
            jobs = self._data.jobs
            jobs[job_id] = replace(jobs[job_id], is_dry_run=crawl.is_dry_run)
            entry = _Entry(job_id, collection.collection_id, 0, crawl.request.start_url, crawl=crawl)
            self._data.entries.append(entry)
        return job_id

    async def lease(
        self, lease_id: str, *, seconds: float, alone: bool
    ) -> tuple[LeasedItem, OrderedCrawl] | None:
        for entry in self._data.entries:
            if entry.crawl and not entry.item.has_ended and not entry.item.lease_id:
                if entry.item.is_suspect and not alone:
                    return None
                claim = self._data.lease(entry, lease_id, seconds, alone=entry.item.is_suspect)
                attempts = entry.item.counted_attempts
                return LeasedItem(claim, entry.collection_id, entry.uri, "", attempts), entry.crawl
        return None

    async def is_held(self, claim: ItemClaim) -> bool:
        try:
            self._data.held(claim)
        except ClaimLostError:
            return False
        return True

    async def add_page(self, claim: ItemClaim, collection: StoredCollection, page: HandedIn) -> None:
        given, version = page
        index = self._place(claim, version.uri)
        if index is None:
            return
        known = MemoryDocuments(self._data).known(collection, version)
        is_known = self._data.is_replaceable(known, self._data.job_principals[claim.job_id])
        document_id = known.message.document_id if is_known else ""
        self._put(
            _Entry(
                claim.job_id,
                collection.collection_id,
                index,
                version.uri,
                document_id,
                given,
                is_page=True,
            )
        )

    async def add_preview(self, claim: ItemClaim, page: DocumentVersion) -> None:
        collection_id = self._data.held(claim).collection_id
        index = self._place(claim, page.uri)
        if index is None:
            return
        found = next(
            (
                one
                for one in self._data.documents.values()
                if (one.message.collection_id, one.message.uri) == (collection_id, page.uri)
            ),
            None,
        )
        done = finish(begin(ItemState(), claim.lease_id, alone=False), _preview(found, page), 0)
        if found and not self._data.is_replaceable(found, self._data.job_principals[claim.job_id]):
            done = fail(ItemState(), NOT_WRITABLE, job_pb2.ChunkCounts())
        entry = _Entry(claim.job_id, collection_id, index, page.uri, item=done, is_page=True)
        entry.document_id = found.message.document_id if found and not done.failure else ""
        self._put(entry)

    async def add_failure(self, claim: ItemClaim, uri: str, failure: document_pb2.IngestionFailure) -> None:
        collection_id = self._data.held(claim).collection_id
        index = self._place(claim, uri)
        if index is not None:
            failed = fail(ItemState(), failure, job_pb2.ChunkCounts())
            self._put(_Entry(claim.job_id, collection_id, index, uri, item=failed, is_page=True))

    async def finish(self, claim: ItemClaim) -> None:
        self._data.finish(claim, ("", job_pb2.INGESTION_OUTCOME_UNSPECIFIED), 0)

    def _place(self, claim: ItemClaim, uri: str) -> int | None:
        self._data.held(claim)
        entries = self._data.entries_of(claim.job_id)
        for entry in entries:
            if entry.is_page and entry.uri == uri:
                return entry.index if entry.is_missing else None
        return len(entries)

    def _put(self, new: _Entry) -> None:
        for place, entry in enumerate(self._data.entries):
            if (entry.job_id, entry.index) == (new.job_id, new.index):
                self._data.entries[place] = new
                return
        self._data.entries.append(new)


NOT_WRITABLE = document_pb2.IngestionFailure(
    stage=document_pb2.INGESTION_STATE_STORING,
    reason=error_pb2.DOCUMENT_NOT_WRITABLE,
    message="there is a document that the caller may not read",
)


def _preview(found: _Document | None, page: DocumentVersion) -> job_pb2.IngestionOutcome.ValueType:
    if found is None or not found.version.ingestion_hash:
        return job_pb2.INGESTION_OUTCOME_CREATED
    is_same = (found.version.ingestion_hash, found.version.metadata, found.version.allowed_principals) == (
        page.ingestion_hash,
        page.metadata,
        page.allowed_principals,
    )
    return job_pb2.INGESTION_OUTCOME_UNCHANGED if is_same else job_pb2.INGESTION_OUTCOME_UPDATED


class MemoryReindex:
    """Implements ReindexRepository; partitions that were replaced are dropped at once."""

    def __init__(self, data: _Data) -> None:
        self._data = data

    async def begin(
        self, collection: StoredCollection, settings: collection_pb2.CollectionSettings, request_id: str
    ) -> str:
        data = self._data
        known = data.job_requests.get((collection.collection_id, request_id))
        if known:
            return known
        for job in data.jobs.values():
            is_running = job.kind is JobKind.REINDEX and job.end_time is None
            if is_running and job.collection_id == collection.collection_id:
                raise FailedPreconditionError(
                    "REINDEX_RUNNING",
                    f"the collection {collection.collection_id!r} is being indexed again already",
                )
        data.hold(collection)
        job_id, _ = data.add_job(collection.collection_id, request_id, kind=JobKind.REINDEX)
        data.partitions += 1
        data.targets[job_id] = ReindexTarget(data.partitions, settings)
        self._queue(job_id, self._searchable(collection.collection_id))
        return job_id

    async def text(self, collection_id: str, document_id: str) -> StoredText | None:
        document = self._data.documents.get(document_id)
        if document is None:
            return None
        segments = kept_segments(None)
        for segment in document.segments:
            segments.append(segment)
        return StoredText(
            document.version, document.number, DocumentText(segments, document.version.mime_type)
        )

    async def store(self, item: LeasedItem, version_number: int, new: NewVersion) -> None:
        assert item.target is not None
        partition_id = item.target.partition_id
        self._data.held(item.claim)
        if item.document_id in self._data.documents:
            self._data.chunks[partition_id, item.document_id] = tuple(new.chunks)
            self._data.reindexed[partition_id, item.document_id] = version_number
        outcome = job_pb2.INGESTION_OUTCOME_UPDATED
        self._data.finish(item.claim, (item.document_id, outcome), len(new.chunks))

    async def skip(self, item: LeasedItem) -> None:
        outcome = job_pb2.INGESTION_OUTCOME_UNCHANGED
        self._data.finish(item.claim, (item.document_id, outcome), 0)

    async def settle(self, grace_seconds: float) -> Sequence[str]:
        return [
            job.job_id
            for job in list(self._data.jobs.values())
            if job.kind is JobKind.REINDEX and job.end_time is None and self._settle_job(job)
        ]

    def _settle_job(self, job: StoredJob) -> bool:
        entries = self._data.entries_of(job.job_id)
        target = self._data.targets[job.job_id]
        changed = [
            one
            for one in self._searchable(job.collection_id)
            if self._data.reindexed.get((target.partition_id, one.message.document_id)) != one.number
        ]
        step = next_reindex_step(
            pending=sum(not entry.item.has_ended for entry in entries),
            failed=sum(entry.item.state == document_pb2.INGESTION_STATE_FAILED for entry in entries),
            is_index_due=False,
            changed=len(changed),
        )
        state = job_pb2.JOB_STATE_FAILED
        match step:
            case ReindexStep.WAIT | ReindexStep.COMPARE:
                return False
            case ReindexStep.QUEUE_CHANGED:
                self._queue(job.job_id, changed)
                return False
            case ReindexStep.SWAP:
                self._swap(job.collection_id, target)
                state = job_pb2.JOB_STATE_DONE
        self._data.jobs[job.job_id] = replace(job, state=state, end_time=datetime.now(UTC))
        return True

    def _swap(self, collection_id: str, target: ReindexTarget) -> None:
        stored = self._data.collections[collection_id]
        for part in ("chunking", "contextualization", "embedding", "lexical"):
            stored.settings.ClearField(part)
            if target.settings.HasField(part):
                getattr(stored.settings, part).CopyFrom(getattr(target.settings, part))
        for document in self._searchable(collection_id):
            chunks = self._data.chunks[target.partition_id, document.message.document_id]
            document.message.chunk_count = len(chunks)
        self._data.collections[collection_id] = replace(stored, partition_id=target.partition_id)

    def _searchable(self, collection_id: str) -> list[_Document]:
        return [one for one in self._data.documents_of(collection_id) if one.message.chunk_count]

    def _queue(self, job_id: str, documents: Sequence[_Document]) -> None:
        first = len(self._data.entries_of(job_id))
        self._data.entries += [
            _Entry(
                job_id,
                document.message.collection_id,
                index,
                document.message.uri,
                document.message.document_id,
            )
            for index, document in enumerate(documents, start=first)
        ]


class NoSources:
    """Implements SourceSchedule where there are no sources."""

    async def lease(
        self, lease_id: str, *, seconds: float, alone: bool
    ) -> tuple[LeasedItem, OrderedRun] | None:
        return None

    async def enqueue_due(self) -> Sequence[str]:
        return ()


class NoLexicalIndexes:
    """Implements LexicalIndexes for what is never searched."""

    async def rebuild_due(self) -> Sequence[int]:
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
