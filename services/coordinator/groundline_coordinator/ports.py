"""Ports of the workflow. Every method raises GroundlineError when it fails."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Final, Protocol

from groundline.v1 import (
    chat_pb2,
    evidence_pb2,
    generator_service_pb2,
    retriever_service_pb2,
    thread_pb2,
)
from groundline.v1 import coordinator_service_pb2 as pb

from groundline_coordinator.domain.quotas import QuotaUse
from groundline_coordinator.domain.turns import ReadableCollection, RequestClaim

REPLAY_SECONDS: Final = 600
"""Time for which an answer is replayed to retries of its request, in seconds."""


class Retriever(Protocol):
    """A finder of passages, which also reads chunks by their ids and asks tables."""

    async def search(
        self, request: retriever_service_pb2.SearchRequest
    ) -> retriever_service_pb2.SearchResponse: ...

    async def fetch(
        self, request: retriever_service_pb2.FetchChunksRequest
    ) -> retriever_service_pb2.FetchChunksResponse: ...

    async def query_tables(
        self, request: retriever_service_pb2.QueryTablesRequest
    ) -> retriever_service_pb2.QueryTablesResponse: ...


class Generator(Protocol):
    """A writer of answers, and judge of claims."""

    def generate(
        self, request: generator_service_pb2.GenerateRequest
    ) -> AsyncGenerator[generator_service_pb2.GenerateResponse]:
        """Yield any number of deltas, then one completed. Closing the iterator ends the work."""
        ...

    async def rewrite(
        self, request: generator_service_pb2.RewriteQueryRequest
    ) -> generator_service_pb2.RewriteQueryResponse: ...

    async def judge_sufficiency(
        self, request: generator_service_pb2.JudgeSufficiencyRequest
    ) -> generator_service_pb2.JudgeSufficiencyResponse: ...

    async def split_claims(
        self, request: generator_service_pb2.SplitClaimsRequest
    ) -> generator_service_pb2.SplitClaimsResponse: ...

    async def judge_claims(
        self, request: generator_service_pb2.JudgeClaimsRequest
    ) -> generator_service_pb2.JudgeClaimsResponse: ...

    async def models(self) -> Sequence[str]:
        """Return the models that questions may name, the default first."""
        ...


class CollectionCatalog(Protocol):
    """Catalog of the collections that a caller may read."""

    async def readable(
        self, principals: Sequence[str], collection_ids: Sequence[str]
    ) -> Sequence[ReadableCollection]:
        """Return those of `collection_ids` that exist and may be read, in any order.

        Without ids, return two of all readable ones, which is enough to tell none, one and several apart, and
        every one that sets limits.
        """
        ...


class QuotaStore(Protocol):
    """Store of callers' usage, by their first principals."""

    async def used(self, owner: str, *, besides: str = "") -> QuotaUse:
        """Return a caller's usage; the thread `besides` does not count."""
        ...

    async def spend(self, owner: str, tokens: int, usd: float) -> None:
        """Count tokens, and their price, as used today."""
        ...

    async def report(self, since: date, owner: str | None) -> pb.GetUsageResponse:
        """Return what all callers, or one, used since a day (UTC), without quotas."""
        ...


class Signer(Protocol):
    """Signing in the installation's name."""

    async def sign(self, evidence: evidence_pb2.Evidence) -> bytes:
        """Set the time of issue; return the evidence with its signature as canonical JSON."""
        ...

    async def keys(self) -> Sequence[evidence_pb2.SigningKey]:
        """Return all public keys, the newest first."""
        ...


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """An answer with its question, and how it came about; `record` is None where that is not known, or the
    answer is withheld."""

    question: thread_pb2.Message
    answer: thread_pb2.Message
    record: evidence_pb2.AnswerRecord | None


