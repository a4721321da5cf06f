"""The caller's conversations."""

import asyncio
from datetime import UTC, datetime

import structlog
from groundline.v1 import chat_pb2, coordinator_service_pb2, thread_pb2
from groundline_runtime.context import Caller
from groundline_runtime.errors import GroundlineError
from groundline_runtime.paging import PageTokens, page_size

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

    def __init__(self, threads: ThreadStore, retriever: Retriever, page_tokens: PageTokens) -> None:
        self._threads = threads
        self._retriever = retriever
        self._page_tokens = page_tokens

    async def get(
        self, caller: Caller, request: coordinator_service_pb2.GetThreadRequest
    ) -> coordinator_service_pb2.GetThreadResponse:
        owner, size = caller.owner, page_size(request.page_size, DEFAULT_MESSAGES)
        [after] = self._page_tokens.place_in(request, caller) or (-1,)
        thread = await self._threads.get(owner, request.thread_id)
        found = await self._threads.messages(
            owner, caller.principals, request.thread_id, after=after, limit=size + 1
        )
        messages = [message for _, message in found[:size]]
        chunks = await chunks_read_for(self._retriever, [message.sources for message in messages])
        question = ""
        for message in messages:
            if message.role == chat_pb2.ChatMessage.USER:
                question = message.content
            resolved(message.sources, message.citations, message.content, question, chunks)
        return coordinator_service_pb2.GetThreadResponse(
            thread=thread,
            messages=messages,
            next_page_token=self._page_tokens.next_of(request, caller, found[size - 1][0])
            if len(found) > size
            else "",
        )

    async def list(
        self, caller: Caller, request: coordinator_service_pb2.ListThreadsRequest
    ) -> coordinator_service_pb2.ListThreadsResponse:
        size = page_size(request.page_size, DEFAULT_THREADS)
        place = self._page_tokens.place_in(request, caller)
        found = await self._threads.threads(caller.owner, before=place and _read(*place), limit=size + 1)
        return coordinator_service_pb2.ListThreadsResponse(
            threads=found[:size],
            next_page_token=self._page_tokens.next_of(request, caller, *_place(found[size - 1]))
            if len(found) > size
            else "",
        )

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


def _place(thread: thread_pb2.Thread) -> tuple[str, str]:
    """What a page token holds of it."""
    return thread.update_time.ToDatetime(UTC).isoformat(), thread.thread_id


def _read(update_time: str, thread_id: str) -> tuple[datetime, str]:
    return datetime.fromisoformat(update_time), thread_id
