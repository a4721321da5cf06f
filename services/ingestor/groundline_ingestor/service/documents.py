"""Documents: reading and deleting."""

from typing import Final

import structlog
from groundline.v1 import document_pb2
from groundline.v1 import ingestor_service_pb2 as pb
from groundline_filters import holds_always, parse, plain
from groundline_runtime.context import Caller
from groundline_runtime.errors import AbortedError, FieldViolation, InvalidArgumentError, NotFoundError
from groundline_runtime.paging import page_size, page_token, read_page_token

from groundline_ingestor.domain.documents import is_document_readable
from groundline_ingestor.ports import CollectionRepository, DocumentRepository
from groundline_ingestor.service.access import readable_collection, writable_collection

__all__ = ["DocumentService"]

DEFAULT_PAGE_SIZE: Final = 100

_log = structlog.get_logger(__name__)


class DocumentService:
    """Use cases of documents; every method acts for `caller`."""

    def __init__(self, collections: CollectionRepository, documents: DocumentRepository) -> None:
        self._collections = collections
        self._documents = documents

    async def get(self, caller: Caller, collection_id: str, document_id: str) -> document_pb2.Document:
        """Raises NotFoundError, also for a document that the caller may not read."""
        await readable_collection(self._collections, caller, collection_id)
        return await self._readable(caller, collection_id, document_id)

    async def list(self, caller: Caller, request: pb.ListDocumentsRequest) -> pb.ListDocumentsResponse:
        """A page of readable documents, by uri. Raises InvalidArgumentError for a wrong token,
        NotFoundError."""
        size = page_size(request.page_size, DEFAULT_PAGE_SIZE)
        [after] = read_page_token(request.page_token, "documents", str) or ("",)
        await readable_collection(self._collections, caller, request.collection_id)
        found = await self._documents.list_readable(
            request.collection_id, caller.principals, after=after, limit=size + 1
        )
        return pb.ListDocumentsResponse(
            documents=found[:size],
            next_page_token=page_token("documents", found[size - 1].uri) if len(found) > size else "",
        )

    async def delete(self, caller: Caller, collection_id: str, document_id: str) -> None:
        """Raises NotFoundError, PermissionDeniedError."""
        collection = await writable_collection(self._collections, caller, collection_id)
        await self._readable(caller, collection_id, document_id)
        if not await self._documents.delete(collection, document_id):
            raise _not_found(document_id)

    async def delete_selected(self, caller: Caller, request: pb.DeleteDocumentsRequest) -> int:
        """Delete what a filter selects of the documents that the caller may read, or only count it.

        Raises InvalidArgumentError (the filter holds for every document), NotFoundError,
        PermissionDeniedError.
        """
        selection = parse(plain(request.filter))
        if holds_always(selection):
            raise InvalidArgumentError(
                [FieldViolation("filter", "holds for every document; DeleteCollection deletes all")]
            )
        collection = await writable_collection(self._collections, caller, request.collection_id)
        if request.dry_run:
            return await self._documents.count_selected(collection, selection, caller.principals)
        count = await self._documents.delete_selected(
            collection, selection, caller.principals, request.request_id
        )
        _log.info("documents_deleted", collection_id=collection.collection_id, documents=count)
        return count

    async def stats(self, caller: Caller, collection_id: str) -> pb.CollectionStats:
        """What a collection holds of what the caller may read. Raises NotFoundError, AbortedError."""
        collection = await readable_collection(self._collections, caller, collection_id)
        try:
            return await self._documents.stats(collection, caller.principals)
        except AbortedError:
            # It has another partition by now, or is gone.
            collection = await readable_collection(self._collections, caller, collection_id)
            return await self._documents.stats(collection, caller.principals)

    async def _readable(self, caller: Caller, collection_id: str, document_id: str) -> document_pb2.Document:
        document = await self._documents.find(collection_id, document_id)
        if document is None or not is_document_readable(document, caller.principals):
            raise _not_found(document_id)
        return document


def _not_found(document_id: str) -> NotFoundError:
    return NotFoundError("DOCUMENT_NOT_FOUND", f"no document {document_id}")
