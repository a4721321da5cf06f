"""What the use cases need of the world, beside groundline_embedding's Embedder."""

from collections.abc import AsyncGenerator, Collection, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from groundline.v1 import chat_pb2, collection_pb2, document_pb2, job_pb2, passage_pb2, source_pb2
from groundline.v1 import ingestor_service_pb2 as pb
from groundline_filters import Filter

from groundline_ingestor.crawling import CrawlFind, SeenPage
from groundline_ingestor.domain.collections import StoredCollection
from groundline_ingestor.domain.documents import (
    DocumentOrder,
    DocumentPlace,
    DocumentVersion,
    GivenDocument,
    StoredText,
    TextPart,
)
from groundline_ingestor.domain.feeding import (
    Batch,
    FedChunk,
    FedPartition,
    FeedState,
    PartitionState,
    Refusals,
)
from groundline_ingestor.domain.quotas import CallerUse, CollectionUse
from groundline_ingestor.domain.sources import Change, OrderedRun, StoredSource
from groundline_ingestor.domain.texts import ExtractedText, Section, TextSegment, Vectors
from groundline_ingestor.domain.webhooks import Delivery
from groundline_ingestor.domain.work import ItemClaim, LeasedItem, NewVersion, OrderedCrawl, Progress
from groundline_ingestor.members import MemberSpool

__all__ = [
    "ClaimLostError",
    "CollectionRepository",
    "Connectors",
    "ContextCache",
    "ContextWriter",
    "CrawlRepository",
    "Crawler",
    "DocumentRepository",
    "EmbeddingCache",
    "Extractor",
    "FeedRepository",
    "HandedIn",
    "HeldFeed",
    "IndexWriter",
    "JobRepository",
    "LexicalIndexes",
    "NotDeliveredError",
    "QuotaRepository",
    "ReindexRepository",
    "SeenPages",
    "SourceRepository",
    "SourceSchedule",
    "Splitter",
    "StoredOutcome",
    "TextStream",
    "VectorIndexes",
    "WebhookOutbox",
    "WebhookSender",
    "WorkQueue",
    "WrittenContexts",
]

type HandedIn = tuple[GivenDocument, DocumentVersion]
"""A document with a uri, and what is known of it before its text is read."""

type StoredOutcome = tuple[str, job_pb2.IngestionOutcome.ValueType]
"""A document's id, and what storing it changed."""


class ClaimLostError(Exception):
    """The item went to another worker, was cancelled, or has ended; nothing was changed."""

    def __init__(self, claim: ItemClaim) -> None:
        super().__init__(f"item {claim.item_index} of job {claim.job_id} is no longer this worker's")
        self.claim = claim


class CollectionRepository(Protocol):
    """Stores collections and their partitions. Any method raises UnavailableError while the store is down."""

    async def create(
        self, collection: collection_pb2.Collection, creator: str, request_id: str
    ) -> StoredCollection:
        """Store a collection, whose embedding, lexical and access settings are complete, with an empty
        partition, in one transaction.

        Returns the stored collection when its creator used the `request_id` before. Raises
        AlreadyExistsError.
        """

    async def find(
        self, collection_id: str, principals: Sequence[str] | None = None
    ) -> StoredCollection | None:
        """The collection with its counts: of documents that one of the principals may read, of all without
        principals."""

    async def list_readable(
        self, principals: Sequence[str], *, after: str, limit: int
    ) -> Sequence[StoredCollection]:
        """The first `limit` collections by id, above the id `after`, that one of the principals may read."""

    async def update(self, changed: collection_pb2.Collection) -> bool:
        """Replace name, settings and access; False when the collection is gone or no longer has the
        update_time that `changed` has."""

    async def delete(self, collection_id: str) -> bool:
        """Delete the collection, its documents and its partition, in one transaction; False when it is
        gone."""


