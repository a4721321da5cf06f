"""Requests as they are sent, and responses as they arrive."""

import ipaddress
import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import is_dataclass
from datetime import datetime
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlsplit

import httpx

from groundline_client.errors import ProtocolError, UnreachableError, UnsendableError
from groundline_client.json_form import JsonObject, from_json, list_from_json, time_json, to_json
from groundline_client.models import (
    AnswerCorrection,
    ChatCompleted,
    ChatDelta,
    ChatResponse,
    ChatSources,
    ChatStarted,
    ChatStatus,
    IngestionJob,
    JobState,
    UnsupportedSentence,
    VerifiedClaim,
    VerifyCompleted,
    VerifyStarted,
)
from groundline_client.transport.rpc import Rpc

__all__ = [
    "ChatEvent",
    "VerifyEvent",
    "chat_event",
    "compact_json",
    "corrected",
    "has_ended",
    "is_loopback",
    "new_request_id",
    "opened",
    "parsed",
    "parsed_page",
    "present",
    "request_json",
    "unreachable",
]

type ChatEvent = (
    ChatStarted
    | ChatStatus
    | ChatSources
    | ChatDelta
    | UnsupportedSentence
    | AnswerCorrection
    | ChatCompleted
)
"""Event of a chat, in this order; status comes as stages begin, and delta many times. Marks and corrections
come between deltas and behind the last."""

type VerifyEvent = VerifyStarted | VerifiedClaim | VerifyCompleted
"""Event of a verification, in this order; one claim after the other."""


def chat_event(response: ChatResponse) -> ChatEvent | None:
    """Return the event of a response; None if it is of a later gateway's kind, or an error."""
    return (
        response.started
        or response.status
        or response.sources
        or response.delta
        or response.unsupported
        or response.correction
        or response.completed
    )


def corrected(text: str, correction: AnswerCorrection) -> str:
    """Return the text of an answer so far with a correction applied."""
    return f"{text[: correction.start_offset]}{correction.text}{text[correction.end_offset :]}"


def request_json(**fields: Any) -> JsonObject:
    """Return the JSON form of a request: None and empty values are left out, an empty object is not.

    A field that is a message may be given as a model or as its JSON.
    """
    found: JsonObject = {}
    for name, value in fields.items():
        if value is None or (isinstance(value, Sequence) and not value):
            continue
        head, *others = name.split("_")
        found[head + "".join(map(str.capitalize, others))] = _plain(value)
    return found


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return to_json(value, omit_defaults=True)
    if isinstance(value, datetime):
        return time_json(value)
    if isinstance(value, str | Mapping):
        return value
    return [_plain(one) for one in value] if isinstance(value, Sequence) else value


def compact_json(value: Mapping[str, Any]) -> str:
    """Return JSON for a query parameter."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


@contextmanager
def opened(content: str | PathLike[str] | bytes | BinaryIO) -> Iterator[BinaryIO]:
    """Provide the content as an open file; a path is closed afterwards. Raises OSError."""
    match content:
        case str() | PathLike():
            with Path(content).open("rb") as file:
                yield file
        case bytes():
            yield BytesIO(content)
        case _:
            yield content


def new_request_id() -> str:
    """Return an id that makes a request safe to repeat."""
    return str(uuid.uuid4())


def parsed[R](rpc: Rpc[R], text: str) -> R:
    """Parse a method's response from the answer. Raises ProtocolError."""
    with _answer(text) as answer:
        held = present(answer.get(rpc.member), rpc.member) if rpc.member else answer
        return from_json(rpc.response, held)


def parsed_page[R](rpc: Rpc[R], text: str) -> tuple[Sequence[R], str]:
    """Parse a page's entries and the token of the next page, "" on the last. Raises ProtocolError."""
    with _answer(text) as answer:
        return list_from_json(rpc.response, answer.get(rpc.member) or []), answer.get("nextPageToken", "")


@contextmanager
def _answer(text: str) -> Iterator[JsonObject]:
    """Provide the JSON of an answer; what is wrong with it is a ProtocolError."""
    try:
        answer = json.loads(text)
        if not isinstance(answer, dict):
            raise ValueError("must be an object")
        yield answer
    except ValueError as error:
        raise ProtocolError(
            "the answer is not what a gateway gives: is this the address of a Groundline gateway?"
        ) from error


def present[T](part: T | None, name: str) -> T:
    """Return a part that every answer holds. Raises ProtocolError if it is missing."""
    if part is None:
        raise ProtocolError(f"the answer holds no {name}: is this the address of a Groundline gateway?")
    return part


def has_ended(job: IngestionJob) -> bool:
    """Tell whether every document of the job has ended."""
    return job.state not in (JobState.QUEUED, JobState.RUNNING)


def checked_gateway(gateway: str, api_key: str) -> str:
    """Return the address without a slash at its end. Raises UnsendableError if nothing can be sent to it, or
    with the key; neither is quoted, as an address pasted by mistake may be a key."""
    try:
        parts = urlsplit(gateway)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable:
        raise UnsendableError("the gateway must be a URL like http://127.0.0.1:8080")
    if not (api_key.isascii() and api_key.isprintable()):
        raise UnsendableError("the API key must consist of printable ASCII characters")
    return gateway.rstrip("/")


def is_loopback(url: str) -> bool:
    """Tell whether a URL is on this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def unreachable(gateway: str, error: httpx.HTTPError) -> UnreachableError:
    """Return the error for a failed connection."""
    match error:
        case httpx.ConnectError() | httpx.ConnectTimeout():
            return UnreachableError(f"no connection to {gateway}: is the suite running?")
        case httpx.TimeoutException():
            return UnreachableError(f"{gateway} does not answer")
        case _:
            return UnreachableError(f"the connection to {gateway} broke off: {error}")
