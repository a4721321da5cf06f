"""Questions and answers as threads keep them."""

import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from groundline.v1 import chat_pb2, evidence_pb2, thread_pb2
from groundline_coordinator.ports import ThreadStore

USER, ASSISTANT = chat_pb2.ChatMessage.USER, chat_pb2.ChatMessage.ASSISTANT
STOP = chat_pb2.FINISH_REASON_STOP
BAD = thread_pb2.Feedback.RATING_BAD
RECORD = evidence_pb2.AnswerRecord(queries=["Is it hidden?"], prompt_version="7")


def new_id() -> str:
    return str(uuid.uuid4())


def asked(content: str) -> thread_pb2.Message:
    return thread_pb2.Message(message_id=new_id(), role=USER, content=content)


def exchange(question: str, answer: str = "Yes.") -> tuple[thread_pb2.Message, thread_pb2.Message]:
    return asked(question), thread_pb2.Message(
        message_id=new_id(), role=ASSISTANT, content=answer, finish_reason=STOP
    )


async def exchanged(
    threads: ThreadStore,
    owner: str,
    thread_id: str,
    messages: tuple[thread_pb2.Message, thread_pb2.Message],
    **answered: Any,
) -> None:
    """Store question and answer; the first begin the thread."""
    question, answer = messages
    known = await threads.threads(owner, before=None, limit=100)
    create = thread_id not in {thread.thread_id for thread in known}
    await threads.ask(owner, thread_id, f"title {thread_id}", question, create=create)
    await threads.answer(owner, thread_id, question.message_id, answer, RECORD, **answered)


type NewDocument = Callable[..., Awaitable[str]]


def source_of(document_id: str, number: int = 1) -> chat_pb2.Source:
    return chat_pb2.Source(
        number=number,
        title="T",
        uri=f"{document_id}.md",
        chunk_id=str(number),
        document_id=document_id,
        collection_id="open",
    )


def answered_from(*sources: chat_pb2.Source, cited: Sequence[int] = ()) -> thread_pb2.Message:
    citations = [chat_pb2.Citation(source_number=number, chunk_id=str(number)) for number in cited]
    return thread_pb2.Message(
        message_id=new_id(),
        role=ASSISTANT,
        content="It is hidden.",
        sources=sources,
        citations=citations,
        finish_reason=STOP,
    )