class DocumentRepository(Protocol):
    """Stores documents and their chunks. Any method raises UnavailableError while the store is down."""

    async def find(self, collection_id: str, document_id: str) -> document_pb2.Document | None:
        """A document by its id."""

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
        """The first `limit` documents behind the place `after` that a filter selects of those that one of the
        principals may read."""

    async def text(
        self, collection_id: str, document_id: str, principals: Sequence[str], *, start: int, limit: int
    ) -> TextPart:
        """At most `limit` characters of the extracted text; an empty one of a document that is not there, or
        that none of the principals may read."""

    async def original(
        self, document: document_pb2.Document, principals: Sequence[str], *, part: int
    ) -> bytes | None:
        """A part, from 0, of the document as it was handed in; None behind the last, and of a document that
        has changed or that none of the principals may read any more."""

    async def chunks(
        self,
        collection: StoredCollection,
        document_id: str,
        principals: Sequence[str],
        *,
        after: int,
        limit: int,
    ) -> Sequence[passage_pb2.Chunk]:
        """The first `limit` chunks above the index `after`; none of a document that none of the principals
        may read. Raises AbortedError when the collection's partition is gone."""

    async def store(
        self, collection: StoredCollection, versions: Sequence[NewVersion]
    ) -> Sequence[StoredOutcome]:
        """Put documents of different uris and their chunks in the place of what the uris held, and end their
        items, all in one transaction.

        Says of each whether it is new. Two calls for one uri happen one after the other. Where files within a
        document were looked for, they become items of its job; those that are no longer there are deleted,
        and all others get its principals at once. Raises ClaimLostError, NotFoundError when the collection is
        gone, AbortedError when its partition is no longer the one given, PermissionDeniedError
        (DOCUMENT_NOT_WRITABLE) when a uri holds a document that none of its new version's principals may
        read.
        """

    async def refresh(
        self,
        collection: StoredCollection,
        version: DocumentVersion,
        principals: Sequence[str],
        claim: ItemClaim | None = None,
    ) -> StoredOutcome | None:
        """Take over metadata and principals where the stored chunks are already those of the version, and
        end the item.

        Its outcome is updated or unchanged; None, with nothing done, when what is stored has another
        ingestion_hash, or there are documents within it that are not done or would have to change as well.
        Raises what `store` raises.
        """

    async def delete(self, collection: StoredCollection, document_id: str) -> bool:
        """Delete a document with its chunks and those within it, and cancel what is still to be done for
        them, in one transaction; False when it is gone."""

    async def count_selected(
        self, collection: StoredCollection, selection: Filter, principals: Sequence[str]
    ) -> int:
        """How many documents a filter selects of those that one of the principals may read, with all that are
        within them."""

    async def delete_selected(
        self, collection: StoredCollection, selection: Filter, principals: Sequence[str], request_id: str
    ) -> int:
        """`delete` for all documents that a filter selects of those that one of the principals may read.

        Returns how many there were, which a known `request_id` gets again, with nothing done.
        """

    async def stats(self, collection: StoredCollection, principals: Sequence[str]) -> pb.CollectionStats:
        """What the collection holds of what one of the principals may read. Raises AbortedError when its
        partition is gone."""


class JobRepository(Protocol):
    """Stores jobs and their items. Any method raises UnavailableError while the store is down."""

    async def enqueue(
        self,
        collection: StoredCollection,
        handed_in: Sequence[HandedIn],
        principals: Sequence[str],
        request_id: str,
    ) -> job_pb2.IngestionJob:
        """Store a job of a caller with its documents' content, in one transaction.

        A document that is new is there from now on, without chunks. Returns the earlier job when its
        collection knows the `request_id` already. Raises NotFoundError when the collection is gone.
        """

    async def find(self, job_id: str, principals: Sequence[str] | None = None) -> job_pb2.IngestionJob | None:
        """The job, with counts of the items that `items` gives."""

    async def find_all(
        self, job_ids: Sequence[str], principals: Sequence[str]
    ) -> Mapping[str, job_pb2.IngestionJob]:
        """Those of the jobs that there are, by id, each as `find` gives it."""

    async def find_by_request_id(
        self, collection_id: str, request_id: str, principals: Sequence[str] | None = None
    ) -> job_pb2.IngestionJob | None:
        """The job that a request made, as `find` gives it."""

    async def items(
        self,
        job_id: str,
        principals: Sequence[str] | None,
        *,
        after: int,
        limit: int,
        only_failed: bool = False,
    ) -> Sequence[job_pb2.IngestionItem]:
        """The first `limit` items, or failed items, above the index `after`.

        With principals, without the items whose document none of them may read, unless the first of them
        handed the job in.
        """

    async def changed_items(
        self, job_id: str, principals: Sequence[str], *, within_seconds: float, limit: int
    ) -> Sequence[job_pb2.IngestionItem]:
        """Items that changed within the last so many seconds, by index; as `items`."""

    async def list_readable(
        self,
        principals: Sequence[str],
        *,
        collection_id: str | None,
        before: tuple[datetime, str] | None,
        limit: int,
    ) -> Sequence[job_pb2.IngestionJob]:
        """Jobs on readable collections, newest first (by create_time, then id), below `before`."""

    async def cancel(self, job_id: str) -> None:
        """Cancel the items that have not ended; claims on them are void from then on."""

    async def retry(self, job_id: str) -> int:
        """Queue failed and cancelled items again, except those whose uri a later item is done for or whose
        content is not kept; and a crawl that could not have all pages. Returns how many."""


