"""Ingestors as in production, on a real port and a real database, with an embedder that needs no model."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import grpc
from groundline.v1.ingestor_service_pb2_grpc import IngestorServiceStub, add_IngestorServiceServicer_to_server
from groundline_collector.__main__ import wire
from groundline_collector.settings import CollectorSettings
from groundline_database import Pool, acquire, page_token_key
from groundline_embedding import Embedders
from groundline_indexing.preparation import open_sandbox
from groundline_ingestor.__main__ import open_collector, wire_on, working
from groundline_ingestor.adapters.postgres.stores import stores_on
from groundline_ingestor.service.worker.worker import Worker
from groundline_ingestor.servicer import SERVICE_NAME
from groundline_ingestor.settings import IngestorSettings
from groundline_lexical import detect_lexical_index
from groundline_runtime.paging import PageTokens
from groundline_runtime.serving.server import Application
from groundline_validation import validate
from pydantic import SecretStr

from groundline_tests.embedding import FakeEmbedder
from groundline_tests.runtime import serve


@asynccontextmanager
async def collector(**settings: Any) -> AsyncIterator[str]:
    """Yield the target of a collector. Unless the settings say otherwise, it reaches private addresses."""
    chosen = CollectorSettings(**{"private_addresses": True, **settings})
    async with wire(chosen) as application, serve(application, chosen) as target:
        yield target


@asynccontextmanager
async def replica(
    pool: Pool, database_url: str, *, collecting: Mapping[str, Any] | None = None, **settings: Any
) -> AsyncIterator[Any]:
    """Yield a stub of an ingestor that works, unless it is given no workers, with a collector of its own.

    Unless the settings say otherwise, its leases last a second. `collecting`: the collector's settings.
    """
    async with collector(**collecting or {}) as target:
        chosen = IngestorSettings(
            database_url=SecretStr(database_url),
            **{"lease_seconds": 1, "collector_target": target, **settings},
        )
        async with idle_replica(pool, chosen) as (stub, worker), working(worker, chosen):
            yield stub


@asynccontextmanager
async def idle_replica(pool: Pool, settings: IngestorSettings) -> AsyncIterator[tuple[Any, Worker]]:
    """Provide a stub of an ingestor, and its worker, which is not at work."""
    async with acquire(pool) as connection:
        stores = stores_on(pool, await detect_lexical_index(connection))
    async with open_sandbox(settings) as sandbox, open_collector(settings) as collector:
        page_tokens = PageTokens(await page_token_key(pool, "ingestor"))
        servicer, worker = wire_on(
            settings, stores, Embedders([FakeEmbedder()]), sandbox, page_tokens, collector=collector
        )
        application = Application(
            {SERVICE_NAME: lambda server: add_IngestorServiceServicer_to_server(servicer, server)},
            validate=validate,
        )
        async with serve(application) as target, grpc.aio.insecure_channel(target) as channel:
            yield IngestorServiceStub(channel), worker
