"""The caller's conversations."""

from groundline.v1 import coordinator_service_pb2
from groundline_runtime.context import Caller
from groundline_runtime.paging import page_size

from groundline_coordinator.ports import ThreadStore

__all__ = ["ThreadService"]

DEFAULT_MESSAGES = 100
DEFAULT_THREADS = 50


class ThreadService:
    """Reads, lists and deletes threads; another's does not exist."""

    def __init__(self, threads: ThreadStore) -> None:
        self._threads = threads

    async def get(
        self, caller: Caller, request: coordinator_service_pb2.GetThreadRequest
    ) -> coordinator_service_pb2.GetThreadResponse:
        owner, size = caller.owner, page_size(request.page_size, DEFAULT_MESSAGES)
        thread = await self._threads.get(owner, request.thread_id)
        messages, token = await self._threads.messages(owner, request.thread_id, size, request.page_token)
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
