"""The viewer of traces as a process of its own, with a stand-in for MLflow; the real one is in
tests/observability."""

import asyncio
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from groundline_cli.stack.errors import PortTakenError, StackError
from groundline_cli.stack.viewer import KEPT_DAYS, environment_folder, refuse_other_collectors, running_viewer

STAND_IN = Path(__file__).parent / "stand_in_viewer.py"


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def installed() -> None:
    """An environment that is there already, with the stand-in."""
    program = environment_folder() / "bin/python"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {STAND_IN} "$@"\n')
    program.chmod(0o755)


class Reports(list[str]):
    """Lines that a viewer reports."""

    def __init__(self) -> None:
        self._more = asyncio.Event()

    def append(self, line: str) -> None:
        super().append(line)
        self._more.set()

    async def wait_for(self, text: str) -> None:
        async with asyncio.timeout(30):
            while not any(text in line for line in self):
                self._more.clear()
                await self._more.wait()


async def answering(url: str) -> None:
    host, port = url.removeprefix("http://").partition("/")[0].split(":")
    async with asyncio.timeout(30):
        while True:
            try:
                _, writer = await asyncio.open_connection(host, int(port))
            except OSError:
                await asyncio.sleep(0.01)
            else:
                writer.close()
                return


@pytest.mark.parametrize("name", ["GROUNDLINE_OTLP_ENDPOINT", "GROUNDLINE_RETRIEVER_OTLP_ENDPOINT"])
def test_a_collector_of_the_users_own_is_refused_by_the_settings_name(name: str) -> None:
    with pytest.raises(StackError, match=f"unset {name}, or leave out --observe"):
        refuse_other_collectors({name: "http://collector:4317"})
    refuse_other_collectors({name: "", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://other"})


async def test_an_installation_that_fails_leaves_nothing_and_says_why(
    tmp_path: Path, cache: Path, environment: dict[str, str]
) -> None:
    reports = Reports()
    nowhere = environment | {"PIP_NO_INDEX": "1"}
    async with running_viewer(tmp_path, 0, nowhere, reports.append) as viewer:
        assert viewer is None
    said = "\n".join(reports)
    assert "installing the viewer of traces" in reports[0]
    assert "no viewer of traces, the suite goes on without it: viewer-installation exited with code 1" in said
    assert "No matching distribution found for" in said
    assert not any((cache / "groundline/viewer").iterdir())


@pytest.mark.usefixtures("installed")
async def test_a_viewer_that_does_not_start_is_reported_with_its_last_words(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    (tmp_path / "viewer").mkdir()
    (tmp_path / "viewer/broken").touch()
    reports = Reports()
    async with running_viewer(tmp_path, 0, environment, reports.append) as viewer:
        assert viewer is None
    [said] = reports
    assert "no viewer of traces, the suite goes on without it: viewer exited with code 1" in said
    assert "this database is of another version" in said


@pytest.mark.usefixtures("installed")
async def test_a_port_that_someone_has_is_an_error(tmp_path: Path, environment: dict[str, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other, pytest.raises(PortTakenError):
        async with running_viewer(tmp_path, other.getsockname()[1], environment, print):
            pass


@pytest.mark.usefixtures("installed")
async def test_a_viewer_that_crashes_is_started_again_at_its_address(
    tmp_path: Path, environment: dict[str, str], is_gone: Callable[[int], bool]
) -> None:
    reports = Reports()
    async with running_viewer(tmp_path, 0, environment, reports.append) as viewer:
        assert viewer is not None
        assert viewer.trace_url.startswith(f"{viewer.url}?")
        with viewer.supervisor.restart_crashed(reports.append, lambda: None):
            crashed = viewer.supervisor.pids["viewer"]
            os.kill(crashed, signal.SIGKILL)
            await reports.wait_for("viewer was killed by SIGKILL; starting it again")
            await answering(viewer.url)
            again = viewer.supervisor.pids["viewer"]
    assert again != crashed
    assert is_gone(again)


@pytest.mark.usefixtures("installed")
async def test_a_viewer_that_crashes_for_good_is_reported_and_the_rest_goes_on(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    reports = Reports()
    async with running_viewer(tmp_path, 0, environment, reports.append) as viewer:
        assert viewer is not None
        os.kill(viewer.supervisor.pids["viewer"], signal.SIGKILL)
        await reports.wait_for(
            "no viewer of traces any more, the suite goes on without it: viewer was killed"
        )


@pytest.mark.usefixtures("installed")
async def test_traces_older_than_a_week_go_at_the_start(tmp_path: Path, environment: dict[str, str]) -> None:
    async with running_viewer(tmp_path, 0, environment, print) as viewer:
        assert viewer is not None
    path, body = (tmp_path / "viewer/posted").read_text().split(" ", 1)
    assert path == "/api/3.0/mlflow/traces/delete-traces"
    days = (time.time() - json.loads(body)["max_timestamp_millis"] / 1000) / 86_400
    assert round(days) == KEPT_DAYS


@pytest.mark.usefixtures("installed")
async def test_the_viewer_gets_no_setting_and_no_secret_of_the_suite(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    secrets = environment | {"GROUNDLINE_API_KEY": "secret", "MLFLOW_TRACKING_URI": "http://elsewhere"}
    async with running_viewer(tmp_path, 0, secrets, print) as viewer:
        assert viewer is not None
        given = psutil.Process(viewer.supervisor.pids["viewer"]).environ()
    assert not {"GROUNDLINE_API_KEY", "MLFLOW_TRACKING_URI"} & set(given)
