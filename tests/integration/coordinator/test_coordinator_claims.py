"""Claims of requests, and answers that go with their documents: on a fake and on PostgreSQL."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from groundline.v1 import chat_pb2, error_pb2, passage_pb2, thread_pb2
from groundline.v1 import coordinator_service_pb2 as pb
from groundline_coordinator.adapters.postgres import PostgresThreads
from groundline_coordinator.domain.turns import RequestClaim
from groundline_coordinator.ports import ThreadStore
from groundline_database import Pool
from groundline_runtime.errors import AbortedError, InvalidArgumentError
from groundline_tests.coordinator.fakes import FakeThreads
from groundline_tests.coordinator.threads import (
    ASSISTANT,
    BAD,
    STOP,
    NewDocument,
    answered_from,
    asked,
    exchanged,
    new_id,
    source_of,
)


def claim_of(owner: str = "", fingerprint: bytes = b"1", request_id: str = "r") -> RequestClaim:
    return RequestClaim(owner, request_id, fingerprint, new_id())


def answer_to(claim: RequestClaim, thread_id: str) -> pb.AnswerResponse:
    return pb.AnswerResponse(
        thread_id=thread_id,
        message_id=claim.message_id,
        answer="Yes.",
        completed=chat_pb2.ChatCompleted(
            finish_reason=STOP,
            usage=chat_pb2.Usage(prompt_tokens=1, cached_tokens=2, output_tokens=3),
            validation=chat_pb2.Validation(grounded=True, confidence=0.5),
            degraded=[
                passage_pb2.Degradation(
                    component=passage_pb2.COMPONENT_RERANKER,
                    reason=error_pb2.RERANKER_UNAVAILABLE,
                    message="down",
                )
            ],
            timings=[passage_pb2.StageTiming(stage=passage_pb2.STAGE_RETRIEVING, duration_ms=1.5)],
            model="m",
            prompt_version="v1",
        ),
        rewritten_query="standalone",
        sub_queries=["a", "b"],
    )


async def keep(threads: ThreadStore, claim: RequestClaim, thread_id: str) -> pb.AnswerResponse:
    answered = answer_to(claim, thread_id)
    answer = thread_pb2.Message(
        message_id=claim.message_id, role=ASSISTANT, content=answered.answer, finish_reason=STOP
    )
    await exchanged(threads, claim.owner, thread_id, (asked("q"), answer), answered=(claim, answered))
    return answered


async def test_a_claim_under_way_is_not_given_twice(threads: ThreadStore) -> None:
    owner = new_id()
    assert await threads.claim(claim_of(owner), (), 60) is None
    with pytest.raises(AbortedError) as failure:
        await threads.claim(claim_of(owner), (), 60)
    assert failure.value.retry_after_seconds
    with pytest.raises(InvalidArgumentError) as reused:
        await threads.claim(claim_of(owner, b"2"), (), 60)
    assert reused.value.reason == "REQUEST_ID_REUSED"
    assert await threads.claim(claim_of(new_id()), (), 60) is None
    assert await threads.claim(claim_of(owner, request_id="s"), (), 60) is None


async def test_only_one_of_many_gets_the_claim(threads: ThreadStore) -> None:
    owner = new_id()
    results = await asyncio.gather(
        *(threads.claim(claim_of(owner), (), 60) for _ in range(8)), return_exceptions=True
    )
    assert results.count(None) == 1
    assert sum(isinstance(each, AbortedError) for each in results) == 7


async def test_a_claim_of_the_dead_runs_out(threads: ThreadStore) -> None:
    owner = new_id()
    await threads.claim(claim_of(owner), (), 0)
    assert await threads.claim(claim_of(owner, b"2"), (), 60) is None


async def test_a_claim_of_the_dead_runs_out_although_the_clock_was_set_back(threads: ThreadStore) -> None:
    owner = new_id()
    await threads.claim(claim_of(owner), (), 3600)
    assert await threads.claim(claim_of(owner), (), 60) is None


async def test_a_renewed_claim_lasts_but_not_anothers(threads: ThreadStore) -> None:
    owner, other = new_id(), new_id()
    mine = claim_of(owner)
    await threads.claim(mine, (), 0)
    await threads.renew(mine, 60)
    with pytest.raises(AbortedError):
        await threads.claim(claim_of(owner), (), 60)
    await threads.claim(claim_of(other), (), 0)
    await threads.renew(claim_of(other), 60)
    assert await threads.claim(claim_of(other), (), 60) is None


async def test_an_answer_is_replayed_as_long_as_before_after_a_late_renewal(threads: ThreadStore) -> None:
    mine, thread_id = claim_of(new_id()), new_id()
    await threads.claim(mine, (), 60)
    await keep(threads, mine, thread_id)
    await threads.renew(mine, 0)
    assert await threads.claim(claim_of(mine.owner), (), 60) is not None


async def test_a_released_claim_is_free_but_not_anothers(threads: ThreadStore) -> None:
    owner = new_id()
    mine = claim_of(owner)
    await threads.claim(mine, (), 60)
    await threads.release(claim_of(owner))
    with pytest.raises(AbortedError):
        await threads.claim(claim_of(owner), (), 60)
    await threads.release(mine)
    assert await threads.claim(claim_of(owner), (), 60) is None


async def test_an_answered_claim_gives_the_answer_back(threads: ThreadStore) -> None:
    mine, thread_id = claim_of(new_id()), new_id()
    await threads.claim(mine, (), 60)
    answered = await keep(threads, mine, thread_id)
    await threads.release(mine)
    assert await threads.claim(claim_of(mine.owner), (), 60) == answered
    with pytest.raises(InvalidArgumentError):
        await threads.claim(claim_of(mine.owner, b"2"), (), 60)


async def test_an_answer_whose_thread_is_deleted_is_forgotten(threads: ThreadStore) -> None:
    mine, thread_id = claim_of(new_id()), new_id()
    await threads.claim(mine, (), 60)
    await keep(threads, mine, thread_id)
    await threads.delete(mine.owner, thread_id)
    assert await threads.claim(claim_of(mine.owner), (), 60) is None


async def test_expired_claims_are_cleared_away(database: Pool) -> None:
    threads = PostgresThreads(database)
    for _ in range(5):
        await threads.claim(claim_of(new_id()), (), 0)
    await threads.claim(claim_of(new_id()), (), 60)
    assert await database.fetchval("SELECT count(*) FROM request_replays WHERE expire_time <= now()") == 0


type Hide = Callable[[str], Awaitable[None]]


@pytest.fixture(params=["deleted", "not readable"])
def hide(request: pytest.FixtureRequest, threads: ThreadStore, database: Pool) -> Hide:
    """Deletes a document, or takes away the right to read it."""

    async def take_away(document_id: str) -> None:
        if isinstance(threads, FakeThreads):
            threads.hidden.add(document_id)
        elif request.param == "deleted":
            await database.execute("DELETE FROM documents WHERE document_id = $1", document_id)
        else:
            await database.execute(
                "UPDATE documents SET allowed_principals = '{user:other}' WHERE document_id = $1", document_id
            )

    return take_away


@pytest.mark.parametrize(
    ("cited", "is_withheld"),
    [
        pytest.param([1], True, id="cited"),
        pytest.param([], True, id="given to an answer that cites nothing"),
        pytest.param([2], False, id="not cited"),
    ],
)
async def test_an_answer_goes_with_a_document_that_it_rests_on(
    threads: ThreadStore, new_document: NewDocument, hide: Hide, cited: list[int], is_withheld: bool
) -> None:
    key, gone, kept = new_id(), await new_document(), await new_document()
    answer = answered_from(source_of(gone), source_of(kept, 2), cited=cited)
    await exchanged(threads, "", key, (asked("q"), answer))
    await threads.rate("", key, answer.message_id, thread_pb2.Feedback(rating=BAD, comment="Not hidden."))
    await hide(gone)
    (_, question), (_, shown) = await threads.messages("", (), key, after=-1, limit=10)
    assert (question.content, shown.is_withheld) == ("q", is_withheld)
    assert shown.content == ("" if is_withheld else "It is hidden.")
    assert [citation.source_number for citation in shown.citations] == ([] if is_withheld else cited)
    assert shown.feedback.rating == BAD
    assert shown.feedback.comment == ("" if is_withheld else "Not hidden.")
    assert [(source.number, source.document_id) for source in shown.sources] == [(2, kept)]
    history = [message.content for message in await threads.history("", (), key, 10)]
    assert history == (["q"] if is_withheld else ["q", "It is hidden."])


async def test_an_answer_is_not_replayed_without_one_of_its_documents(
    threads: ThreadStore, new_document: NewDocument, hide: Hide
) -> None:
    mine, key, gone = claim_of(new_id()), new_id(), await new_document()
    await threads.claim(mine, (), 60)
    answer = answered_from(source_of(gone), cited=[1])
    answer.message_id = mine.message_id
    answered = answer_to(mine, key)
    answered.sources.append(source_of(gone))
    await exchanged(threads, mine.owner, key, (asked("q"), answer), answered=(mine, answered))
    assert await threads.claim(claim_of(mine.owner), (), 60) is not None
    await hide(gone)
    assert await threads.claim(claim_of(mine.owner), (), 60) is None


async def test_nothing_of_an_answer_is_left_when_its_document_is_deleted(database: Pool) -> None:
    threads, key = PostgresThreads(database), new_id()
    gone = new_id()
    # Deleted while the answer was written: there is nothing to be deleted with.
    await exchanged(threads, "", key, (asked("q"), answered_from(source_of(gone), cited=[1])))
    stored = await database.fetchrow(
        "SELECT content, sources::text, citations FROM messages WHERE thread_id = $1 AND message_index = 1",
        key,
    )
    assert stored is not None
    assert (stored["content"], stored["citations"]) == ("", [])
    assert "title" not in stored["sources"]
