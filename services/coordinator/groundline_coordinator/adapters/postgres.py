"""Collections and threads in PostgreSQL."""

# ruff: noqa: S608 - what is put into SQL here are constants

import base64
import binascii
import json
import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import asyncpg
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message import Message
from groundline.v1 import chat_pb2, collection_pb2
from groundline_database import Pool, database_errors, is_readable_collection
from groundline_runtime.errors import (
    AbortedError,
    FieldViolation,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
)

from groundline_coordinator.domain import (
    Answered,
    Claim,
    Collection,
    FinishReason,
    GenerationLimits,
    HistoryMessage,
    Page,
    Source,
    Started,
    StoredMessage,
    Thread,
)
from groundline_coordinator.messages import (
    citation_from_proto,
    citation_to_proto,
    completed_from_proto,
    completed_to_proto,
    source_from_proto,
    source_to_proto,
    usage_from_proto,
    usage_to_proto,
)
from groundline_coordinator.ports import REPLAY_SECONDS

__all__ = ["PostgresCatalog", "PostgresThreads"]

RETRY_SECONDS = 1.0
"""When a request that is under way elsewhere may be asked for again."""

_READABLE = f"""
    SELECT collection_id, settings
    FROM collections
    WHERE {is_readable_collection("$1")}
"""

_SOME_READABLE = f"""
    WITH readable AS MATERIALIZED ({_READABLE})
    SELECT collection_id, settings FROM readable WHERE settings ? 'generationLimits'
    UNION
    (SELECT collection_id, settings FROM readable LIMIT 2)
"""

_THREAD = """
    SELECT thread_id, title, create_time, update_time,
           (SELECT count(*) FROM messages WHERE messages.thread_id = threads.thread_id) AS message_count
    FROM threads
"""


