"""Notices to webhooks: what they say, and when they are sent again."""

import json
from itertools import takewhile

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from groundline.v1 import job_pb2
from groundline_ingestor.domain.webhooks import notice_of, pause_after


def test_a_notice_is_sent_eight_times_within_28_hours_at_growing_intervals() -> None:
    pauses = list(takewhile(lambda pause: pause is not None, map(pause_after, range(1, 100))))
    known = [pause for pause in pauses if pause is not None]
    assert len(known) == 7
    assert known == sorted(known)
    assert sum(known) / 3600 == pytest.approx(27.6, abs=0.1)


def test_a_notice_shows_every_number_of_the_job_also_those_that_are_0() -> None:
    job = job_pb2.IngestionJob(
        job_id="j",
        collection_id="handbuch",
        state=job_pb2.JOB_STATE_DONE,
        done_count=1,
        end_time=Timestamp(seconds=1_700_000_000),
    )
    notice = json.loads(notice_of(job))
    assert notice["type"] == "job.ended"
    assert notice["timestamp"] == notice["data"]["endTime"] == "2023-11-14T22:13:20Z"
    assert notice["data"]["state"] == "JOB_STATE_DONE"
    assert (notice["data"]["doneCount"], notice["data"]["failedCount"]) == (1, 0)
