"""Notices of jobs that have ended: what they say, how they are signed, and when they are sent again."""

import base64
import binascii
import hashlib
import hmac
import json
from dataclasses import dataclass
from typing import Final

from google.protobuf import json_format
from groundline.v1 import job_pb2

__all__ = ["Delivery", "notice_of", "pause_after", "signature_of", "signing_key"]

PAUSES: Final = (5, 300, 1800, 7200, 5 * 3600, 10 * 3600, 10 * 3600)
"""Seconds after each attempt that failed but the last, as the specification of Standard Webhooks proposes."""
KEY_PREFIX: Final = "whsec_"
MIN_KEY_BYTES: Final = 24
MAX_KEY_BYTES: Final = 64


@dataclass(frozen=True)
class Delivery:
    """A notice that one process sends now."""

    delivery_id: str
    """The same at each attempt; receivers know by it what they have had."""
    collection_id: str
    job_id: str
    url: str
    secret: str
    """Name of the secret that holds the key."""
    body: str
    attempts: int
    """This one included."""
    private_addresses: bool
    """Whether the collection allows addresses that are not the internet's."""


def notice_of(job: job_pb2.IngestionJob) -> str:
    """The body of the notice that a job has ended: JSON with the job as the HTTP API shows it."""
    shown = json_format.MessageToDict(job, always_print_fields_with_no_presence=True)
    return json.dumps(
        {"type": "job.ended", "timestamp": shown["endTime"], "data": shown},
        ensure_ascii=False,
        separators=(",", ":"),
    )


def signing_key(secret: str) -> bytes:
    """The key that a secret's text holds. Raises ValueError, which does not show it."""
    try:
        key = base64.b64decode(secret.strip().removeprefix(KEY_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not MIN_KEY_BYTES <= len(key) <= MAX_KEY_BYTES:
        raise ValueError(f"must be {KEY_PREFIX} and {MIN_KEY_BYTES} to {MAX_KEY_BYTES} bytes in base64")
    return key


def signature_of(key: bytes, delivery_id: str, seconds: int, body: str) -> str:
    """The header webhook-signature of a notice sent at `seconds` since 1970, as Standard Webhooks has it."""
    signed = f"{delivery_id}.{seconds}.{body}".encode()
    return "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()


def pause_after(attempts: int) -> float | None:
    """Seconds until a notice that failed so often is sent again; None where that was the last time."""
    return PAUSES[attempts - 1] if attempts <= len(PAUSES) else None
