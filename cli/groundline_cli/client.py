"""A client of the gateway's JSON and server-sent events."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self
from urllib.parse import quote

import httpx

from groundline_cli.connection import Connection
from groundline_cli.errors import ApiError, ProtocolError, UnreachableError
from groundline_cli.sse import EventParser

__all__ = ["GatewayClient", "JsonObject", "has_ended"]

type JsonObject = dict[str, Any]
"""A request or response of protos/groundline/v1 in proto3 JSON: lowerCamelCase, enums by name."""

type Method = Literal["DELETE", "GET", "PATCH", "POST"]

_CONNECT_SECONDS = 5.0
# Above the gateway's own deadlines (120 s for an answer, 600 s for documents), which end a request with a
# proper error: these only notice a gateway that is gone.
_READ_SECONDS = 150.0
_DOCUMENTS_READ_SECONDS = 660.0
_UPLOAD_PART_BYTES = 1 << 20
_STREAM_READ_SECONDS = 330.0

# Between two looks at a job whose stream of changes has ended too early.
_LOOK_AGAIN_SECONDS = 1.0

_ATTEMPTS = 6
_CONNECT_ATTEMPTS = 3
_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 30.0
_PAGE_SIZE = 500


class GatewayClient:
    """One gateway with one key. Use as an async context manager.

    Every method raises UnreachableError, ApiError or ProtocolError. A connection that cannot be made is tried
    again, and so is what is idempotent when the gateway answers 503 or says when to come again.
    """

    def __init__(self, connection: Connection) -> None:
        self._gateway = connection.gateway
        self._http = httpx.AsyncClient(
            base_url=connection.gateway,
            headers={"authorization": f"Bearer {connection.api_key}"},
            timeout=httpx.Timeout(_READ_SECONDS, connect=_CONNECT_SECONDS),
            # A proxy of the environment cannot reach this machine's loopback interface.
            trust_env=not connection.is_loopback,
        )

    async def __aenter__(self) -> Self:
        await self._http.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.__aexit__(kind, error, trace)

    async def search(self, request: JsonObject) -> JsonObject:
        """SearchRequest → SearchResponse."""
        return await self._call("POST", "/api/search", body=request, idempotent=True)

    async def answer(self, request: JsonObject) -> JsonObject:
        """AnswerRequest → AnswerResponse. With a `requestId` it is tried again, and not paid twice."""
        return await self._call(
            "POST", "/api/answer", body=request, idempotent=bool(request.get("requestId"))
        )

    async def chat(self, request: JsonObject) -> AsyncGenerator[JsonObject, None]:
        """ChatRequest → the stream of ChatResponse, ending with `completed`.

        An `error` event is raised as ApiError, a stream that ends without either as UnreachableError.
        """
        async with aclosing(self._events("POST", "/api/chat", body=request)) as events:
            async for event in events:
                if "error" in event:
                    raise ApiError.from_event(event["error"])
                yield event
                if "completed" in event:
                    return
        raise UnreachableError("the answer broke off: the connection ended before it was complete")

    async def create_collection(self, request: JsonObject) -> JsonObject:
        """CreateCollectionRequest → Collection. A retry after a lost answer needs `requestId`."""
        idempotent = bool(request.get("requestId"))
        response = await self._call("POST", "/api/collections", body=request, idempotent=idempotent)
        return _part(response, "collection")

    async def get_collection(self, collection: str) -> JsonObject:
        """The Collection; ApiError with HTTP status 404 where there is none that the caller may read."""
        return _part(await self._call("GET", _collection_path(collection), idempotent=True), "collection")

    def list_collections(self) -> AsyncGenerator[JsonObject, None]:
        """Every Collection that the caller may read, by id."""
        return self._pages("/api/collections", "collections")

    async def update_collection(self, collection: str, request: JsonObject) -> JsonObject:
        """UpdateCollectionRequest → Collection."""
        response = await self._call("PATCH", _collection_path(collection), body=request, idempotent=True)
        return _part(response, "collection")

    async def delete_collection(self, collection: str) -> None:
        """Delete a collection with all its documents."""
        await self._call("DELETE", _collection_path(collection), idempotent=True)

    async def ingest_documents(self, collection: str, request: JsonObject) -> JsonObject:
        """IngestDocumentsRequest (with `requestId`) → IngestDocumentsResponse."""
        return await self._call(
            "POST",
            f"{_collection_path(collection)}/documents",
            body=request,
            idempotent=True,
            read_seconds=_DOCUMENTS_READ_SECONDS,
        )

    async def upload_document(
        self, collection: str, file: Path, *, uri: str, mime_type: str, request_id: str
    ) -> JsonObject:
        """Send a file of any size as it is → UploadDocumentResponse. Raises OSError too."""

        async def content() -> AsyncIterator[bytes]:
            with await asyncio.to_thread(file.open, "rb") as opened:
                while part := await asyncio.to_thread(opened.read, _UPLOAD_PART_BYTES):
                    yield part

        return await self._call(
            "POST",
            f"{_collection_path(collection)}/documents:upload",
            content=content,
            content_type=mime_type or "application/octet-stream",
            params={"uri": uri, "requestId": request_id},
            idempotent=True,
            read_seconds=_DOCUMENTS_READ_SECONDS,
        )

    def list_documents(self, collection: str) -> AsyncGenerator[JsonObject, None]:
        """Every Document of a collection, by uri."""
        return self._pages(f"{_collection_path(collection)}/documents", "documents")

    async def delete_document(self, collection: str, document_id: str) -> None:
        """Delete one document."""
        path = f"{_collection_path(collection)}/documents/{_segment(document_id)}"
        await self._call("DELETE", path, idempotent=True)

    async def delete_documents(self, collection: str, request: JsonObject) -> int:
        """Delete, or with `dryRun` count, what the `filter` of a DeleteDocumentsRequest (with `requestId`)
        selects; how many that are."""
        path = f"{_collection_path(collection)}/documents:delete"
        response = await self._call(
            "POST", path, body=request, idempotent=True, read_seconds=_DOCUMENTS_READ_SECONDS
        )
        return int(response.get("deletedCount", 0))

    async def get_stats(self, collection: str) -> JsonObject:
        """The CollectionStats."""
        return _part(
            await self._call("GET", f"{_collection_path(collection)}/stats", idempotent=True), "stats"
        )

    async def reindex_collection(self, collection: str, request: JsonObject) -> JsonObject:
        """ReindexCollectionRequest (with `requestId`) → IngestionJob."""
        path = f"{_collection_path(collection)}:reindex"
        return _part(await self._call("POST", path, body=request, idempotent=True), "job")

    async def cancel_job(self, job_id: str) -> JsonObject:
        """Cancel what has not ended of a job; the IngestionJob."""
        return _part(await self._call("POST", f"{_job_path(job_id)}:cancel", body={}, idempotent=True), "job")

    async def retry_job(self, job_id: str) -> JsonObject:
        """Queue what failed or was cancelled of a job again; the IngestionJob."""
        return _part(await self._call("POST", f"{_job_path(job_id)}:retry", body={}, idempotent=False), "job")

    async def get_job(self, job_id: str) -> JsonObject:
        """The IngestionJob."""
        return _part(await self._call("GET", _job_path(job_id), idempotent=True), "job")

    def list_job_items(self, job_id: str) -> AsyncGenerator[JsonObject, None]:
        """Every IngestionItem of a job, in the order they were handed in."""
        return self._pages(_job_path(job_id), "items")

    def list_jobs(self, *, limit: int) -> AsyncGenerator[JsonObject, None]:
        """The newest IngestionJobs, `limit` (1 to 500) at most."""
        return self._pages("/api/jobs", "jobs", limit=limit)

    def list_threads(self, *, limit: int) -> AsyncGenerator[JsonObject, None]:
        """The caller's Threads used last, `limit` (1 to 500) at most."""
        return self._pages("/api/threads", "threads", limit=limit)

    def list_messages(self, thread_id: str) -> AsyncGenerator[JsonObject, None]:
        """Every Message of a thread, oldest first."""
        return self._pages(_thread_path(thread_id), "messages")

    async def delete_thread(self, thread_id: str) -> None:
        """Delete a thread with its messages."""
        await self._call("DELETE", _thread_path(thread_id), idempotent=True)

    async def watch_job(self, job_id: str) -> AsyncGenerator[JsonObject, None]:
        """IngestionJob as it changes. The gateway's deadline also ends the stream, without an error."""
        async with aclosing(self._events("GET", f"{_job_path(job_id)}:watch")) as events:
            async for event in events:
                yield _part(event, "job")

    async def wait_for_job(self, job_id: str) -> AsyncGenerator[JsonObject, None]:
        """IngestionJob as it changes, until it has ended, however long that takes."""
        while True:
            async with aclosing(self.watch_job(job_id)) as states:
                async for job in states:
                    yield job
                    if has_ended(job):
                        return
            job = await self.get_job(job_id)
            yield job
            if has_ended(job):
                return
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)

    async def _pages(
        self, path: str, key: str, *, limit: int | None = None
    ) -> AsyncGenerator[JsonObject, None]:
        token = ""
        left = limit
        while True:
            params = {"pageSize": str(min(left or _PAGE_SIZE, _PAGE_SIZE))}
            if token:
                params["pageToken"] = token
            page = await self._call("GET", path, params=params, idempotent=True)
            for item in page.get(key, []):
                yield item
                if left is not None:
                    left -= 1
                    if left == 0:
                        return
            token = page.get("nextPageToken", "")
            if not token:
                return

    async def _call(
        self,
        method: Method,
        path: str,
        *,
        idempotent: bool,
        body: JsonObject | None = None,
        content: Callable[[], AsyncIterator[bytes]] | None = None,
        content_type: str = "",
        params: Mapping[str, str] | None = None,
        read_seconds: float = _READ_SECONDS,
    ) -> JsonObject:
        pause = _FIRST_PAUSE_SECONDS
        timeout = httpx.Timeout(read_seconds, connect=_CONNECT_SECONDS)
        for attempt in range(1, _ATTEMPTS + 1):
            request = self._http.build_request(
                method,
                path,
                json=body,
                content=content() if content else None,
                headers={"content-type": content_type} if content_type else None,
                params=params,
                timeout=timeout,
            )
            try:
                response = await self._http.send(request)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                if attempt >= _CONNECT_ATTEMPTS:
                    raise self._unreachable(error) from error
                wait = pause
            except httpx.HTTPError as error:
                raise self._unreachable(error) from error
            else:
                if response.is_success:
                    return _json_object(response.text)
                refusal = ApiError.from_response(response.status_code, response.text)
                # 429 without a time to wait is no rate limit: the request itself is too much.
                passing = response.status_code == 503 or refusal.retry_after_seconds is not None
                if not (attempt < _ATTEMPTS and idempotent and passing):
                    raise refusal
                wait = min(refusal.retry_after_seconds or pause, _LONGEST_PAUSE_SECONDS)
            await asyncio.sleep(wait)
            pause *= 2
        raise AssertionError("the last attempt returns or raises")

    async def _events(
        self, method: Method, path: str, *, body: JsonObject | None = None
    ) -> AsyncGenerator[JsonObject, None]:
        parser = EventParser()
        async with self._stream(method, path, body) as response:
            async for chunk in response.aiter_bytes():
                for data in parser.feed(chunk):
                    yield _json_object(data)

    @asynccontextmanager
    async def _stream(
        self, method: Method, path: str, body: JsonObject | None
    ) -> AsyncIterator[httpx.Response]:
        timeout = httpx.Timeout(_STREAM_READ_SECONDS, connect=_CONNECT_SECONDS)
        headers = {"accept": "text/event-stream"}
        try:
            async with self._http.stream(
                method, path, json=body, headers=headers, timeout=timeout
            ) as response:
                if not response.is_success:
                    await response.aread()
                    raise ApiError.from_response(response.status_code, response.text)
                content_type = response.headers.get("content-type", "")
                if not content_type.startswith("text/event-stream"):
                    raise ProtocolError(
                        f"{self._gateway} answers {content_type or 'nothing'} to {path}, not events"
                    )
                yield response
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error

    def _unreachable(self, error: httpx.HTTPError) -> UnreachableError:
        match error:
            case httpx.ConnectError() | httpx.ConnectTimeout():
                return UnreachableError(f"no connection to {self._gateway}: is the suite running?")
            case httpx.TimeoutException():
                return UnreachableError(f"{self._gateway} does not answer")
            case _:
                return UnreachableError(f"the connection to {self._gateway} broke off: {error}")


def has_ended(job: JsonObject) -> bool:
    """Whether an IngestionJob has."""
    return job.get("state") not in ("JOB_STATE_QUEUED", "JOB_STATE_RUNNING")


def _collection_path(collection: str) -> str:
    return f"/api/collections/{_segment(collection)}"


def _job_path(job_id: str) -> str:
    return f"/api/jobs/{_segment(job_id)}"


def _thread_path(thread_id: str) -> str:
    return f"/api/threads/{_segment(thread_id)}"


def _segment(text: str) -> str:
    return quote(text, safe="")


def _json_object(text: str) -> JsonObject:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise ProtocolError("the answer is not a JSON object: is this the address of a Groundline gateway?")
    return value


def _part(message: JsonObject, key: str) -> JsonObject:
    part = message.get(key)
    if not isinstance(part, dict):
        raise ProtocolError(f"the answer holds no {key}: is this the address of a Groundline gateway?")
    return part
