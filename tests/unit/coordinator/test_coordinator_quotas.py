"""Answers of a caller at once, and what a caller reads of its quotas."""

import pytest
from groundline.v1 import quota_pb2
from groundline_coordinator.service.quotas import CallerQuotas, QuotaLimits
from groundline_runtime.context import Caller
from groundline_runtime.errors import ResourceExhaustedError
from groundline_tests.coordinator import FakeQuotas, FakeThreads

ANN, BOB = Caller(("user:ann", "group:staff")), Caller(("user:bob", "group:staff"))


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
