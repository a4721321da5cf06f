"""A client of the gateway."""

import hashlib
import json
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from os import PathLike
from types import TracebackType
from typing import Any, BinaryIO, Final, Self

import httpx

from groundline_client.errors import ApiError, DeadlineExceededError, ProtocolError, UnreachableError
from groundline_client.json_form import JsonObject
from groundline_client.models import (
    AnswerResponse,
    ApiKey,
    AuditEntry,
    ChatMessage,
    ChatOptions,
    Chunk,
    Collection,
    CollectionSettings,
    CollectionStats,
    CompareRevisionsResponse,
    CreateApiKeyResponse,
    Document,
    DocumentInput,
    DocumentSource,
    Erasure,
    Feedback,
    GetDocumentTextResponse,
    GetUsageResponse,
    IngestDocumentsResponse,
    IngestionItem,
    IngestionJob,
    LegalHold,
    Message,
    Problem,
    QueryTablesResponse,
    QuotaUsage,
    Rating,
    RestoreRevisionResponse,
    RevertJobResponse,
    Revision,
    SearchOptions,
    SearchResponse,
    SigningKey,
    TablePlan,
    TablePlanning,
    Thread,
    UploadDocumentResponse,
    WatchJobResponse,
    WebCrawl,
)
from groundline_client.transport import rpcs
from groundline_client.transport.deadline import Deadline
from groundline_client.transport.messages import (
    ChatEvent,
    VerifyEvent,
    chat_event,
    checked_gateway,
    compact_json,
    has_ended,
    is_loopback,
    new_request_id,
    opened,
    parsed,
    parsed_page,
    present,
    request_json,
    unreachable,
)
from groundline_client.transport.rpc import Rpc
from groundline_client.transport.sse import EventParser
from groundline_client.transport.sync_waiting import parts, pause

__all__ = ["Client"]

# Above the gateway's own deadlines (120 s for an answer, 600 s for documents), which end a request with a
# proper error: these only detect a gateway that is gone.
_JSON_TYPE: Final = "application/json"
_READ_SECONDS: Final = 150.0
_DOCUMENTS_READ_SECONDS: Final = 660.0
_PNG_END: Final = b"IEND\xaeB`\x82"
_STREAM_READ_SECONDS: Final = 330.0

# Pause between two looks at a job whose stream of changes has ended too early.
_LOOK_AGAIN_SECONDS: Final = 1.0

_ATTEMPTS: Final = 6
# Maximum number of times that a broken chat is continued: it may be answered anew, and paid for again.
_RESUMPTIONS: Final = 2
_CONNECT_ATTEMPTS: Final = 3
_FIRST_PAUSE_SECONDS: Final = 0.1
# Who is asked to wait longer, such as for tomorrow's quota, is told so at once.
_LONGEST_PAUSE_SECONDS: Final = 60.0
_PAGE_SIZE: Final = 500


