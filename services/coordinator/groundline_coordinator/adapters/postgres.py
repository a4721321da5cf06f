"""Collections and threads in PostgreSQL."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Final

import asyncpg
from google.protobuf.json_format import Parse, ParseDict
from google.protobuf.message import Message
from groundline.v1 import chat_pb2, collection_pb2, evidence_pb2, thread_pb2
from groundline.v1 import coordinator_service_pb2 as pb
from groundline_database import (
    Pool,
    current_revision,
    database_errors,
    is_readable_collection,
    is_readable_document,
    read_statements,
)
from groundline_runtime.errors import AbortedError, FieldViolation, InvalidArgumentError, NotFoundError

from groundline_coordinator.adapters.json_values import json_values
from groundline_coordinator.domain.passages import rests_on
from groundline_coordinator.domain.turns import ReadableCollection, RequestClaim
from groundline_coordinator.ports import REPLAY_SECONDS, StoredAnswer

_FINISH_REASON: Final = "FINISH_REASON_"

RETRY_SECONDS: Final = 1.0
"""Time after which a request that another process works on may be asked for again, in seconds."""

_SQL: Final = read_statements(
    __name__,
    current_revision=current_revision("document"),
    is_readable_collection=is_readable_collection("$1"),
    is_readable_collection_of_document=is_readable_collection("$3", "collection"),
    is_readable_document=is_readable_document("$3", "document"),
)


# Fields that are read from the document, or from the message, whenever it is shown.
_OF_DOCUMENTS: Final = frozenset({"title", "uri", "snippet", "metadata", "supporting_text", "is_outdated"})
_OF_THE_MESSAGE: Final = frozenset({"citations"})
_OF_THE_SERVER: Final = frozenset({"update_time"})


class PostgresCatalog:
    """A CollectionCatalog."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def readable(
        self, principals: Sequence[str], collection_ids: Sequence[str]
    ) -> Sequence[ReadableCollection]:
        with database_errors():
            if collection_ids:
                rows = await self._pool.fetch(
                    f"{_SQL['readable']} AND collection_id = ANY($2::text[])",
                    list(principals),
                    list(collection_ids),
                )
            else:
                rows = await self._pool.fetch(_SQL["some_readable"], list(principals))
        return [ReadableCollection(row["collection_id"], _settings(row["settings"])) for row in rows]


