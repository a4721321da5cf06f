"""Requests of a load, each about a document with a word of its own, by which a wrong answer is noticed."""

import itertools
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from typing import Any, Final

import aiohttp
import numpy as np
from groundline_cli.connection import Connection
from groundline_cli.ingestion import ingest_documents
from groundline_client import AsyncClient

from groundline_benchmarks.chaos.load import marker
from groundline_benchmarks.load.sending import Ended, Reply
from groundline_benchmarks.measuring.running import MeasurementError, Report
from groundline_benchmarks.measuring.texts import texts, words

COLLECTION: Final = "bench-load"
_GIVEN_UP_SECONDS: Final = 60.0
_REFUSALS: Final = {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}
_REFUSED_STREAM: Final = b'"reason":"OVERLOADED"'
_UNFINISHED: Final = {"JOB_STATE_QUEUED", "JOB_STATE_RUNNING"}
_NO_DEGRADATION: Final = b'"degraded":[]'


def _search(word: str, other: str) -> tuple[str, Any]:
    return "/api/search", {"query": f"{word} {other}", "collectionIds": [COLLECTION]}


def _question(word: str, other: str) -> str:
    return f"What is the code of {word} in {other}?"


def _ask(path: str, word: str, other: str) -> tuple[str, Any]:
    return path, {"query": _question(word, other), "collectionIds": [COLLECTION], "store": False}


def _completion(word: str, other: str) -> tuple[str, Any]:
    question = {"role": "user", "content": _question(word, other)}
    return "/v1/chat/completions", {"model": COLLECTION, "messages": [question]}


def _tool(word: str, other: str) -> tuple[str, Any]:
    arguments = {"query": f"{word} {other}", "collections": [COLLECTION]}
    call = {"name": "search_documents", "arguments": arguments}
    return "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}


def _document(word: str, text: str) -> dict[str, Any]:
    return {"uri": f"{word}.md", "text": f"The code of {word} is {word}-77. {text}", "mimeType": "text/plain"}


def _hand_in(word: str, other: str) -> tuple[str, Any]:
    return f"/api/collections/{COLLECTION}/documents", {"documents": [_document(word, other)]}


_ASKING: Final[Mapping[str, Callable[[str, str], tuple[str, Any]]]] = {
    "search": _search,
    "answer": partial(_ask, "/api/answer"),
    "chat": partial(_ask, "/api/chat"),
    "completion": _completion,
    "tool": _tool,
    "ingest": _hand_in,
}

KINDS: Final = tuple(_ASKING)
"""Kinds of requests: `completion` is the OpenAI API's, `tool` the Model Context Protocol's."""


class Requests:
    """Requests to a gateway that has documents to ask for. Nothing is sent twice, and each asks in words of
    its own, as people do, so that no cache has its vector."""

    def __init__(self, client: AsyncClient, session: aiohttp.ClientSession, documents: int) -> None:
        self._client = client
        self._session = session
        self._known = itertools.cycle(range(documents))
        self._new = itertools.count(documents)
        self._others = itertools.cycle(words())

    async def ask(self, kind: str) -> Reply:
        """Send a request, and read its answer to the end."""
        word = marker(next(self._new if kind == "ingest" else self._known))
        path, body = _ASKING[kind](word, next(self._others))
        try:
            async with self._session.post(path, json=body) as response:
                if response.status >= HTTPStatus.BAD_REQUEST:
                    is_refusal = response.status in _REFUSALS and "retry-after" in response.headers
                    return Reply(Ended.REFUSED if is_refusal else Ended.FAILED, str(response.status))
                if kind == "chat":
                    return await _streamed(response, word)
                return _judged(await response.read(), None if kind == "ingest" else word)
        except (aiohttp.ClientError, TimeoutError) as error:
            return Reply(Ended.FAILED, type(error).__name__)

    async def settled(self) -> None:
        """Wait until every document that was handed in has ended. Raises GatewayError."""
        async for job in self._client.list_jobs(collection_id=COLLECTION):
            if job.state in _UNFINISHED:
                await self._client.wait_for_job(job.job_id)


@asynccontextmanager
async def prepared_requests(
    connection: Connection, documents: int, report: Report
) -> AsyncIterator[Requests]:
    """Provide the requests on a new collection of documents, which is deleted afterwards.

    Raises GatewayError; MeasurementError if a document cannot be ingested.
    """
    report(f"{documents} documents to ask for")
    async with connection.client() as client:
        await client.create_collection(COLLECTION, name=COLLECTION)
        try:
            inputs = (
                _document(marker(number), text)
                for number, text in enumerate(texts(np.random.default_rng(1), documents))
            )
            if (await ingest_documents(client, inputs, COLLECTION, total=documents)).failures:
                raise MeasurementError("documents to ask for could not be ingested")
            async with aiohttp.ClientSession(
                connection.gateway,
                headers={"x-api-key": connection.api_key, "accept": "application/json, text/event-stream"},
                connector=aiohttp.TCPConnector(limit=0),
                timeout=aiohttp.ClientTimeout(total=_GIVEN_UP_SECONDS),
            ) as session:
                yield Requests(client, session, documents)
        finally:
            await client.delete_collection(COLLECTION)


async def _streamed(response: aiohttp.ClientResponse, word: str) -> Reply:
    """Read a stream. Only names of events are looked for: to read JSON would take the suite's processors."""
    first, received = None, bytearray()
    async for data in response.content.iter_any():
        received += data
        if first is None and b'"delta":' in received:
            first = time.perf_counter()
    if b'"completed":' not in received:
        ended = Ended.REFUSED if _REFUSED_STREAM in received else Ended.FAILED
        return Reply(ended, "an error in the stream" if b'"error":' in received else "cut off", first)
    judged = _judged(received, word)
    return Reply(judged.ended, judged.reason, first)


def _judged(answer: bytes | bytearray, word: str | None) -> Reply:
    if b'"degraded":' in answer and _NO_DEGRADATION not in answer:
        return Reply(Ended.DEGRADED)
    if word is not None and f"{word}-77".encode() not in answer:
        return Reply(Ended.FAILED, "a wrong answer")
    return Reply(Ended.ANSWERED)
