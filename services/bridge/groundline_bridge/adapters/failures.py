"""Failures, as clients may hear of them."""

import math
import uuid

import structlog
from groundline_runtime.errors import GroundlineError, InternalError
from groundline_runtime.serving.interceptors import INTERNAL_MESSAGE
from opentelemetry import trace

_log = structlog.get_logger(__name__)


def unexpected(event: str, **about: str) -> InternalError:
    """Log the exception that is being handled; return an error that names nothing but its id in the log."""
    error_id = str(uuid.uuid4())
    trace.get_current_span().set_attribute("groundline.error_id", error_id)
    _log.exception(event, error_id=error_id, **about)
    return InternalError("INTERNAL", INTERNAL_MESSAGE, metadata={"error_id": error_id})


def seconds_to_wait(error: GroundlineError) -> int | None:
    """Return after how many whole seconds to try again, at least one; None if the error does not say."""
    return None if (seconds := error.wait_seconds) is None else max(1, math.ceil(seconds))