class WorkQueue(Protocol):
    """Items for workers, in the order of hand-in; those of one uri one after the other.

    Any method raises UnavailableError while the store is down.
    """

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
        """Claim queued items to be embedded by a model; suspects, which are to be worked on alone, only when
        they are asked for; none of the owners that are passed over."""

    async def has_suspects(self, model: str) -> bool:
        """Whether suspects wait to be worked on."""

    async def given(self, item: LeasedItem) -> GivenDocument:
        """What was handed in; its file, where it is one, is the caller's to close. Raises ClaimLostError."""

    async def require(self, claim: ItemClaim) -> None:
        """Raise ClaimLostError if the claim is no longer held."""

    async def extend(self, lease_ids: Sequence[str]) -> None:
        """Keep what is still held for another term."""

    async def expire(self, maximum_attempts: int) -> int:
        """Take items from workers that were lost, crawls too; returns how many.

        A worker is lost that did not extend its lease for a term, by a clock that is not set: setting the
        database's neither ends leases nor prolongs them by more than a term.
        """

    async def progress(self, progress: Sequence[Progress]) -> None:
        """Show how far items have come."""

    async def spend(self, usages: Sequence[tuple[ItemClaim, chat_pb2.Usage]]) -> None:
        """Add tokens to what items have taken, in all their attempts. Nothing where a claim is lost."""

    async def fail(
        self, claim: ItemClaim, failure: document_pb2.IngestionFailure, chunks: job_pb2.ChunkCounts
    ) -> None:
        """End an item and mark its document; what was searchable of it stays so. Raises ClaimLostError."""

    async def skip(self, claim: ItemClaim, failure: document_pb2.IngestionFailure) -> None:
        """End the item of a file within a document in which there is nothing to be read, and delete what is
        stored of it. Raises ClaimLostError."""

    async def postpone(
        self, claim: ItemClaim, seconds: float, failure: document_pb2.IngestionFailure, *, forgiven: bool
    ) -> None:
        """Queue an item again, not to be begun before so many seconds. Nothing when the claim is lost.

        `forgiven`: the attempt does not count against the maximum.
        """

    async def release(self, lease_ids: Sequence[str]) -> None:
        """Queue what is held again, as if it had not been begun: its worker ends."""

    async def discard(self, older_than_seconds: float) -> None:
        """Drop the content of items that failed or were cancelled so long ago."""


