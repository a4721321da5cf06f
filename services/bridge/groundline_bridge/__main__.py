"""Runs the bridge."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import grpc
from groundline_runtime.channels import open_channel
from groundline_runtime.server import Serving, run_server

from groundline_bridge.adapters.coordinator import SERVICE as COORDINATOR
from groundline_bridge.adapters.coordinator import GrpcCoordinator
from groundline_bridge.adapters.http import serving
from groundline_bridge.adapters.ingestor import SERVICE as INGESTOR
from groundline_bridge.adapters.ingestor import GrpcIngestor
from groundline_bridge.adapters.mcp import McpServicer
from groundline_bridge.servicer import OpenAiServicer, application
from groundline_bridge.settings import BridgeSettings
from groundline_bridge.tools import Tools

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
        channel(settings.coordinator_target, COORDINATOR) as to_coordinator,
        channel(settings.ingestor_target, INGESTOR) as to_ingestor,
    ):
        coordinator = GrpcCoordinator(to_coordinator)
        ingestor = GrpcIngestor(to_ingestor)
        openai = OpenAiServicer(coordinator, ingestor, heartbeat_seconds=settings.heartbeat_seconds)
        mcp = McpServicer(Tools(coordinator, ingestor), max_request_bytes=settings.max_request_bytes)
        async with (
            mcp.running() as mcp_route,
            serving(application([*openai.routes, mcp_route]), settings) as running,
        ):
            yield running


def main(argv: Sequence[str] | None = None) -> None:
    """`groundline-bridge [--settings FILE]`."""
    run_server(BridgeSettings, start, argv)


if __name__ == "__main__":
    main()
