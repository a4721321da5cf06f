"""Notices of jobs that have ended: what they say, and when they are sent again."""

import json
from dataclasses import dataclass
from typing import Final

from google.protobuf import json_format
from groundline.v1 import job_pb2

PAUSES: Final = (5, 300, 1800, 7200, 5 * 3600, 10 * 3600, 10 * 3600)
"""Pauses after each failed attempt but the last, in seconds, as the specification of Standard Webhooks
proposes."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """A notice that one process sends now."""

    delivery_id: str
    """Id of all attempts; receivers recognise repetitions by it."""
    collection_id: str
    job_id: str
    url: str
    secret: str
    """Name of the secret that holds the key."""
    body: str
    attempts: int
    """Number of attempts, this one included."""
    private_addresses: bool
    """Whether the collection allows addresses outside the internet."""


def notice_of(job: job_pb2.IngestionJob) -> str:
    """Return the body of the notice that a job has ended: JSON with the job as the HTTP API shows it."""
    shown = json_format.MessageToDict(job, always_print_fields_with_no_presence=True)
    return json.dumps(
        {"type": "job.ended", "timestamp": shown["endTime"], "data": shown},
        ensure_ascii=False,
        separators=(",", ":"),
    )


def pause_after(attempts: int) -> float | None:
    """Return the seconds until the next attempt after `attempts` failures; None after the last."""
    return PAUSES[attempts - 1] if attempts <= len(PAUSES) else None
