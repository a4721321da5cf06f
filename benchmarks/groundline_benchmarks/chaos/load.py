"""A load of searches, chats and documents, each with a marker word that nothing else has."""

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from http import HTTPStatus
from typing import Any, Final

import httpx
from groundline_evidence import EvidenceError, verify

from groundline_benchmarks.chaos.posting import JsonPoster

COLLECTION: Final = "chaos"
_DOCUMENTS: Final = 40
_SYLLABLES: Final = (
    "ba",
    "de",
    "fi",
    "go",
    "ku",
    "la",
    "me",
    "ni",
    "po",
    "ru",
    "sa",
    "te",
    "vi",
    "wo",
    "xu",
    "za",
)
_GIVEN_UP_SECONDS: Final = 60.0
_POOLS: Final = 16


class Kind(StrEnum):
    """Kind of a request."""

    SEARCH = "search"
    CHAT = "chat"
    COMPLETION = "completion"
    """Question by the OpenAI API, through the bridge."""
    VERIFY = "verify"
    """Two claims about a document, one of them false."""
    RATE = "rate"
    """Question, what is said of its answer, the thread that shows it, or its evidence."""
    INGEST = "ingest"


class Outcome(StrEnum):
    """Outcome of a request."""

    OK = "ok"
    DEGRADED = "degraded"
    """An answer that says that something was left out."""
    FAILED = "failed"
    """An error."""
    WRONG = "wrong"
    """An answer that lacks the document with the marker without saying so."""
    CUT = "cut"
    """A stream that broke off."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request and its outcome."""

    kind: Kind
    begun: float
    """Start of the request, by time.monotonic."""
    seconds: float
    outcome: Outcome
    reason: str = ""


def _is_evidence(document: bytes, keys: Sequence[Mapping[str, Any]], word: str) -> bool:
    """Tell whether a document is signed, and has the marker in what the answer was written from."""
    try:
        [answer] = verify(document, keys).values["answers"]
    except EvidenceError:
        return False
    return any(each["isAsServed"] and word in each["text"] for each in answer["passages"])


def marker(number: int) -> str:
    """Return a word that nothing else has."""
    word = ""
    while True:
        number, digit = divmod(number, len(_SYLLABLES))
        word += _SYLLABLES[digit]
        if not number:
            return f"qy{word}q"


def http_client(gateways: Sequence[str], api_key: str) -> httpx.AsyncClient:
    """Return a client that retries nothing that has been sent, unlike the suite's own: the suite's behaviour
    is measured."""
    return httpx.AsyncClient(
        base_url=gateways[0],
        headers={"x-api-key": api_key},
        timeout=_GIVEN_UP_SECONDS,
        transport=_Balancer(gateways),
    )


