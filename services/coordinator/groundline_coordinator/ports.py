"""What the workflow needs of the outside. Every method raises GroundlineError when it fails."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Protocol

from groundline_coordinator.domain import (
    Candidate,
    Collection,
    Delta,
    Generated,
    HistoryMessage,
    NumberedPassage,
    Options,
    Page,
    Ranking,
    Retrieval,
    StoredMessage,
    Thread,
)

__all__ = ["CollectionCatalog", "Generator", "Reranker", "Retriever", "ThreadStore"]


class Retriever(Protocol):
    """Searches collections."""

    async def retrieve(
        self, query: str, collection_ids: Sequence[str], options: Options, conditions: Mapping[str, Any]
    ) -> Retrieval:
        """What each search arm found; no ids means every collection that the caller may read.

        `conditions` is a filter as JSON, empty for none.
        """
        ...


class Reranker(Protocol):
    """Fuses and orders candidates."""

    async def rerank(self, query: str, candidates: Sequence[Candidate], options: Options) -> Ranking: ...


class Generator(Protocol):
    """Writes answers."""

    def generate(
        self,
        query: str,
        passages: Sequence[NumberedPassage],
        chat_history: Sequence[HistoryMessage],
        options: Options,
        additional_context: str,
    ) -> AsyncGenerator[Delta | Generated]:
        """Any number of deltas, then one Generated. Closing it ends the work."""
        ...


class CollectionCatalog(Protocol):
    """Knows which collections a caller may read."""

    async def readable(
        self, principals: Sequence[str], collection_ids: Sequence[str]
    ) -> Sequence[Collection]:
        """Those of `collection_ids` that exist and may be read, in any order.

        Without ids, of all readable ones the first two at most: enough to tell none, one and several apart.
        """
        ...


class ThreadStore(Protocol):
    """Keeps conversations. A thread of another owner does not exist: NotFoundError (THREAD_NOT_FOUND)."""

    async def history(self, owner: str, thread_id: str, limit: int) -> Sequence[HistoryMessage]:
        """The last `limit` messages, oldest first. Raises NotFoundError."""
        ...

    async def append(
        self, owner: str, thread_id: str, title: str, messages: Sequence[StoredMessage], *, create: bool
    ) -> None:
        """Store messages one after the other, all or none; `create` begins the thread with them.

        Appending to a thread at the same time is safe: the messages of one call stay together. Raises
        NotFoundError when the thread is gone.
        """
        ...

    async def get(self, owner: str, thread_id: str) -> Thread:
        """Raises NotFoundError."""
        ...

    async def messages(
        self, owner: str, thread_id: str, page_size: int, page_token: str
    ) -> Page[StoredMessage]:
        """Oldest first. Raises NotFoundError, and InvalidArgumentError for a token that is not one."""
        ...

    async def threads(self, owner: str, page_size: int, page_token: str) -> Page[Thread]:
        """The last used first. Raises InvalidArgumentError for a token that is not one."""
        ...

    async def delete(self, owner: str, thread_id: str) -> None:
        """Raises NotFoundError."""
        ...
