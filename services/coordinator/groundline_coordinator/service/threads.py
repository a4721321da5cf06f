"""The caller's conversations."""

import asyncio

import structlog
from groundline.v1 import chat_pb2, coordinator_service_pb2
from groundline_runtime.context import Caller
from groundline_runtime.errors import GroundlineError
from groundline_runtime.paging import page_size

from groundline_coordinator.domain.passages import resolved
from groundline_coordinator.ports import Retriever, ThreadStore
from groundline_coordinator.service.searching import chunks_read_for

__all__ = ["ThreadService"]

DEFAULT_MESSAGES = 100
DEFAULT_THREADS = 50
EXPIRY_SECONDS = 3600.0
EXPIRED_AT_ONCE = 1000

_log = structlog.get_logger(__name__)


class ThreadService:
    """Reads, lists and deletes threads; another's does not exist."""

    def __init__(self, threads: ThreadStore, retriever: Retriever) -> None:
        self._threads = threads
        self._retriever = retriever

    async def get(
        self, caller: Caller, request: coordinator_service_pb2.GetThreadRequest
    ) -> coordinator_service_pb2.GetThreadResponse:
        owner, size = caller.owner, page_size(request.page_size, DEFAULT_MESSAGES)
        thread = await self._threads.get(owner, request.thread_id)
        messages, token = await self._threads.messages(
            owner, caller.principals, request.thread_id, size, request.page_token
        )
        chunks = await chunks_read_for(self._retriever, [message.sources for message in messages])
        question = ""
        for message in messages:
            if message.role == chat_pb2.ChatMessage.USER:
                question = message.content
            resolved(message.sources, message.citations, message.content, question, chunks)
        return coordinator_service_pb2.GetThreadResponse(
            thread=thread, messages=messages, next_page_token=token
        )

    async def list(
        self, caller: Caller, request: coordinator_service_pb2.ListThreadsRequest
    ) -> coordinator_service_pb2.ListThreadsResponse:
        size = page_size(request.page_size, DEFAULT_THREADS)
        threads, token = await self._threads.threads(caller.owner, size, request.page_token)
        return coordinator_service_pb2.ListThreadsResponse(threads=threads, next_page_token=token)

    async def delete(
        self, caller: Caller, request: coordinator_service_pb2.DeleteThreadRequest
    ) -> coordinator_service_pb2.DeleteThreadResponse:
        await self._threads.delete(caller.owner, request.thread_id)
        return coordinator_service_pb2.DeleteThreadResponse()

    async def expire(self, unused_seconds: float) -> None:
        """Every hour, delete threads that were last used so long ago. Until cancelled."""
        while True:
            try:
                while await self._threads.expire(unused_seconds, EXPIRED_AT_ONCE) == EXPIRED_AT_ONCE:
                    pass
            except GroundlineError as error:
                _log.warning("threads_not_expired", reason=error.reason)
            await asyncio.sleep(EXPIRY_SECONDS)
