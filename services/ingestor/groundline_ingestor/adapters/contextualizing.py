"""Contexts and descriptions of pictures from the generator over gRPC, and the cache of both."""

import json
from collections.abc import Mapping, Sequence
from typing import Final

import grpc
from groundline.v1 import generator_service_pb2 as pb
from groundline.v1 import generator_service_pb2_grpc
from groundline_database import Pool, acquire
from groundline_runtime.errors import InvalidArgumentError
from groundline_runtime.status import UnaryCall

from groundline_ingestor.service.worker.generator.contextualization import WrittenContexts
from groundline_ingestor.service.worker.generator.describing import DescribedPicture

GENERATOR_SERVICE: Final = pb.DESCRIPTOR.services_by_name["GeneratorService"].full_name


class GrpcTextWriter:
    """A ContextWriter and PictureDescriber on groundline.v1.GeneratorService."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        stub: generator_service_pb2_grpc.GeneratorServiceAsyncStub = (
            generator_service_pb2_grpc.GeneratorServiceStub(channel)
        )
        self._contextualize = UnaryCall(stub.ContextualizeChunks, "the generator")
        self._describe = UnaryCall(stub.DescribePicture, "the generator")

    async def version(self, *, prompt: str, model: str) -> str:
        request = pb.ContextualizeChunksRequest(prompt=prompt, model=model)
        try:
            response = await self._contextualize(request)
        except InvalidArgumentError:
            # A generator of an earlier release, while both are rolled out, requires chunks.
            return json.dumps([prompt, model])
        return f"{response.model} {response.prompt_version}"

    async def write(
        self, *, title: str, document_text: str, chunk_texts: Sequence[str], prompt: str, model: str
    ) -> WrittenContexts:
        request = pb.ContextualizeChunksRequest(
            title=title, document_text=document_text, chunk_texts=chunk_texts, prompt=prompt, model=model
        )
        response = await self._contextualize(request)
        # NUL, which PostgreSQL cannot store, has no meaning in a context.
        contexts = [context.replace("\x00", "").strip() for context in response.contexts]
        return WrittenContexts(contexts, response.usage)

    async def describer_version(self, *, model: str) -> str:
        response = await self._describe(pb.DescribePictureRequest(model=model))
        return f"{response.model} {response.prompt_version}"

    async def describe(self, picture: bytes, *, language: str, model: str) -> DescribedPicture:
        request = pb.DescribePictureRequest(picture=picture, language=language, model=model)
        response = await self._describe(request)
        return DescribedPicture(response.description.replace("\x00", "").strip(), response.usage)


class PostgresContextCache:
    """A ContextCache in PostgreSQL."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def get(self, keys: Sequence[bytes]) -> Mapping[bytes, str]:
        async with acquire(self._pool) as connection:
            rows = await connection.fetch(
                "SELECT cache_key, context FROM context_cache WHERE cache_key = ANY($1::bytea[])", list(keys)
            )
        return {row["cache_key"]: row["context"] for row in rows}

    async def put(self, contexts: Mapping[bytes, str]) -> None:
        # Sorted, so that two workers with keys in common do not wait for each other both.
        rows = sorted(contexts.items())
        async with acquire(self._pool) as connection:
            await connection.execute(
                """
                INSERT INTO context_cache (cache_key, context)
                SELECT * FROM unnest($1::bytea[], $2::text[]) ON CONFLICT DO NOTHING
                """,
                [key for key, _ in rows],
                [context for _, context in rows],
            )

    async def discard(self, older_than_seconds: float, limit: int) -> int:
        async with acquire(self._pool) as connection:
            rows = await connection.fetch(
                """
                DELETE FROM context_cache WHERE cache_key IN (
                    SELECT cache_key FROM context_cache
                    WHERE create_time < clock_timestamp() - make_interval(secs => $1)
                    ORDER BY create_time LIMIT $2 FOR UPDATE SKIP LOCKED
                ) RETURNING true
                """,
                older_than_seconds,
                limit,
            )
        return len(rows)