class CrawlRepository(Protocol):
    """Stores crawls, which are items of jobs, and the pages they find, which become items of the same job.

    What WorkQueue does with a claim it does with a crawl's as well. Any method raises UnavailableError while
    the store is down.
    """

    async def enqueue(
        self,
        collection: StoredCollection,
        crawl: OrderedCrawl,
        principals: Sequence[str],
        request_id: str,
    ) -> str:
        """Store a caller's job that is a crawl; returns its id, which is the earlier one's for a known
        `request_id`.

        Raises NotFoundError when the collection is gone.
        """

    async def lease(
        self, lease_id: str, *, seconds: float, alone: bool
    ) -> tuple[LeasedItem, OrderedCrawl] | None:
        """Claim the first queued crawl; None where there is none, or where it is a suspect and the worker has
        another: only one that is lost `alone` is charged."""

    async def is_held(self, claim: ItemClaim) -> bool:
        """Whether the claim still holds: the crawl was not cancelled, given to another, or deleted."""

    async def add_page(self, claim: ItemClaim, collection: StoredCollection, page: HandedIn) -> None:
        """Queue a page as an item of the crawl's job, in one transaction with its content.

        Nothing where the job has the page already, unless it only could not be had until now. Raises
        ClaimLostError.
        """

    async def add_preview(self, claim: ItemClaim, page: DocumentVersion) -> None:
        """Note what would become of a page as an item of a dry run, which is done.

        It is failed where the uri holds a document that the caller may not replace. Nothing where the job has
        the page. Raises ClaimLostError.
        """

    async def add_failure(self, claim: ItemClaim, uri: str, failure: document_pb2.IngestionFailure) -> None:
        """Note a page that could not be had as a failed item, unless the job has the page. Raises
        ClaimLostError."""

    async def finish(self, claim: ItemClaim) -> None:
        """End the crawl; its pages go on. Raises ClaimLostError."""


class SourceSchedule(Protocol):
    """Runs of sources that are due. Any method raises UnavailableError while the store is down."""

    async def enqueue_due(self) -> Sequence[str]:
        """Begin runs of the sources whose time has come, and set the next; returns ids of the jobs."""

    async def lease(
        self, lease_id: str, *, seconds: float, alone: bool
    ) -> tuple[LeasedItem, OrderedRun] | None:
        """Claim the first queued run; as CrawlRepository.lease."""


class SourceRepository(SourceSchedule, Protocol):
    """Stores sources, their runs, which are items of jobs as crawls are, and what they have brought.

    What WorkQueue does with a claim it does with a run's as well. Any method raises UnavailableError while
    the store is down.
    """

    async def create(self, source: source_pb2.DocumentSource, principals: Sequence[str]) -> None:
        """Store a source with its ids, due at once. Raises AlreadyExistsError (SOURCE_NAME_TAKEN),
        NotFoundError when the collection is gone."""

    async def find(self, collection_id: str, source_id: str) -> StoredSource | None:
        """A source by its id."""

    async def list_sources(self, collection_id: str, *, after: str, limit: int) -> Sequence[StoredSource]:
        """The first `limit` sources by name, above the name `after`."""

    async def update(
        self, before: StoredSource, after: source_pb2.DocumentSource, principals: Sequence[str] | None
    ) -> bool:
        """Replace what was given of a source; False when it is gone or is no longer what it was before.

        With principals, by whose rights runs then act, its run is cancelled, it is due at once unless it is
        paused, and reads everything again. Without, its next run follows from interval and pause. Raises
        AlreadyExistsError (SOURCE_NAME_TAKEN).
        """

    async def delete(self, collection: StoredCollection, source: StoredSource, *, documents: bool) -> bool:
        """Delete a source and cancel its run, with what it has brought where `documents` says so, in one
        transaction; False when it is gone."""

    async def enqueue(self, source: StoredSource, *, full: bool = False) -> str:
        """The id of the job of a run: of the one that has not ended, or else of a new one. `full`: as if
        nothing of the source were known. Raises NotFoundError when the source is gone."""

    async def enqueue_dry_run(self, source: StoredSource) -> str:
        """The id of a new job that is a dry run. Raises NotFoundError when the source is gone."""

    async def known(self, source: StoredSource, versions: Mapping[str, str | None]) -> Collection[str]:
        """`unchanged`, with nothing noted."""

    async def brought(self, source: StoredSource, *, after: str, limit: int) -> Sequence[str]:
        """The first `limit` uris, above the uri `after`, of documents that the source has brought and its
        creator may delete."""

    async def add_preview(self, claim: ItemClaim, version: DocumentVersion) -> None:
        """As CrawlRepository.add_preview."""

    async def add_removal(self, claim: ItemClaim, uri: str) -> None:
        """Note a document that would be deleted as an item of a dry run, which is done. Nothing where the job
        has the document, unless as one that could not be had. Raises ClaimLostError."""

    async def unchanged(
        self, claim: ItemClaim, source: StoredSource, versions: Mapping[str, str | None]
    ) -> Collection[str]:
        """Note that the run found documents, by uri with their versions, None for the one known; returns the
        uris of those that need not be read: their version is the one known, and they are there. Raises
        ClaimLostError."""

    async def owned_by_others(self, source: StoredSource, uris: Sequence[str]) -> Collection[str]:
        """Those of the uris whose documents another source has brought."""

    async def add(
        self,
        claim: ItemClaim,
        source: StoredSource,
        collection: StoredCollection,
        found: HandedIn,
        version: str,
    ) -> None:
        """Queue a document as an item of the run's job and note its version, in one transaction. Nothing
        where the job has the document. Raises ClaimLostError."""

    async def add_failure(self, claim: ItemClaim, uri: str, failure: document_pb2.IngestionFailure) -> None:
        """Note a document that could not be had as a failed item; as CrawlRepository.add_failure."""

    async def remove(
        self,
        claim: ItemClaim,
        source: StoredSource,
        collection: StoredCollection,
        uris: Sequence[str] | None = None,
    ) -> int:
        """Delete documents that the source brought: those of the uris, or at most some hundreds of those that
        the run did not find; returns how many it was, and knows them no longer. Raises ClaimLostError,
        AbortedError when the collection's partition is gone."""

    async def reach(self, claim: ItemClaim, source: StoredSource, cursor: str) -> None:
        """Store up to where the source was read. Raises ClaimLostError."""

    async def finish(self, claim: ItemClaim) -> None:
        """End the run; its documents go on. Raises ClaimLostError."""

    async def is_held(self, claim: ItemClaim) -> bool:
        """As CrawlRepository.is_held."""


