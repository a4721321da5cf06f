"""The generator over a real port, and the cache of contexts in PostgreSQL."""

# ruff: noqa: N802 - the contract names the methods

from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from groundline.v1 import chat_pb2, generator_service_pb2_grpc
from groundline.v1 import generator_service_pb2 as pb
from groundline_database import Pool
from groundline_ingestor.adapters.contextualizing import (
    GENERATOR_SERVICE,
    GrpcTextWriter,
    PostgresContextCache,
)
from groundline_runtime.channels import open_channel
from groundline_runtime.errors import InvalidArgumentError, ResourceExhaustedError
from groundline_runtime.serving.server import Application
from groundline_tests.runtime import serve
from groundline_validation import validate


class ScriptedGenerator(generator_service_pb2_grpc.GeneratorServiceServicer):
    """Answers with the last words of each chunk; an error that is set goes first."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.requests: list[pb.ContextualizeChunksRequest] = []

    async def ContextualizeChunks(
        self, request: pb.ContextualizeChunksRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> pb.ContextualizeChunksResponse:
        self.requests.append(request)
        if self.error is not None:
            raise self.error
        return pb.ContextualizeChunksResponse(
            contexts=[f" On {text}\x00\n" for text in request.chunk_texts],
            usage=chat_pb2.Usage(prompt_tokens=100, cached_tokens=70, output_tokens=12),
            model="scripted",
            prompt_version="default@1",
        )


@pytest.fixture
def generator() -> ScriptedGenerator:
    return ScriptedGenerator()  # type: ignore[abstract]


@pytest.fixture
async def writer(generator: ScriptedGenerator) -> AsyncIterator[GrpcTextWriter]:
    application = Application(
        services={
            GENERATOR_SERVICE: lambda server: (
                generator_service_pb2_grpc.add_GeneratorServiceServicer_to_server(generator, server)
            )
        },
        validate=validate,
        readiness={},
    )
    async with serve(application) as target, open_channel(target, service=GENERATOR_SERVICE) as channel:
        yield GrpcTextWriter(channel)


async def test_a_quota_has_the_time_to_wait(writer: GrpcTextWriter, generator: ScriptedGenerator) -> None:
    generator.error = ResourceExhaustedError("PROVIDER_QUOTA", "slow down", retry_after_seconds=2.5)
    with pytest.raises(ResourceExhaustedError) as raised:
        await writer.write(title="T", document_text="D", chunk_texts=["c"], prompt="", model="")
    assert (raised.value.reason, raised.value.retry_after_seconds) == ("PROVIDER_QUOTA", 2.5)


async def test_chunks_go_with_their_document_and_come_back_as_contexts(
    writer: GrpcTextWriter, generator: ScriptedGenerator
) -> None:
    written = await writer.write(
        title="Manual", document_text="All of it.", chunk_texts=["one", "two"], prompt="p", model="m"
    )
    assert generator.requests == [
        pb.ContextualizeChunksRequest(
            title="Manual", document_text="All of it.", chunk_texts=["one", "two"], prompt="p", model="m"
        )
    ]
    assert written.contexts == ["On one", "On two"]
    assert written.usage == chat_pb2.Usage(prompt_tokens=100, cached_tokens=70, output_tokens=12)


async def test_the_generator_names_what_it_used(writer: GrpcTextWriter, generator: ScriptedGenerator) -> None:
    assert await writer.version(prompt="p", model="m") == "scripted default@1"
    assert generator.requests == [pb.ContextualizeChunksRequest(prompt="p", model="m")]
    generator.error = InvalidArgumentError([])  # of an earlier release
    assert await writer.version(prompt="p", model="m") != await writer.version(prompt="p", model="n")


async def test_the_cache_keeps_the_first_context_of_a_key_until_it_is_old(pool: Pool) -> None:
    cache = PostgresContextCache(pool)
    assert await cache.get([b"a"]) == {}
    await cache.put({b"b": "two", b"a": "one"})
    await cache.put({b"a": "other", b"c": "three"})
    await cache.put({})
    assert await cache.get([b"a", b"b", b"x", b"c"]) == {b"a": "one", b"b": "two", b"c": "three"}
    assert await cache.discard(3600, 10) == 0
    assert await cache.discard(0, 2) == 2
    assert len(await cache.get([b"a", b"b", b"c"])) == 1
