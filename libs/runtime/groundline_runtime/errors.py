"""Errors of the suite's domain code; this module knows no gRPC.

GroundlineError
├── InvalidArgumentError      every wrong field, as violations
├── NotFoundError
├── AlreadyExistsError
├── PermissionDeniedError
├── UnauthenticatedError
├── FailedPreconditionError
├── OutOfRangeError
├── ResourceExhaustedError    a quota or limit; may say when to try again
├── AbortedError              a concurrent change won
├── UnimplementedError
├── UnavailableError          a dependency is down; trying again may help
├── DeadlineExceededError
├── CallCancelledError        the caller went away
├── InternalError
├── DataLossError
└── UnknownError
"""

import enum
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from traceback import extract_tb
from types import MappingProxyType
from typing import Any, ClassVar, Final

UNAVAILABLE_SECONDS: Final = 1.0
"""Time after which clients try again what was unavailable, if nobody knows better, in seconds."""


class Code(enum.Enum):
    """Status codes; names and numbers are gRPC's."""

    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16

    @property
    def http_status(self) -> int:
        """Status of HTTP, as Envoy maps it."""
        return _HTTP_STATUSES.get(self, 500)


_HTTP_STATUSES: Final[Mapping[Code, int]] = {
    Code.INVALID_ARGUMENT: 400,
    Code.FAILED_PRECONDITION: 400,
    Code.OUT_OF_RANGE: 400,
    Code.UNAUTHENTICATED: 401,
    Code.PERMISSION_DENIED: 403,
    Code.NOT_FOUND: 404,
    Code.ALREADY_EXISTS: 409,
    Code.ABORTED: 409,
    Code.RESOURCE_EXHAUSTED: 429,
    Code.CANCELLED: 499,
    Code.UNIMPLEMENTED: 501,
    Code.UNAVAILABLE: 503,
    Code.DEADLINE_EXCEEDED: 504,
}


@dataclass(frozen=True, slots=True)
class FieldViolation:
    """A wrong field of a request: its path (`chat_history[2].role`) and what is wrong with it."""

    field: str
    description: str


class GroundlineError(Exception):
    """An expected failure; everything it carries may be shown to the client.

    `reason` is UPPER_SNAKE and stable, for programs; `message` is for people; `retry_after_seconds` is set if
    a retry after that time can help.
    """

    code: ClassVar[Code]

    def __init__(
        self,
        reason: str,
        message: str,
        *,
        violations: Iterable[FieldViolation] = (),
        retry_after_seconds: float | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.violations = tuple(violations)
        self.retry_after_seconds = retry_after_seconds
        self.metadata: Mapping[str, str] = MappingProxyType(dict(metadata or {}))

    @property
    def wait_seconds(self) -> float | None:
        """Time after which clients are told to try again; None if that cannot help."""
        if self.retry_after_seconds is None and self.code is Code.UNAVAILABLE:
            return UNAVAILABLE_SECONDS
        return self.retry_after_seconds

    @property
    def error_id(self) -> str | None:
        """Id under which the log and the trace hold the cause; only unexpected failures have one."""
        return self.metadata.get("error_id")


class InvalidArgumentError(GroundlineError):
    """The request itself is wrong, whatever the state of the system."""

    code = Code.INVALID_ARGUMENT

    def __init__(
        self,
        violations: Iterable[FieldViolation],
        *,
        reason: str = "INVALID_REQUEST",
        message: str | None = None,
        retry_after_seconds: float | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        violations = tuple(violations)
        super().__init__(
            reason,
            message or "; ".join(f"{v.field}: {v.description}" for v in violations) or "invalid request",
            violations=violations,
            retry_after_seconds=retry_after_seconds,
            metadata=metadata,
        )


class NotFoundError(GroundlineError):
    code = Code.NOT_FOUND


class AlreadyExistsError(GroundlineError):
    code = Code.ALREADY_EXISTS


class PermissionDeniedError(GroundlineError):
    code = Code.PERMISSION_DENIED


class UnauthenticatedError(GroundlineError):
    code = Code.UNAUTHENTICATED


class FailedPreconditionError(GroundlineError):
    """The request is right but the system's state forbids it until somebody changes that state."""

    code = Code.FAILED_PRECONDITION


class OutOfRangeError(GroundlineError):
    code = Code.OUT_OF_RANGE


class ResourceExhaustedError(GroundlineError):
    code = Code.RESOURCE_EXHAUSTED


class AbortedError(GroundlineError):
    code = Code.ABORTED


class UnimplementedError(GroundlineError):
    code = Code.UNIMPLEMENTED


class UnavailableError(GroundlineError):
    code = Code.UNAVAILABLE


class DeadlineExceededError(GroundlineError):
    code = Code.DEADLINE_EXCEEDED


class CallCancelledError(GroundlineError):
    """A call to another service was cancelled; unlike asyncio.CancelledError it does not end the task."""

    code = Code.CANCELLED


class InternalError(GroundlineError):
    code = Code.INTERNAL


class DataLossError(GroundlineError):
    code = Code.DATA_LOSS


class UnknownError(GroundlineError):
    code = Code.UNKNOWN


_TYPES: Final[Mapping[Code, type[GroundlineError]]] = {
    kind.code: kind for kind in GroundlineError.__subclasses__()
}


def error_type(code: Code) -> type[GroundlineError]:
    """Return the exception class of a status code."""
    return _TYPES[code]


class Violations(list[FieldViolation]):
    """Violations of a request, collected so that one error names all of them."""

    def add(self, field: str, description: str) -> None:
        self.append(FieldViolation(field, description))

    def raise_if_any(self) -> None:
        """Raise InvalidArgumentError with every violation added so far, if there is one."""
        if self:
            raise InvalidArgumentError(self)


def whereabouts(error: BaseException) -> dict[str, Any]:
    """Return what may be logged of an error: neither its text nor local variables, which may quote texts."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    frames = extract_tb(error.__traceback__)
    return {
        "error": type(error).__qualname__,
        "frames": [f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in frames],
    }


@contextmanager
def named_as_sent(group: str) -> Iterator[None]:
    """Name the fields of another service's complaint as they are called in the client's request.

    A service knows its own message only: its `options.model` is the client's `options.rerank.model`.
    """
    try:
        yield
    except (InvalidArgumentError, UnimplementedError) as error:
        if not error.violations:
            raise
        violations = [_renamed(violation, group) for violation in error.violations]
        message = "; ".join(f"{each.field}: {each.description}" for each in violations)
        if isinstance(error, InvalidArgumentError):
            raise InvalidArgumentError(
                violations, reason=error.reason, message=message, metadata=error.metadata
            ) from error
        raise UnimplementedError(
            error.reason, message, violations=violations, metadata=error.metadata
        ) from error


def _renamed(violation: FieldViolation, group: str) -> FieldViolation:
    outer, dot, inner = violation.field.partition(".")
    if outer != "options" or not dot:
        return violation
    return FieldViolation(f"options.{group}.{inner}", violation.description)
