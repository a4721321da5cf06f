"""Documents: reading and deleting."""

from collections.abc import AsyncGenerator, Sequence
from datetime import datetime
from typing import Final

import structlog
from groundline.v1 import document_pb2, passage_pb2
from groundline.v1 import ingestor_service_pb2 as pb
from groundline_contracts import default_of
from groundline_extraction.readers.common import Hints
from groundline_filters import holds_always, parse, parse_json, plain
from groundline_runtime.context import Caller
from groundline_runtime.errors import (
    AbortedError,
    FieldViolation,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
)
from groundline_runtime.paging import PageTokens, page_size

from groundline_ingestor.adapters.postgres.collections import PostgresCollections
from groundline_ingestor.adapters.postgres.documents.reading import PostgresDocuments
from groundline_ingestor.domain.collections import is_administrable, is_writable, may_download
from groundline_ingestor.domain.documents import DocumentKey, DocumentOrder
from groundline_ingestor.service.access import (
    document_not_found,
    readable_collection,
    readable_document,
    writable_collection,
)
from groundline_ingestor.service.holds import HoldService
from groundline_ingestor.service.pages import PagePictures
from groundline_ingestor.service.quotas import Quotas
from groundline_ingestor.service.revisions import RevisionService

_PICTURE_WIDTH: Final[int] = default_of(pb.GetDocumentPageRequest, "width")
MAX_CHUNK_PAGE_BYTES: Final = 4 * 1024**2
"""Maximum size of a page of chunks, which may have 20,000 characters and more each; a larger one is cut
short."""

_log = structlog.get_logger(__name__)


