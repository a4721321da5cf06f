"""Starts the reranker."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from groundline.v1 import reranker_service_pb2_grpc
from groundline_runtime.server import Application, run

from groundline_reranker.service import RankingService
from groundline_reranker.servicer import SERVICE, RerankerServicer
from groundline_reranker.settings import RerankerSettings

__all__ = ["main", "wire"]


@asynccontextmanager
async def wire(settings: RerankerSettings) -> AsyncIterator[Application]:
    """The service; it depends on nothing that could be down."""
    servicer = RerankerServicer(RankingService())
    yield Application(
        services={
            SERVICE: lambda server: reranker_service_pb2_grpc.add_RerankerServiceServicer_to_server(
                servicer, server
            )
        }
    )


def main() -> None:
    run(RerankerSettings, wire)


if __name__ == "__main__":
    main()
