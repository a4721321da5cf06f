"""Conversations of the caller."""

import asyncio
from datetime import UTC, datetime
from typing import Final

import structlog
from groundline.v1 import chat_pb2, thread_pb2
from groundline.v1 import coordinator_service_pb2 as pb
from groundline_runtime.context import Caller
from groundline_runtime.errors import GroundlineError
from groundline_runtime.paging import PageTokens, page_size
from groundline_runtime.reasons import enum_label

from groundline_coordinator.domain.passages import resolved
from groundline_coordinator.metrics import RATINGS
from groundline_coordinator.ports import Retriever, ThreadStore
from groundline_coordinator.service.searching import read_sources

EXPIRY_SECONDS: Final = 3600.0
EXPIRED_AT_ONCE: Final = 1000

_log = structlog.get_logger(__name__)


class ThreadService:
    """Reading, listing, changing and deleting of threads; another owner's does not exist."""

    def __init__(self, threads: ThreadStore, retriever: Retriever, page_tokens: PageTokens) -> None:
        self._threads = threads
        self._retriever = retriever
        self._page_tokens = page_tokens

    async def get(self, caller: Caller, request: pb.GetThreadRequest) -> pb.GetThreadResponse:
        owner, limit = caller.owner, page_size(request) + 1
        [after] = self._page_tokens.key_in(request, caller) or (-1,)
        thread = await self._threads.get(owner, request.thread_id)
        found = await self._threads.messages(
            owner, caller.principals, request.thread_id, after=after, limit=limit
        )
        page, token = self._page_tokens.page_of(request, caller, found, lambda numbered: numbered[:1])
        messages = [message for _, message in page]
        read = await read_sources(self._retriever, [message.sources for message in messages])
        question = ""
        for message in messages:
            if message.role == chat_pb2.ChatMessage.USER:
                question = message.content
            resolved(message.sources, message.citations, message.content, question, read)
        return pb.GetThreadResponse(thread=thread, messages=messages, next_page_token=token)

    async def list(self, caller: Caller, request: pb.ListThreadsRequest) -> pb.ListThreadsResponse:
        key = self._page_tokens.key_in(request, caller)
        before, limit = key and _read(*key), page_size(request) + 1
        found = await self._threads.threads(caller.owner, before=before, limit=limit)
        threads, token = self._page_tokens.page_of(request, caller, found, _page_key)
        return pb.ListThreadsResponse(threads=threads, next_page_token=token)

    async def update(self, caller: Caller, request: pb.UpdateThreadRequest) -> pb.UpdateThreadResponse:
        thread = await self._threads.update(
            caller.owner,
            request.thread_id,
            title=request.title if request.HasField("title") else None,
            is_pinned=request.is_pinned if request.HasField("is_pinned") else None,
        )
        return pb.UpdateThreadResponse(thread=thread)

    async def rate(self, caller: Caller, request: pb.RateAnswerRequest) -> pb.RateAnswerResponse:
        feedback = await self._threads.rate(
            caller.owner, request.thread_id, request.message_id, request.feedback
        )
        if feedback is not None:
            rating, problem = feedback.rating, feedback.problem
            RATINGS.add(
                1,
                {
                    "rating": enum_label(thread_pb2.Feedback.Rating, rating),
                    "problem": enum_label(thread_pb2.Feedback.Problem, problem),
                },
            )
        return pb.RateAnswerResponse(feedback=feedback)

    async def delete(self, caller: Caller, request: pb.DeleteThreadRequest) -> pb.DeleteThreadResponse:
        await self._threads.delete(caller.owner, request.thread_id)
        return pb.DeleteThreadResponse()

    async def expire(self, unused_seconds: float) -> None:
        """Delete, every hour, threads that were last used this long ago. Runs until cancelled."""
        while True:
            try:
                while await self._threads.expire(unused_seconds, EXPIRED_AT_ONCE) == EXPIRED_AT_ONCE:
                    pass
            except GroundlineError as error:
                _log.warning("threads_not_expired", reason=error.reason)
            await asyncio.sleep(EXPIRY_SECONDS)


def _page_key(thread: thread_pb2.Thread) -> tuple[str, str, int]:
    """Return the fields of a thread that a page token holds."""
    return thread.update_time.ToDatetime(UTC).isoformat(), thread.thread_id, int(thread.is_pinned)


def _read(update_time: str, thread_id: str, is_pinned: int = 0) -> tuple[bool, datetime, str]:
    # Tokens of the version before have no third field.
    return bool(is_pinned), datetime.fromisoformat(update_time), thread_id
