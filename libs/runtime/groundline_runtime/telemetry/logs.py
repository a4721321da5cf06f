"""Structured logs: one event per line, the same for structlog and for libraries that use stdlib logging."""

import logging
import re
import sys
from typing import Final, Literal

import structlog
from opentelemetry import trace
from structlog.typing import EventDict, Processor, WrappedLogger

# Credentials that a driver may repeat in its error text: the user part of a URL, and name=value pairs.
_URL_CREDENTIALS: Final = re.compile(r"(?<=://)[^/\s@'\"]*:[^/\s@'\"]*(?=@)")
_NAMED_SECRETS: Final = re.compile(
    r"(?i)(password|passwd|pwd|secret|token|api[-_]?key|authorization)(['\"]?\s*[=:]\s*['\"]?)[^\s'\",;&]+"
)

_JSON: Final = structlog.processors.JSONRenderer(default=str, ensure_ascii=False)


def configure_logs(
    service: str, *, level: str = "info", log_format: Literal["auto", "json", "console"]
) -> None:
    """Send all logs of the process to stdout, with service, trace_id and span_id on every line."""
    as_json = log_format == "json" or (log_format == "auto" and not sys.stdout.isatty())
    renderer = _JSON if as_json else structlog.dev.ConsoleRenderer(colors=sys.stdout.isatty())
    structlog.configure(
        processors=[
            *_steps(service),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        # An event below the level costs an empty call.
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(_formatter(service, renderer))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # At debug and info these libraries report every request or event-loop detail, some with addresses.
    for noisy in ("asyncio", "httpx", "httpcore", "google_genai", "grpc._cython.cygrpc"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def json_formatter(service: str) -> logging.Formatter:
    """Return a formatter that makes a JSON object of a record, whoever logged it."""
    return _formatter(service, _JSON)


def _formatter(service: str, renderer: Processor) -> logging.Formatter:
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=_steps(service),
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
    )


def _steps(service: str) -> list[Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _AddService(service),
        _add_trace,
        structlog.processors.format_exc_info,
        _redact,
    ]


class _AddService:
    def __init__(self, service: str) -> None:
        self._service = service

    def __call__(self, logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
        event["service"] = self._service
        return event


def _add_trace(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    span = trace.get_current_span().get_span_context()
    if span.is_valid:
        event["trace_id"] = trace.format_trace_id(span.trace_id)
        event["span_id"] = trace.format_span_id(span.span_id)
    return event


def _redact(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    for key in ("event", "exception", "error"):
        text = event.get(key)
        if isinstance(text, str):
            event[key] = redacted(text)
    return event


def redacted(text: str) -> str:
    """Return the text without credentials that look like `scheme://user:password@` or `password=…`."""
    return _NAMED_SECRETS.sub(r"\1\2***", _URL_CREDENTIALS.sub("***", text))
