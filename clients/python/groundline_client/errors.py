"""Errors between a program and the gateway.

GatewayError                    every error of this package
├── UnreachableError            no connection, or none that lasts
│   └── DeadlineExceededError   no answer within the time that the caller set
├── ApiError                    the gateway or a service behind it refused; carries google.rpc.Status
└── ProtocolError               whatever answers does not speak as a gateway does
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, Final

from groundline_client.models import ChatError

__all__ = [
    "ApiError",
    "DeadlineExceededError",
    "FieldViolation",
    "GatewayError",
    "ProtocolError",
    "UnreachableError",
    "UnsendableError",
]

_DURATION: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)s")
# Maximum characters of a body that is not a status; it may be a whole HTML page of some proxy.
_EXCERPT_LENGTH: Final = 200


class GatewayError(Exception):
    """Base class of all errors of this package."""


class UnreachableError(GatewayError):
    """No connection to the gateway, or one that broke off."""


class DeadlineExceededError(UnreachableError):
    """The gateway did not answer within the time that the caller set."""


class UnsendableError(GatewayError, ValueError):
    """A request that was not sent, since it cannot be written: NaN, half a surrogate, an empty id. Or a
    client that was not made, since its gateway or key allow no request."""


class ProtocolError(GatewayError):
    """An answer that no gateway gives; most likely the address is another server's."""


@dataclass(frozen=True, slots=True)
class FieldViolation:
    """A wrong field of a request."""

    field: str
    description: str


class ApiError(GatewayError):
    """A refusal: google.rpc.Code number (0 if the answer held none), reason, message, wrong fields.

    `reason` is the name of an ErrorReason, also of one that this release does not know. `retryable` says
    whether the same request may succeed later.
    """

    def __init__(
        self,
        message: str,
        *,
        code: int = 0,
        reason: str = "",
        violations: tuple[FieldViolation, ...] = (),
        error_id: str = "",
        retry_after_seconds: float | None = None,
        http_status: int | None = None,
        retryable: bool = False,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.reason = reason
        self.violations = violations
        self.error_id = error_id
        self.retry_after_seconds = retry_after_seconds
        self.http_status = http_status
        self.retryable = retryable

    def __str__(self) -> str:
        """Return message and reason, then a line for each wrong field that the message does not already
        name."""
        lines = [f"{self.message} ({self.reason})" if self.reason else self.message]
        wrong = [f"{violation.field}: {violation.description}" for violation in self.violations]
        lines += [f"  {line}" for line in wrong if line not in self.message]
        if self.error_id:
            lines.append(f"  error id: {self.error_id}")
        return "\n".join(lines)

    @classmethod
    def from_response(cls, http_status: int, body: str, retry_after: str | None = None) -> "ApiError":
        """Build the error of an HTTP status, the body beside it (google.rpc.Status as JSON, or anything at
        all) and the header Retry-After, which counts if the body has no time of its own."""
        try:
            status = json.loads(body)
        except ValueError:
            status = None
        well_formed = isinstance(status, dict) and isinstance(status.get("message"), str)
        raw_details = _list(status.get("details")) if well_formed else []
        details = [detail for detail in raw_details if isinstance(detail, Mapping)]
        info = _detail(details, "ErrorInfo")
        metadata = info.get("metadata")
        seconds = _seconds(_detail(details, "RetryInfo").get("retryDelay"))
        if seconds is None:
            seconds = _header_seconds(retry_after)
        return cls(
            (status["message"] or _phrase(http_status)) if well_formed else _describe(http_status, body),
            code=_int(status.get("code")) if well_formed else 0,
            reason=str(info.get("reason") or ""),
            violations=_violations(_detail(details, "BadRequest").get("fieldViolations")),
            error_id=str(metadata.get("error_id") or "") if isinstance(metadata, Mapping) else "",
            retry_after_seconds=seconds,
            http_status=http_status,
            # 429 without a time to wait is not a rate limit: the request itself is too much.
            retryable=http_status == HTTPStatus.SERVICE_UNAVAILABLE or seconds is not None,
        )

    @classmethod
    def from_event(cls, event: ChatError) -> "ApiError":
        """Build the error of the `error` event that ends a chat."""
        return cls(
            event.message or "the request failed",
            code=event.code,
            reason="" if event.reason == event.reason.UNSPECIFIED else event.reason.value,
            violations=tuple(FieldViolation(one.field, one.description) for one in event.violations),
            error_id=event.error_id,
            retryable=event.retryable,
        )


def _describe(http_status: int, body: str) -> str:
    excerpt = " ".join(body.split())[:_EXCERPT_LENGTH]
    return f"{_phrase(http_status)}: {excerpt}" if excerpt else _phrase(http_status)


def _phrase(http_status: int) -> str:
    try:
        return f"HTTP {http_status} {HTTPStatus(http_status).phrase}"
    except ValueError:
        return f"HTTP {http_status}"


def _detail(details: list[Mapping[str, Any]], name: str) -> Mapping[str, Any]:
    return next((d for d in details if str(d.get("@type")).endswith(f"/google.rpc.{name}")), {})


def _violations(raw: object) -> tuple[FieldViolation, ...]:
    return tuple(
        FieldViolation(str(item.get("field", "")), str(item.get("description", "")))
        for item in _list(raw)
        if isinstance(item, Mapping)
    )


def _seconds(raw: object) -> float | None:
    match = _DURATION.fullmatch(raw) if isinstance(raw, str) else None
    return float(match[1]) if match else None


def _header_seconds(raw: str | None) -> float | None:
    """Return the seconds of a Retry-After header, which is a number of them or a date (RFC 9110, 10.2.3)."""
    if raw is None:
        return None
    if raw.isascii() and raw.isdecimal():
        return float(raw[:9])
    try:
        when = parsedate_to_datetime(raw)
    except ValueError:
        return None
    return max(0.0, (when.replace(tzinfo=when.tzinfo or UTC) - datetime.now(UTC)).total_seconds())


def _int(raw: object) -> int:
    return raw if isinstance(raw, int) else 0


def _list(raw: object) -> list[Any]:
    return raw if isinstance(raw, list) else []
