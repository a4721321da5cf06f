"""Answers of a caller at once, and what a caller reads of its quotas."""

import pytest
from groundline.v1 import chat_pb2, quota_pb2
from groundline_coordinator.domain.quotas import QuotaUse
from groundline_coordinator.service.quotas import CallerQuotas, QuotaLimits
from groundline_runtime.context import Caller
from groundline_runtime.errors import ResourceExhaustedError, UnavailableError
from groundline_runtime.quotas import Budgets, Spent
from groundline_tests.coordinator.fakes import FakeQuotas, FakeThreads, found
from groundline_tests.coordinator.workflow import World, question
from structlog.testing import capture_logs

ANN, BOB = Caller(("user:ann", "group:staff")), Caller(("user:bob", "group:staff"))


class Counted(FakeQuotas):
    """A store that counts its calls; every caller has begun the same number of threads."""

    def __init__(self, threads: int) -> None:
        super().__init__(FakeThreads())
        self.threads = threads
        self.counts = 0

    async def used(self, owner: str, *, besides: str = "") -> QuotaUse:
        self.counts += 1
        return QuotaUse(self.threads, tokens=0)


def test_answers_at_once_are_bounded_for_each_caller_and_free_when_they_end() -> None:
    quotas = CallerQuotas(FakeQuotas(FakeThreads()), QuotaLimits(answers=2))
    with quotas.answering(ANN):
        with quotas.answering(ANN):
            with pytest.raises(ResourceExhaustedError) as refused, quotas.answering(ANN):
                pass
            with quotas.answering(BOB):
                pass
        with pytest.raises(ZeroDivisionError), quotas.answering(ANN):
            raise ZeroDivisionError
        with quotas.answering(ANN):
            pass
    assert refused.value.reason == "QUOTA_EXHAUSTED"
    assert refused.value.retry_after_seconds == 1
    assert refused.value.metadata == {"quota": "answers", "used": "2", "limit": "2"}


async def test_quotas_are_shown_as_far_as_they_are_set() -> None:
    used = FakeQuotas(FakeThreads())
    await used.spend(ANN.owner, 7, 0.5)
    unlimited, limited = (
        CallerQuotas(used, QuotaLimits()),
        CallerQuotas(used, QuotaLimits(5, 6, 8, Budgets(2, 10))),
    )
    with limited.answering(ANN):
        shown = {each.quota: (each.used, each.limit) for each in await limited.usages(ANN)}
    assert shown == {
        quota_pb2.QUOTA_THREADS: (0, 5),
        quota_pb2.QUOTA_ANSWERS: (1, 6),
        quota_pb2.QUOTA_TOKENS: (7, 8),
        quota_pb2.QUOTA_COST_DAY: (0.5, 2),
        quota_pb2.QUOTA_COST_MONTH: (0.5, 10),
    }
    assert [each.quota for each in await unlimited.usages(ANN)] == [
        quota_pb2.QUOTA_THREADS,
        quota_pb2.QUOTA_ANSWERS,
    ]


async def test_threads_are_counted_anew_for_each_when_few_are_left() -> None:
    used = Counted(threads=5)
    quotas = CallerQuotas(used, QuotaLimits(threads=10))
    for _ in range(3):
        assert (await quotas.used(ANN.owner, "new")).threads == 5
    assert used.counts == 3


async def test_a_caller_with_many_threads_left_begins_some_without_a_count() -> None:
    used = Counted(threads=5)
    quotas = CallerQuotas(used, QuotaLimits(threads=105))
    for _ in range(11):
        quotas.require_room(await quotas.used(ANN.owner, "new"), "new")
    assert used.counts == 1
    used.threads = 105
    with pytest.raises(ResourceExhaustedError):
        quotas.require_room(await quotas.used(ANN.owner, "new"), "new")
    used.threads = 104
    quotas.require_room(await quotas.used(ANN.owner, "new"), "new")


async def test_another_callers_threads_are_counted_for_itself() -> None:
    used = Counted(threads=5)
    quotas = CallerQuotas(used, QuotaLimits(threads=105))
    for caller in (ANN, BOB):
        await quotas.used(caller.owner, "new")
    assert used.counts == 2


async def test_tokens_are_counted_before_each_answer() -> None:
    used = Counted(threads=0)
    quotas = CallerQuotas(used, QuotaLimits(threads=1000, tokens=10))
    for _ in range(2):
        await quotas.used(ANN.owner, "new")
    assert used.counts == 2


def paid(usd: float | None, tokens: int = 100) -> chat_pb2.Usage:
    return chat_pb2.Usage(prompt_tokens=tokens, cost_usd=usd)


async def test_a_budget_that_is_spent_refuses_by_its_name_until_it_begins_anew() -> None:
    for budgets, quota, most_seconds in (
        (Budgets(day_usd=1), "cost_day", 86_400),
        (Budgets(month_usd=1), "cost_month", 31 * 86_400),
    ):
        quotas = CallerQuotas(FakeQuotas(FakeThreads()), QuotaLimits(budgets=budgets))
        for usd in (0.5, 0.6):
            quotas.require_room(await quotas.used(ANN.owner, ""), "")
            await quotas.spend(ANN.owner, paid(usd))
        with pytest.raises(ResourceExhaustedError) as refused:
            quotas.require_room(await quotas.used(ANN.owner, ""), "")
        assert refused.value.message == f"the quota of {quota} is used up: 1.10 of 1.00 US dollars are spent"
        assert refused.value.metadata["quota"] == quota
        assert 0 < (refused.value.retry_after_seconds or 0) <= most_seconds
        quotas.require_room(await quotas.used(BOB.owner, ""), "")


