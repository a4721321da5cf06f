"""Entry point of the bridge."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from groundline_runtime.channels import service_channel
from groundline_runtime.serving.server import Serving, run_server

from groundline_bridge.adapters.coordinator import SERVICE as COORDINATOR
from groundline_bridge.adapters.coordinator import GrpcCoordinator
from groundline_bridge.adapters.http import serving
from groundline_bridge.adapters.ingestor import SERVICE as INGESTOR
from groundline_bridge.adapters.ingestor import GrpcIngestor
from groundline_bridge.adapters.mcp_route import mcp_route
from groundline_bridge.adapters.retriever import SERVICE as RETRIEVER
from groundline_bridge.adapters.retriever import GrpcSearch
from groundline_bridge.servicer import OpenAiServicer, application
from groundline_bridge.settings import BridgeSettings
from groundline_bridge.tools import Tools


@asynccontextmanager
async def wire(settings: BridgeSettings) -> AsyncIterator[Serving]:
    """Start the server with its channels. A service that is down fails requests, not readiness."""
    async with (
        # The bridge's questions are stored in no thread.
        service_channel(
            settings, settings.coordinator_target, COORDINATOR, ("Answer", "Chat")
        ) as to_coordinator,
        service_channel(settings, settings.retriever_target, RETRIEVER) as to_retriever,
        service_channel(settings, settings.ingestor_target, INGESTOR) as to_ingestor,
    ):
        coordinator = GrpcCoordinator(to_coordinator)
        ingestor = GrpcIngestor(to_ingestor)
        openai = OpenAiServicer(coordinator, ingestor, heartbeat_seconds=settings.heartbeat_seconds)
        tools = Tools(coordinator, GrpcSearch(to_retriever), ingestor)
        async with (
            mcp_route(tools, max_request_bytes=settings.max_request_bytes) as mcp,
            serving(application([*openai.routes, mcp]), settings) as running,
        ):
            yield running


def main(argv: Sequence[str] | None = None) -> None:
    """Run `groundline-bridge [--settings FILE]`."""
    run_server(BridgeSettings, wire, argv)


if __name__ == "__main__":
    main()