class PostgresCatalog:
    """A CollectionCatalog."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def readable(
        self, principals: Sequence[str], collection_ids: Sequence[str]
    ) -> Sequence[Collection]:
        with database_errors():
            if collection_ids:
                rows = await self._pool.fetch(
                    f"{_READABLE} AND collection_id = ANY($2::text[])", list(principals), list(collection_ids)
                )
            else:
                rows = await self._pool.fetch(_SOME_READABLE, list(principals))
        return [_collection(row) for row in rows]


class PostgresThreads:
    """A ThreadStore."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def claim(self, claim: Claim, lease_seconds: float) -> Answered | None:
        with database_errors():
            async with self._pool.acquire() as connection:
                await connection.execute(
                    """
                    DELETE FROM request_replays WHERE (owner, request_id) IN (
                        SELECT owner, request_id FROM request_replays WHERE expire_time <= now()
                        LIMIT 10 FOR UPDATE SKIP LOCKED)
                    """
                )
                taken = await connection.fetchval(
                    """
                    INSERT INTO request_replays AS replay
                        (owner, request_id, fingerprint, message_id, expire_time)
                    VALUES ($1, $2, $3, $4, now() + $5)
                    ON CONFLICT (owner, request_id) DO UPDATE
                    SET fingerprint = excluded.fingerprint, message_id = excluded.message_id,
                        expire_time = excluded.expire_time, thread_id = NULL, completed = NULL, status = NULL
                    WHERE replay.expire_time <= now()
                    RETURNING true
                    """,
                    *_claim_values(claim),
                    timedelta(seconds=lease_seconds),
                )
                if taken:
                    return None
                row = await connection.fetchrow(
                    """
                    SELECT replay.fingerprint, replay.thread_id, replay.completed, replay.status,
                           messages.message_id, messages.content, messages.sources
                    FROM request_replays AS replay LEFT JOIN messages USING (message_id)
                    WHERE replay.owner = $1 AND replay.request_id = $2
                    """,
                    claim.owner,
                    claim.request_id,
                )
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

    async def release(self, claim: Claim) -> None:
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

    async def history(self, owner: str, thread_id: str, limit: int) -> Sequence[HistoryMessage]:
        with database_errors():
            rows = await self._pool.fetch(
                """
                SELECT messages.role, messages.content
                FROM threads LEFT JOIN messages USING (thread_id)
                WHERE threads.thread_id = $1 AND threads.owner = $2
                ORDER BY messages.message_index DESC
                LIMIT $3
                """,
                thread_id,
                owner,
                limit,
            )
        if not rows:
            raise _no_such_thread(thread_id)
        return [HistoryMessage(row["role"], row["content"]) for row in reversed(rows) if row["role"]]

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
        key = thread_id
        with database_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                if create:
                    await connection.execute(
                        "INSERT INTO threads (thread_id, owner, title) VALUES ($1, $2, $3)", key, owner, title
                    )
                # The row's lock puts concurrent writers of one thread in line.
                touched = await connection.fetchval(
                    """
                    UPDATE threads SET update_time = greatest(update_time, clock_timestamp())
                    WHERE thread_id = $1 AND owner = $2
                    RETURNING thread_id
                    """,
                    key,
                    owner,
                )
                if touched is None:
                    raise _no_such_thread(thread_id)
                first = await connection.fetchval(
                    "SELECT coalesce(max(message_index) + 1, 0) FROM messages WHERE thread_id = $1", key
                )
                await connection.executemany(
                    """
                    INSERT INTO messages (thread_id, message_index, message_id, role, content, sources,
                                          citations, usage, finish_reason, model)
                    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
                    """,
                    [
                        (key, index, *_message_values(message))
                        for index, message in enumerate(messages, start=first)
                    ],
                )
                if answered is not None:
                    await _keep_answer(connection, *answered)

    async def get(self, owner: str, thread_id: str) -> Thread:
        with database_errors():
            row = await self._pool.fetchrow(
                f"{_THREAD} WHERE thread_id = $1 AND owner = $2", thread_id, owner
            )
        if row is None:
            raise _no_such_thread(thread_id)
        return _thread(row)

    async def messages(
        self, owner: str, thread_id: str, page_size: int, page_token: str
    ) -> Page[StoredMessage]:
        (after,) = _read_token(page_token, int) if page_token else (-1,)
        await self.get(owner, thread_id)
        with database_errors():
            rows = await self._pool.fetch(
                """
                SELECT * FROM messages WHERE thread_id = $1 AND message_index > $2
                ORDER BY message_index LIMIT $3
                """,
                thread_id,
                after,
                page_size + 1,
            )
        token = _token(rows[page_size - 1]["message_index"]) if len(rows) > page_size else ""
        return Page([_message(row) for row in rows[:page_size]], token)

    async def threads(self, owner: str, page_size: int, page_token: str) -> Page[Thread]:
        condition, values = "", []
        if page_token:
            condition = "AND (update_time, thread_id) < ($3, $4)"
            values = list(_read_token(page_token, datetime.fromisoformat, uuid.UUID))
        with database_errors():
            rows = await self._pool.fetch(
                f"{_THREAD} WHERE owner = $1 {condition} ORDER BY update_time DESC, thread_id DESC LIMIT $2",
                owner,
                page_size + 1,
                *values,
            )
        token = ""
        if len(rows) > page_size:
            last = rows[page_size - 1]
            token = _token(last["update_time"].isoformat(), str(last["thread_id"]))
        return Page([_thread(row) for row in rows[:page_size]], token)

    async def delete(self, owner: str, thread_id: str) -> None:
        with database_errors():
            deleted = await self._pool.fetchval(
                "DELETE FROM threads WHERE thread_id = $1 AND owner = $2 RETURNING thread_id",
                thread_id,
                owner,
            )
        if deleted is None:
            raise _no_such_thread(thread_id)


async def _keep_answer(connection: Any, claim: Claim, answered: Answered) -> None:
    """A claim whose lease ran out may be another's by now; then nothing is kept."""
    status = chat_pb2.ChatStatus(
        rewritten_query=answered.rewritten_query,
        sub_queries=answered.sub_queries,
        rewriting_model=answered.rewriting_model,
    )
    await connection.execute(
        """
        UPDATE request_replays
        SET thread_id = $5, completed = $6, status = $7, expire_time = now() + $8
        WHERE owner = $1 AND request_id = $2 AND fingerprint = $3 AND message_id = $4
        """,
        *_claim_values(claim),
        answered.started.thread_id,
        MessageToDict(completed_to_proto(answered.completed)),
        MessageToDict(status),
        timedelta(seconds=REPLAY_SECONDS),
    )


