"""Checks through the gateway, which need only a key."""

import itertools
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

import httpx
from groundline_client import ApiError, AsyncClient, GatewayError, is_loopback
from groundline_client.models import (
    Collection,
    Component,
    Degradation,
    IngestionState,
    RerankStrategy,
    VectorIndexState,
)

from groundline_cli.connection import Connection
from groundline_cli.doctor.findings import Finding, Level

MOST_COLLECTIONS: Final = 100
"""Maximum collections to check; each takes a request."""

TRIAL_SECONDS: Final = 60.0
"""Deadline of one search or answer, in seconds; long, since a model may be loading."""

MOST_SKEW_SECONDS: Final = 5.0
"""Maximum difference between two clocks, in seconds."""

_QUESTION: Final = "What is described here?"
_BY_MODEL: Final = (RerankStrategy.CROSS_ENCODER, RerankStrategy.API, RerankStrategy.LLM)
_EXTRACTIVE: Final = "extractive"

_ADVICE: Final[Mapping[str, str]] = {
    "EMBEDDING_MODEL_MISMATCH": "run `groundline reindex` on the collections of the other model, or give "
    "retriever and ingestor the model that they were embedded with",
    "LEXICAL_BACKEND_MISMATCH": "run `groundline reindex` on the collections of the other keyword engine",
    "LEXICAL_INDEX_UNSOUND": "wait until a worker has rebuilt the index; if none does, look at the log of "
    "the ingestor",
    "DATABASE_UNAVAILABLE": "look at the database, and at database_url of the service",
    "DATABASE_BUSY": "look for long statements in the database, and at the sizes of the pools",
    "DATABASE_FULL": "give the database more disk",
    "PROVIDER_ACCESS_DENIED": "give the generator a key that the provider accepts",
    "PROVIDER_QUOTA_EXHAUSTED": "raise the quota at the provider",
    "PROVIDER_UNAVAILABLE": "see that the generator's machine reaches the provider's address",
    "PROVIDER_TIMEOUT": "see that the generator's machine reaches the provider's address",
    "MODEL_NOT_AVAILABLE": "set a model that the provider has",
    "MODEL_NOT_LOADED": "see that the reranker has the model's files or can download them, or choose another "
    "strategy for the collection",
    "CROSS_ENCODER_NOT_INSTALLED": "install groundline-reranker[cross-encoder], or choose another strategy "
    "for the collection",
    "STRATEGY_NOT_CONFIGURED": "give the reranker the settings of the strategy, or choose another one for "
    "the collection",
    "SERVICE_UNAVAILABLE": "look at the log of the service",
}
_LOOK: Final = "look at the logs of the services by this trace or error id"


async def gateway_findings(connection: Connection) -> AsyncIterator[Finding]:
    """Check from whether the gateway answers to whether a question is answered; stop where further checks
    cannot succeed."""
    reached = False
    async for finding in _reached(connection):
        reached = finding.level is not Level.ERROR or finding.check != "gateway"
        yield finding
    if not reached:
        return
    async with connection.client() as client:
        try:
            first = await _first(client)
        except GatewayError as error:
            yield _refused(error)
            return
        yield Finding("key", Level.OK, f"accepted; it may read {_counted(first)}")
        if not first:
            yield Finding("search", Level.SKIPPED, "there is no collection to search")
            return
        for collection in first:
            async for finding in _collection(client, collection):
                yield finding
        for finding in _models(first):
            yield finding
        filled = [collection for collection in first if collection.chunk_count]
        if not filled:
            yield Finding("search", Level.SKIPPED, "no collection holds anything")
            return
        async for finding in _trials(client, filled):
            yield finding
        async for finding in _strategies(client, filled):
            yield finding