class _Balancer(httpx.AsyncBaseTransport):
    """Transport that sends requests to one gateway after the other, and to the next if nothing listens, as
    load balancers do.

    Each gateway has several pools: in one of 300 connections httpx lets requests wait for seconds before it
    sends them.
    """

    def __init__(self, gateways: Sequence[str]) -> None:
        limits = httpx.Limits(max_connections=None)
        self._gateways = [httpx.URL(gateway) for gateway in gateways]
        self._pools = [[httpx.AsyncHTTPTransport(limits=limits) for _ in range(_POOLS)] for _ in gateways]
        self._turns = itertools.count()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        turn, count = next(self._turns), len(self._gateways)
        for attempt in range(count):
            number = (turn + attempt) % count
            gateway = self._gateways[number]
            request.url = request.url.copy_with(host=gateway.host, port=gateway.port)
            try:
                return await self._pools[number][turn // count % _POOLS].handle_async_request(request)
            except httpx.ConnectError:
                if attempt == count - 1:
                    raise
        raise AssertionError("the last attempt returns or raises")

    async def aclose(self) -> None:
        for pool in itertools.chain(*self._pools):
            await pool.aclose()


type Search = Callable[[object], Awaitable[tuple[int, str]]]
"""Posts a search, and returns the status and body of its answer; raises OSError."""


@dataclass(slots=True)
class Load:
    """Requests of a number of clients, and their outcomes."""

    client: httpx.AsyncClient
    post_search: Search
    collection: str = COLLECTION
    asked: list[Asked] = field(default_factory=list)
    known: list[str] = field(default_factory=list)
    """Markers of documents that can be found."""
    handed_in: dict[str, str] = field(default_factory=dict)
    """Job of each document whose hand-in was acknowledged, by marker."""
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)
    _turns: "itertools.count[int]" = field(default_factory=itertools.count)

    async def prepare(self, documents: int) -> None:
        """Create the collection, and documents to ask for. Raises httpx.HTTPError."""
        made = await self.client.post("/api/collections", json={"collectionId": self.collection})
        made.raise_for_status()
        for _ in range(documents):
            await self.hand_in()
        while not await self.settled():  # noqa: ASYNC110 (asks a server)
            await asyncio.sleep(0.2)
        self.known = list(self.handed_in)

    @asynccontextmanager
    async def running(
        self,
        *,
        searches: int = 0,
        chats: int = 0,
        hand_ins: int = 0,
        completions: int = 0,
        verifications: int = 0,
        ratings: int = 0,
    ) -> AsyncIterator[None]:
        """Run this many clients within the block; requests under way at its end are awaited."""
        ended = asyncio.Event()

        async def client(ask: Callable[[], Awaitable[None]], pause: float) -> None:
            while not ended.is_set():
                await ask()
                await asyncio.sleep(pause)

        async with asyncio.TaskGroup() as group:
            for ask, count, pause in (
                (self.search, searches, 0.05),
                (self.chat, chats, 0.1),
                (self.hand_in, hand_ins, 0.3),
                (self.complete, completions, 0.1),
                (self.verify, verifications, 0.1),
                (self.rate, ratings, 0.3),
            ):
                for _ in range(count):
                    group.create_task(client(ask, pause))
            try:
                yield
            finally:
                ended.set()

    async def search(self) -> None:
        """Ask for a document by its marker."""
        word = self._next_known()
        async with self._noted(Kind.SEARCH) as note:
            status, answer = await self.post_search({"query": word, "collectionIds": [self.collection]})
            if status != HTTPStatus.OK:
                note(Outcome.FAILED, _reason(answer))
                return
            body = json.loads(answer)
            texts = [passage["chunk"]["text"] for passage in body.get("passages", ())]
            note(*_judged(any(word in text for text in texts), body.get("degraded", ())))

    async def chat(self) -> None:
        """Ask a question about a document by its marker, and read the stream to its end."""
        word = self._next_known()
        question = {
            "query": f"What is the code of {word}?",
            "collectionIds": [self.collection],
            "store": False,
        }
        async with (
            self._noted(Kind.CHAT) as note,
            self.client.stream("POST", "/api/chat", json=question) as response,
        ):
            if response.is_error:
                note(Outcome.FAILED, _reason((await response.aread()).decode()))
                return
            found, last = False, {}
            async for line in response.aiter_lines():
                if line.startswith("data:"):
                    last = json.loads(line.removeprefix("data:"))
                    if "sources" in last:
                        found = word in json.dumps(last["sources"])
            if "error" in last:
                note(Outcome.FAILED, last["error"].get("reason", ""))
            elif "completed" not in last:
                note(Outcome.CUT)
            else:
                note(*_judged(found, last["completed"].get("degraded", ())))

    async def verify(self) -> None:
        """Have two claims about a document checked, and read the stream to its end."""
        word = self._next_known()
        text = f"The code of {word} is {word}-77. The code of {word} is {word}-78."
        body = {"text": text, "collectionIds": [self.collection]}
        async with (
            self._noted(Kind.VERIFY) as note,
            self.client.stream("POST", "/api/verify", json=body) as response,
        ):
            if response.is_error:
                note(Outcome.FAILED, _reason((await response.aread()).decode()))
                return
            verdicts, last = [], {}
            async for line in response.aiter_lines():
                if line.startswith("data:"):
                    last = json.loads(line.removeprefix("data:"))
                    if "claim" in last:
                        verdicts.append(last["claim"]["verdict"])
            if "error" in last:
                note(Outcome.FAILED, last["error"].get("reason", ""))
            elif "completed" not in last:
                note(Outcome.CUT)
            else:
                supported = [verdict == "VERDICT_SUPPORTED" for verdict in verdicts]
                note(*_judged(supported == [True, False], last["completed"].get("degraded", ())))

    async def rate(self) -> None:
        """Ask a question, rate its answer, read the rating in its thread, and verify its evidence; each by a
        request of its own, as long as they succeed."""
        word = self._next_known()
        question = {"query": f"What is the code of {word}?", "collectionIds": [self.collection]}
        answered = await self._rated(self.client.post("/api/answer", json=question), _stored)
        if answered is None or _stored(answered) is not Outcome.OK:
            return
        answer = answered.json()
        thread = f"/api/threads/{answer['threadId']}"
        good = {"feedback": {"rating": "RATING_GOOD"}}
        rating = self.client.post(f"{thread}/messages/{answer['messageId']}:rate", json=good)
        if await self._rated(rating) is None:
            return
        if await self._rated(self.client.get(thread), _shows_rating) is None:
            return
        keys = await self._rated(self.client.get("/.well-known/jwks.json"))
        if keys is None:
            return
        known = keys.json()["keys"]
        await self._rated(
            self.client.get(f"{thread}/evidence"),
            lambda signed: _judged(_is_evidence(signed.content, known, word), ())[0],
        )

    async def _rated(
        self,
        request: Awaitable[httpx.Response],
        outcome: Callable[[httpx.Response], Outcome] = lambda _: Outcome.OK,
    ) -> httpx.Response | None:
        """Record one of the requests around a rating; return its response if it succeeded."""
        found: list[httpx.Response] = []
        async with self._noted(Kind.RATE) as note:
            response = await request
            if response.is_error:
                note(Outcome.FAILED, _reason(response.text))
            else:
                note(outcome(response))
                found.append(response)
        return next(iter(found), None)

    async def complete(self) -> None:
        """Ask a question about a document by its marker, in the OpenAI API."""
        word = self._next_known()
        question = {"role": "user", "content": f"What is the code of {word}?"}
        async with self._noted(Kind.COMPLETION) as note:
            response = await self.client.post(
                "/v1/chat/completions", json={"model": self.collection, "messages": [question]}
            )
            if response.is_error:
                note(Outcome.FAILED, _openai_reason(response.text))
                return
            answer = response.json()["groundline"]
            found = word in json.dumps(answer.get("sources", ()))
            note(*_judged(found, answer["completed"].get("degraded", ())))

    async def hand_in(self) -> None:
        """Hand a new document in, once more with the same request id until it is acknowledged."""
        word = marker(next(self._numbers))
        document = {
            "uri": f"{word}.md",
            "text": f"The code of {word} is {word}-77.",
            "mimeType": "text/plain",
        }
        body = {"documents": [document], "requestId": f"chaos-{word}"}
        for _ in range(20):
            async with self._noted(Kind.INGEST) as note:
                response = await self.client.post(f"/api/collections/{self.collection}/documents", json=body)
                if response.is_error:
                    note(Outcome.FAILED, _reason(response.text))
                else:
                    self.handed_in[word] = response.json()["job"]["jobId"]
                    note(Outcome.OK)
                    return
            await asyncio.sleep(1)

    async def settled(self) -> bool:
        """Tell whether every document that was handed in has ended."""
        listed = await self.client.get(
            "/api/jobs", params={"collectionId": self.collection, "pageSize": 1000}
        )
        listed.raise_for_status()
        states = [job["state"] for job in listed.json().get("jobs", ())]
        return not any(state in ("JOB_STATE_QUEUED", "JOB_STATE_RUNNING") for state in states)

    async def lost_and_doubled(self) -> tuple[Sequence[str], Sequence[str]]:
        """Return the markers whose documents are not found, and those found more than once."""
        lost, doubled = [], []
        for word in self.handed_in:
            response = await self.client.post(
                "/api/search",
                json={
                    "query": word,
                    "collectionIds": [self.collection],
                    "options": {"retrieval": {"mode": "RETRIEVAL_MODE_KEYWORD"}},
                },
            )
            # An error is not an answer: the document is not found.
            found = () if response.is_error else response.json().get("passages", ())
            texts = [passage["chunk"]["text"] for passage in found]
            count = sum(word in text for text in texts)
            if count == 0:
                lost.append(word)
            elif count > 1:
                doubled.append(word)
        return lost, doubled

    def _next_known(self) -> str:
        return self.known[next(self._turns) % len(self.known)]

    @asynccontextmanager
    async def _noted(self, kind: Kind) -> AsyncIterator[Callable[..., None]]:
        """Record the outcome that the block reports, or its failure."""
        begun = time.monotonic()
        said: list[tuple[Outcome, str]] = []

        def note(outcome: Outcome, reason: str = "") -> None:
            said.append((outcome, reason))

        try:
            yield note
        except (httpx.RemoteProtocolError, httpx.ReadError) as error:
            note(Outcome.CUT if kind in (Kind.CHAT, Kind.VERIFY) else Outcome.FAILED, type(error).__name__)
        except (httpx.TransportError, OSError) as error:
            note(Outcome.FAILED, type(error).__name__)
        outcome, reason = said[-1]
        self.asked.append(Asked(kind, begun, time.monotonic() - begun, outcome, reason))


