"""Runs the bridge."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import grpc
from groundline_runtime.channels import open_channel
from groundline_runtime.server import Serving, run_server

from groundline_bridge.adapters import coordinator, ingestor
from groundline_bridge.adapters.http import serving
from groundline_bridge.servicer import OpenAiServicer, application
from groundline_bridge.settings import BridgeSettings

__all__ = ["main", "start"]


@asynccontextmanager
async def start(settings: BridgeSettings) -> AsyncIterator[Serving]:
    """The server with its channels. A service that is down fails requests, not readiness."""

    def channel(target: str, service: str) -> AbstractAsyncContextManager[grpc.aio.Channel]:
        return open_channel(
            target,
            service=service,
            default_timeout_seconds=settings.default_timeout_seconds,
            max_message_bytes=settings.max_message_bytes,
        )

    async with (
        channel(settings.coordinator_target, coordinator.SERVICE) as to_coordinator,
        channel(settings.ingestor_target, ingestor.SERVICE) as to_ingestor,
    ):
        openai = OpenAiServicer(
            coordinator.GrpcCoordinator(to_coordinator),
            ingestor.GrpcIngestor(to_ingestor),
            heartbeat_seconds=settings.heartbeat_seconds,
        )
        async with serving(application(openai.routes), settings) as running:
            yield running


def main(argv: Sequence[str] | None = None) -> None:
    """`groundline-bridge [--settings FILE]`."""
    run_server(BridgeSettings, start, argv)


if __name__ == "__main__":
    main()
