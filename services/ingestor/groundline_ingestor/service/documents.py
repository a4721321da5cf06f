"""Documents: reading and deleting."""

import structlog
from groundline_filters import Filter, holds_always
from groundline_runtime.context import Caller
from groundline_runtime.errors import FieldViolation, InvalidArgumentError, NotFoundError

from groundline_ingestor.domain import CollectionStats, Document, is_document_readable
from groundline_ingestor.ports import CollectionRepository, DocumentRepository
from groundline_ingestor.service.access import readable_collection, writable_collection
from groundline_ingestor.service.pages import Page

__all__ = ["DocumentService"]

_log = structlog.get_logger(__name__)


class DocumentService:
    """Use cases of documents; every method acts for `caller`."""

    def __init__(self, collections: CollectionRepository, documents: DocumentRepository) -> None:
        self._collections = collections
        self._documents = documents

    async def get(self, caller: Caller, collection_id: str, document_id: str) -> Document:
        """Raises NotFoundError, also for a document that the caller may not read."""
        await readable_collection(self._collections, caller, collection_id)
        return await self._readable(caller, collection_id, document_id)

    async def list(self, caller: Caller, collection_id: str, *, after: str, size: int) -> Page[Document]:
        """Readable documents by uri, above the uri `after`. Raises NotFoundError."""
        await readable_collection(self._collections, caller, collection_id)
        found = await self._documents.list_readable(
            collection_id, caller.principals, after=after, limit=size + 1
        )
        return Page.of(found, size)

    async def delete(self, caller: Caller, collection_id: str, document_id: str) -> None:
        """Raises NotFoundError, PermissionDeniedError."""
        collection = await writable_collection(self._collections, caller, collection_id)
        await self._readable(caller, collection_id, document_id)
        if not await self._documents.delete(collection, document_id):
            raise _not_found(document_id)

    async def delete_selected(
        self, caller: Caller, collection_id: str, selection: Filter, request_id: str, *, dry_run: bool
    ) -> int:
        """Delete what a filter selects of the documents that the caller may read, or only count it.

        Raises InvalidArgumentError (the filter holds for every document), NotFoundError,
        PermissionDeniedError.
        """
        if holds_always(selection):
            raise InvalidArgumentError(
                [FieldViolation("filter", "holds for every document; DeleteCollection deletes all")]
            )
        collection = await writable_collection(self._collections, caller, collection_id)
        if dry_run:
            return await self._documents.count_selected(collection, selection, caller.principals)
        count = await self._documents.delete_selected(collection, selection, caller.principals, request_id)
        _log.info("documents_deleted", collection_id=collection_id, documents=count)
        return count

    async def stats(self, caller: Caller, collection_id: str) -> CollectionStats:
        """What a collection holds, unreadable documents included. Raises NotFoundError."""
        return await self._documents.stats(
            await readable_collection(self._collections, caller, collection_id)
        )

    async def _readable(self, caller: Caller, collection_id: str, document_id: str) -> Document:
        document = await self._documents.find(collection_id, document_id)
        if document is None or not is_document_readable(document, caller.principals):
            raise _not_found(document_id)
        return document


def _not_found(document_id: str) -> NotFoundError:
    return NotFoundError("DOCUMENT_NOT_FOUND", f"no document {document_id}")
