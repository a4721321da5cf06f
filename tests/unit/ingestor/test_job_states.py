"""Transitions of items, states of jobs by their items, and next steps of re-indexes."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from groundline.v1 import chat_pb2, document_pb2, error_pb2, job_pb2
from groundline_ingestor.domain.jobs import (
    ItemState,
    JobKind,
    ReindexStep,
    StoredJob,
    Tally,
    begin,
    cancel,
    fail,
    finish,
    lose,
    next_reindex_step,
    postpone,
    release,
    retry,
    summarize,
)

QUEUED = document_pb2.INGESTION_STATE_QUEUED
EMBEDDING = document_pb2.INGESTION_STATE_EMBEDDING
DONE = document_pb2.INGESTION_STATE_DONE
FAILED = document_pb2.INGESTION_STATE_FAILED
CANCELLED = document_pb2.INGESTION_STATE_CANCELLED

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FAILURE = document_pb2.IngestionFailure(stage=EMBEDDING, reason=error_pb2.INTERNAL, message="broken")
AT_WORK = ItemState(
    state=EMBEDDING, lease_id="l", attempts=2, chunks=job_pb2.ChunkCounts(parsed=3, contextualized=3)
)
ENDINGS: dict[str, Callable[[ItemState], ItemState]] = {
    "finish": partial(finish, outcome=job_pb2.INGESTION_OUTCOME_CREATED, chunk_count=3),
    "fail": partial(fail, failure=FAILURE, chunks=job_pb2.ChunkCounts(parsed=3)),
    "cancel": cancel,
    "release": release,
    "postpone": partial(postpone, failure=FAILURE, forgiven=False),
    "lose": partial(lose, maximum_attempts=5),
}


@pytest.mark.parametrize("event", ENDINGS)
def test_no_worker_holds_an_item_that_ended_or_waits(event: str) -> None:
    after = ENDINGS[event](replace(AT_WORK, is_alone=True))
    assert after.has_ended or after.state == QUEUED
    assert (after.lease_id, after.is_alone) == ("", False)


@pytest.mark.parametrize("state", [DONE, FAILED, CANCELLED])
def test_what_has_ended_is_not_cancelled(state: document_pb2.IngestionState.ValueType) -> None:
    ended = ItemState(state=state)
    assert cancel(ended) == ended


def test_a_done_item_has_all_chunks_at_every_stage_and_no_failure() -> None:
    done = finish(replace(AT_WORK, failure=FAILURE), job_pb2.INGESTION_OUTCOME_UPDATED, 7)
    counts = done.chunks
    assert counts.parsed == counts.contextualized == counts.embedded == counts.stored == 7
    assert (done.failure, done.outcome) == (None, job_pb2.INGESTION_OUTCOME_UPDATED)


def test_an_attempt_that_is_given_back_was_none() -> None:
    begun = begin(ItemState(), "l", alone=False)
    assert (begun.attempts, begun.counted_attempts) == (1, 1)
    assert release(begun).attempts == 0


def test_a_crash_charges_no_item_that_was_at_work_beside_others() -> None:
    item = ItemState()
    for _ in range(20):
        item = lose(begin(item, "l", alone=False), maximum_attempts=3)
    assert (item.state, item.is_suspect, item.attempts, item.counted_attempts) == (QUEUED, True, 20, 0)


def test_a_crash_charges_an_item_that_was_alone_until_it_fails() -> None:
    item = lose(begin(ItemState(), "l", alone=False), maximum_attempts=3)
    charged = []
    while not item.has_ended:
        item = lose(begin(item, "l", alone=True), maximum_attempts=3)
        charged.append(item.counted_attempts)
    assert charged == [1, 2, 3]
    assert item.failure
    assert (item.state, item.failure.reason) == (FAILED, error_pb2.ATTEMPTS_EXHAUSTED)


def test_a_retry_by_a_person_forgives_but_keeps_a_suspect_alone() -> None:
    failed = ItemState(state=FAILED, attempts=5, is_suspect=True, failure=FAILURE)
    again = retry(failed)
    assert (again.state, again.counted_attempts, again.failure) == (QUEUED, 0, None)
    assert again.is_suspect


# --- jobs ---


def shown(*tallies: Tally, **stored: Any) -> job_pb2.IngestionJob:
    job = StoredJob("j", "c", stored.pop("kind", JobKind.INGEST), NOW, **stored)
    return summarize(job, tallies)


@pytest.mark.parametrize(
    ("tallies", "is_cancelled", "state"),
    [
        ([], False, job_pb2.JOB_STATE_DONE),
        ([Tally(QUEUED)], False, job_pb2.JOB_STATE_QUEUED),
        ([Tally(QUEUED, is_begun=True)], False, job_pb2.JOB_STATE_RUNNING),
        ([Tally(DONE, is_begun=True), Tally(QUEUED)], True, job_pb2.JOB_STATE_RUNNING),
        ([Tally(DONE), Tally(FAILED, count=9)], False, job_pb2.JOB_STATE_DONE),
        ([Tally(FAILED), Tally(CANCELLED)], False, job_pb2.JOB_STATE_FAILED),
        ([Tally(DONE), Tally(CANCELLED)], False, job_pb2.JOB_STATE_DONE),
        ([Tally(DONE), Tally(CANCELLED)], True, job_pb2.JOB_STATE_CANCELLED),
        ([Tally(DONE)], True, job_pb2.JOB_STATE_DONE),
        ([Tally(CANCELLED)], False, job_pb2.JOB_STATE_CANCELLED),
        ([Tally(EMBEDDING, is_crawl=True, is_begun=True), Tally(DONE)], False, job_pb2.JOB_STATE_RUNNING),
        ([Tally(DONE, is_crawl=True), Tally(FAILED)], False, job_pb2.JOB_STATE_FAILED),
        ([Tally(FAILED, is_crawl=True)], False, job_pb2.JOB_STATE_FAILED),
    ],
)
def test_an_ingestions_state_follows_from_its_items(
    tallies: list[Tally], is_cancelled: bool, state: job_pb2.JobState.ValueType
) -> None:
    assert shown(*tallies, is_cancelled=is_cancelled).state == state


def test_a_reindex_ends_only_by_what_is_stored_of_it() -> None:
    running = shown(Tally(DONE, is_begun=True), kind=JobKind.REINDEX)
    assert (running.state, running.HasField("end_time")) == (job_pb2.JOB_STATE_RUNNING, False)
    ended = shown(
        Tally(DONE, is_begun=True), kind=JobKind.REINDEX, state=job_pb2.JOB_STATE_FAILED, end_time=NOW
    )
    assert (ended.state, ended.HasField("end_time")) == (job_pb2.JOB_STATE_FAILED, True)


def test_a_job_says_how_far_the_database_was_written_once_nothing_more_follows() -> None:
    position = "0000000003a1b2c8"
    assert not shown(Tally(EMBEDDING), position=position).position
    assert shown(Tally(DONE, end_time=NOW), position=position).position == position


def test_counts_chunks_tokens_and_times_are_those_of_all_items() -> None:
    hour = timedelta(hours=1)
    job = shown(
        Tally(
            DONE,
            count=2,
            is_unchanged=True,
            chunks=job_pb2.ChunkCounts(parsed=4, stored=4),
            usage=chat_pb2.Usage(prompt_tokens=10),
            start_time=NOW + hour,
            end_time=NOW + 3 * hour,
        ),
        Tally(
            FAILED,
            chunks=job_pb2.ChunkCounts(parsed=1),
            usage=chat_pb2.Usage(prompt_tokens=1, output_tokens=2),
            start_time=NOW,
            end_time=NOW + 2 * hour,
        ),
        Tally(DONE, is_crawl=True),
    )
    assert (job.item_count, job.done_count, job.unchanged_count, job.failed_count) == (3, 2, 2, 1)
    assert job.chunks == job_pb2.ChunkCounts(parsed=5, stored=4)
    assert job.usage == chat_pb2.Usage(prompt_tokens=11, output_tokens=2)
    priced = [Tally(DONE, usage=chat_pb2.Usage(prompt_tokens=1, cost_usd=usd)) for usd in (0.25, 0.5)]
    assert shown(*priced).usage.cost_usd == 0.75
    assert job.start_time.ToDatetime(tzinfo=UTC) == NOW
    assert job.end_time.ToDatetime(tzinfo=UTC) == NOW + 3 * hour


@pytest.mark.parametrize(
    ("facts", "step"),
    [
        ({"pending": 1, "failed": 1}, ReindexStep.WAIT),
        ({"failed": 1, "changed": 0}, ReindexStep.FAIL),
        ({"is_index_due": True, "changed": 0}, ReindexStep.WAIT),
        ({"is_held": True, "pending": 1}, ReindexStep.WAIT),
        ({"is_held": True}, ReindexStep.HOLD),
        ({}, ReindexStep.COMPARE),
        ({"changed": 2}, ReindexStep.QUEUE_CHANGED),
        ({"changed": 0}, ReindexStep.SWAP),
    ],
)
def test_an_index_is_swapped_in_only_when_it_lacks_nothing(facts: dict[str, Any], step: ReindexStep) -> None:
    known: dict[str, Any] = {
        "pending": 0,
        "failed": 0,
        "is_index_due": False,
        "is_held": False,
        "changed": None,
        **facts,
    }
    assert next_reindex_step(**known) is step
