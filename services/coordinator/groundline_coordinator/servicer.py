"""CoordinatorService over gRPC."""

# ruff: noqa: N802 - the contract names the methods
import uuid
from collections.abc import AsyncIterator
from contextlib import aclosing
from functools import partial
from typing import Any, Final

import grpc
import structlog
from groundline.v1 import chat_pb2, coordinator_service_pb2_grpc
from groundline.v1 import coordinator_service_pb2 as pb
from groundline_runtime.coalescing import coalesced
from groundline_runtime.context import current_caller, last_event_id
from groundline_runtime.errors import Code, GroundlineError, InternalError
from groundline_runtime.reasons import reason_value
from groundline_runtime.serving.interceptors import INTERNAL_MESSAGE
from groundline_runtime.serving.json_names import as_sent
from groundline_validation import validate
from opentelemetry import trace

from groundline_coordinator.domain.positions import Position
from groundline_coordinator.service.chats import ChatService
from groundline_coordinator.service.quotas import CallerQuotas
from groundline_coordinator.service.threads import ThreadService

__all__ = ["SERVICE", "CoordinatorServicer"]

SERVICE: Final = "groundline.v1.CoordinatorService"

type Context = "grpc.aio.ServicerContext[Any, Any]"

# Failures that a retry may survive later.
_RETRYABLE: Final = frozenset(
    {Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED, Code.RESOURCE_EXHAUSTED, Code.ABORTED}
)

_log = structlog.get_logger(__name__)


class CoordinatorServicer(coordinator_service_pb2_grpc.CoordinatorServiceServicer):
    def __init__(
        self, chats: ChatService, threads: ThreadService, quotas: CallerQuotas, *, max_waiting_characters: int
    ) -> None:
        self._chats = chats
        self._threads = threads
        self._quotas = quotas
        self._max_waiting_characters = max_waiting_characters

    async def Chat(self, request: pb.ChatRequest, context: Context) -> AsyncIterator[pb.ChatResponse]:
        validate(request)
        with self._quotas.answering(caller := current_caller()):
            turn = await self._chats.begin(caller, request, after=last_event_id())
            position = turn.position
            work = partial(self._chats.chat, turn)
            try:
                stream = coalesced(work, max_waiting_characters=self._max_waiting_characters)
                async with aclosing(stream) as events:
                    async for event in events:
                        position = position.after(event)
                        yield position.response(event)
            except GroundlineError as error:
                yield _failure(position, as_sent(error, request.DESCRIPTOR))
                raise
            except Exception as cause:
                # The interceptor would do this too, but its error_id would come too late for the event.
                failure = _unexpected(cause)
                yield _failure(position, failure)
                raise failure from cause

    async def Answer(self, request: pb.AnswerRequest, context: Context) -> pb.AnswerResponse:
        validate(request)
        with self._quotas.answering(caller := current_caller()):
            return await self._chats.answer(caller, request)

    async def GetThread(self, request: pb.GetThreadRequest, context: Context) -> pb.GetThreadResponse:
        validate(request)
        return await self._threads.get(current_caller(), request)

    async def ListThreads(self, request: pb.ListThreadsRequest, context: Context) -> pb.ListThreadsResponse:
        validate(request)
        return await self._threads.list(current_caller(), request)

    async def DeleteThread(
        self, request: pb.DeleteThreadRequest, context: Context
    ) -> pb.DeleteThreadResponse:
        validate(request)
        return await self._threads.delete(current_caller(), request)

    async def GetQuotas(self, request: pb.GetQuotasRequest, context: Context) -> pb.GetQuotasResponse:
        validate(request)
        return pb.GetQuotasResponse(quotas=await self._quotas.usages(current_caller()))


def _failure(position: Position, error: GroundlineError) -> pb.ChatResponse:
    failure = chat_pb2.ChatError(
        code=error.code.value,
        reason=reason_value(error.reason),
        message=error.message,
        error_id=error.error_id or "",
        retryable=error.code in _RETRYABLE,
        violations=[
            chat_pb2.FieldError(field=violation.field, description=violation.description)
            for violation in error.violations
        ],
    )
    return position.after(failure).response(failure)


def _unexpected(cause: Exception) -> InternalError:
    error_id = str(uuid.uuid4())
    span = trace.get_current_span()
    span.set_attribute("error.type", type(cause).__qualname__)
    span.set_attribute("groundline.error_id", error_id)
    _log.exception("chat_failed", error_id=error_id)
    return InternalError("INTERNAL", INTERNAL_MESSAGE, metadata={"error_id": error_id})
