"""The generator over gRPC."""

from collections.abc import AsyncGenerator, Sequence

import grpc
from google.protobuf.json_format import ParseDict
from groundline.v1 import chat_pb2, generator_service_pb2, generator_service_pb2_grpc, options_pb2
from groundline_runtime.channels import cancelled_on_exit
from groundline_runtime.errors import InternalError
from groundline_runtime.status import translated_rpc_errors

from groundline_coordinator.domain import (
    Delta,
    Generated,
    HistoryMessage,
    NumberedPassage,
    Options,
    Rewrite,
)
from groundline_coordinator.messages import (
    citation_from_proto,
    finish_reason_from_proto,
    usage_from_proto,
    validation_from_proto,
)

__all__ = ["SERVICE", "GrpcGenerator"]

SERVICE = "groundline.v1.GeneratorService"


class GrpcGenerator:
    """A Generator; calls carry the deadline and the caller of the current request."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub: generator_service_pb2_grpc.GeneratorServiceAsyncStub = (
            generator_service_pb2_grpc.GeneratorServiceStub(channel)
        )

    async def generate(
        self,
        query: str,
        passages: Sequence[NumberedPassage],
        chat_history: Sequence[HistoryMessage],
        options: Options,
        additional_context: str,
    ) -> AsyncGenerator[Delta | Generated]:
        request = generator_service_pb2.GenerateRequest(
            query=query,
            passages=[
                generator_service_pb2.NumberedPassage(
                    number=passage.number,
                    text=passage.text,
                    context=passage.context,
                    title=passage.title,
                    uri=passage.uri,
                    chunk_id=passage.chunk_id,
                    similarity=passage.similarity,
                )
                for passage in passages
            ],
            chat_history=_messages(chat_history),
            options=ParseDict(dict(options), options_pb2.GenerationOptions()),
            additional_context=additional_context,
        )
        with translated_rpc_errors():
            async with cancelled_on_exit(self._stub.Generate(request)) as responses:
                async for response in responses:
                    if response.WhichOneof("event") == "delta":
                        yield Delta(response.delta.text)
                    elif response.WhichOneof("event") == "completed":
                        yield _generated(response.completed)

    async def rewrite(
        self, query: str, chat_history: Sequence[HistoryMessage], max_sub_queries: int
    ) -> Rewrite:
        request = generator_service_pb2.RewriteQueryRequest(
            query=query, chat_history=_messages(chat_history), max_sub_queries=max_sub_queries
        )
        with translated_rpc_errors():
            response = await self._stub.RewriteQuery(request)
        return Rewrite(
            standalone_query=response.standalone_query or query,
            sub_queries=tuple(response.sub_queries),
            model=response.model,
            usage=usage_from_proto(response.usage),
        )


def _messages(history: Sequence[HistoryMessage]) -> list[chat_pb2.ChatMessage]:
    return [chat_pb2.ChatMessage(role=message.role, content=message.content) for message in history]


def _generated(message: generator_service_pb2.GenerateCompleted) -> Generated:
    reason = finish_reason_from_proto(message.finish_reason)
    if reason is None:
        raise InternalError("FINISH_REASON_UNKNOWN", "the generator ended an answer for an unknown reason")
    return Generated(
        finish_reason=reason,
        usage=usage_from_proto(message.usage),
        citations=[citation_from_proto(citation) for citation in message.citations],
        validation=validation_from_proto(message.validation),
        model=message.model,
        prompt_version=message.prompt_version,
    )
