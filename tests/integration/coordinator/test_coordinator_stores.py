"""One contract for the ports' real adapters and for the fakes that unit tests use in their place."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import UTC
from typing import Any

import pytest
from google.protobuf.struct_pb2 import Struct
from groundline.v1 import chat_pb2, collection_pb2, error_pb2, passage_pb2, thread_pb2
from groundline.v1 import coordinator_service_pb2 as pb
from groundline_coordinator.adapters.postgres import PostgresCatalog, PostgresThreads
from groundline_coordinator.adapters.postgres_quotas import PostgresCallerQuotas
from groundline_coordinator.domain.turns import RequestClaim
from groundline_coordinator.ports import CollectionCatalog, QuotaStore, QuotaUse, ThreadStore
from groundline_database import DatabaseSettings, Pool, open_pool
from groundline_runtime.errors import AbortedError, InvalidArgumentError, NotFoundError, UnavailableError
from groundline_tests.coordinator import FakeCatalog, FakeQuotas, FakeThreads, collection
from pydantic import SecretStr

USER, ASSISTANT = chat_pb2.ChatMessage.USER, chat_pb2.ChatMessage.ASSISTANT
STOP = chat_pb2.FINISH_REASON_STOP
LIMITS = collection_pb2.GenerationLimits(models=["m"], max_temperature=0.5, max_top_k=3)


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
    await threads.answer(owner, thread_id, question.message_id, answer, **answered)


@pytest.fixture(params=["fake", "postgres"])
def threads(request: pytest.FixtureRequest, database: Pool) -> ThreadStore:
    return FakeThreads() if request.param == "fake" else PostgresThreads(database)


@pytest.fixture
def quotas(threads: ThreadStore, database: Pool) -> QuotaStore:
    return FakeQuotas(threads) if isinstance(threads, FakeThreads) else PostgresCallerQuotas(database)


async def test_what_a_caller_has_used_is_counted(threads: ThreadStore, quotas: QuotaStore) -> None:
    owner, first, second = f"user:{new_id()}", new_id(), new_id()
    for thread_id in (first, second):
        await threads.ask(owner, thread_id, "title", asked("Why?"), create=True)
    for tokens in (10, 5):
        await quotas.spend(owner, tokens)
    assert await quotas.used(owner) == QuotaUse(threads=2, tokens=15)
    assert await quotas.used(owner, besides=first) == QuotaUse(threads=1, tokens=15)
    assert await quotas.used(f"user:{new_id()}") == QuotaUse(threads=0, tokens=0)


async def test_tokens_of_yesterday_are_not_todays(database: Pool) -> None:
    owner, quotas = f"user:{new_id()}", PostgresCallerQuotas(database)
    await quotas.spend(owner, 10)
    await database.execute("UPDATE token_usage SET day = day - 1 WHERE owner = $1", owner)
    assert (await quotas.used(owner)).tokens == 0
    await quotas.spend(owner, 3)
    assert (await quotas.used(owner)).tokens == 3


@pytest.fixture(scope="module")
async def restricted(add_collection: Callable[..., Awaitable[None]]) -> None:
    await add_collection("open", settings={"rerank": {"topK": 3}, "generation": {"temperature": 0.5}, "x": 1})
    await add_collection("staff", readers=("group:staff",), writers=("user:editor",))
    await add_collection("notes", writers=("user:editor",))
    await add_collection(
        "strict",
        readers=("user:limited",),
        settings={"generationLimits": {"models": ["m"], "maxTemperature": 0.5, "maxTopK": 3}},
    )


@pytest.fixture(params=["fake", "postgres"])
async def catalog(
    request: pytest.FixtureRequest, database: Pool, restricted: None
) -> AsyncIterator[CollectionCatalog]:
    if request.param == "postgres":
        yield PostgresCatalog(database)
        return
    fake = FakeCatalog()
    fake.add(collection("open", rerank={"top_k": 3}, generation={"temperature": 0.5}))
    fake.add(collection("staff"), readers=("group:staff",), writers=("user:editor",))
    fake.add(collection("notes"), writers=("user:editor",))
    fake.add(collection("strict", generation_limits=LIMITS), readers=("user:limited",))
    yield fake


async def readable(catalog: CollectionCatalog, principals: tuple[str, ...], *names: str) -> list[str]:
    return sorted(each.collection_id for each in await catalog.readable(principals, names))


async def test_only_readable_collections_are_seen(catalog: CollectionCatalog) -> None:
    names = ("open", "staff", "notes", "missing")
    assert await readable(catalog, (), *names) == ["notes", "open"]
    assert await readable(catalog, ("user:x",), *names) == ["notes", "open"]
    assert await readable(catalog, ("user:x", "group:staff"), *names) == ["notes", "open", "staff"]
    assert await readable(catalog, ("user:editor",), *names) == ["notes", "open", "staff"]


async def test_without_names_two_tell_several(catalog: CollectionCatalog) -> None:
    assert len(await catalog.readable(("group:staff",), ())) == 2


async def test_without_names_every_limit_is_seen(catalog: CollectionCatalog) -> None:
    found = await catalog.readable(("user:limited",), ())
    limits = {each.collection_id: each.settings.generation_limits for each in found}
    assert limits["strict"] == LIMITS
    assert 2 <= len(found) <= 3


async def test_a_collection_brings_its_defaults(catalog: CollectionCatalog) -> None:
    (found,) = await catalog.readable((), ("open",))
    assert found.settings == collection("open", rerank={"top_k": 3}, generation={"temperature": 0.5}).settings


async def test_what_is_not_there_is_not_found(threads: ThreadStore) -> None:
    calls: tuple[Callable[[str], Awaitable[Any]], ...] = (
        lambda key: threads.history("", (), key, 10),
        lambda key: threads.get("", key),
        lambda key: threads.messages("", (), key, after=-1, limit=10),
        lambda key: threads.delete("", key),
        lambda key: threads.ask("", key, "t", asked("q"), create=False),
    )
    for call in calls:
        with pytest.raises(NotFoundError) as failure:
            await call(new_id())
        assert failure.value.reason == "THREAD_NOT_FOUND"


async def test_another_owners_thread_is_not_found_and_stays(threads: ThreadStore) -> None:
    key = new_id()
    await exchanged(threads, "user:a", key, exchange("q"))
    with pytest.raises(NotFoundError):
        await threads.get("user:b", key)
    with pytest.raises(NotFoundError):
        await threads.delete("user:b", key)
    with pytest.raises(NotFoundError):
        await threads.ask("user:b", key, "t", asked("q"), create=False)
    assert (await threads.get("user:a", key)).message_count == 2


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


type NewDocument = Callable[..., Awaitable[str]]
type Hide = Callable[[str], Awaitable[None]]


@pytest.fixture
def new_document(
    threads: ThreadStore, add_document: Callable[..., Awaitable[None]], restricted: None
) -> NewDocument:
    """Stores a document of the collection open, and returns its id; the fake believes what sources say."""

    async def add(**fields: Any) -> str:
        document_id = new_id()
        if isinstance(threads, PostgresThreads):
            await add_document("open", document_id, **fields)
        return document_id

    return add


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
    await hide(gone)
    (_, question), (_, shown) = await threads.messages("", (), key, after=-1, limit=10)
    assert (question.content, shown.is_withheld) == ("q", is_withheld)
    assert shown.content == ("" if is_withheld else "It is hidden.")
    assert [citation.source_number for citation in shown.citations] == ([] if is_withheld else cited)
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


async def test_unused_threads_expire(threads: ThreadStore, database: Pool) -> None:
    owner, old, used = f"user:{new_id()}", new_id(), new_id()
    await exchanged(threads, owner, old, exchange("q"))
    if isinstance(threads, FakeThreads):
        threads.pass_time(7200)
    else:
        await database.execute(
            "UPDATE threads SET update_time = now() - interval '2 hours' WHERE thread_id = $1", old
        )
    await exchanged(threads, owner, used, exchange("q"))
    assert await threads.expire(3600, 10) == 1
    remaining = await threads.threads(owner, before=None, limit=10)
    assert [thread.thread_id for thread in remaining] == [used]


async def test_messages_come_back_whole_and_in_pages(threads: ThreadStore, new_document: NewDocument) -> None:
    key = new_id()
    document_id = await new_document(metadata={"a": [1.0]})
    metadata = Struct()
    metadata.update({"a": [1.0]})
    source = chat_pb2.Source(
        number=1,
        title="T",
        uri=f"{document_id}.md",
        type=passage_pb2.SOURCE_TYPE_WEB,
        snippet="snip",
        chunk_id="4",
        document_id=document_id,
        collection_id="open",
        score=0.5,
        explanation=passage_pb2.ScoreExplanation(final_score=0.5),
        metadata=metadata,
        start_offset=2,
        end_offset=9,
    )
    answer = thread_pb2.Message(
        message_id=new_id(),
        role=ASSISTANT,
        content="Yes 🎉 [1]",
        sources=[source],
        citations=[chat_pb2.Citation(source_number=1, end_offset=5, supporting_text="s", chunk_id="4")],
        usage=chat_pb2.Usage(prompt_tokens=7, cached_tokens=1, output_tokens=3),
        finish_reason=chat_pb2.FINISH_REASON_MAX_TOKENS,
        model="m",
    )
    await exchanged(threads, "", key, (asked("q"), answer))
    await exchanged(threads, "", key, exchange("r"))
    first = await threads.messages("", (), key, after=-1, limit=3)
    assert [message.content for _, message in first] == ["q", "Yes 🎉 [1]", "r"]
    shown = first[1][1]
    assert shown.HasField("create_time")
    shown.ClearField("create_time")
    # They are read with the chunks, by whoever may read those.
    answer.sources[0].ClearField("snippet")
    answer.citations[0].ClearField("supporting_text")
    assert shown == answer
    last = await threads.messages("", (), key, after=first[-1][0], limit=3)
    assert [message.content for _, message in last] == ["Yes."]


async def test_history_is_the_end_of_the_thread(threads: ThreadStore) -> None:
    key = new_id()
    await exchanged(threads, "", key, exchange("q", "a"))
    await exchanged(threads, "", key, exchange("r", "b"))
    assert [message.content for message in await threads.history("", (), key, 3)] == ["a", "r", "b"]


async def test_threads_are_listed_last_used_first_in_pages(threads: ThreadStore) -> None:
    owner, keys = f"user:{new_id()}", [new_id() for _ in range(3)]
    for key in keys:
        await exchanged(threads, owner, key, exchange("q"))
    await exchanged(threads, owner, keys[0], exchange("r"))
    first = await threads.threads(owner, before=None, limit=2)
    last = await threads.threads(
        owner, before=(first[1].update_time.ToDatetime(UTC), first[1].thread_id), limit=2
    )
    assert [thread.thread_id for thread in (*first, *last)] == [keys[0], keys[2], keys[1]]
    assert [thread.message_count for thread in first] == [4, 2]
    await threads.delete(owner, keys[2])
    remaining = await threads.threads(owner, before=None, limit=10)
    assert len(remaining) == 2


async def test_concurrent_writers_of_a_thread_lose_nothing(threads: ThreadStore) -> None:
    key = new_id()
    await exchanged(threads, "", key, exchange("0", "0"))
    await asyncio.gather(*(exchanged(threads, "", key, exchange(str(n), str(n))) for n in range(1, 8)))
    contents = await contents_of(threads, key)
    assert contents[::2] == contents[1::2]
    assert sorted(contents[::2]) == [str(n) for n in range(8)]


async def test_a_question_is_there_before_its_answer_and_leaves_room_for_it(threads: ThreadStore) -> None:
    key, first, second = new_id(), exchange("q", "a"), exchange("r", "b")
    await threads.ask("", key, "title", first[0], create=True)
    await threads.ask("", key, "ignored", second[0], create=False)
    assert (await threads.get("", key)).title == "title"
    assert await contents_of(threads, key) == ["q", "r"]
    await threads.answer("", key, second[0].message_id, second[1])
    assert [message.content for message in await threads.history("", (), key, 10)] == ["r", "b"]
    await threads.answer("", key, first[0].message_id, first[1])
    assert await contents_of(threads, key) == ["q", "a", "r", "b"]


async def test_a_question_asked_again_is_stored_once_and_its_answer_replaced(threads: ThreadStore) -> None:
    key, (question, answer), (_, another) = new_id(), exchange("q", "a"), exchange("q", "b")
    for attempt in (answer, another):
        await threads.ask("", key, "t", question, create=True)
        await threads.answer("", key, question.message_id, attempt)
    follow_up = asked("r")
    for _ in range(2):
        await threads.ask("", key, "t", follow_up, create=False)
    assert await contents_of(threads, key) == ["q", "b", "r"]
    _, (_, replaced), _ = await threads.messages("", (), key, after=-1, limit=10)
    assert replaced.message_id == another.message_id


async def test_an_answer_of_a_deleted_thread_is_refused(threads: ThreadStore) -> None:
    key, (question, answer) = new_id(), exchange("q")
    await threads.ask("user:a", key, "t", question, create=True)
    with pytest.raises(NotFoundError):
        await threads.answer("user:b", key, question.message_id, answer)
    await threads.delete("user:a", key)
    with pytest.raises(NotFoundError):
        await threads.answer("user:a", key, question.message_id, answer)


async def contents_of(threads: ThreadStore, thread_id: str) -> list[str]:
    messages = [message for _, message in await threads.messages("", (), thread_id, after=-1, limit=100)]
    return [message.content for message in messages]


async def test_a_database_out_of_reach_is_unavailable(database_url: str) -> None:
    async with open_pool(DatabaseSettings(database_url=SecretStr(database_url))) as pool:
        pass
    with pytest.raises(UnavailableError) as failure:
        await PostgresThreads(pool).get("", new_id())
    assert failure.value.reason == "DATABASE_UNAVAILABLE"
    with pytest.raises(UnavailableError):
        await PostgresCatalog(pool).readable((), ())