class PostgresThreads:
    """A ThreadStore."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def claim(
        self, claim: RequestClaim, principals: Sequence[str], lease_seconds: float
    ) -> pb.AnswerResponse | None:
        values, lease = _claim_values(claim), timedelta(seconds=lease_seconds)
        with database_errors():
            if await self._pool.fetchval(_SQL["claim"], *values, lease, None):
                return None
            row = await self._pool.fetchrow(_SQL["replay"], claim.owner, claim.request_id, list(principals))
            if (
                row is not None
                and row["fingerprint"] == claim.fingerprint
                and row["message_id"] is not None
                and not _shows_all(row)
                and await self._pool.fetchval(_SQL["claim"], *values, lease, row["message_id"])
            ):
                return None
        if row is not None and row["fingerprint"] != claim.fingerprint:
            raise InvalidArgumentError(
                [FieldViolation("request_id", "was used for another request before")],
                reason="REQUEST_ID_REUSED",
            )
        if row is None or row["message_id"] is None:
            raise AbortedError(
                "REQUEST_UNDER_WAY",
                "a request with this request_id is still under way",
                retry_after_seconds=RETRY_SECONDS,
            )
        return _answered(row)

    async def renew(self, claim: RequestClaim, lease_seconds: float) -> None:
        with database_errors():
            await self._pool.execute(
                """
                UPDATE request_replays SET expire_time = now() + $4
                WHERE owner = $1 AND request_id = $2 AND message_id = $3 AND thread_id IS NULL
                """,
                claim.owner,
                claim.request_id,
                claim.message_id,
                timedelta(seconds=lease_seconds),
            )

    async def release(self, claim: RequestClaim) -> None:
        with database_errors():
            await self._pool.execute(
                """
                DELETE FROM request_replays
                WHERE owner = $1 AND request_id = $2 AND message_id = $3 AND thread_id IS NULL
                """,
                claim.owner,
                claim.request_id,
                claim.message_id,
            )

    async def history(
        self, owner: str, principals: Sequence[str], thread_id: str, limit: int
    ) -> Sequence[chat_pb2.ChatMessage]:
        with database_errors():
            rows = await self._pool.fetch(_SQL["history"], thread_id, owner, list(principals), limit)
        if not rows:
            raise _no_such_thread(thread_id)
        return [
            chat_pb2.ChatMessage(role=_role(row["role"]), content=row["content"])
            for row in reversed(rows)
            if row["role"] and not _is_withheld(row)
        ]

    async def ask(
        self, owner: str, thread_id: str, title: str, question: thread_pb2.Message, *, create: bool
    ) -> None:
        asked = (question.message_id, question.content)
        with database_errors():
            async with self._pool.acquire() as connection:
                if create:
                    await connection.execute(_SQL["begin_thread"], thread_id, owner, title, *asked)
                    return
                async with connection.transaction():
                    # The row's lock serialises concurrent writers of one thread.
                    if await connection.fetchval(_SQL["touch_thread"], thread_id, owner) is None:
                        raise _no_such_thread(thread_id)
                    await connection.execute(_SQL["continue_thread"], thread_id, *asked)

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
        given = _answer_values(answer) | {"record": json_values(record)}
        values: tuple[Any, ...] = (thread_id, owner, question_id, given, rests_on(answer))
        if answered is not None:
            values += _replay_values(*answered)
        with database_errors():
            # One statement saves the trips to begin and commit.
            stored = await self._pool.fetchval(_SQL["answer_claim"] if answered else _SQL["answer"], *values)
        if stored is None:
            raise _no_such_thread(thread_id)

    async def get(self, owner: str, thread_id: str) -> thread_pb2.Thread:
        with database_errors():
            row = await self._pool.fetchrow(
                f"{_SQL['thread']} WHERE thread_id = $1 AND owner = $2", thread_id, owner
            )
        if row is None:
            raise _no_such_thread(thread_id)
        return _thread(row)

    async def messages(
        self, owner: str, principals: Sequence[str], thread_id: str, *, after: int, limit: int
    ) -> Sequence[tuple[int, thread_pb2.Message]]:
        await self.get(owner, thread_id)
        with database_errors():
            rows = await self._pool.fetch(_SQL["messages"], thread_id, after, list(principals), limit)
        return [(row["message_index"], _message(row)) for row in rows]

    async def answers(
        self, owner: str, principals: Sequence[str], thread_id: str, message_id: str, *, limit: int
    ) -> Sequence[StoredAnswer]:
        await self.get(owner, thread_id)
        with database_errors():
            rows = await self._pool.fetch(
                _SQL["answers"], thread_id, message_id or None, list(principals), limit
            )
        if message_id and not rows:
            raise _no_such_answer(message_id)
        return [_stored_answer(row) for row in rows]

    async def threads(
        self, owner: str, *, before: tuple[bool, datetime, str] | None, limit: int
    ) -> Sequence[thread_pb2.Thread]:
        place = f"({_SQL['is_pinned']}, update_time, thread_id)"
        condition = "" if before is None else f"AND {place} < ($3, $4, $5)"
        with database_errors():
            rows = await self._pool.fetch(
                f"{_SQL['thread']} WHERE owner = $1 {condition} "
                "ORDER BY is_pinned DESC, update_time DESC, thread_id DESC LIMIT $2",
                owner,
                limit,
                *(before or ()),
            )
        return [_thread(row) for row in rows]

    async def update(
        self, owner: str, thread_id: str, *, title: str | None, is_pinned: bool | None
    ) -> thread_pb2.Thread:
        with database_errors():
            await self._pool.execute(_SQL["update_thread"], thread_id, owner, title, is_pinned)
        return await self.get(owner, thread_id)

    async def rate(
        self, owner: str, thread_id: str, message_id: str, feedback: thread_pb2.Feedback
    ) -> thread_pb2.Feedback | None:
        given = json_values(feedback, without=_OF_THE_SERVER) if feedback.rating else None
        with database_errors():
            row = await self._pool.fetchrow(_SQL["rate"], thread_id, owner, message_id, given)
        if row is None:
            await self.get(owner, thread_id)
            raise _no_such_answer(message_id)
        return _feedback(row["feedback"])

    async def delete(self, owner: str, thread_id: str) -> None:
        with database_errors():
            deleted = await self._pool.fetchval(
                "DELETE FROM threads WHERE thread_id = $1 AND owner = $2 RETURNING thread_id",
                thread_id,
                owner,
            )
        if deleted is None:
            raise _no_such_thread(thread_id)

    async def expire(self, unused_seconds: float, limit: int) -> int:
        with database_errors():
            rows = await self._pool.fetch(
                """
                DELETE FROM threads WHERE thread_id IN (
                    SELECT thread_id FROM threads t WHERE update_time < now() - $1::interval
                    AND NOT EXISTS (SELECT FROM thread_holds h WHERE h.thread_id = t.thread_id)
                    ORDER BY update_time LIMIT $2 FOR UPDATE SKIP LOCKED
                ) RETURNING true
                """,
                timedelta(seconds=unused_seconds),
                limit,
            )
        return len(rows)


def _replay_values(claim: RequestClaim, answered: pb.AnswerResponse) -> tuple[Any, ...]:
    """Return the arguments of `answer_claim` beyond those of `answer`."""
    status = chat_pb2.ChatStatus(
        rewritten_query=answered.rewritten_query,
        sub_queries=answered.sub_queries,
        rewriting_model=answered.rewriting_model,
        corrections=answered.corrections,
    )
    return (
        *_claim_values(claim),
        json_values(answered.completed, without=_OF_THE_MESSAGE),
        json_values(status),
        timedelta(seconds=REPLAY_SECONDS),
    )


def _claim_values(claim: RequestClaim) -> tuple[str, str, bytes, str]:
    return claim.owner, claim.request_id, claim.fingerprint, claim.message_id


def _answered(row: asyncpg.Record) -> pb.AnswerResponse:
    status = _parsed(row["status"], chat_pb2.ChatStatus())
    completed = _parsed(row["completed"], chat_pb2.ChatCompleted())
    completed.citations.extend(_citations(row["citations"]))
    return pb.AnswerResponse(
        thread_id=row["thread_id"],
        message_id=row["message_id"],
        answer=row["content"],
        sources=_sources(row),
        completed=completed,
        rewritten_query=status.rewritten_query,
        sub_queries=status.sub_queries,
        rewriting_model=status.rewriting_model,
        corrections=status.corrections,
    )


def _parsed[M: Message](stored: Any, message: M) -> M:
    """Parse a stored message; ignore fields of a newer release."""
    return ParseDict(stored, message, ignore_unknown_fields=True)


def _sources(row: asyncpg.Record) -> list[chat_pb2.Source]:
    """Return the sources whose documents may be read, with their documents' current properties."""
    sources = []
    for value in row["sources"]:
        if document := row["documents"].get(value.get("documentId")):
            source = _parsed(value | document, chat_pb2.Source())
            source.is_outdated = source.revision not in ("", document["currentRevision"])
            sources.append(source)
    return sources