def _claim_values(claim: Claim) -> tuple[str, str, bytes, str]:
    return claim.owner, claim.request_id, claim.fingerprint, claim.message_id


def _answered(row: asyncpg.Record) -> Answered:
    completed = completed_from_proto(
        ParseDict(row["completed"], chat_pb2.ChatCompleted(), ignore_unknown_fields=True)
    )
    status = ParseDict(row["status"], chat_pb2.ChatStatus(), ignore_unknown_fields=True)
    if completed is None:
        raise InternalError("ANSWER_INCOMPLETE", "the stored answer ended for an unknown reason")
    return Answered(
        started=Started(row["thread_id"], row["message_id"], trace_id=""),
        answer=row["content"],
        sources=_sources(row["sources"]),
        completed=completed,
        rewritten_query=status.rewritten_query,
        sub_queries=tuple(status.sub_queries),
        rewriting_model=status.rewriting_model,
    )


def _sources(stored: Sequence[Any]) -> list[Source]:
    return [
        source_from_proto(ParseDict(value, chat_pb2.Source(), ignore_unknown_fields=True)) for value in stored
    ]


def _no_such_thread(thread_id: str) -> NotFoundError:
    return NotFoundError("THREAD_NOT_FOUND", f"no such thread: {thread_id}")


def _collection(row: asyncpg.Record) -> Collection:
    settings = ParseDict(row["settings"], collection_pb2.CollectionSettings(), ignore_unknown_fields=True)
    return Collection(
        row["collection_id"],
        MessageToDict(settings.rerank),
        MessageToDict(settings.generation),
        _limits(settings.generation_limits),
    )


def _limits(message: collection_pb2.GenerationLimits) -> GenerationLimits:
    return GenerationLimits(
        models=tuple(message.models),
        max_temperature=message.max_temperature if message.HasField("max_temperature") else None,
        max_output_tokens=message.max_output_tokens if message.HasField("max_output_tokens") else None,
        max_top_k=message.max_top_k if message.HasField("max_top_k") else None,
        lowest_min_relevance=(
            message.lowest_min_relevance if message.HasField("lowest_min_relevance") else None
        ),
        fixed_prompt=message.fixed_prompt,
    )


def _thread(row: asyncpg.Record) -> Thread:
    return Thread(
        row["thread_id"], row["title"], row["message_count"], row["create_time"], row["update_time"]
    )


def _message_values(message: StoredMessage) -> tuple[Any, ...]:
    return (
        message.message_id,
        message.role,
        message.content,
        _json([source_to_proto(source) for source in message.sources]),
        _json([citation_to_proto(citation) for citation in message.citations]),
        MessageToDict(usage_to_proto(message.usage)),
        message.finish_reason.value if message.finish_reason else None,
        message.model,
    )


def _json(messages: Sequence[Message]) -> list[Any]:
    return [MessageToDict(message) for message in messages]


def _message(row: asyncpg.Record) -> StoredMessage:
    return StoredMessage(
        message_id=row["message_id"],
        role=row["role"],
        content=row["content"],
        sources=_sources(row["sources"]),
        citations=[
            citation_from_proto(ParseDict(value, chat_pb2.Citation(), ignore_unknown_fields=True))
            for value in row["citations"]
        ],
        usage=usage_from_proto(ParseDict(row["usage"], chat_pb2.Usage(), ignore_unknown_fields=True)),
        finish_reason=FinishReason(row["finish_reason"]) if row["finish_reason"] else None,
        model=row["model"],
        create_time=row["create_time"],
    )


def _token(*values: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(values).encode()).decode()


def _read_token(token: str, *kinds: Any) -> tuple[Any, ...]:
    try:
        values = json.loads(base64.urlsafe_b64decode(token.encode()))
        return tuple(kind(value) for kind, value in zip(kinds, values, strict=True))
    except (ValueError, TypeError, binascii.Error):
        raise InvalidArgumentError([FieldViolation("page_token", "is not a token of this list")]) from None
