"""Translation of a hosted provider's HTTP failures. Their own texts are left out: they may hold keys or
prompts."""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from groundline_runtime.errors import (
    FailedPreconditionError,
    GroundlineError,
    InternalError,
    ResourceExhaustedError,
    UnavailableError,
)


@contextmanager
def translated(meaning: Callable[[BaseException, str], GroundlineError | None], model: str) -> Iterator[None]:
    """Raise the error that `meaning` gives for an SDK's failure with `model`; re-raise failures it does not
    know."""
    try:
        yield
    except BaseException as error:
        if (failure := meaning(error, model)) is None:
            raise
        raise failure from error


def http_failure(status: int, *, model: str, retry_after_seconds: float | None = None) -> GroundlineError:
    if status == 429:
        return ResourceExhaustedError(
            "PROVIDER_QUOTA_EXHAUSTED",
            "the model provider's quota is used up",
            retry_after_seconds=1.0 if retry_after_seconds is None else retry_after_seconds,
        )
    if status in (401, 403):
        return access_denied()
    if status == 404:
        return FailedPreconditionError(
            "MODEL_NOT_AVAILABLE",
            f"the model provider knows no model '{model}'",
            metadata={"model": model},
        )
    if status in (408, 409, 425) or status >= 500:
        return UnavailableError(
            "PROVIDER_UNAVAILABLE",
            "the model provider failed",
            retry_after_seconds=retry_after_seconds,
            metadata={"http_status": str(status)},
        )
    return InternalError(
        "PROVIDER_REJECTED_REQUEST",
        "the model provider refused the request",
        metadata={"http_status": str(status)},
    )


def access_denied() -> GroundlineError:
    # Neither the caller's fault nor passing: a client that tried again would be refused again.
    return InternalError(
        "PROVIDER_ACCESS_DENIED",
        "the model provider does not accept the generator's credentials; the operator has to correct them",
    )


def not_reachable() -> GroundlineError:
    return UnavailableError("PROVIDER_UNAVAILABLE", "the model provider is out of reach")


def timed_out() -> GroundlineError:
    return UnavailableError("PROVIDER_TIMEOUT", "the model provider was silent for too long")


def cut_off() -> GroundlineError:
    return UnavailableError("PROVIDER_STREAM_CUT", "the model's answer was cut off")


def unreadable() -> GroundlineError:
    return InternalError("PROVIDER_OUTPUT_UNREADABLE", "the model provider's answer cannot be read")


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of Retry-After (a number or a date) or retry-after-ms; None if neither is
    readable."""
    try:
        if milliseconds := headers.get("retry-after-ms"):
            seconds = float(milliseconds) / 1000
        elif (value := headers.get("retry-after", "")).replace(".", "", 1).isdecimal():
            seconds = float(value)
        else:
            seconds = (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds()
    except (ValueError, TypeError):
        return None
    return max(0.0, seconds) if math.isfinite(seconds) else None
