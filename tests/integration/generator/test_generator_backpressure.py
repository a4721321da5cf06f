"""A peer that does not read: what one stream holds stays small, and what waited comes in few messages."""

import asyncio
from collections.abc import AsyncGenerator, Sequence

from groundline.v1 import generator_service_pb2 as pb
from groundline.v1 import generator_service_pb2_grpc
from groundline_generator.domain.calls import ModelFinished, OnWait
from groundline_generator.service.answers.answering import AnswerService
from groundline_generator.service.claims.cascade import ClaimCascade
from groundline_generator.service.rewriting import RuleRewriter
from groundline_generator.service.sufficiency import RuleSufficiency
from groundline_generator.servicer import SERVICE, GeneratorServicer, UseCases
from groundline_runtime.channels import open_channel
from groundline_runtime.serving.server import Application
from groundline_tests.runtime import serve
from groundline_validation import validate

PIECE = "word " * 200
BOUND_BYTES = 32 * 1024**2
"""gRPC's window grows to some MiB on a fast connection; the model below would write without end."""


class EndlessModel:
    """An AnswerModel that writes as fast as it may and counts."""

    def __init__(self) -> None:
        self.written = 0
        self.closed = asyncio.Event()

    def check(self, request: pb.GenerateRequest) -> str:
        return "endless"

    def served(self, request: pb.GenerateRequest) -> Sequence[pb.NumberedPassage]:
        return request.passages

    async def stream(
        self, request: pb.GenerateRequest, served: Sequence[pb.NumberedPassage], on_wait: OnWait
    ) -> AsyncGenerator[str | ModelFinished]:
        try:
            while self.written < BOUND_BYTES:
                self.written += len(PIECE)
                yield PIECE
                await asyncio.sleep(0)
        finally:
            self.closed.set()


async def test_the_model_waits_for_a_client_that_does_not_read() -> None:
    model = EndlessModel()
    servicer = GeneratorServicer(
        UseCases(AnswerService(model), RuleRewriter(), RuleSufficiency(), ClaimCascade())
    )
    application = Application(
        services={
            SERVICE: lambda server: generator_service_pb2_grpc.add_GeneratorServiceServicer_to_server(
                servicer, server
            )
        },
        validate=validate,
    )
    async with serve(application) as target, open_channel(target, service=SERVICE) as channel:
        stub = generator_service_pb2_grpc.GeneratorServiceStub(channel)
        call = stub.Generate(pb.GenerateRequest(query="q"))
        deltas = aiter(call)
        await anext(deltas)
        seen = -1
        while seen != model.written:
            seen = model.written
            await asyncio.sleep(0.1)
        assert model.written < BOUND_BYTES
        # What the transport had taken before it was full came piece by piece; then they pile up.
        async for event in deltas:
            if len(event.delta.text) > 2 * len(PIECE):
                break
        call.cancel()
        async with asyncio.timeout(60):
            await model.closed.wait()
