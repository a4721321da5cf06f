"""Ingestors as in production, on a real port and a real database, with an embedder that needs no model."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
from groundline.v1.ingestor_service_pb2_grpc import (
    IngestorServiceStub,
    add_IngestorServiceServicer_to_server,
)
from groundline_database import Pool, acquire, page_token_key
from groundline_ingestor.__main__ import assemble, open_sandbox, stores_on, working
from groundline_ingestor.service.worker import Worker
from groundline_ingestor.servicer import SERVICE_NAME
from groundline_ingestor.settings import IngestorSettings
from groundline_lexical import detect_lexical_index
from groundline_runtime.paging import PageTokens
from groundline_runtime.server import Application
from pydantic import SecretStr

from groundline_tests.embedding import FakeEmbedder
from groundline_tests.runtime import serve

__all__ = ["idle_replica", "replica"]


@asynccontextmanager
async def replica(pool: Pool, database_url: str, **settings: Any) -> AsyncIterator[Any]:
    """A stub of an ingestor that works, unless it is given no workers.

    Unless the settings say otherwise, its leases last a second and it crawls private addresses.
    """
    chosen = IngestorSettings(
        database_url=SecretStr(database_url),
        **{"lease_seconds": 1, "crawl_private_addresses": True, **settings},
    )
    async with idle_replica(pool, chosen) as (stub, worker), working(worker, chosen):
        yield stub


@asynccontextmanager
async def idle_replica(pool: Pool, settings: IngestorSettings) -> AsyncIterator[tuple[Any, Worker]]:
    """A stub of an ingestor, and its worker, which is not at work."""
    async with acquire(pool) as connection:
        stores = stores_on(pool, await detect_lexical_index(connection))
    async with open_sandbox(settings) as sandbox:
        page_tokens = PageTokens(await page_token_key(pool, "ingestor"))
        servicer, worker = assemble(settings, stores, FakeEmbedder(), sandbox, page_tokens)
        application = Application(
            {SERVICE_NAME: lambda server: add_IngestorServiceServicer_to_server(servicer, server)}
        )
        async with serve(application) as target, grpc.aio.insecure_channel(target) as channel:
            yield IngestorServiceStub(channel), worker