def _citations(stored: Sequence[Any]) -> list[chat_pb2.Citation]:
    return [_parsed(value, chat_pb2.Citation()) for value in stored]


def _shows_all(row: asyncpg.Record) -> bool:
    return all(value.get("documentId") in row["documents"] for value in row["sources"])


def _is_withheld(row: asyncpg.Record) -> bool:
    return any(str(document_id) not in row["documents"] for document_id in row["document_ids"])


def _no_such_thread(thread_id: str) -> NotFoundError:
    return NotFoundError("THREAD_NOT_FOUND", f"no such thread: {thread_id}")


def _no_such_answer(message_id: str) -> NotFoundError:
    return NotFoundError("MESSAGE_NOT_FOUND", f"no such answer in the thread: {message_id}")


@lru_cache(maxsize=1000)
def _settings(stored: str) -> collection_pb2.CollectionSettings:
    """Parse each text once: a collection is read with every request, and seldom changes."""
    return Parse(stored, collection_pb2.CollectionSettings(), ignore_unknown_fields=True)


def _thread(row: asyncpg.Record) -> thread_pb2.Thread:
    return thread_pb2.Thread(
        thread_id=row["thread_id"],
        title=row["title"],
        message_count=row["message_count"],
        create_time=row["create_time"],
        update_time=row["update_time"],
        is_pinned=row["is_pinned"],
    )