class ThreadStore(Protocol):
    """Store of conversations, and of the requests that their answers belong to.

    A thread of another owner does not exist: NotFoundError (THREAD_NOT_FOUND).
    """

    async def claim(
        self, claim: RequestClaim, principals: Sequence[str], lease_seconds: float
    ) -> pb.AnswerResponse | None:
        """Claim a request_id for this request, or return the answer that a request with it already got, with
        sources as `messages` gives them. An answer with a source whose document was deleted, or may not be
        read by these principals any more, is forgotten.

        A claim ends with `answer`, with `release`, or after `lease_seconds` without `renew`, whatever the
        clock of the store does meanwhile; all claims have the same lease. Raises AbortedError
        (REQUEST_UNDER_WAY) while another holds it, InvalidArgumentError (REQUEST_ID_REUSED) when it was or is
        used for another request.
        """
        ...

    async def renew(self, claim: RequestClaim, lease_seconds: float) -> None:
        """Let a claim that this request still holds end this much later than now."""
        ...

    async def release(self, claim: RequestClaim) -> None:
        """Give back a claim that this request still holds: the next with its request_id is done anew."""
        ...

    async def history(
        self, owner: str, principals: Sequence[str], thread_id: str, limit: int
    ) -> Sequence[chat_pb2.ChatMessage]:
        """Return the last `limit` messages, oldest first, without questions that have no answer, and without
        answers that are withheld.

        Raises NotFoundError.
        """
        ...

    async def ask(
        self, owner: str, thread_id: str, title: str, question: thread_pb2.Message, *, create: bool
    ) -> None:
        """Store a question, once for each message_id; `create` begins the thread with it if it is missing.

        Raises NotFoundError when the thread was deleted.
        """
        ...

    async def answer(
        self,
        owner: str,
        thread_id: str,
        question_id: str,
        answer: thread_pb2.Message,
        record: evidence_pb2.AnswerRecord,
        *,
        answered: tuple[RequestClaim, pb.AnswerResponse] | None = None,
    ) -> None:
        """Store the answer and its record directly behind its question, in place of an earlier attempt's.

        Only the answer's text is stored: sources and citations are kept by ids. An answer that rests on a
        document that was deleted meanwhile is stored without its text.

        With `answered`, the claim is answered by it for the next REPLAY_SECONDS, in the same transaction.
        Raises NotFoundError when the thread was deleted.
        """
        ...

    async def get(self, owner: str, thread_id: str) -> thread_pb2.Thread:
        """Return the thread. Raises NotFoundError."""
        ...

    async def messages(
        self, owner: str, principals: Sequence[str], thread_id: str, *, after: int, limit: int
    ) -> Sequence[tuple[int, thread_pb2.Message]]:
        """Return messages behind an index, each with its own, oldest first.

        Sources whose document was deleted or may not be read by these principals are left out, and an answer
        that rests on one is withheld; the others have their current title, uri and metadata, but no snippet.
        Raises NotFoundError.
        """
        ...

    async def answers(
        self, owner: str, principals: Sequence[str], thread_id: str, message_id: str, *, limit: int
    ) -> Sequence[StoredAnswer]:
        """Return answers of a thread, oldest first, as `messages` gives them: one, or all if message_id is
        empty.

        Raises NotFoundError (MESSAGE_NOT_FOUND where the thread has no such answer).
        """
        ...

    async def threads(
        self, owner: str, *, before: tuple[bool, datetime, str] | None, limit: int
    ) -> Sequence[thread_pb2.Thread]:
        """List threads: the pinned ones, then the others, of each the last used first.

        `before` is pinning, update_time and id of one: those behind it.
        """
        ...

    async def update(
        self, owner: str, thread_id: str, *, title: str | None, is_pinned: bool | None
    ) -> thread_pb2.Thread:
        """Change what is not None; return the thread. Raises NotFoundError."""
        ...

    async def rate(
        self, owner: str, thread_id: str, message_id: str, feedback: thread_pb2.Feedback
    ) -> thread_pb2.Feedback | None:
        """Store what the owner says of an answer, with the time; without a rating, delete it and return None.

        Raises NotFoundError (MESSAGE_NOT_FOUND where the thread has no such answer).
        """
        ...

    async def delete(self, owner: str, thread_id: str) -> None:
        """Delete a thread. Raises NotFoundError."""
        ...

    async def expire(self, unused_seconds: float, limit: int) -> int:
        """Delete threads that were last used this long ago, `limit` at most; return their number."""
        ...
