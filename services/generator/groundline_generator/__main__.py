"""Starts the generator."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from groundline.v1 import generator_service_pb2_grpc
from groundline_runtime.server import Application, run

from groundline_generator.adapters.extractive import ExtractiveModel
from groundline_generator.service import AnswerService
from groundline_generator.servicer import SERVICE, GeneratorServicer
from groundline_generator.settings import GeneratorSettings

__all__ = ["main", "wire"]


@asynccontextmanager
async def wire(settings: GeneratorSettings) -> AsyncIterator[Application]:
    """The service with its provider; it depends on nothing that could be down."""
    model = ExtractiveModel(min_relevance=settings.min_relevance, max_sentences=settings.max_sentences)
    servicer = GeneratorServicer(AnswerService(model), max_passage_characters=settings.max_passage_characters)
    yield Application(
        services={
            SERVICE: lambda server: generator_service_pb2_grpc.add_GeneratorServiceServicer_to_server(
                servicer, server
            )
        }
    )


def main() -> None:
    run(GeneratorSettings, wire)


if __name__ == "__main__":
    main()