@asynccontextmanager
async def prepared_load(
    gateways: Sequence[str], api_key: str, collection: str = COLLECTION
) -> AsyncIterator[Load]:
    """Provide a client's load on a suite with some documents, spread over its gateways. Raises
    httpx.HTTPError."""
    async with (
        http_client(gateways, api_key) as client,
        JsonPoster(gateways, "/api/search", api_key, _GIVEN_UP_SECONDS) as searches,
    ):
        load = Load(client, searches.post, collection)
        await load.prepare(_DOCUMENTS)
        yield load


def _stored(answered: httpx.Response) -> Outcome:
    """Return the outcome of an answer that is to be rated, which an answer that was not stored cannot be."""
    parts = answered.json()["completed"].get("degraded", ())
    return Outcome.DEGRADED if any(part["component"] == "COMPONENT_HISTORY" for part in parts) else Outcome.OK


def _shows_rating(thread: httpx.Response) -> Outcome:
    return _judged("RATING_GOOD" in thread.text, ())[0]


def _judged(found: bool, degraded: Sequence[object]) -> tuple[Outcome, str]:
    if degraded:
        return Outcome.DEGRADED, ""
    return (Outcome.OK if found else Outcome.WRONG), ""


def _reason(body: str) -> str:
    try:
        details = json.loads(body).get("details", ())
    except ValueError:
        return "NO_JSON"
    return next((str(one["reason"]) for one in details if "reason" in one), "")


def _openai_reason(body: str) -> str:
    try:
        return str(json.loads(body)["error"]["code"]).upper()
    except ValueError:
        return "NO_JSON"
