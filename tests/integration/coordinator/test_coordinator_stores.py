"""One contract for the ports' real adapters and for the fakes that unit tests use in their place."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from google.protobuf.struct_pb2 import Struct
from groundline.v1 import chat_pb2, collection_pb2, passage_pb2, quota_pb2, thread_pb2
from groundline.v1 import coordinator_service_pb2 as pb
from groundline_coordinator.adapters import postgres_quotas
from groundline_coordinator.adapters.json_values import json_values
from groundline_coordinator.adapters.postgres import PostgresCatalog, PostgresThreads
from groundline_coordinator.adapters.postgres_quotas import PostgresCallerQuotas
from groundline_coordinator.domain.quotas import QuotaUse
from groundline_coordinator.ports import CollectionCatalog, QuotaStore, ThreadStore
from groundline_database import DatabaseSettings, Pool, open_pool
from groundline_database.spending import SpendingLedger
from groundline_database.statements import read_statements
from groundline_runtime.errors import FailedPreconditionError, NotFoundError, UnavailableError
from groundline_runtime.quotas import Budgets
from groundline_tests.coordinator.fakes import FakeCatalog, FakeQuotas, FakeThreads, collection
from groundline_tests.coordinator.threads import (
    ASSISTANT,
    BAD,
    RECORD,
    NewDocument,
    asked,
    exchange,
    exchanged,
    new_id,
)
from pydantic import SecretStr

LIMITS = collection_pb2.GenerationLimits(models=["m"], max_temperature=0.5, max_top_k=3)


@pytest.fixture
def quotas(threads: ThreadStore, database: Pool) -> QuotaStore:
    return FakeQuotas(threads) if isinstance(threads, FakeThreads) else quotas_in(database)


def quotas_in(database: Pool) -> PostgresCallerQuotas:
    return PostgresCallerQuotas(database, SpendingLedger(database, Budgets(day_usd=1)))


async def test_what_a_caller_has_used_is_counted(threads: ThreadStore, quotas: QuotaStore) -> None:
    owner, first, second = f"user:{new_id()}", new_id(), new_id()
    for thread_id in (first, second):
        await threads.ask(owner, thread_id, "title", asked("Why?"), create=True)
    for tokens, usd in ((10, 0.25), (5, 0.5), (0, 0.0)):
        await quotas.spend(owner, tokens, usd)
    spent = (await quotas.used(owner)).spent
    assert (spent.day_usd, spent.month_usd) == (0.75, 0.75)
    assert await quotas.used(owner) == QuotaUse(threads=2, tokens=15, spent=spent)
    assert await quotas.used(owner, besides=first) == QuotaUse(1, 15, spent)
    nobody = await quotas.used(f"user:{new_id()}")
    assert (nobody.threads, nobody.tokens, nobody.spent.day_usd) == (0, 0, 0.0)


async def test_what_one_caller_or_all_spent_is_reported(quotas: QuotaStore) -> None:
    owner, other, today = f"user:{new_id()}", f"user:{new_id()}", datetime.now(UTC).date()
    before = (await quotas.report(today, None)).total.cost_usd
    for caller, usd in ((owner, 0.25), (other, 0.5)):
        await quotas.spend(caller, 5, usd)

    [found] = (report := await quotas.report(today, owner)).callers
    assert (found.name, found.cost_usd, report.total.cost_usd) == (owner, 0.25, 0.25)
    assert await quotas.report(today, "user:nobody") == pb.GetUsageResponse(total=quota_pb2.UsageSum())
    assert (await quotas.report(today, None)).total.cost_usd == before + 0.75


async def test_a_report_sums_stored_answers_and_the_ledger_by_day_caller_and_model(database: Pool) -> None:
    owner, store, quotas = f"user:{new_id()}", PostgresThreads(database), quotas_in(database)
    today = datetime.now(UTC).date()
    answers: list[tuple[str, dict[str, Any]]] = [
        ("large", {"prompt_tokens": 100, "cached_tokens": 40, "output_tokens": 10, "cost_usd": 0.5}),
        ("small", {"prompt_tokens": 20, "output_tokens": 5}),
        ("large", {"prompt_tokens": 7, "cost_usd": 0.25}),
        ("large", {"prompt_tokens": 1000, "cost_usd": 9}),
    ]
    for days_ago, (model, usage) in zip((0, 0, 1, 2), answers, strict=True):
        await exchanged(store, owner, thread_id := new_id(), exchange("Why?"))
        await database.execute(
            """
            UPDATE messages SET model = $2, usage = $3, create_time = now() - make_interval(days => $4)
            WHERE thread_id = $1 AND role = 'assistant'
            """,
            thread_id,
            model,
            json_values(chat_pb2.Usage(**usage)),
            days_ago,
        )
    # Checked texts and documents cost something, which only the ledger knows.
    await quotas.spend(owner, 0, 3.0)

    report = await quotas.report(today - timedelta(days=1), owner)

    def shown(sums: Iterable[quota_pb2.UsageSum]) -> list[tuple[object, ...]]:
        return [tuple(getattr(each, field.name) for field in each.DESCRIPTOR.fields) for each in sums]

    assert shown([report.total]) == [("", 3.0, 3, 127, 40, 15)]
    assert shown(report.days) == [
        (f"{today}", 3.0, 2, 120, 40, 15),
        (f"{today - timedelta(days=1)}", 0.0, 1, 7, 0, 0),
    ]
    assert shown(report.callers) == [(owner, 3.0, 3, 127, 40, 15)]
    assert shown(report.models) == [("large", 0.75, 2, 107, 40, 10), ("small", 0.0, 1, 20, 0, 5)]
    assert owner in {each.name for each in (await quotas.report(today, None)).callers}


async def test_a_report_reads_answers_from_an_index_alone(database: Pool) -> None:
    sql = read_statements(postgres_quotas.__name__)["report"]
    async with database.acquire() as connection, connection.transaction():
        for other in ("seqscan", "bitmapscan", "nestloop", "mergejoin"):
            await connection.execute(f"SET LOCAL enable_{other} = off")
        plan = await connection.fetch(f"EXPLAIN {sql}", datetime.now(UTC).date(), None, 100)
    assert [line for (line,) in plan if "Index Only Scan using messages_usage" in line]


async def test_tokens_of_yesterday_are_not_todays(database: Pool) -> None:
    owner, quotas = (f"user:{new_id()}", quotas_in(database))
    await quotas.spend(owner, 10, 0.0)
    await database.execute("UPDATE token_usage SET day = day - 1 WHERE owner = $1", owner)
    assert (await quotas.used(owner)).tokens == 0
    await quotas.spend(owner, 3, 0.0)
    assert (await quotas.used(owner)).tokens == 3


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


async def test_what_is_said_of_an_answer_stands_until_something_else_is_said(threads: ThreadStore) -> None:
    key, (question, answer) = new_id(), exchange("q")
    await exchanged(threads, "user:a", key, (question, answer))

    async def shown() -> thread_pb2.Message:
        return (await threads.messages("user:a", (), key, after=0, limit=1))[0][1]

    assert not (await shown()).HasField("feedback")
    bad = thread_pb2.Feedback(
        rating=BAD, problem=thread_pb2.Feedback.PROBLEM_OUTDATED, comment="That was 2024."
    )
    for said in (bad, thread_pb2.Feedback(rating=thread_pb2.Feedback.RATING_GOOD)):
        stored = await threads.rate("user:a", key, answer.message_id, said)
        assert stored is not None
        assert stored.update_time.seconds > 0
        assert (await shown()).feedback == stored
        stored.ClearField("update_time")
        assert stored == said
    assert await threads.rate("user:a", key, answer.message_id, thread_pb2.Feedback()) is None
    assert not (await shown()).HasField("feedback")


async def test_an_answer_that_is_written_anew_has_no_feedback(threads: ThreadStore) -> None:
    key, (question, answer) = new_id(), exchange("q")
    await exchanged(threads, "", key, (question, answer))
    await threads.rate("", key, answer.message_id, thread_pb2.Feedback(rating=BAD))
    (_, other) = exchange("q", "No.")
    await threads.answer("", key, question.message_id, other, RECORD)
    ((_, shown),) = await threads.messages("", (), key, after=0, limit=1)
    assert shown.content == "No."
    assert not shown.HasField("feedback")


async def test_only_ones_own_answers_can_be_rated(threads: ThreadStore) -> None:
    key, other, (question, answer) = new_id(), new_id(), exchange("q")
    await exchanged(threads, "user:a", key, (question, answer))
    await exchanged(threads, "user:a", other, exchange("q"))
    bad = thread_pb2.Feedback(rating=BAD)
    for owner, thread_id, message_id, reason in (
        ("user:b", key, answer.message_id, "THREAD_NOT_FOUND"),
        ("user:a", new_id(), answer.message_id, "THREAD_NOT_FOUND"),
        ("user:a", other, answer.message_id, "MESSAGE_NOT_FOUND"),
        ("user:a", key, question.message_id, "MESSAGE_NOT_FOUND"),
        ("user:a", key, new_id(), "MESSAGE_NOT_FOUND"),
    ):
        with pytest.raises(NotFoundError) as failure:
            await threads.rate(owner, thread_id, message_id, bad)
        assert failure.value.reason == reason


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


async def test_a_held_thread_neither_goes_nor_expires(database: Pool, restricted: None) -> None:
    threads, owner, held, other = PostgresThreads(database), f"user:{new_id()}", new_id(), new_id()
    for key in (held, other):
        await exchanged(threads, owner, key, exchange("q"))
    await database.execute("INSERT INTO thread_holds VALUES ($1, 'open', 'Case')", held)
    await database.execute("UPDATE threads SET update_time = '2001-01-01' WHERE owner = $1", owner)

    with pytest.raises(FailedPreconditionError, match=held) as refused:
        await threads.delete(owner, held)

    assert refused.value.reason == "LEGAL_HOLD"
    assert await threads.expire(3600, 10) >= 1
    assert [each.thread_id for each in await threads.threads(owner, before=None, limit=10)] == [held]
    await database.execute("DELETE FROM thread_holds")
    await threads.delete(owner, held)


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
        owner, before=(False, first[1].update_time.ToDatetime(UTC), first[1].thread_id), limit=2
    )
    assert [thread.thread_id for thread in (*first, *last)] == [keys[0], keys[2], keys[1]]
    assert [thread.message_count for thread in first] == [4, 2]
    await threads.delete(owner, keys[2])
    remaining = await threads.threads(owner, before=None, limit=10)
    assert len(remaining) == 2


async def test_pinned_threads_are_listed_before_the_others(threads: ThreadStore) -> None:
    owner, keys = f"user:{new_id()}", [new_id() for _ in range(4)]
    for key in keys:
        await exchanged(threads, owner, key, exchange("q"))
    for key in keys[:2]:
        await threads.update(owner, key, title=None, is_pinned=True)
    listed, before = [], None
    while page := await threads.threads(owner, before=before, limit=1):
        listed.append(page[0].thread_id)
        before = (page[0].is_pinned, page[0].update_time.ToDatetime(UTC), page[0].thread_id)
    assert listed == [keys[1], keys[0], keys[3], keys[2]]


async def test_a_thread_is_renamed_by_its_owner_alone_and_keeps_its_place(threads: ThreadStore) -> None:
    owner, key = f"user:{new_id()}", new_id()
    await exchanged(threads, owner, key, exchange("q"))
    before = await threads.get(owner, key)
    renamed = await threads.update(owner, key, title="Keys", is_pinned=None)
    assert (renamed.title, renamed.is_pinned) == ("Keys", False)
    assert renamed.update_time == before.update_time
    assert await threads.update(owner, key, title=None, is_pinned=None) == renamed
    for stranger, thread in (("user:other", key), (owner, new_id())):
        with pytest.raises(NotFoundError):
            await threads.update(stranger, thread, title="Mine", is_pinned=True)
    assert await threads.get(owner, key) == renamed


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
    await threads.answer("", key, second[0].message_id, second[1], RECORD)
    assert [message.content for message in await threads.history("", (), key, 10)] == ["r", "b"]
    await threads.answer("", key, first[0].message_id, first[1], RECORD)
    assert await contents_of(threads, key) == ["q", "a", "r", "b"]


async def test_a_question_asked_again_is_stored_once_and_its_answer_replaced(threads: ThreadStore) -> None:
    key, (question, answer), (_, another) = new_id(), exchange("q", "a"), exchange("q", "b")
    for attempt in (answer, another):
        await threads.ask("", key, "t", question, create=True)
        await threads.answer("", key, question.message_id, attempt, RECORD)
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
        await threads.answer("user:b", key, question.message_id, answer, RECORD)
    await threads.delete("user:a", key)
    with pytest.raises(NotFoundError):
        await threads.answer("user:a", key, question.message_id, answer, RECORD)


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
