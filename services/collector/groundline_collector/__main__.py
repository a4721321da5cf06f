"""Entry point of the collector."""

import asyncio
import resource
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Final

from groundline.v1 import collector_service_pb2_grpc
from groundline_extraction.readers.common import ReaderLimits
from groundline_extraction.sandbox import Sandbox
from groundline_runtime.serving.server import Application, run
from groundline_validation import validate

from groundline_collector.adapters.registry import SourceRegistry
from groundline_collector.adapters.secrets import Secrets
from groundline_collector.adapters.webhooks import WebhookSender
from groundline_collector.service import Collecting
from groundline_collector.servicer import SERVICE, CollectorServicer
from groundline_collector.settings import CollectorSettings

SPARE_THREADS: Final = 8
READERS: Final = 3
"""Processes that read pages, sitemaps and feeds: that many collections need no new one for each page."""


@asynccontextmanager
async def wire(settings: CollectorSettings) -> AsyncIterator[Application]:
    """Build the service, which needs nothing to be ready."""
    # Each run has one piece of work of the event loop's at a time: looking up a name, reading a page.
    threads = ThreadPoolExecutor(settings.max_runs + SPARE_THREADS, "work")
    asyncio.get_running_loop().set_default_executor(threads)
    limits = ReaderLimits(memory_bytes=settings.reader_memory_bytes)
    with Sandbox(limits, processes=READERS, spool_directory=settings.spool_directory) as sandbox:
        secrets = Secrets(settings.secrets_directory)
        sources = SourceRegistry(settings, secrets, sandbox)
        servicer = CollectorServicer(
            Collecting(sources, max_runs=settings.max_runs),
            sources,
            WebhookSender(secrets, private_addresses=settings.private_addresses),
        )
        yield Application(
            services={
                SERVICE: lambda server: collector_service_pb2_grpc.add_CollectorServiceServicer_to_server(
                    servicer, server
                )
            },
            validate=validate,
        )


@asynccontextmanager
async def _confined(settings: CollectorSettings) -> AsyncIterator[Application]:
    """Build the service in a process whose memory is bounded."""
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (settings.memory_bytes, most))
    async with wire(settings) as application:
        yield application


def main() -> None:
    run(CollectorSettings, _confined)


if __name__ == "__main__":
    main()
