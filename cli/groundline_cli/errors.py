"""What can go wrong between the command and the gateway.

GatewayError            the message is meant for the person at the terminal
├── UnreachableError    no connection, or none that lasts
├── ApiError            the gateway or a service behind it refused; carries google.rpc.Status
└── ProtocolError       whatever answers does not speak as a gateway does
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

__all__ = ["ApiError", "FieldViolation", "GatewayError", "ProtocolError", "UnreachableError"]

_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)s")
# Characters of a body that is not a status; it may be a whole HTML page of some proxy.
_EXCERPT_LENGTH = 200


class GatewayError(Exception):
    """Base of all errors of this module."""


class UnreachableError(GatewayError):
    """No connection to the gateway, or one that broke off."""


class ProtocolError(GatewayError):
    """An answer that no gateway gives; most likely the address is another server's."""


@dataclass(frozen=True)
class FieldViolation:
    """One wrong field of a request."""

    field: str
    description: str


class ApiError(GatewayError):
    """A refusal: google.rpc.Code number (0 where the answer held none), reason, message, wrong fields."""

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
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.reason = reason
        self.violations = violations
        self.error_id = error_id
        self.retry_after_seconds = retry_after_seconds
        self.http_status = http_status

    def __str__(self) -> str:
        """Message and reason, then a line for each wrong field that the message does not already name."""
        lines = [f"{self.message} ({self.reason})" if self.reason else self.message]
        wrong = [f"{violation.field}: {violation.description}" for violation in self.violations]
        lines += [f"  {line}" for line in wrong if line not in self.message]
        if self.error_id:
            lines.append(f"  error id: {self.error_id}")
        return "\n".join(lines)

    @classmethod
    def from_response(cls, http_status: int, body: str) -> "ApiError":
        """From an HTTP status and the body beside it: google.rpc.Status as JSON, or anything at all."""
        try:
            status = json.loads(body)
        except ValueError:
            status = None
        if not isinstance(status, dict) or not isinstance(status.get("message"), str):
            return cls(_describe(http_status, body), http_status=http_status)
        details = [detail for detail in _list(status.get("details")) if isinstance(detail, Mapping)]
        info = _detail(details, "ErrorInfo")
        metadata = info.get("metadata")
        return cls(
            status["message"] or _phrase(http_status),
            code=_int(status.get("code")),
            reason=str(info.get("reason") or ""),
            violations=_violations(_detail(details, "BadRequest").get("fieldViolations")),
            error_id=str(metadata.get("error_id") or "") if isinstance(metadata, Mapping) else "",
            retry_after_seconds=_seconds(_detail(details, "RetryInfo").get("retryDelay")),
            http_status=http_status,
        )

    @classmethod
    def from_event(cls, event: Mapping[str, Any]) -> "ApiError":
        """From the `error` event that ends a chat."""
        return cls(
            str(event.get("message") or "the request failed"),
            code=_int(event.get("code")),
            reason=str(event.get("reason") or ""),
            violations=_violations(event.get("violations")),
            error_id=str(event.get("errorId") or ""),
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


def _int(raw: object) -> int:
    return raw if isinstance(raw, int) else 0


def _list(raw: object) -> list[Any]:
    return raw if isinstance(raw, list) else []