class Client:
    """A client with one key or token of one gateway. Use it as a context manager, or call close().

    Every method raises UnreachableError, UnsendableError, ApiError or ProtocolError. A connection that
    cannot be made is tried again. So is a request that the contract calls idempotent, or that has a
    `request_id`, when the gateway is not available or says when to come again; if a `request_id` makes a
    method idempotent, one is generated unless it is given. `timeout_seconds`, of the client or of one call,
    bounds all attempts together; see Deadline. A part of a request may be a model or its JSON.
    """

    def __init__(
        self,
        gateway: str,
        api_key: str,
        *,
        timeout_seconds: float | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._gateway = checked_gateway(gateway, api_key)
        self._timeout_seconds = timeout_seconds
        self._http = httpx.Client(
            base_url=self._gateway,
            headers={"authorization": f"Bearer {api_key}"},
            transport=transport,
            # A proxy of the environment cannot reach this machine's loopback interface.
            trust_env=not is_loopback(gateway),
            # Without TLS nobody is to be trusted, and whom to trust takes 20 ms to read.
            verify=not (is_loopback(gateway) and gateway.startswith("http:")),
        )

    def __enter__(self) -> Self:
        self._http.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.__exit__(kind, error, trace)

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def chat(
        self,
        query: str,
        *,
        thread_id: str = "",
        chat_history: Sequence[ChatMessage | JsonObject] = (),
        collection_ids: Sequence[str] = (),
        filter: JsonObject | None = None,  # noqa: A002 (the contract's name)
        options: ChatOptions | JsonObject | None = None,
        request_id: str = "",
        additional_context: str = "",
        store: bool | None = None,
        min_position: str = "",
        as_of: datetime | None = None,
        timeout_seconds: float | None = None,
    ) -> Generator[ChatEvent]:
        """Answer a question and yield the events, ending with ChatCompleted.

        An AnswerCorrection changes the text of earlier deltas (`corrected` applies it); with the option
        `append_only` none comes.

        A failure is raised as ApiError. A stream that ends too early raises UnreachableError, or with a
        `request_id` is continued, up to twice: behind the last event if the answer was complete, otherwise
        from the beginning, and then another ChatStarted makes void what came before. Closing the iterator
        cancels.
        """
        request = request_json(
            query=query,
            thread_id=thread_id,
            chat_history=chat_history,
            collection_ids=collection_ids,
            filter=filter,
            options=options,
            request_id=request_id,
            additional_context=additional_context,
            store=store,
            min_position=min_position,
            as_of=as_of,
        )
        deadline, after = self._deadline(timeout_seconds), ""
        for attempts_left in range(_RESUMPTIONS if request_id else 0, -1, -1):
            try:
                with closing(self._events(rpcs.CHAT, request, deadline, after)) as events:
                    for event_id, event in events:
                        after = event_id
                        if event.error:
                            raise ApiError.from_event(event.error)
                        if happened := chat_event(event):
                            yield happened
                        if event.completed:
                            return
            except DeadlineExceededError:
                raise
            except UnreachableError:
                if not attempts_left:
                    raise
            if attempts_left:
                pause(_FIRST_PAUSE_SECONDS)
        raise UnreachableError("the answer broke off: the connection ended before it was complete")

    def answer(
        self,
        query: str,
        *,
        thread_id: str = "",
        chat_history: Sequence[ChatMessage | JsonObject] = (),
        collection_ids: Sequence[str] = (),
        filter: JsonObject | None = None,  # noqa: A002
        options: ChatOptions | JsonObject | None = None,
        request_id: str = "",
        additional_context: str = "",
        store: bool | None = None,
        min_position: str = "",
        as_of: datetime | None = None,
        timeout_seconds: float | None = None,
    ) -> AnswerResponse:
        """Answer a question; return the whole answer. With a `request_id` it is retried, and not paid
        twice."""
        request = request_json(
            query=query,
            thread_id=thread_id,
            chat_history=chat_history,
            collection_ids=collection_ids,
            filter=filter,
            options=options,
            request_id=request_id,
            additional_context=additional_context,
            store=store,
            min_position=min_position,
            as_of=as_of,
        )
        return self._call(rpcs.ANSWER, request, timeout_seconds)

    def search(
        self,
        query: str,
        *,
        collection_ids: Sequence[str] = (),
        filter: JsonObject | None = None,  # noqa: A002
        options: SearchOptions | JsonObject | None = None,
        min_position: str = "",
        as_of: datetime | None = None,
        additional_queries: Sequence[str] = (),
        weak_similarity: float | None = None,
        include_vectors: bool = False,
        include_highlights: bool = False,
        facets: Sequence[str] = (),
        max_facet_values: int | None = None,
        timeout_seconds: float | None = None,
    ) -> SearchResponse:
        """Return passages for a query, best first, without an answer."""
        request = request_json(
            query=query,
            collection_ids=collection_ids,
            filter=filter,
            options=options,
            min_position=min_position,
            as_of=as_of,
            additional_queries=additional_queries,
            weak_similarity=weak_similarity,
            include_vectors=include_vectors,
            include_highlights=include_highlights,
            facets=facets,
            max_facet_values=max_facet_values,
        )
        return self._call(rpcs.SEARCH, request, timeout_seconds)

    def query_tables(
        self,
        question: str = "",
        *,
        plan: TablePlan | JsonObject | None = None,
        collection_ids: Sequence[str] = (),
        document_ids: Sequence[str] = (),
        document_id: str = "",
        planning: TablePlanning | None = None,
        timeout_seconds: float | None = None,
    ) -> QueryTablesResponse:
        """Ask a table of the documents, by a question or a plan. If no plan is made of the question,
        `refusal` says why. With a document alone, `tables` are its tables."""
        request = request_json(
            question=question,
            plan=plan,
            collection_ids=collection_ids,
            document_ids=document_ids,
            document_id=document_id,
            planning=planning,
        )
        return self._call(rpcs.QUERY_TABLES, request, timeout_seconds)

    def verify(
        self,
        text: str,
        *,
        collection_ids: Sequence[str] = (),
        filter: JsonObject | None = None,  # noqa: A002
        options: SearchOptions | JsonObject | None = None,
        min_position: str = "",
        as_of: datetime | None = None,
        timeout_seconds: float | None = None,
    ) -> Generator[VerifyEvent]:
        """Check a text against documents and yield the events: each claim with its verdict as it is decided,
        and VerifyCompleted last.

        A failure is raised as ApiError, and a stream that ends too early as UnreachableError. Closing the
        iterator cancels.
        """
        request = request_json(
            text=text,
            collection_ids=collection_ids,
            filter=filter,
            options=options,
            min_position=min_position,
            as_of=as_of,
        )
        deadline = self._deadline(timeout_seconds)
        with closing(self._events(rpcs.VERIFY, request, deadline, "")) as events:
            for _, event in events:
                if event.error:
                    raise ApiError.from_event(event.error)
                # An event of an unknown kind has none of them.
                if happened := event.started or event.claim or event.completed:
                    yield happened
                if event.completed:
                    return
        raise UnreachableError("the verification broke off: the connection ended before it was complete")

    def create_collection(
        self,
        collection_id: str = "",
        *,
        name: str = "",
        settings: CollectionSettings | JsonObject | None = None,
        request_id: str = "",
        dry_run: bool = False,
        timeout_seconds: float | None = None,
    ) -> Collection:
        """Create a collection; with `dry_run` only return it as it would be. Raises ApiError with HTTP status
        409 if the id is taken."""
        request = request_json(
            collection_id=collection_id,
            name=name,
            settings=settings,
            request_id=request_id or new_request_id(),
            dry_run=dry_run or None,
        )
        return self._call(rpcs.CREATE_COLLECTION, request, timeout_seconds)

    def get_collection(self, collection_id: str, *, timeout_seconds: float | None = None) -> Collection:
        """Return the collection. Raises ApiError with HTTP status 404 unless the caller may read it."""
        request = request_json(collection_id=collection_id)
        return self._call(rpcs.GET_COLLECTION, request, timeout_seconds)

    def list_collections(
        self, *, limit: int | None = None, timeout_seconds: float | None = None
    ) -> Generator[Collection]:
        """Yield every collection that the caller may read, by id; at most `limit`."""
        return self._entries(rpcs.LIST_COLLECTIONS, {}, limit, timeout_seconds)

    def update_collection(
        self,
        collection_id: str,
        *,
        name: str = "",
        settings: CollectionSettings | JsonObject | None = None,
        update_mask: Sequence[str] = (),
        etag: str = "",
        dry_run: bool = False,
        timeout_seconds: float | None = None,
    ) -> Collection:
        """Change a collection; with `dry_run` only return it as it would be. Given values are changed; with a
        mask the paths that it names, such as "settings.chunking", and those without a value return to their
        defaults. Raises ApiError with HTTP status 409 if it no longer has the `etag`."""
        request = request_json(
            collection_id=collection_id,
            name=name,
            settings=settings,
            update_mask=",".join(update_mask),
            etag=etag,
            dry_run=dry_run or None,
        )
        return self._call(rpcs.UPDATE_COLLECTION, request, timeout_seconds)

    def delete_collection(self, collection_id: str, *, timeout_seconds: float | None = None) -> None:
        """Delete a collection with all its documents."""
        self._call(rpcs.DELETE_COLLECTION, request_json(collection_id=collection_id), timeout_seconds)

    def get_collection_stats(
        self, collection_id: str, *, timeout_seconds: float | None = None
    ) -> CollectionStats:
        """Return figures of a collection's contents."""
        request = request_json(collection_id=collection_id)
        return self._call(rpcs.GET_COLLECTION_STATS, request, timeout_seconds)

    def reindex_collection(
        self,
        collection_id: str,
        *,
        settings: CollectionSettings | JsonObject | None = None,
        hold: bool = False,
        keep_previous: bool = False,
        request_id: str = "",
        timeout_seconds: float | None = None,
    ) -> IngestionJob:
        """Build a collection's index again, beside the one in use; return the job.

        `hold`: once it is complete the new index waits for `swap_index` or `cancel_job`. `keep_previous`: the
        old one stays, for `revert_index`.
        """
        request = request_json(
            collection_id=collection_id,
            settings=settings,
            hold=hold,
            keep_previous=keep_previous,
            request_id=request_id or new_request_id(),
        )
        return self._call(rpcs.REINDEX_COLLECTION, request, timeout_seconds)

    def swap_index(self, job_id: str, *, timeout_seconds: float | None = None) -> IngestionJob:
        """Let a re-index put the index into use that it holds back; return the job."""
        return self._call(rpcs.SWAP_INDEX, request_json(job_id=job_id), timeout_seconds)

    def revert_index(
        self, collection_id: str, *, request_id: str = "", timeout_seconds: float | None = None
    ) -> IngestionJob:
        """Put the index that was kept back into use; return the job."""
        request = request_json(collection_id=collection_id, request_id=request_id or new_request_id())
        return self._call(rpcs.REVERT_INDEX, request, timeout_seconds)

    def reclaim_index(self, collection_id: str, *, timeout_seconds: float | None = None) -> bool:
        """Give up the index that was kept; tell whether there was one."""
        response = self._call(rpcs.RECLAIM_INDEX, request_json(collection_id=collection_id), timeout_seconds)
        return response.was_kept

    def ingest_documents(
        self,
        collection_id: str,
        documents: Sequence[DocumentInput | JsonObject] = (),
        *,
        crawl: WebCrawl | JsonObject | None = None,
        request_id: str = "",
        dry_run: bool = False,
        timeout_seconds: float | None = None,
    ) -> IngestDocumentsResponse:
        """Hand in documents, or a web site to crawl; return the job that ingests them, and its first
        items."""
        request = request_json(
            collection_id=collection_id,
            documents=documents,
            crawl=crawl,
            request_id=request_id or new_request_id(),
            dry_run=dry_run,
        )
        response = self._call(
            rpcs.INGEST_DOCUMENTS, request, timeout_seconds, read_seconds=_DOCUMENTS_READ_SECONDS
        )
        present(response.job, "job")
        return response

    def upload_document(
        self,
        collection_id: str,
        content: str | PathLike[str] | bytes | BinaryIO,
        *,
        uri: str = "",
        title: str = "",
        metadata: Mapping[str, Any] | None = None,
        allowed_principals: Sequence[str] = (),
        mime_type: str = "",
        request_id: str = "",
        on_progress: Callable[[int], None] | None = None,
        timeout_seconds: float | None = None,
    ) -> UploadDocumentResponse:
        """Send one document of any size as it is; return the job that ingests it, and its item.

        A `str` is a path, as is anything PathLike; a document's text goes as bytes, or by `ingest_documents`.
        The document is not held in memory. `on_progress` is told how many bytes have been sent, from 0 again
        when the upload is retried. An open file is sent from its current position; one that cannot be rewound
        is sent only once. Raises OSError too.
        """
        request = request_json(
            collection_id=collection_id,
            uri=uri,
            title=title,
            metadata_json=None if metadata is None else compact_json(metadata),
            allowed_principals=allowed_principals,
            request_id=request_id or new_request_id(),
        )
        with opened(content) as file:
            response = self._call(
                rpcs.UPLOAD_DOCUMENT,
                request,
                timeout_seconds,
                read_seconds=_DOCUMENTS_READ_SECONDS,
                upload=_Upload(file, mime_type or "application/octet-stream", on_progress),
            )
        present(response.job, "job")
        return response

    def get_document(
        self, collection_id: str, document_id: str, *, timeout_seconds: float | None = None
    ) -> Document:
        """Return the document."""
        request = request_json(collection_id=collection_id, document_id=document_id)
        return self._call(rpcs.GET_DOCUMENT, request, timeout_seconds)

    def list_documents(
        self,
        collection_id: str,
        *,
        filter: JsonObject | None = None,  # noqa: A002
        order_by: str = "",
        limit: int | None = None,
        timeout_seconds: float | None = None,
    ) -> Generator[Document]:
        """Yield every document of a collection that a filter selects, by uri or in another order, such as
        "update_time desc"; at most `limit`."""
        request = request_json(
            collection_id=collection_id,
            filter_json=None if filter is None else compact_json(filter),
            order_by=order_by,
        )
        return self._entries(rpcs.LIST_DOCUMENTS, request, limit, timeout_seconds)

    def get_document_text(
        self,
        collection_id: str,
        document_id: str,
        *,
        start_offset: int = 0,
        max_characters: int = 0,
        revision: str = "",
        timeout_seconds: float | None = None,
    ) -> GetDocumentTextResponse:
        """Return a part of the text that was extracted from a document, in a revision or the one in use;
        offsets count code points."""
        request = request_json(
            collection_id=collection_id,
            document_id=document_id,
            start_offset=start_offset,
            max_characters=max_characters,
            revision=revision,
        )
        return self._call(rpcs.GET_DOCUMENT_TEXT, request, timeout_seconds)

    def list_revisions(
        self,
        collection_id: str,
        document_id: str,
        *,
        limit: int | None = None,
        timeout_seconds: float | None = None,
    ) -> Generator[Revision]:
        """Yield the revisions of a document that are kept, the one in use first, then from the newest; at
        most `limit`."""
        request = request_json(collection_id=collection_id, document_id=document_id)
        return self._entries(rpcs.LIST_REVISIONS, request, limit, timeout_seconds)

    def get_revision(
        self, collection_id: str, document_id: str, revision: str, *, timeout_seconds: float | None = None
    ) -> Revision:
        """Return a revision of a document."""
        request = request_json(collection_id=collection_id, document_id=document_id, revision=revision)
        return self._call(rpcs.GET_REVISION, request, timeout_seconds)

    def restore_revision(
        self,
        collection_id: str,
        document_id: str,
        revision: str,
        *,
        request_id: str | None = None,
        timeout_seconds: float | None = None,
    ) -> RestoreRevisionResponse:
        """Put a replaced revision of a document in the place of the one in use; return the job that does it,
        and its item."""
        request = request_json(
            collection_id=collection_id,
            document_id=document_id,
            revision=revision,
            request_id=request_id or new_request_id(),
        )
        return self._call(rpcs.RESTORE_REVISION, request, timeout_seconds)

    def compare_revisions(
        self,
        collection_id: str,
        document_id: str,
        revision: str,
        *,
        other_revision: str = "",
        start_offset: int = 0,
        end_offset: int = 0,
        timeout_seconds: float | None = None,
    ) -> CompareRevisionsResponse:
        """Compare the text of a revision, or the part of it between two offsets, with another's or with the
        one in use."""
        request = request_json(
            collection_id=collection_id,
            document_id=document_id,
            revision=revision,
            other_revision=other_revision,
            start_offset=start_offset,
            end_offset=end_offset,
        )
        return self._call(rpcs.COMPARE_REVISIONS, request, timeout_seconds)

    def list_chunks(
        self,
        collection_id: str,
        document_id: str,
        *,
        limit: int | None = None,
        timeout_seconds: float | None = None,
    ) -> Generator[Chunk]:
        """Yield every chunk of a document, in its order; at most `limit`."""
        request = request_json(collection_id=collection_id, document_id=document_id)
        return self._entries(rpcs.LIST_CHUNKS, request, limit, timeout_seconds)

    def download_document(
        self,
        collection_id: str,
        document_id: str,
        *,
        revision: str = "",
        timeout_seconds: float | None = None,
    ) -> Generator[bytes]:
        """Yield a document as it was handed in, of a revision or the one in use, part by part, if its
        collection keeps originals.

        Raises ProtocolError at the end if parts are missing.
        """
        request = request_json(collection_id=collection_id, document_id=document_id, revision=revision)
        deadline = self._deadline(timeout_seconds)
        digest = hashlib.sha256()
        # Where the gateway compresses a text, it takes the entity tag away.
        plain = {"accept-encoding": "identity"}
        with self._response(
            rpcs.DOWNLOAD_DOCUMENT, request, deadline, _DOCUMENTS_READ_SECONDS, headers=plain
        ) as got:
            for part in got.iter_bytes():
                digest.update(part)
                yield part
                deadline.check()
            if got.headers.get("etag", "").strip('"') != digest.hexdigest():
                raise ProtocolError("the document broke off, or was changed on its way: try again")

    def get_document_page(
        self,
        collection_id: str,
        document_id: str,
        page: int,
        *,
        width: int | None = None,
        revision: str = "",
        timeout_seconds: float | None = None,
    ) -> bytes:
        """Return a picture of a page of a PDF or image as PNG, if its collection keeps originals; pages count
        from 1, `width` is in pixels. The boxes of citations are shares of its width and height.

        Raises ProtocolError if parts are missing.
        """
        request = request_json(
            collection_id=collection_id, document_id=document_id, page=page, width=width, revision=revision
        )
        deadline = self._deadline(timeout_seconds)
        picture = bytearray()
        with self._response(rpcs.GET_DOCUMENT_PAGE, request, deadline, _DOCUMENTS_READ_SECONDS) as got:
            for part in got.iter_bytes():
                picture += part
                deadline.check()
        if not picture.endswith(_PNG_END):
            raise ProtocolError("the picture broke off: try again")
        return bytes(picture)

    def delete_document(
        self, collection_id: str, document_id: str, *, timeout_seconds: float | None = None
    ) -> None:
        """Delete one document."""
        request = request_json(collection_id=collection_id, document_id=document_id)
        self._call(rpcs.DELETE_DOCUMENT, request, timeout_seconds, read_seconds=_DOCUMENTS_READ_SECONDS)

    def delete_documents(
        self,
        collection_id: str,
        filter: JsonObject,  # noqa: A002
        *,
        request_id: str = "",
        dry_run: bool = False,
        timeout_seconds: float | None = None,
    ) -> int:
        """Delete, or with `dry_run` only count, the documents that a filter selects; return their number."""
        request = request_json(
            collection_id=collection_id,
            filter=filter,
            request_id=request_id or new_request_id(),
            dry_run=dry_run,
        )
        response = self._call(
            rpcs.DELETE_DOCUMENTS, request, timeout_seconds, read_seconds=_DOCUMENTS_READ_SECONDS
        )
        return response.deleted_count

    def set_legal_hold(
        self,
        collection_id: str,
        document_ids: Sequence[str] = (),
        *,
        reason: str,
        thread_ids: Sequence[str] = (),
        timeout_seconds: float | None = None,
    ) -> int:
        """Put documents, threads that cite documents of the collection, or without any of both the whole
        collection under a legal hold; an empty reason releases it. Return the number of holds that were set,
        changed or released."""
        request = request_json(
            collection_id=collection_id, document_ids=document_ids, thread_ids=thread_ids, reason=reason
        )
        response = self._call(rpcs.SET_LEGAL_HOLD, request, timeout_seconds)
        return response.changed_count

    def list_legal_holds(
        self, collection_id: str, *, limit: int | None = None, timeout_seconds: float | None = None
    ) -> Generator[LegalHold]:
        """Yield every legal hold of a collection, its own first; at most `limit`."""
        request = request_json(collection_id=collection_id)
        return self._entries(rpcs.LIST_LEGAL_HOLDS, request, limit, timeout_seconds)

    def list_erasures(
        self, collection_id: str = "", *, limit: int | None = None, timeout_seconds: float | None = None
    ) -> Generator[Erasure]:
        """Yield the erasures that the caller asked for, or all of a collection that it administers, the
        newest first; at most `limit`."""
        request = request_json(collection_id=collection_id)
        return self._entries(rpcs.LIST_ERASURES, request, limit, timeout_seconds)

    def get_erasure_certificate(self, erasure_id: str, *, timeout_seconds: float | None = None) -> bytes:
        """Return a signed certificate of an erasure: canonical JSON, of which each byte counts.

        Raises ProtocolError if parts are missing.
        """
        request = request_json(erasure_id=erasure_id)
        return self._signed(rpcs.GET_ERASURE_CERTIFICATE, request, timeout_seconds)

    def list_api_keys(
        self, *, limit: int | None = None, timeout_seconds: float | None = None
    ) -> Generator[ApiKey]:
        """Yield the API keys of all callers, the newest first; at most `limit`. It needs the scope
        administration."""
        return self._entries(rpcs.LIST_API_KEYS, request_json(), limit, timeout_seconds)

    def create_api_key(
        self,
        name: str,
        *,
        principals: Sequence[str],
        scopes: Sequence[str],
        expire_time: datetime | None = None,
        timeout_seconds: float | None = None,
    ) -> CreateApiKeyResponse:
        """Create an API key, whose text is in `secret` and cannot be asked for again. It needs the scope
        administration."""
        request = request_json(name=name, principals=principals, scopes=scopes, expire_time=expire_time)
        return self._call(rpcs.CREATE_API_KEY, request, timeout_seconds)

    def revoke_api_key(self, key_id: str, *, timeout_seconds: float | None = None) -> ApiKey:
        """Revoke an API key, which every gateway refuses within seconds. It needs the scope
        administration."""
        return self._call(rpcs.REVOKE_API_KEY, request_json(key_id=key_id), timeout_seconds)

    def list_audit_entries(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        client: str = "",
        action: str = "",
        resource: str = "",
        limit: int | None = None,
        timeout_seconds: float | None = None,
    ) -> Generator[AuditEntry]:
        """Yield entries of the audit log, the newest first; at most `limit`. It needs the scope
        administration.

        `client`, `action` (the name of an RPC) and `resource` (the beginning of a path) restrict them.
        """
        request = request_json(since=since, until=until, client=client, action=action, resource=resource)
        return self._entries(rpcs.LIST_AUDIT_ENTRIES, request, limit, timeout_seconds)

    def get_usage(
        self, *, days: int | None = None, caller: str = "", timeout_seconds: float | None = None
    ) -> GetUsageResponse:
        """Return what all callers, or the one with this first principal, used in the last days (UTC): cost
        and tokens by day, caller and model. It needs the scope administration."""
        return self._call(rpcs.GET_USAGE, request_json(days=days, caller=caller), timeout_seconds)

    def create_source(
        self,
        collection_id: str,
        source: DocumentSource | JsonObject,
        *,
        dry_run: bool = False,
        timeout_seconds: float | None = None,
    ) -> DocumentSource:
        """Create a source of a collection, which runs at once and then at its interval; with `dry_run` only
        return it as it would be."""
        request = request_json(collection_id=collection_id, source=source, dry_run=dry_run or None)
        return self._call(rpcs.CREATE_SOURCE, request, timeout_seconds)

    def get_source(
        self, collection_id: str, source_id: str, *, timeout_seconds: float | None = None
    ) -> DocumentSource:
        """Return a source with its last run."""
        request = request_json(collection_id=collection_id, source_id=source_id)
        return self._call(rpcs.GET_SOURCE, request, timeout_seconds)

    def list_sources(
        self, collection_id: str, *, limit: int | None = None, timeout_seconds: float | None = None
    ) -> Generator[DocumentSource]:
        """Yield the sources of a collection, by name; at most `limit`."""
        request = request_json(collection_id=collection_id)
        return self._entries(rpcs.LIST_SOURCES, request, limit, timeout_seconds)

    def update_source(
        self,
        collection_id: str,
        source_id: str,
        changes: JsonObject,
        *,
        update_mask: Sequence[str] = (),
        etag: str = "",
        dry_run: bool = False,
        timeout_seconds: float | None = None,
    ) -> DocumentSource:
        """Change a source; with `dry_run` only return it as it would be. Fields of `changes` are changed;
        with a mask those that it names, such as "intervalSeconds", and those without a value are cleared.
        Raises ApiError with HTTP status 409 if it no longer has the `etag`."""
        request = request_json(
            collection_id=collection_id,
            source_id=source_id,
            update_mask=",".join(update_mask),
            etag=etag,
            dry_run=dry_run or None,
        )
        return self._call(rpcs.UPDATE_SOURCE, {**changes, **request}, timeout_seconds)

    def run_source(
        self,
        collection_id: str,
        source_id: str,
        *,
        full: bool = False,
        dry_run: bool = False,
        timeout_seconds: float | None = None,
    ) -> IngestionJob:
        """Run a source now, with `full` as if it had never run; return the job of the run. With `dry_run` its
        items only say what would be done with each change."""
        request = request_json(collection_id=collection_id, source_id=source_id, full=full, dry_run=dry_run)
        return self._call(rpcs.RUN_SOURCE, request, timeout_seconds)

    def delete_source(
        self,
        collection_id: str,
        source_id: str,
        *,
        delete_documents: bool = False,
        timeout_seconds: float | None = None,
    ) -> None:
        """Delete a source, and with `delete_documents` the documents that it brought."""
        request = request_json(
            collection_id=collection_id, source_id=source_id, delete_documents=delete_documents
        )
        self._call(rpcs.DELETE_SOURCE, request, timeout_seconds, read_seconds=_DOCUMENTS_READ_SECONDS)

    def get_job(self, job_id: str, *, timeout_seconds: float | None = None) -> IngestionJob:
        """Return the job."""
        return self._call(rpcs.GET_JOB, request_json(job_id=job_id), timeout_seconds)

    def list_job_items(
        self, job_id: str, *, limit: int | None = None, timeout_seconds: float | None = None
    ) -> Generator[IngestionItem]:
        """Yield every item of a job, in the order of hand-in; at most `limit`."""
        return self._entries(rpcs.GET_JOB_ENTRIES, request_json(job_id=job_id), limit, timeout_seconds)

    def list_jobs(
        self, *, collection_id: str = "", limit: int | None = None, timeout_seconds: float | None = None
    ) -> Generator[IngestionJob]:
        """Yield jobs, of one collection or of all, newest first; at most `limit`."""
        request = request_json(collection_id=collection_id)
        return self._entries(rpcs.LIST_JOBS, request, limit, timeout_seconds)

    def watch_job(self, job_id: str, *, timeout_seconds: float | None = None) -> Generator[WatchJobResponse]:
        """Yield a job and its changed items as it changes, until it has ended, however long that takes."""
        deadline, after = self._deadline(timeout_seconds), ""
        request = request_json(job_id=job_id)
        while True:
            before = after
            try:
                with closing(self._events(rpcs.WATCH_JOB, request, deadline, after)) as changes:
                    for event_id, change in changes:
                        after = event_id
                        yield change
                        if has_ended(present(change.job, "job")):
                            return
            except DeadlineExceededError:
                raise
            except UnreachableError:
                # A stream may break off, as it does when the gateway is replaced; the next call tells whether
                # the job exists at all.
                pass
            if after != before:
                # The next stream begins with the changes behind the last event.
                pause(_FIRST_PAUSE_SECONDS)
                continue
            job = self._call(rpcs.GET_JOB, request, None, deadline=deadline)
            yield WatchJobResponse(job=job)
            if has_ended(job):
                return
            pause(_LOOK_AGAIN_SECONDS)

    def wait_for_job(self, job_id: str, *, timeout_seconds: float | None = None) -> IngestionJob:
        """Wait until the job has ended, and return it."""
        job = IngestionJob(job_id=job_id)
        with closing(self.watch_job(job_id, timeout_seconds=timeout_seconds)) as changes:
            for change in changes:
                job = present(change.job, "job")
        return job

    def cancel_job(self, job_id: str, *, timeout_seconds: float | None = None) -> IngestionJob:
        """Cancel the unfinished documents of a job; return the job."""
        return self._call(rpcs.CANCEL_JOB, request_json(job_id=job_id), timeout_seconds)

    def retry_job(self, job_id: str, *, timeout_seconds: float | None = None) -> IngestionJob:
        """Queue the failed and cancelled documents of a job again; return the job."""
        return self._call(rpcs.RETRY_JOB, request_json(job_id=job_id), timeout_seconds)

    def revert_job(
        self,
        job_id: str,
        *,
        dry_run: bool = False,
        overwrite: bool = False,
        request_id: str | None = None,
        timeout_seconds: float | None = None,
    ) -> RevertJobResponse:
        """Take back what a job did to its documents, or tell what that would do; `overwrite` includes those
        that were changed again since. Return what becomes of each, and the job that puts revisions back."""
        request = request_json(
            job_id=job_id,
            dry_run=dry_run,
            overwrite=overwrite,
            request_id=request_id or new_request_id(),
        )
        return self._call(rpcs.REVERT_JOB, request, timeout_seconds, read_seconds=_DOCUMENTS_READ_SECONDS)

    def get_thread(self, thread_id: str, *, timeout_seconds: float | None = None) -> Thread:
        """Return the thread, without its messages."""
        request = request_json(thread_id=thread_id, page_size=1)
        return self._call(rpcs.GET_THREAD, request, timeout_seconds)

    def list_messages(
        self, thread_id: str, *, limit: int | None = None, timeout_seconds: float | None = None
    ) -> Generator[Message]:
        """Yield every message of a thread, oldest first; at most `limit`."""
        return self._entries(
            rpcs.GET_THREAD_ENTRIES, request_json(thread_id=thread_id), limit, timeout_seconds
        )

    def list_threads(
        self, *, limit: int | None = None, timeout_seconds: float | None = None
    ) -> Generator[Thread]:
        """Yield the caller's threads, the pinned before the others, the last used first; at most `limit`."""
        return self._entries(rpcs.LIST_THREADS, {}, limit, timeout_seconds)

    def update_thread(
        self,
        thread_id: str,
        *,
        title: str | None = None,
        is_pinned: bool | None = None,
        timeout_seconds: float | None = None,
    ) -> Thread:
        """Change a thread's title, or whether it is pinned; return the thread."""
        request = request_json(thread_id=thread_id, title=title, is_pinned=is_pinned)
        return self._call(rpcs.UPDATE_THREAD, request, timeout_seconds)

    def delete_thread(self, thread_id: str, *, timeout_seconds: float | None = None) -> None:
        """Delete a thread with its messages."""
        self._call(rpcs.DELETE_THREAD, request_json(thread_id=thread_id), timeout_seconds)

    def rate_answer(
        self,
        thread_id: str,
        message_id: str,
        rating: Rating | str,
        *,
        problem: Problem | str | None = None,
        comment: str = "",
        timeout_seconds: float | None = None,
    ) -> Feedback:
        """Say whether an answer was of use; RATING_UNSPECIFIED takes back what was said."""
        feedback = request_json(rating=rating, problem=problem, comment=comment)
        request = request_json(thread_id=thread_id, message_id=message_id, feedback=feedback)
        return self._call(rpcs.RATE_ANSWER, request, timeout_seconds)

    def get_evidence(
        self, thread_id: str, message_id: str = "", *, timeout_seconds: float | None = None
    ) -> bytes:
        """Return signed evidence of an answer, or of all answers of a thread: canonical JSON, of which each
        byte counts. groundline_evidence verifies it, as `groundline evidence verify` does.

        Raises ProtocolError if parts are missing.
        """
        request = request_json(thread_id=thread_id, message_id=message_id)
        return self._signed(rpcs.GET_EVIDENCE, request, timeout_seconds)

    def list_signing_keys(self, *, timeout_seconds: float | None = None) -> Sequence[SigningKey]:
        """Return the public keys that evidence is checked with: the one in use, then those before it."""
        response = self._call(rpcs.LIST_SIGNING_KEYS, {}, timeout_seconds)
        return response.keys

    def list_models(self, *, timeout_seconds: float | None = None) -> Sequence[str]:
        """Return the models that a question may name (`options.generation.model`), the default first."""
        response = self._call(rpcs.LIST_MODELS, {}, timeout_seconds)
        return response.models

    def get_quotas(self, *, timeout_seconds: float | None = None) -> Sequence[QuotaUsage]:
        """Return the usage of the caller's quotas of threads, answers and tokens."""
        response = self._call(rpcs.GET_QUOTAS, {}, timeout_seconds)
        return response.quotas

    def _signed(self, rpc: Rpc[bytes], request: JsonObject, timeout_seconds: float | None) -> bytes:
        with self._response(rpc, request, self._deadline(timeout_seconds), _READ_SECONDS) as response:
            document = response.read()
        try:
            json.loads(document)
        except ValueError as error:
            raise ProtocolError("the document broke off: try again") from error
        return document

    def _entries[R](
        self, rpc: Rpc[R], request: JsonObject, limit: int | None, timeout_seconds: float | None
    ) -> Generator[R]:
        deadline = self._deadline(timeout_seconds)
        left = _PAGE_SIZE if limit is None else limit
        token = ""
        while left > 0:
            asked = request | request_json(page_size=min(left, _PAGE_SIZE), page_token=token)
            with self._response(rpc, asked, deadline, _READ_SECONDS) as response:
                response.read()
                entries, token = parsed_page(rpc, response.text)
            for entry in entries[:left]:
                yield entry
                left -= limit is not None
            if not token:
                return

    def _deadline(self, timeout_seconds: float | None) -> Deadline:
        return Deadline(self._timeout_seconds if timeout_seconds is None else timeout_seconds)

    def _call[R](
        self,
        rpc: Rpc[R],
        request: JsonObject,
        timeout_seconds: float | None,
        *,
        deadline: Deadline | None = None,
        read_seconds: float = _READ_SECONDS,
        upload: "_Upload | None" = None,
    ) -> R:
        deadline = deadline or self._deadline(timeout_seconds)
        with self._response(rpc, request, deadline, read_seconds, upload) as response:
            response.read()
            return parsed(rpc, response.text)

    def _events[R](
        self, rpc: Rpc[R], request: JsonObject, deadline: Deadline, after: str
    ) -> Generator[tuple[str, R]]:
        """Yield events with their ids; only those behind `after`, if the method can continue there."""
        parser = EventParser()
        headers = {"last-event-id": after} if after else {}
        with self._response(rpc, request, deadline, _STREAM_READ_SECONDS, headers=headers) as response:
            content_type = response.headers.get("content-type", "")
            if not content_type.startswith("text/event-stream"):
                raise ProtocolError(
                    f"{self._gateway} answers {content_type or 'nothing'} to {rpc.path}, not events"
                )
            for chunk in response.iter_bytes():
                for event in parser.feed(chunk):
                    yield event.last_event_id, parsed(rpc, event.data)
                deadline.check()

    @contextmanager
    def _response(
        self,
        rpc: Rpc[Any],
        request: JsonObject,
        deadline: Deadline,
        read_seconds: float,
        upload: "_Upload | None" = None,
        headers: Mapping[str, str] | None = None,
    ) -> Iterator[httpx.Response]:
        """Provide the first successful response to a request, its body unread."""
        repeatable = (rpc.is_idempotent or "requestId" in request) and (upload is None or upload.repeatable)
        try:
            response = self._accepted(rpc, request, deadline, read_seconds, upload, headers, repeatable)
            try:
                yield response
            finally:
                response.close()
        except httpx.HTTPError as error:
            if isinstance(error, httpx.TimeoutException):
                deadline.check()
            raise unreachable(self._gateway, error) from error

    def _accepted(
        self,
        rpc: Rpc[Any],
        request: JsonObject,
        deadline: Deadline,
        read_seconds: float,
        upload: "_Upload | None",
        headers: Mapping[str, str] | None,
        repeatable: bool,
    ) -> httpx.Response:
        """Return the first response that does not ask for a retry. Raises httpx.HTTPError and ApiError."""
        sent = rpc.http_request(request)
        mime_type = upload.mime_type if upload else sent.body and _JSON_TYPE
        headers = {**(headers or {}), **({"content-type": mime_type} if mime_type else {})}
        wait = _FIRST_PAUSE_SECONDS
        for attempt in range(1, _ATTEMPTS + 1):
            deadline.check()
            built = self._http.build_request(
                rpc.verb,
                sent.path,
                params=sent.parameters,
                content=upload.content() if upload else sent.body,
                headers=headers,
                timeout=deadline.timeout(read_seconds),
            )
            asked_for: float | None = None
            try:
                response = self._http.send(built, stream=True)
                if response.is_success:
                    return response
                response.read()
                retry_after = response.headers.get("retry-after")
                failure = ApiError.from_response(response.status_code, response.text, retry_after)
                if not (repeatable and failure.retryable):
                    raise failure
                asked_for = failure.retry_after_seconds
                last: Exception = failure
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                # The request was not sent, so that any may be repeated.
                if attempt >= _CONNECT_ATTEMPTS or (upload is not None and not upload.repeatable):
                    raise
                last = error
            except (httpx.NetworkError, httpx.RemoteProtocolError) as error:
                if not repeatable:
                    raise
                last = error
            seconds = wait if asked_for is None else asked_for
            if attempt == _ATTEMPTS or seconds > _LONGEST_PAUSE_SECONDS or not deadline.allows(seconds):
                raise last
            pause(seconds)
            wait *= 2
        raise AssertionError("the last attempt returns or raises")


class _Upload:
    """A file that may be sent more than once."""

    def __init__(self, file: BinaryIO, mime_type: str, on_progress: Callable[[int], None] | None) -> None:
        self.mime_type = mime_type
        self.repeatable = file.seekable()
        self._file = file
        self._start = file.tell() if self.repeatable else 0
        self._on_progress = on_progress

    def content(self) -> Iterator[bytes]:
        """Yield the bytes, from the start."""
        if self.repeatable:
            self._file.seek(self._start)
        sent = 0
        for part in parts(self._file):
            yield part
            sent += len(part)
            if self._on_progress:
                self._on_progress(sent)