async def _reached(connection: Connection) -> AsyncIterator[Finding]:
    """Check address, health and clock."""
    async with httpx.AsyncClient(
        base_url=connection.gateway, trust_env=not is_loopback(connection.gateway), timeout=10
    ) as http:
        try:
            asked = time.time()
            health = await http.get("/healthz")
            answered = time.time()
        except httpx.HTTPError as error:
            yield Finding(
                "gateway",
                Level.ERROR,
                f"{connection.gateway} cannot be reached ({type(error).__name__})",
                "start the suite, or set GROUNDLINE_GATEWAY_URL to where its gateway listens",
            )
            return
        status = _member(health, "status")
        if status not in ("SERVING", "NOT_SERVING"):
            yield Finding(
                "gateway",
                Level.ERROR,
                f"{connection.gateway} is not a Groundline gateway (HTTP {health.status_code})",
                "set GROUNDLINE_GATEWAY_URL to the gateway's address",
            )
            return
        yield Finding("gateway", Level.OK, f"{connection.gateway} answers")
        if status == "SERVING":
            yield Finding("services", Level.OK, "each service has a replica that is ready")
        else:
            yield Finding(
                "services",
                Level.ERROR,
                "a service has no replica that is ready",
                "its log says which of its dependencies fails, as service_not_ready",
            )
        yield _clock(health.headers.get("date"), (asked + answered) / 2)


def _clock(date: str | None, here: float) -> Finding:
    try:
        there = parsedate_to_datetime(date or "").timestamp()
    except ValueError:
        return Finding("clock", Level.SKIPPED, "the gateway does not say what time it is")
    # The header is cut to the second.
    skew = max(abs(there + 0.5 - here) - 0.5, 0.0)
    if skew > MOST_SKEW_SECONDS:
        return Finding(
            "clock",
            Level.WARNING,
            f"the gateway's clock and the one here differ by {skew:.0f} s",
            "let NTP set both: tokens and keys end by the clock",
        )
    return Finding(
        "clock", Level.OK, f"{datetime.fromtimestamp(there, UTC):%Y-%m-%dT%H:%M:%SZ} there as here"
    )


async def _first(client: AsyncClient) -> Sequence[Collection]:
    found: list[Collection] = []
    async for collection in client.list_collections():
        found.append(collection)
        if len(found) == MOST_COLLECTIONS:
            break
    return found


def _counted(collections: Sequence[Collection]) -> str:
    count = len(collections)
    if count == MOST_COLLECTIONS:
        return f"{count} collections or more, of which {count} are looked at"
    return "1 collection" if count == 1 else f"{count} collections"


def _refused(error: GatewayError) -> Finding:
    if isinstance(error, ApiError) and error.http_status in (401, 403):
        return Finding(
            "key",
            Level.ERROR,
            str(error),
            "make a key with `groundline keys create`, and set GROUNDLINE_API_KEY",
        )
    return _failed("ingestor", error)


def _failed(check: str, error: GatewayError) -> Finding:
    reason = error.reason if isinstance(error, ApiError) else ""
    return Finding(check, Level.ERROR, str(error), _ADVICE.get(reason, _LOOK))


async def _collection(client: AsyncClient, collection: Collection) -> AsyncIterator[Finding]:
    """Check that every document was ingested and can be found."""
    name = f"collection {collection.collection_id}"
    try:
        stats = await client.get_collection_stats(collection.collection_id)
    except GatewayError as error:
        yield _failed(name, error)
        return
    sound = True
    failed = sum(each.document_count for each in stats.states if each.state == IngestionState.FAILED)
    if failed:
        sound = False
        yield Finding(
            name,
            Level.WARNING,
            f"{failed} documents could not be ingested",
            "`groundline jobs` names the jobs, `groundline jobs JOB` the reasons, --retry tries again",
        )
    if stats.orphan_count:
        sound = False
        yield Finding(
            name,
            Level.ERROR,
            f"{stats.orphan_count} chunks belong to no document",
            f"run `groundline reindex {collection.collection_id}`, and report it",
        )
    if stats.vector_count < stats.chunk_count:
        sound = False
        yield Finding(
            name,
            Level.ERROR,
            f"{stats.chunk_count - stats.vector_count} of {stats.chunk_count} chunks have no vector",
            f"run `groundline reindex {collection.collection_id}`",
        )
    if stats.vector_index == VectorIndexState.PENDING:
        sound = False
        yield Finding(
            name,
            Level.WARNING,
            f"its {stats.chunk_count} vectors have no index yet: searches read all of them",
            "wait until ingestion has settled; if it stays so, look at the log of the ingestor",
        )
    if sound:
        yield Finding(name, Level.OK, f"{collection.document_count} documents, {stats.chunk_count} chunks")