def _answer_values(message: thread_pb2.Message) -> dict[str, Any]:
    """Return the arguments of `answer`."""
    return {
        "message_id": message.message_id,
        "role": "assistant",
        "content": message.content,
        "sources": [json_values(source, without=_OF_DOCUMENTS) for source in message.sources],
        "citations": [json_values(citation, without=_OF_DOCUMENTS) for citation in message.citations],
        "usage": json_values(message.usage),
        "finish_reason": _finish_reason_name(message.finish_reason),
        "model": message.model,
    }


def _role(name: str) -> chat_pb2.ChatMessage.Role.ValueType:
    return chat_pb2.ChatMessage.Role.Value(name.upper())


def _finish_reason_name(reason: chat_pb2.FinishReason.ValueType) -> str | None:
    if not reason:
        return None
    return chat_pb2.FinishReason.Name(reason).removeprefix(_FINISH_REASON).lower()


def _finish_reason(name: str | None) -> chat_pb2.FinishReason.ValueType:
    if name is None:
        return chat_pb2.FINISH_REASON_UNSPECIFIED
    return chat_pb2.FinishReason.Value(f"{_FINISH_REASON}{name.upper()}")


def _message(row: asyncpg.Record) -> thread_pb2.Message:
    is_answer = row["role"] == "assistant"
    is_withheld = _is_withheld(row)
    return thread_pb2.Message(
        message_id=row["message_id"],
        role=_role(row["role"]),
        content="" if is_withheld else row["content"],
        is_withheld=is_withheld,
        sources=_sources(row),
        citations=[] if is_withheld else _citations(row["citations"]),
        usage=_parsed(row["usage"], chat_pb2.Usage()) if is_answer else None,
        finish_reason=_finish_reason(row["finish_reason"]),
        model=row["model"],
        create_time=row["create_time"],
        feedback=_feedback(row["feedback"], without_comment=is_withheld),
    )


def _stored_answer(row: asyncpg.Record) -> StoredAnswer:
    answer = _message(row)
    question = thread_pb2.Message(
        message_id=row["question_id"],
        role=chat_pb2.ChatMessage.USER,
        content=row["question"],
        create_time=row["question_time"],
    )
    is_known = row["record"] is not None and not answer.is_withheld
    return StoredAnswer(
        question, answer, _parsed(row["record"], evidence_pb2.AnswerRecord()) if is_known else None
    )


def _feedback(stored: Any, *, without_comment: bool = False) -> thread_pb2.Feedback | None:
    if stored is None:
        return None
    feedback = _parsed(stored, thread_pb2.Feedback())
    if without_comment:
        feedback.ClearField("comment")
    return feedback
