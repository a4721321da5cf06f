"""Entry point of the collector."""

import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from groundline.v1 import collector_service_pb2_grpc
from groundline_extraction.readers.common import ReaderLimits
from groundline_extraction.sandbox import Sandbox
from groundline_runtime.serving.server import Application, run

from groundline_collector.adapters.registry import SourceRegistry
from groundline_collector.adapters.secrets import Secrets
from groundline_collector.adapters.webhooks import HttpWebhookSender
from groundline_collector.service import Collecting
from groundline_collector.servicer import SERVICE, CollectorServicer
from groundline_collector.settings import CollectorSettings

__all__ = ["main", "wire"]


@asynccontextmanager
async def wire(settings: CollectorSettings) -> AsyncIterator[Application]:
    """Build the service, which needs nothing to be ready."""
    limits = ReaderLimits(memory_bytes=settings.reader_memory_bytes)
    with Sandbox(limits, processes=1, spool_directory=settings.spool_directory) as sandbox:
        secrets = Secrets(settings.secrets_directory)
        sources = SourceRegistry(settings, secrets, sandbox)
        servicer = CollectorServicer(
            Collecting(sources, max_runs=settings.max_runs),
            sources,
            HttpWebhookSender(secrets, private_addresses=settings.private_addresses),
        )
        yield Application(
            services={
                SERVICE: lambda server: collector_service_pb2_grpc.add_CollectorServiceServicer_to_server(
                    servicer, server
                )
            }
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