def _models(collections: Iterable[Collection]) -> Iterable[Finding]:
    of = Counter(map(_model, collections))
    shown = "; ".join(f"{model} in {count} of {of.total()} collections" for model, count in of.items())
    yield Finding("embedding models", Level.OK, shown)


def _model(collection: Collection) -> str:
    embedding = collection.settings.embedding if collection.settings else None
    return embedding.model if embedding else ""


async def _trials(client: AsyncClient, collections: Sequence[Collection]) -> AsyncIterator[Finding]:
    """Try a search for each embedding model, and a question."""
    largest = sorted(collections, key=lambda each: each.chunk_count, reverse=True)
    for model, group in itertools.groupby(sorted(largest, key=_model), key=_model):
        names = [each.collection_id for each in itertools.islice(group, 10)]
        begun = time.monotonic()
        try:
            found = await client.search(_QUESTION, collection_ids=names, timeout_seconds=TRIAL_SECONDS)
        except GatewayError as error:
            yield _failed("search", error)
            continue
        yield _degraded("search", found.degraded) or Finding(
            "search",
            Level.OK,
            f"{len(found.passages)} passages in {(time.monotonic() - begun) * 1000:.0f} ms ({model})",
        )
    begun = time.monotonic()
    try:
        answer = await client.answer(
            _QUESTION,
            collection_ids=[largest[0].collection_id],
            options={"generation": {"max_output_tokens": 64}},
            store=False,
            timeout_seconds=TRIAL_SECONDS,
        )
    except GatewayError as error:
        yield _failed("answer", error)
        return
    completed = answer.completed
    model = completed.model if completed else ""
    if finding := _degraded("answer", completed.degraded if completed else ()):
        yield finding
    elif model == _EXTRACTIVE:
        yield Finding("answer", Level.OK, "the generator answers; no language model is configured")
    else:
        seconds = time.monotonic() - begun
        yield Finding(
            "answer", Level.OK, f"the generator answers by {model or 'refusing'} in {seconds:.1f} s"
        )


async def _strategies(client: AsyncClient, collections: Iterable[Collection]) -> AsyncIterator[Finding]:
    """Try the model of each strategy that a collection's searches have by default: without it they keep the
    fused order, and only `degraded` says so."""
    first: dict[RerankStrategy, Collection] = {}
    for collection in collections:
        rerank = collection.settings.rerank if collection.settings else None
        if rerank and rerank.strategy in _BY_MODEL:
            first.setdefault(rerank.strategy, collection)
    for strategy, collection in first.items():
        check = f"strategy {strategy.name.lower()}"
        try:
            found = await client.search(
                _QUESTION, collection_ids=[collection.collection_id], timeout_seconds=TRIAL_SECONDS
            )
        except GatewayError as error:
            yield _failed(check, error)
            continue
        yield _degraded(check, found.degraded) or Finding(
            check, Level.OK, f"its model answers for {collection.collection_id}"
        )


def _degraded(check: str, degraded: Sequence[Degradation]) -> Finding | None:
    """Report the parts that were skipped; without a search arm, results are much worse."""
    if not degraded:
        return None
    messages = "; ".join(dict.fromkeys(each.message for each in degraded))
    advice = next((_ADVICE[each.reason.name] for each in degraded if each.reason.name in _ADVICE), _LOOK)
    serious = {Component.KEYWORD_ARM, Component.SEMANTIC_ARM}
    level = Level.ERROR if serious & {each.component for each in degraded} else Level.WARNING
    return Finding(check, level, messages, advice)


def _member(response: httpx.Response, name: str) -> object:
    """Return a member of the JSON object in a body, or None."""
    try:
        body = response.json()
    except ValueError:
        return None
    return body.get(name) if isinstance(body, dict) else None
