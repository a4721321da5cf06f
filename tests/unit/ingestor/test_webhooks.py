"""Notices to webhooks: keys, signatures, and when they are sent again."""

import base64
import json
from itertools import takewhile

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from groundline.v1 import job_pb2
from groundline_ingestor.domain.webhooks import notice_of, pause_after, signature_of, signing_key


@pytest.mark.parametrize(
    "secret",
    [
        "",
        "hunter2",
        "whsec_not base64!",
        "whsec_" + base64.b64encode(b"k" * 23).decode(),
        "whsec_" + base64.b64encode(b"k" * 65).decode(),
    ],
)
def test_a_secret_that_is_no_key_is_refused_without_being_shown(secret: str) -> None:
    with pytest.raises(ValueError, match="must be whsec_ and 24 to 64 bytes in base64") as caught:
        signing_key(secret)
    assert not secret or secret not in str(caught.value)


def test_a_key_may_come_without_its_prefix_and_with_a_line_end() -> None:
    key = b"k" * 32
    encoded = base64.b64encode(key).decode()
    assert signing_key(f"whsec_{encoded}\n") == signing_key(encoded) == key


def test_a_signature_is_that_of_the_published_example_of_standard_webhooks() -> None:
    key = signing_key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    signature = signature_of(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, '{"test": 2432232314}')
    assert signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


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