class Connectors(Protocol):
    """Read what is behind sources of every kind."""

    def require_available(self, source: source_pb2.DocumentSource) -> None:
        """Raise FailedPreconditionError (SOURCE_NOT_AVAILABLE) where a directory or secret that the source
        names is not for its collection."""

    def changes(
        self, source: StoredSource, *, private_addresses: bool, is_dry_run: bool = False
    ) -> AsyncGenerator[Change, None]:
        """What there is, or has changed since the source's cursor; a dry run remembers nothing of it. Close
        it to stop early.

        Raises UnavailableError (SOURCE_UNREACHABLE), FailedPreconditionError (SOURCE_REFUSED,
        SOURCE_NOT_AVAILABLE, ADDRESS_NOT_ALLOWED).
        """


class ReindexRepository(Protocol):
    """Builds partitions beside those in use. Any method raises UnavailableError while the store is down."""

    async def begin(
        self, collection: StoredCollection, settings: collection_pb2.CollectionSettings, request_id: str
    ) -> str:
        """Make an empty partition by the settings, which are complete, and a job with an item for each
        document; returns the job's id, which is the earlier one's for a known `request_id`.

        Raises FailedPreconditionError (REINDEX_RUNNING), NotFoundError.
        """

    async def text(self, collection_id: str, document_id: str) -> StoredText | None:
        """What chunks are made of; None when the document is gone. Its segments, where they are a Spool, are
        the caller's to close. Raises IngestionError."""

    async def store(self, item: LeasedItem, version_number: int, new: NewVersion) -> None:
        """Write a document's chunks into the partition being built and end the item, in one transaction.

        Raises ClaimLostError.
        """

    async def skip(self, item: LeasedItem) -> None:
        """End the item of a document that is gone. Raises ClaimLostError."""

    async def settle(self, grace_seconds: float) -> Sequence[str]:
        """Take every re-index on by the step that is next for it (see next_reindex_step), and drop partitions
        that were replaced `grace_seconds` ago.

        Returns ids of jobs that have ended.
        """


class LexicalIndexes(Protocol):
    """Indexes of words, which every partition has."""

    async def rebuild_due(self) -> Sequence[int]:
        """Rebuild, one after the other, the indexes that may have lost chunks in an unclean stop of the
        server; returns the ids of their partitions.

        Writes go on meanwhile, and searches leave such an index out until it is whole; of several processes
        one rebuilds. A rebuild that fails or is cut short is begun again by a later call. Raises
        UnavailableError.
        """


class VectorIndexes(Protocol):
    """Indexes of vectors, which partitions have once they are large."""

    async def build_due(self) -> Sequence[int]:
        """Build the index of every partition that is large and settled, or very large, and has none yet;
        returns their ids.

        Searches and writes go on meanwhile; of several processes one builds. A build that fails or is cut
        short is begun again by a later call. Raises UnavailableError.
        """


