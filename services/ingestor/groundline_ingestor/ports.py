"""What the use cases need of the world, beside groundline_embedding's Embedder."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from groundline_ingestor.domain import (
    Chunk,
    Chunking,
    Collection,
    Document,
    DocumentInput,
    DocumentVersion,
    Extraction,
    IngestionFailure,
    IngestionOutcome,
    Item,
    Job,
    NewCollection,
    Section,
    Vectors,
)

__all__ = [
    "CollectionRepository",
    "DocumentRepository",
    "Extractor",
    "JobRepository",
    "Splitter",
]


class CollectionRepository(Protocol):
    """Stores collections and their partitions. Any method raises UnavailableError while the store is down."""

    async def create(self, new: NewCollection, dimensions: int) -> Collection:
        """Store the collection with an empty, indexed partition, in one transaction.

        Returns the stored collection when its `request_id` was used before. Raises AlreadyExistsError.
        """

    async def find(self, collection_id: str) -> Collection | None:
        """The collection with its counts."""

    async def list_readable(
        self, principals: Sequence[str], *, after: str, limit: int
    ) -> Sequence[Collection]:
        """The first `limit` collections by id, above the id `after`, that one of the principals may read."""

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
        """Replace these fields; False when the collection is gone or has changed since `seen`, its
        update_time."""

    async def delete(self, collection_id: str) -> bool:
        """Delete the collection, its documents and its partition, in one transaction; False when it is
        gone."""


class DocumentRepository(Protocol):
    """Stores documents and their chunks. Any method raises UnavailableError while the store is down."""

    async def find(self, collection_id: str, document_id: str) -> Document | None:
        """A document by its id."""

    async def list_readable(
        self, collection_id: str, principals: Sequence[str], *, after: str, limit: int
    ) -> Sequence[Document]:
        """The first `limit` documents by uri, above the uri `after`, that one of the principals may read."""

    async def replace(
        self, collection: Collection, version: DocumentVersion, chunks: Sequence[Chunk], vectors: Vectors
    ) -> tuple[str, IngestionOutcome]:
        """Put a document and its chunks in the place of what the uri held, in one transaction.

        Returns its id and whether it is new. Two calls for one uri happen one after the other. Raises
        NotFoundError when the collection is gone, AbortedError when its partition is no longer the one given.
        """

    async def refresh(
        self, collection: Collection, version: DocumentVersion
    ) -> tuple[str, IngestionOutcome] | None:
        """Take over metadata and principals where the stored chunks are already those of the version.

        Returns its id and outcome (updated or unchanged); None, with nothing done, when what is stored has
        another ingestion_hash.
        """

    async def record_failure(
        self, collection: Collection, version: DocumentVersion, failure: IngestionFailure
    ) -> str:
        """Note that a document's ingestion failed and return its id; what was searchable of it stays so."""

    async def delete(self, collection: Collection, document_id: str) -> bool:
        """Delete a document with its chunks, in one transaction; False when it is gone."""


class JobRepository(Protocol):
    """Stores jobs and their items. Any method raises UnavailableError while the store is down."""

    async def record(self, job: Job, items: Sequence[Item], request_id: str) -> Job:
        """Store a job that has ended.

        Returns the stored job, which is the earlier one when its collection knows the `request_id` already.
        Raises NotFoundError when the collection is gone.
        """

    async def find(self, job_id: str) -> Job | None:
        """The job, its counts included."""

    async def find_by_request_id(self, collection_id: str, request_id: str) -> Job | None:
        """The job that a request made."""

    async def items(
        self,
        job_id: str,
        principals: Sequence[str] | None,
        *,
        after: int,
        limit: int,
        only_failed: bool = False,
    ) -> Sequence[Item]:
        """The first `limit` items, or failed items, above the index `after`.

        With principals, without the items whose document none of them may read.
        """

    async def list_readable(
        self,
        principals: Sequence[str],
        *,
        collection_id: str | None,
        before: tuple[datetime, str] | None,
        limit: int,
    ) -> Sequence[Job]:
        """Jobs on readable collections, newest first (by create_time, then id), below `before`."""


class Extractor(Protocol):
    """Reads the text out of what was handed in."""

    def extract(self, given: DocumentInput) -> Extraction:
        """CPU work. Raises IngestionError."""


class Splitter(Protocol):
    """Cuts texts."""

    def split(self, text: str, mime_type: str, chunking: Chunking) -> Sequence[Section]:
        """Sections in order, none of them blank; CPU work."""
