"""Answers of a caller at once, and what a caller reads of its quotas."""

import pytest
from groundline.v1 import quota_pb2
from groundline_coordinator.ports import QuotaUse
from groundline_coordinator.service.quotas import CallerQuotas, QuotaLimits
from groundline_runtime.context import Caller
from groundline_runtime.errors import ResourceExhaustedError
from groundline_tests.coordinator.fakes import FakeQuotas, FakeThreads

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
            with (
                pytest.raises(ResourceExhaustedError) as refused,
                quotas.answering(ANN),
            ):
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
    await used.spend(ANN.owner, 7)
    unlimited, limited = CallerQuotas(used, QuotaLimits()), CallerQuotas(used, QuotaLimits(5, 6, 8))
    with limited.answering(ANN):
        shown = {each.quota: (each.used, each.limit) for each in await limited.usages(ANN)}
    assert shown == {
        quota_pb2.QUOTA_THREADS: (0, 5),
        quota_pb2.QUOTA_ANSWERS: (1, 6),
        quota_pb2.QUOTA_TOKENS: (7, 8),
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
