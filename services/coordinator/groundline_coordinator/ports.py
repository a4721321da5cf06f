"""What the workflow needs of the outside. Every method raises GroundlineError when it fails."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Protocol

from groundline_coordinator.domain import (
    Answered,
    CandidateSet,
    Claim,
    Collection,
    Delta,
    Generated,
    HistoryMessage,
    NumberedPassage,
    Options,
    Page,
    Ranking,
    Retrieval,
    Rewrite,
    StoredMessage,
    Thread,
)

__all__ = ["REPLAY_SECONDS", "CollectionCatalog", "Generator", "Reranker", "Retriever", "ThreadStore"]

REPLAY_SECONDS = 600
"""How long an answer is replayed to retries of its request."""


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

    async def rerank(self, query: str, sets: Sequence[CandidateSet], options: Options) -> Ranking:
        """One order of all sets, for `query`; a chunk may be in several."""
        ...


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

    async def rewrite(
        self, query: str, chat_history: Sequence[HistoryMessage], max_sub_queries: int
    ) -> Rewrite:
        """The question so that it stands alone, and the parts of a complex one."""
        ...


class CollectionCatalog(Protocol):
    """Knows which collections a caller may read."""

    async def readable(
        self, principals: Sequence[str], collection_ids: Sequence[str]
    ) -> Sequence[Collection]:
        """Those of `collection_ids` that exist and may be read, in any order.

        Without ids, of all readable ones two, which is enough to tell none, one and several apart, and every
        one that sets limits.
        """
        ...


class ThreadStore(Protocol):
    """Keeps conversations, and which requests their answers belong to.

    A thread of another owner does not exist: NotFoundError (THREAD_NOT_FOUND).
    """

    async def claim(self, claim: Claim, lease_seconds: float) -> Answered | None:
        """Take a request_id for this request, or return the answer that a request with it has got already.

        A claim ends with `append`, with `release`, or after `lease_seconds`. Raises AbortedError
        (REQUEST_UNDER_WAY) while another holds it, InvalidArgumentError (REQUEST_ID_REUSED) when it was or is
        used for another request.
        """
        ...

    async def release(self, claim: Claim) -> None:
        """Give a claim back that this request still holds: the next with its request_id is done anew."""
        ...

    async def history(self, owner: str, thread_id: str, limit: int) -> Sequence[HistoryMessage]:
        """The last `limit` messages, oldest first. Raises NotFoundError."""
        ...

    async def append(
        self,
        owner: str,
        thread_id: str,
        title: str,
        messages: Sequence[StoredMessage],
        *,
        create: bool,
        answered: tuple[Claim, Answered] | None = None,
    ) -> None:
        """Store messages one after the other, all or none; `create` begins the thread with them.

        Appending to a thread at the same time is safe: the messages of one call stay together. With
        `answered`, the claim is answered by it for the next REPLAY_SECONDS, in the same transaction. Raises
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
