"""CoordinatorService over gRPC."""

# ruff: noqa: N802 - the contract names the methods
import uuid
from collections.abc import AsyncIterator
from contextlib import aclosing
from functools import partial
from typing import Any, Final

import grpc
import structlog
from google.api.httpbody_pb2 import HttpBody  # type: ignore[import-untyped]
from google.protobuf.descriptor import Descriptor
from groundline.v1 import chat_pb2, coordinator_service_pb2_grpc, verification_pb2
from groundline.v1 import coordinator_service_pb2 as pb
from groundline_runtime.coalescing import coalesced
from groundline_runtime.context import current_caller, last_event_id
from groundline_runtime.errors import Code, GroundlineError, InternalError
from groundline_runtime.reasons import reason_value
from groundline_runtime.serving.interceptors import INTERNAL_MESSAGE
from groundline_runtime.serving.json_names import as_sent
from opentelemetry import trace

from groundline_coordinator.ports import Generator
from groundline_coordinator.service.chats import ChatService
from groundline_coordinator.service.evidence import EvidenceService
from groundline_coordinator.service.quotas import CallerQuotas
from groundline_coordinator.service.threads import ThreadService
from groundline_coordinator.service.verifying import VerificationService, VerifyEvent

SERVICE: Final = "groundline.v1.CoordinatorService"

type Context = "grpc.aio.ServicerContext[Any, Any]"

_PIECE_BYTES: Final = 64 << 10

# Failures that a retry may survive later.
_RETRYABLE: Final = frozenset(
    {Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED, Code.RESOURCE_EXHAUSTED, Code.ABORTED}
)

_log = structlog.get_logger(__name__)


class CoordinatorServicer(coordinator_service_pb2_grpc.CoordinatorServiceServicer):
    def __init__(
        self,
        chats: ChatService,
        verifications: VerificationService,
        threads: ThreadService,
        evidence: EvidenceService,
        quotas: CallerQuotas,
        generator: Generator,
        *,
        max_waiting_characters: int,
    ) -> None:
        self._chats = chats
        self._verifications = verifications
        self._threads = threads
        self._evidence = evidence
        self._quotas = quotas
        self._generator = generator
        self._max_waiting_characters = max_waiting_characters

    async def Chat(self, request: pb.ChatRequest, context: Context) -> AsyncIterator[pb.ChatResponse]:
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
            except Exception as cause:
                error, failure = _failure(cause, request.DESCRIPTOR)
                yield position.after(failure).response(failure)
                raise error from error.__cause__

    async def Answer(self, request: pb.AnswerRequest, context: Context) -> pb.AnswerResponse:
        with self._quotas.answering(caller := current_caller()):
            return await self._chats.answer(caller, request)

    async def Verify(self, request: pb.VerifyRequest, context: Context) -> AsyncIterator[pb.VerifyResponse]:
        with self._quotas.answering(caller := current_caller()):
            verification = await self._verifications.begin(caller, request)
            sequence = 0
            try:
                async with aclosing(self._verifications.verify(verification)) as events:
                    async for event in events:
                        sequence += 1
                        yield _verify_response(sequence, event)
            except Exception as cause:
                error, failure = _failure(cause, request.DESCRIPTOR)
                yield pb.VerifyResponse(sequence=sequence + 1, error=failure)
                raise error from error.__cause__

    async def GetThread(self, request: pb.GetThreadRequest, context: Context) -> pb.GetThreadResponse:
        return await self._threads.get(current_caller(), request)

    async def ListThreads(self, request: pb.ListThreadsRequest, context: Context) -> pb.ListThreadsResponse:
        return await self._threads.list(current_caller(), request)

    async def UpdateThread(
        self, request: pb.UpdateThreadRequest, context: Context
    ) -> pb.UpdateThreadResponse:
        return await self._threads.update(current_caller(), request)

    async def DeleteThread(
        self, request: pb.DeleteThreadRequest, context: Context
    ) -> pb.DeleteThreadResponse:
        return await self._threads.delete(current_caller(), request)

    async def RateAnswer(self, request: pb.RateAnswerRequest, context: Context) -> pb.RateAnswerResponse:
        return await self._threads.rate(current_caller(), request)

    async def GetEvidence(
        self, request: pb.GetEvidenceRequest, context: Context
    ) -> AsyncIterator[pb.GetEvidenceResponse]:
        evidence = await self._evidence.get(current_caller(), request)
        for start in range(0, len(evidence), _PIECE_BYTES):
            part = evidence[start : start + _PIECE_BYTES]
            yield pb.GetEvidenceResponse(content=HttpBody(content_type="application/json", data=part))

    async def ListSigningKeys(
        self, request: pb.ListSigningKeysRequest, context: Context
    ) -> pb.ListSigningKeysResponse:
        return await self._evidence.keys()

    async def ListModels(self, request: pb.ListModelsRequest, context: Context) -> pb.ListModelsResponse:
        return pb.ListModelsResponse(models=await self._generator.models())

    async def GetQuotas(self, request: pb.GetQuotasRequest, context: Context) -> pb.GetQuotasResponse:
        return pb.GetQuotasResponse(quotas=await self._quotas.usages(current_caller()))

    async def GetUsage(self, request: pb.GetUsageRequest, context: Context) -> pb.GetUsageResponse:
        return await self._quotas.report(request)


def _verify_response(sequence: int, event: VerifyEvent) -> pb.VerifyResponse:
    match event:
        case verification_pb2.VerifyStarted():
            return pb.VerifyResponse(sequence=sequence, started=event)
        case verification_pb2.VerifiedClaim():
            return pb.VerifyResponse(sequence=sequence, claim=event)
        case _:
            return pb.VerifyResponse(sequence=sequence, completed=event)


def _failure(cause: Exception, request: Descriptor) -> tuple[GroundlineError, chat_pb2.ChatError]:
    """Return the error that a stream ends with, and its event."""
    # The interceptor would do this too, but its error_id would come too late for the event.
    error = cause if isinstance(cause, GroundlineError) else _unexpected(cause)
    sent = as_sent(error, request)
    return error, chat_pb2.ChatError(
        code=sent.code.value,
        reason=reason_value(sent.reason),
        message=sent.message,
        error_id=sent.error_id or "",
        retryable=sent.code in _RETRYABLE,
        violations=[
            chat_pb2.FieldError(field=violation.field, description=violation.description)
            for violation in sent.violations
        ],
    )


def _unexpected(cause: Exception) -> InternalError:
    error_id = str(uuid.uuid4())
    span = trace.get_current_span()
    span.set_attribute("error.type", type(cause).__qualname__)
    span.set_attribute("groundline.error_id", error_id)
    _log.exception("stream_failed", error_id=error_id)
    error = InternalError("INTERNAL", INTERNAL_MESSAGE, metadata={"error_id": error_id})
    error.__cause__ = cause
    return error