class EmbeddingCache(Protocol):
    """Vectors by model and SHA-256 of the embedded text."""

    async def get(self, model: str, hashes: Sequence[bytes]) -> Mapping[bytes, Vectors]:
        """Those that are known."""

    async def put(self, model: str, vectors: Mapping[bytes, Vectors]) -> None:
        """Keep vectors; known ones stay as they are."""

    async def discard(self, older_than_seconds: float, limit: int) -> int:
        """Drop at most `limit` vectors that are older; returns how many."""


@dataclass
class TextStream:
    """A document's text as it is read. What the document is, and what it calls itself, is known for sure when
    all of its segments are."""

    segments: Generator[TextSegment]
    """To be closed where it is not read to its end."""
    mime_type: str
    title: str = ""


class Extractor(Protocol):
    """Reads the text out of what was handed in."""

    def read(
        self, given: GivenDocument, *, client: str = "", members: MemberSpool | None = None
    ) -> TextStream:
        """CPU work, also while the segments are read; `client` is whose it is. With `members` the files
        within it are put there meanwhile. Raises IngestionError, also then."""


class Splitter(Protocol):
    """Cuts texts."""

    def split(
        self, extraction: ExtractedText, chunking: collection_pb2.ChunkingSettings, language: str
    ) -> Sequence[Section]:
        """Sections in order, none of them blank; CPU work. `chunking` is complete, and `language` a
        collection's."""


@dataclass(frozen=True)
class WrittenContexts:
    """A context for each chunk of a call, and what it took."""

    contexts: Sequence[str]
    usage: chat_pb2.Usage


class ContextWriter(Protocol):
    """Has a language model write texts that place chunks in their document."""

    async def version(self, *, prompt: str, model: str) -> str:
        """Names the prompt and the model that `write` uses for these; it changes when they do.

        Raises what `write` raises.
        """

    async def write(
        self, *, title: str, document_text: str, chunk_texts: Sequence[str], prompt: str, model: str
    ) -> WrittenContexts:
        """Contexts in the order of the chunks; `prompt` and `model` empty for the generator's own.

        Raises GroundlineError, with retry_after_seconds where the provider says when to come back.
        """


class QuotaRepository(Protocol):
    """Counts what is taken. Any method raises UnavailableError while the store is down."""

    async def used_by(self, owner: str, *, request_id: str = "") -> CallerUse:
        """What a caller takes, without the collection that its request of this id created."""

    async def used_in(self, collection_id: str, *, uris: Sequence[str] = ()) -> CollectionUse:
        """What a collection takes, without the documents of these uris."""


class IndexWriter(Protocol):
    """A search index outside PostgreSQL. It has an object for each chunk, by partition and chunk id.

    Any method raises UnavailableError while the index, or too much of it, is out of reach, and
    FailedPreconditionError where it refuses the call.
    """

    async def write(self, partition: FedPartition, chunks: Sequence[FedChunk]) -> Refusals:
        """Put an object for each chunk in the place of what was there; what is refused stays as it was."""

    async def delete(self, partition: FedPartition, chunk_ids: Sequence[int]) -> None:
        """Delete objects; those that are not there are deleted already."""

    async def delete_partition(self, partition: FedPartition) -> None:
        """Delete all objects of a partition."""

    async def entries(self, partition: FedPartition, *, after: int, limit: int) -> Sequence[tuple[int, str]]:
        """Chunk id and content hash of the first `limit` objects above the chunk id `after`, by chunk id."""

    def content_hash(self, partition: FedPartition, chunk: FedChunk) -> str:
        """Of all that `write` stores of the chunk."""


class HeldFeed(Protocol):
    """The right to feed a partition, which one process has at a time."""

    async def changes(self, limit: int) -> Batch:
        """The first changes that are due, as their chunks are now."""

    async def settle(self, batch: Batch, refused: Refusals) -> None:
        """Note that the index has a batch of changes. What it refused comes again after a growing pause, and
        is set aside when it was refused too often."""

    async def fill_page(self, limit: int) -> Batch | None:
        """The next chunks of a fill; None where none is under way."""

    async def settle_fill(self, page: Batch, refused: Refusals, limit: int) -> None:
        """Note that the index has a page, which is the last where it has less than `limit` chunks. What it
        refused comes again as a change."""

    async def forget(self) -> None:
        """Note that a partition that is gone has no objects any more."""


