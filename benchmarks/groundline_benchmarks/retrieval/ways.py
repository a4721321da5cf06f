"""Ways to a search: the database alone, the ports of the services, the gateway."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

import aiohttp
import grpc
from google.protobuf import json_format
from groundline.v1 import (
    retriever_service_pb2,
    retriever_service_pb2_grpc,
)
from groundline_cli.stack.suite import LOCAL_PRINCIPAL
from groundline_client import AsyncClient, JsonObject
from groundline_client.models import ChatCompleted, FinishReason
from groundline_embedding import EmbeddingSettings, create_embedder
from groundline_runtime.context import PRINCIPALS_KEY
from pgvector import HalfVector

from groundline_benchmarks.measuring.running import MeasurementError
from groundline_benchmarks.measuring.suite import Suite
from groundline_benchmarks.retrieval.cases import (
    ANSWER,
    FLOOR,
    FLOOR_WITH_TEXTS,
    GATEWAY,
    RETRIEVER,
    WEAVIATE_GATEWAY,
    WEAVIATE_RETRIEVER,
    Case,
    Search,
)
from groundline_benchmarks.retrieval.floor import open_floor
from groundline_benchmarks.retrieval.hops import open_hops

_TIMEOUT_SECONDS: Final = 60.0
# As the gateway identifies its client, so that every way has the same access.
_METADATA: Final = ((PRINCIPALS_KEY, LOCAL_PRINCIPAL),)


@dataclass(frozen=True, slots=True)
class Services:
    """Ports of the suite. Each call raises MeasurementError if the answer is not complete."""

    http: aiohttp.ClientSession
    """Client of the gateway that takes little time of its own, as those of other languages do."""
    client: AsyncClient
    retriever: Any

    async def search(self, request: JsonObject) -> None:
        """Search by the retriever's own port."""
        message = json_format.ParseDict(request, retriever_service_pb2.SearchRequest())
        response = await self.retriever.Search(message, timeout=_TIMEOUT_SECONDS, metadata=_METADATA)
        _require_whole(response.degraded)
        _require_found(response.passages)

    async def post_search(self, request: JsonObject) -> None:
        """Search through the gateway."""
        async with self.http.post("/api/search", json=request) as response:
            if response.status != HTTPStatus.OK:
                raise MeasurementError(f"HTTP {response.status}: {await response.text()}")
            found = json.loads(await response.read())
        _require_whole(found.get("degraded"))
        _require_found(found.get("passages"))

    async def post_answer(self, request: JsonObject) -> None:
        """Answer through the gateway, by the model that the suite runs with."""
        answer = await self.client.answer(
            request["query"], collection_ids=request["collectionIds"], options=request["options"]
        )
        completed = answer.completed or ChatCompleted()
        _require_whole(completed.degraded)
        if completed.finish_reason == FinishReason.NO_ANSWER:
            raise MeasurementError("a question was not answered, so its time says nothing")


@asynccontextmanager
async def open_services(suite: Suite, client: AsyncClient) -> AsyncIterator[Services]:
    """Open a channel to the retriever, beside a client of the gateway."""
    connection = suite.connection
    async with (
        aiohttp.ClientSession(
            connection.gateway,
            headers={"authorization": f"Bearer {connection.api_key}", "accept-encoding": "identity"},
        ) as http,
        grpc.aio.insecure_channel(suite.addresses["retriever"]) as to_retriever,
    ):
        yield Services(
            http,
            client,
            retriever_service_pb2_grpc.RetrieverServiceStub(to_retriever),
        )


@dataclass(frozen=True, slots=True)
class Way:
    search: Search
    pids: Mapping[str, int]
    """Process ids of the suite that it leads to."""


@asynccontextmanager
async def open_ways(
    suite: Suite, collection: str, queries: Sequence[str], on_weaviate: Suite | None = None
) -> AsyncIterator[Mapping[str, Way]]:
    """Provide all ways, by name, to search one collection for any of the queries; with `on_weaviate`, a suite
    on the same database that searches Weaviate, its ways in place of the bare hops."""
    async with create_embedder(EmbeddingSettings()) as embedder:
        vectors = {query: HalfVector(await embedder.embed_query(query)) for query in queries}
    async with AsyncExitStack() as stack:
        floor = await stack.enter_async_context(open_floor(suite.database_url, collection, vectors))

        async def services_of(one: Suite) -> Services:
            client = await stack.enter_async_context(one.connection.client())
            return await stack.enter_async_context(open_services(one, client))

        def over(call: Any) -> Search:
            async def search(case: Case, query: str) -> None:
                await call(case.request(query, collection))

            return search

        services = await services_of(suite)
        ways = {
            FLOOR: floor.search,
            FLOOR_WITH_TEXTS: floor.search_and_fetch,
            RETRIEVER: over(services.search),
            GATEWAY: over(services.post_search),
            ANSWER: over(services.post_answer),
        }
        found = {name: Way(search, suite.pids) for name, search in ways.items()}
        if on_weaviate is None:
            # PostgreSQL has no connections left for them beside two suites.
            hops, pids = await stack.enter_async_context(open_hops(suite.database_url, collection, vectors))
            found |= {name: Way(search, {**suite.pids, **pids}) for name, search in hops.items()}
        else:
            services = await services_of(on_weaviate)
            ways = {
                WEAVIATE_RETRIEVER: over(services.search),
                WEAVIATE_GATEWAY: over(services.post_search),
            }
            found |= {name: Way(search, on_weaviate.pids) for name, search in ways.items()}
        yield found


def _require_whole(degraded: object) -> None:
    if degraded:
        raise MeasurementError(f"a search was degraded, so its time says nothing: {degraded}")


def _require_found(passages: object) -> None:
    if not passages:
        raise MeasurementError("a search found nothing, so its time says nothing")
