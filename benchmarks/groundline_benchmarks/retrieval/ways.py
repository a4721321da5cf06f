"""The ways to a search: the database alone, the ports of the services, the gateway."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import aiohttp
import grpc
from google.protobuf import json_format
from groundline.v1 import (
    coordinator_service_pb2,
    coordinator_service_pb2_grpc,
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
    COORDINATOR,
    FLOOR,
    FLOOR_WITH_TEXTS,
    GATEWAY,
    RETRIEVER,
    WEAVIATE_COORDINATOR,
    WEAVIATE_GATEWAY,
    WEAVIATE_RETRIEVER,
    Case,
    Search,
)
from groundline_benchmarks.retrieval.floor import open_floor
from groundline_benchmarks.retrieval.hops import open_hops

__all__ = ["Services", "Way", "open_services", "open_ways"]

_TIMEOUT_SECONDS = 60.0
# As the gateway says whom it lets in, so that every way is allowed the same.
_METADATA = ((PRINCIPALS_KEY, LOCAL_PRINCIPAL),)


@dataclass(frozen=True)
class Services:
    """The suite's ports. Each call raises MeasurementError where the answer is not whole."""

    http: aiohttp.ClientSession
    """To the gateway, by a client that takes little time of its own, as other languages have them."""
    client: AsyncClient
    retriever: Any
    coordinator: Any

    async def retrieve(self, request: JsonObject) -> None:
        """`request` is a search as the gateway takes it."""
        only_retrieval = {**request, "options": request["options"]["retrieval"]}
        message = json_format.ParseDict(only_retrieval, retriever_service_pb2.RetrieveRequest())
        response = await self.retriever.Retrieve(message, timeout=_TIMEOUT_SECONDS, metadata=_METADATA)
        _require_whole(response.degraded)

    async def search(self, request: JsonObject) -> None:
        """By the coordinator's own port."""
        message = json_format.ParseDict(request, coordinator_service_pb2.SearchRequest())
        response = await self.coordinator.Search(message, timeout=_TIMEOUT_SECONDS, metadata=_METADATA)
        _require_whole(response.degraded)
        _require_found(response.passages)

    async def post_search(self, request: JsonObject) -> None:
        """Through the gateway."""
        async with self.http.post("/api/search", json=request) as response:
            if response.status != HTTPStatus.OK:
                raise MeasurementError(f"HTTP {response.status}: {await response.text()}")
            found = json.loads(await response.read())
        _require_whole(found.get("degraded"))
        _require_found(found.get("passages"))

    async def post_answer(self, request: JsonObject) -> None:
        """Through the gateway, by the model that the suite runs with."""
        answer = await self.client.answer(
            request["query"], collection_ids=request["collectionIds"], options=request["options"]
        )
        completed = answer.completed or ChatCompleted()
        _require_whole(completed.degraded)
        if completed.finish_reason == FinishReason.NO_ANSWER:
            raise MeasurementError("a question was not answered, so its time says nothing")


@asynccontextmanager
async def open_services(suite: Suite, client: AsyncClient) -> AsyncIterator[Services]:
    """Channels to the retriever and the coordinator, beside a client of the gateway."""
    connection = suite.connection
    async with (
        aiohttp.ClientSession(
            connection.gateway,
            headers={"authorization": f"Bearer {connection.api_key}", "accept-encoding": "identity"},
        ) as http,
        grpc.aio.insecure_channel(suite.addresses["retriever"]) as to_retriever,
        grpc.aio.insecure_channel(suite.addresses["coordinator"]) as to_coordinator,
    ):
        yield Services(
            http,
            client,
            retriever_service_pb2_grpc.RetrieverServiceStub(to_retriever),
            coordinator_service_pb2_grpc.CoordinatorServiceStub(to_coordinator),
        )


@dataclass(frozen=True)
class Way:
    search: Search
    pids: Mapping[str, int]
    """Of the suite that it leads to."""


@asynccontextmanager
async def open_ways(
    suite: Suite, collection: str, queries: Sequence[str], on_weaviate: Suite | None = None
) -> AsyncIterator[Mapping[str, Way]]:
    """All ways, by name, to search one collection for any of the queries; with `on_weaviate`, a suite on the
    same database that searches Weaviate, its ways in place of the bare hops."""
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
            RETRIEVER: over(services.retrieve),
            COORDINATOR: over(services.search),
            GATEWAY: over(services.post_search),
            ANSWER: over(services.post_answer),
        }
        found = {name: Way(search, suite.pids) for name, search in ways.items()}
        if on_weaviate is None:
            # Beside two suites, PostgreSQL would have no connections left for them.
            hops, pids = await stack.enter_async_context(open_hops(suite.database_url, collection, vectors))
            found |= {name: Way(search, {**suite.pids, **pids}) for name, search in hops.items()}
        else:
            services = await services_of(on_weaviate)
            ways = {
                WEAVIATE_RETRIEVER: over(services.retrieve),
                WEAVIATE_COORDINATOR: over(services.search),
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
