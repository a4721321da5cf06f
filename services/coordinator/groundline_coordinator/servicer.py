"""CoordinatorService over gRPC."""

import uuid
from collections.abc import AsyncIterator
from contextlib import aclosing
from functools import partial
from typing import Any

import grpc
import structlog
from groundline.v1 import coordinator_service_pb2, coordinator_service_pb2_grpc
from groundline_runtime.errors import GroundlineError, InternalError
from groundline_runtime.interceptors import INTERNAL_MESSAGE
from opentelemetry import trace

from groundline_coordinator.converters import (
    answer_response,
    chat_response,
    error_response,
    page_from_request,
    question_from_request,
    search_from_request,
    search_response,
    thread_id_from_request,
    thread_response,
    threads_response,
)
from groundline_coordinator.service import ChatService, ThreadService
from groundline_coordinator.streaming import stream

__all__ = ["SERVICE", "CoordinatorServicer"]

SERVICE = "groundline.v1.CoordinatorService"

DEFAULT_MESSAGES = 100
DEFAULT_THREADS = 50

type Context = "grpc.aio.ServicerContext[Any, Any]"

_log = structlog.get_logger(__name__)


class CoordinatorServicer(coordinator_service_pb2_grpc.CoordinatorServiceServicer):
    def __init__(self, chats: ChatService, threads: ThreadService, *, max_pending_characters: int) -> None:
        self._chats = chats
        self._threads = threads
        self._max_pending_characters = max_pending_characters

    async def Chat(  # noqa: N802
        self, request: coordinator_service_pb2.ChatRequest, context: Context
    ) -> AsyncIterator[coordinator_service_pb2.ChatResponse]:
        turn = await self._chats.begin(question_from_request(request))
        sequence = 0
        work = partial(self._chats.chat, turn)
        try:
            async with aclosing(stream(work, max_pending_characters=self._max_pending_characters)) as events:
                async for event in events:
                    sequence += 1
                    yield chat_response(sequence, event)
        except GroundlineError as error:
            yield error_response(sequence + 1, error)
            raise
        except Exception as cause:
            # The interceptor would do this too, but its error_id would come too late for the event.
            failure = _unexpected(cause)
            yield error_response(sequence + 1, failure)
            raise failure from cause

    async def Answer(  # noqa: N802
        self, request: coordinator_service_pb2.AnswerRequest, context: Context
    ) -> coordinator_service_pb2.AnswerResponse:
        return answer_response(await self._chats.answer(question_from_request(request)))

    async def Search(  # noqa: N802
        self, request: coordinator_service_pb2.SearchRequest, context: Context
    ) -> coordinator_service_pb2.SearchResponse:
        return search_response(await self._chats.search(search_from_request(request)))

    async def GetThread(  # noqa: N802
        self, request: coordinator_service_pb2.GetThreadRequest, context: Context
    ) -> coordinator_service_pb2.GetThreadResponse:
        thread_id, page_size = page_from_request(request, DEFAULT_MESSAGES)
        return thread_response(*await self._threads.get(thread_id, page_size, request.page_token))

    async def ListThreads(  # noqa: N802
        self, request: coordinator_service_pb2.ListThreadsRequest, context: Context
    ) -> coordinator_service_pb2.ListThreadsResponse:
        _, page_size = page_from_request(request, DEFAULT_THREADS)
        return threads_response(await self._threads.list(page_size, request.page_token))

    async def DeleteThread(  # noqa: N802
        self, request: coordinator_service_pb2.DeleteThreadRequest, context: Context
    ) -> coordinator_service_pb2.DeleteThreadResponse:
        await self._threads.delete(thread_id_from_request(request))
        return coordinator_service_pb2.DeleteThreadResponse()


def _unexpected(cause: Exception) -> InternalError:
    error_id = str(uuid.uuid4())
    span = trace.get_current_span()
    span.set_attribute("error.type", type(cause).__qualname__)
    span.set_attribute("groundline.error_id", error_id)
    _log.exception("chat_failed", error_id=error_id)
    return InternalError("INTERNAL", INTERNAL_MESSAGE, metadata={"error_id": error_id})