class DocumentService:
    """Use cases of documents, with those of their revisions and holds; every method acts for `caller`."""

    def __init__(
        self,
        collections: PostgresCollections,
        documents: PostgresDocuments,
        revisions: RevisionService,
        holds: HoldService,
        quotas: Quotas,
        page_tokens: PageTokens,
        pictures: PagePictures,
    ) -> None:
        self._collections = collections
        self._documents = documents
        self.revisions = revisions
        self.holds = holds
        self._quotas = quotas
        self._page_tokens = page_tokens
        self._pictures = pictures

    async def get(self, caller: Caller, collection_id: str, document_id: str) -> document_pb2.Document:
        """Return a document. Raises NotFoundError, also for one that the caller may not read."""
        return await readable_document(self._collections, self._documents, caller, collection_id, document_id)

    async def list(self, caller: Caller, request: pb.ListDocumentsRequest) -> pb.ListDocumentsResponse:
        """Return a page of readable documents that the filter selects. Raises InvalidArgumentError for a
        wrong token, NotFoundError."""
        order = DocumentOrder.of(request.order_by)
        key = self._page_tokens.key_in(request, caller)
        selection = parse_json(request.filter_json, path="filter_json")
        await readable_collection(self._collections, caller, request.collection_id)
        found = await self._documents.list_readable(
            request.collection_id,
            caller.principals,
            selection=selection,
            order=order,
            after=key and _read(order, *key),
            limit=page_size(request) + 1,
        )
        documents, token = self._page_tokens.page_of(
            request, caller, found, lambda document: _page_key(document, order)
        )
        return pb.ListDocumentsResponse(documents=documents, next_page_token=token)

    async def with_original(
        self, caller: Caller, collection_id: str, document_id: str, revision: str
    ) -> document_pb2.Document:
        """Return the document, as it was in a revision if one is named, if its `original` can be read. Raises
        NotFoundError (ORIGINAL_NOT_KEPT, REVISION_NOT_FOUND)."""
        document = await self.get(caller, collection_id, document_id)
        if revision not in ("", document.revision):
            found = await self.revisions.find(caller, collection_id, document_id, revision)
            document.mime_type, document.content_hash = found.mime_type, found.content_hash
            document.size_bytes, document.has_original = found.size_bytes, found.has_original
        if not document.has_original:
            raise NotFoundError(
                "ORIGINAL_NOT_KEPT", "the document was not kept as it was handed in; see keep_originals"
            )
        return document

    async def downloadable(
        self, caller: Caller, collection_id: str, document_id: str, revision: str
    ) -> document_pb2.Document:
        """Return the document `with_original`, if the caller may have that.

        Raises NotFoundError as that does, PermissionDeniedError (ORIGINAL_NOT_READABLE).
        """
        document = await self.with_original(caller, collection_id, document_id, revision)
        collection = await readable_collection(self._collections, caller, collection_id)
        if not may_download(collection.message, caller.principals):
            raise PermissionDeniedError(
                "ORIGINAL_NOT_READABLE", "the document may be read, but not downloaded as it was handed in"
            )
        return document

    async def original(self, caller: Caller, document: document_pb2.Document) -> AsyncGenerator[bytes, None]:
        """Yield the document as it was handed in, part by part; no connection is held in between. Raises
        AbortedError (DOCUMENT_CHANGED)."""
        size, part = 0, 0
        while size < document.size_bytes:
            data = await self._documents.original(document, caller.principals, part=part)
            if data is None:
                raise AbortedError("DOCUMENT_CHANGED", "the document was replaced or deleted; try again")
            yield data
            size, part = size + len(data), part + 1

    async def page(
        self, caller: Caller, document: document_pb2.Document, page: int, width: int
    ) -> Sequence[bytes]:
        """Return a picture of a page of a document `with_original`, as PNG in parts. Raises as
        PagePictures.draw does, and AbortedError (DOCUMENT_CHANGED)."""
        hints = Hints(page=page, width=width or _PICTURE_WIDTH)
        return await self._pictures.draw(
            document, self.original(caller, document), hints, client=caller.owner
        )

    async def chunks(self, caller: Caller, request: pb.ListChunksRequest) -> pb.ListChunksResponse:
        """Return a page of the document's chunks. Raises InvalidArgumentError for a wrong token,
        NotFoundError, AbortedError."""
        size = page_size(request)
        [after] = self._page_tokens.key_in(request, caller) or (-1,)
        collection = await readable_collection(self._collections, caller, request.collection_id)
        await self.get(caller, request.collection_id, request.document_id)
        found = await self._documents.chunks(
            collection,
            request.document_id,
            caller.principals,
            after=after,
            limit=size + 1,
        )
        page = _within(MAX_CHUNK_PAGE_BYTES, found[:size])
        return pb.ListChunksResponse(
            chunks=page,
            next_page_token=self._page_tokens.next_of(request, caller, page[-1].chunk_index)
            if len(found) > len(page)
            else "",
        )

    async def delete(self, caller: Caller, collection_id: str, document_id: str) -> None:
        """Delete a document. Raises NotFoundError, PermissionDeniedError."""
        collection = await writable_collection(self._collections, caller, collection_id)
        await self.get(caller, collection_id, document_id)
        if not await self._documents.delete(collection, document_id):
            raise document_not_found(document_id)

    async def delete_selected(self, caller: Caller, request: pb.DeleteDocumentsRequest) -> int:
        """Delete the documents that a filter selects and the caller may read, or only count them.

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
            collection, selection, caller.principals, caller.own_request_id(request.request_id)
        )
        _log.info("documents_deleted", collection_id=collection.collection_id, documents=count)
        return count

    async def stats(self, caller: Caller, collection_id: str) -> pb.CollectionStats:
        """Return figures of the documents that the caller may read. Raises NotFoundError, AbortedError."""
        collection = await readable_collection(self._collections, caller, collection_id)
        try:
            stats = await self._documents.stats(collection, caller.principals)
        except AbortedError:
            # It has another partition by now, or was deleted.
            collection = await readable_collection(self._collections, caller, collection_id)
            stats = await self._documents.stats(collection, caller.principals)
        if is_writable(collection.message, caller.principals):
            stats.quotas.extend(await self._quotas.usages_of_caller(caller))
        if is_administrable(collection.message, caller.principals):
            # They count what a writer may not read.
            stats.quotas.extend(await self._quotas.usages_of_collection(collection_id))
        return stats


def _within(most_bytes: int, chunks: Sequence[passage_pb2.Chunk]) -> Sequence[passage_pb2.Chunk]:
    """Return as many of them as fit into this many bytes, but one at least."""
    size = 0
    for index, chunk in enumerate(chunks):
        size += chunk.ByteSize()
        if index and size > most_bytes:
            return chunks[:index]
    return chunks


def _page_key(document: document_pb2.Document, order: DocumentOrder) -> tuple[str, str]:
    """Return the fields of a document that a page token holds."""
    value, uri = order.key_of(document)
    return value.isoformat() if isinstance(value, datetime) else str(value), uri


def _read(order: DocumentOrder, value: str, uri: str) -> DocumentKey:
    return order.read(value), uri