class FeedRepository(Protocol):
    """What a search index outside PostgreSQL has not taken in yet.

    Any method raises UnavailableError while the database is out of reach.
    """

    async def begin(self) -> None:
        """Record changes of chunks from now on, and fill the index with every partition that is not fed yet.

        Nothing where that is so already. Waits for writes under way.
        """

    async def end(self) -> None:
        """Record no changes any more and forget what was recorded; the index keeps what it has."""

    async def due(self) -> Sequence[tuple[FedPartition, bool]]:
        """Partitions with something to do for the index now, and whether they are gone."""

    def hold(self, partition: FedPartition) -> AbstractAsyncContextManager[HeldFeed | None]:
        """Feed a partition inside; None where another process does. It ends with the process."""

    async def state(self) -> FeedState:
        """How far the index is."""

    async def partitions(self, collection_id: str | None = None) -> Sequence[PartitionState]:
        """The same of each partition, or of those with chunks of a collection."""

    async def chunks(self, partition: FedPartition, *, after: int, limit: int) -> Sequence[FedChunk]:
        """The first `limit` chunks above the id `after`, by id; none of a partition that is gone."""

    async def record(self, partition: FedPartition, chunk_ids: Sequence[int]) -> None:
        """Have the index take chunks in again, or drop those that are gone, as if they had changed."""

    async def refill(self, partition_ids: Sequence[int]) -> None:
        """Fill the index anew with all chunks of partitions; searches find what is there meanwhile."""

    async def retry(self) -> int:
        """Have what was set aside tried again; returns how many chunks."""


class ContextCache(Protocol):
    """Keeps contexts that were paid for. Any method raises UnavailableError while the store is down."""

    async def get(self, keys: Sequence[bytes]) -> Mapping[bytes, str]:
        """Those that there are."""

    async def put(self, contexts: Mapping[bytes, str]) -> None:
        """Keep them; what is there already stays."""

    async def discard(self, older_than_seconds: float, limit: int) -> int:
        """Forget at most `limit` of those older than that, and return how many."""


class SeenPages(Protocol):
    """What runs of a source saw of its pages. Any method raises UnavailableError while the store is down."""

    async def recall(self, url: str) -> SeenPage | None:
        """What was seen at an address."""

    async def note(self, page: SeenPage) -> None:
        """Keep what was seen now. Nothing where the source is gone."""

    async def forget(self, *, unseen_seconds: float) -> None:
        """Drop what was not noted for so long."""


class Crawler(Protocol):
    """Finds the pages of a web site."""

    def crawl(
        self, request: pb.WebCrawl, *, private_addresses: bool, seen: SeenPages | None = None
    ) -> AsyncGenerator[CrawlFind, None]:
        """Pages as they come, and those that could not be had. Close it to stop early.

        With what was seen of them earlier, pages that have not changed are not asked for in full, and those
        that fail for now still lead to where they led. Raises UnavailableError where that cannot be read.
        """


class NotDeliveredError(Exception):
    """A notice did not arrive; its text says why, without URL and secret."""


class WebhookSender(Protocol):
    """Sends notices."""

    async def send(self, delivery: Delivery) -> None:
        """Once. Raises NotDeliveredError."""


class WebhookOutbox(Protocol):
    """Notices of jobs that have ended, until they are delivered. Any method raises UnavailableError while the
    store is down."""

    async def announce(self) -> None:
        """Store a notice of each job that has ended since it was looked at last, for each webhook of its
        collection."""

    async def lease(self, limit: int, seconds: float) -> Sequence[Delivery]:
        """At most `limit` notices that are due, which no other process gets within `seconds`. Those whose
        webhook has gone are removed."""

    async def remove(self, delivery: Delivery) -> None:
        """The notice was delivered, or is given up."""

    async def postpone(self, delivery: Delivery, seconds: float) -> None:
        """Send it again after so long; nothing where another process has it by now."""
