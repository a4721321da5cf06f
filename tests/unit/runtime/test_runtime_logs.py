import io
import json
import logging
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import structlog
from groundline_runtime.telemetry.logs import configure_logs


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """Logging as a service sets it up; the lines written so far. The root logger is put back afterwards."""
    root, written = logging.getLogger(), io.StringIO()
    handlers, level = root.handlers[:], root.level
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", written)
        configure_logs("groundline-x", level="info", log_format="json")
    yield lambda: [json.loads(line) for line in written.getvalue().splitlines()]
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def test_an_event_is_one_json_line_with_its_service(lines: Callable[[], list[dict[str, Any]]]) -> None:
    structlog.get_logger("part").info("job_done", chunks=3)
    [line] = lines()
    assert {
        "event": "job_done",
        "chunks": 3,
        "service": "groundline-x",
        "level": "info",
    }.items() <= line.items()
    assert line["timestamp"].endswith("Z")


def test_library_logs_look_the_same(lines: Callable[[], list[dict[str, Any]]]) -> None:
    logging.getLogger("asyncpg").warning("slow %s", "query")
    [line] = lines()
    assert (line["event"], line["logger"], line["level"]) == ("slow query", "asyncpg", "warning")
    assert line["service"] == "groundline-x"


def test_less_severe_events_are_dropped(lines: Callable[[], list[dict[str, Any]]]) -> None:
    structlog.get_logger("part").debug("detail")
    logging.getLogger("grpc").debug("detail")
    assert lines() == []


@pytest.mark.parametrize(
    "text",
    [
        "cannot connect to postgresql://user:hunter2@db/x",
        "password=hunter2 host=db",
        '{"api_key": "hunter2"}',
        "Authorization: hunter2",
    ],
)
def test_credentials_in_exceptions_are_masked(lines: Callable[[], list[dict[str, Any]]], text: str) -> None:
    try:
        raise RuntimeError(text)
    except RuntimeError:
        structlog.get_logger("part").exception("failed")
        logging.getLogger("library").exception("failed: %s", text)
    written = lines()
    assert len(written) == 2
    assert all("RuntimeError" in line["exception"] for line in written)
    assert "hunter2" not in json.dumps(written)