async def test_what_an_answer_nearly_uses_up_is_told_with_it_and_once_in_the_log() -> None:
    quotas = CallerQuotas(FakeQuotas(FakeThreads()), QuotaLimits(tokens=1000, budgets=Budgets(1, 10)))
    with capture_logs() as logged:
        before = QuotaUse(tokens=600, spent=Spent(0.5, 3))
        assert quotas.nearly_used(ANN.owner, before, paid(0.2)) == []
        [told] = quotas.nearly_used(ANN.owner, before, paid(0.3))
        assert (told.quota, told.used, told.limit) == (quota_pb2.QUOTA_COST_DAY, 0.8, 1)
        for _ in range(2):
            told_all = quotas.nearly_used(ANN.owner, QuotaUse(tokens=790, spent=Spent(1, 8)), paid(0.1))
    assert [one.quota for one in told_all] == [
        quota_pb2.QUOTA_TOKENS,
        quota_pb2.QUOTA_COST_DAY,
        quota_pb2.QUOTA_COST_MONTH,
    ]
    assert [entry["quota"] for entry in logged] == ["cost_day", "tokens", "cost_month"]


async def test_an_answer_without_a_price_is_no_free_one_and_the_log_says_that_it_does_not_count() -> None:
    used = FakeQuotas(FakeThreads())
    quotas = CallerQuotas(used, QuotaLimits(budgets=Budgets(day_usd=1)))
    with capture_logs() as logged:
        for _ in range(2):
            await quotas.spend(ANN.owner, paid(None))
        await quotas.spend(ANN.owner, paid(0.0))
    assert [entry["event"] for entry in logged] == ["price_not_known"]
    assert used.usd[ANN.owner] == 0


async def test_what_searches_cost_stands_in_the_usage_and_is_counted_by_the_retriever_alone() -> None:
    world = World()
    world.retriever.response = found((1, 0.9), usage=chat_pb2.Usage(embedding_tokens=8, cost_usd=0.25))
    world.generator.usage = chat_pb2.Usage(prompt_tokens=10, output_tokens=5, cost_usd=0.5)
    answered = await world.answer(question())
    await world.service.settle()
    assert answered.completed.usage == chat_pb2.Usage(
        prompt_tokens=10, output_tokens=5, embedding_tokens=8, cost_usd=0.75
    )
    assert dict(world.used.usd) == {"": 0.5}


async def test_a_search_without_a_price_leaves_the_answer_without_one() -> None:
    world = World()
    world.retriever.response = found((1, 0.9), usage=chat_pb2.Usage(rerank_units=4))
    world.generator.usage = chat_pb2.Usage(output_tokens=5, cost_usd=0.5)
    answered = await world.answer(question())
    assert answered.completed.usage == chat_pb2.Usage(output_tokens=5, rerank_units=4)


async def test_what_a_failed_answer_took_counts() -> None:
    world = World()
    world.generator.error = UnavailableError("DOWN", "away", metadata={"cost_usd": "0.5"})
    with pytest.raises(UnavailableError):
        await world.answer(question())
    await world.service.settle()
    assert dict(world.used.usd) == {"": 0.5}


async def test_cost_counts_before_a_budget_is_set() -> None:
    used = FakeQuotas(FakeThreads())
    await CallerQuotas(used, QuotaLimits()).spend(ANN.owner, paid(2.0))
    limited = CallerQuotas(used, QuotaLimits(budgets=Budgets(month_usd=1)))
    with pytest.raises(ResourceExhaustedError):
        limited.require_room(await limited.used(ANN.owner, ""), "")


async def test_a_budget_of_all_callers_refuses_everybody_and_tells_nobody_what_others_spent() -> None:
    for budgets, quota in (
        (Budgets(all_day_usd=1), "total_cost_day"),
        (Budgets(all_month_usd=1), "total_cost_month"),
    ):
        quotas = CallerQuotas(FakeQuotas(FakeThreads()), QuotaLimits(budgets=budgets))
        await quotas.spend(ANN.owner, paid(1.5))
        with pytest.raises(ResourceExhaustedError) as refused:
            quotas.require_room(await quotas.used(BOB.owner, ""), "")
        assert refused.value.message == f"the quota of {quota} is used up by all callers together"
        assert refused.value.metadata == {"quota": quota}
        assert await quotas.usages(BOB) == await CallerQuotas(
            FakeQuotas(FakeThreads()), QuotaLimits()
        ).usages(BOB)


async def test_little_left_of_a_budget_of_all_callers_is_told_by_the_log_alone() -> None:
    limits = QuotaLimits(budgets=Budgets(all_day_usd=1))
    quotas = CallerQuotas(FakeQuotas(FakeThreads()), limits)
    with capture_logs() as logged:
        assert quotas.nearly_used(ANN.owner, QuotaUse(spent=Spent(0, 0, 0.7, 0.7)), paid(0.2)) == []
    assert [(entry["quota"], entry["client"]) for entry in logged] == [("total_cost_day", "")]
