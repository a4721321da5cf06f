"""The life of a whole stack, from outside: a process that is told to stop, loses a child, or is killed."""

import asyncio
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import psutil
import pytest
from groundline_cli.stack.ports import reserved_port

RUN_STACK = Path(__file__).parent / "run_stack.py"
DEVELOPMENT = Path(__file__).parents[1] / "database" / "development.sql"
CHILDREN = ["postgres", "ingestor", "coordinator", "envoy"]


@pytest.fixture
def data_dir(tmp_path: Path, copy_of_initialised: Callable[[Path], Path]) -> Path:
    return copy_of_initialised(tmp_path / "data" / "postgres").parent


@dataclass
class Started:
    """A stack in a process of its own."""

    process: "subprocess.Popen[str]"
    ready_file: Path

    def wait_until_ready(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        seen = []
        for line in self.process.stdout:
            seen.append(line)
            if line == "ready\n":
                ready: dict[str, Any] = json.loads(self.ready_file.read_text())
                return ready
        raise AssertionError("".join(seen) + self.stderr())

    def stderr(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.read()

    def family(self) -> list[int]:
        """Return every process below this one, the backends of PostgreSQL included."""
        return [child.pid for child in psutil.Process(self.process.pid).children(recursive=True)]


type Start = Callable[..., Started]


@pytest.fixture
def start(tmp_path: Path, environment: dict[str, str]) -> Iterator[Start]:
    """Starts a stack on a data directory; ends what a failed test leaves."""
    started: list[Started] = []

    def start(
        data_dir: Path, *, port: int = 0, migrate: str = "", environ: dict[str, str] | None = None
    ) -> Started:
        ready_file = tmp_path / f"ready-{len(started)}.json"
        arguments = [str(data_dir), str(port), str(ready_file), *([migrate] if migrate else [])]
        process = subprocess.Popen(
            [sys.executable, "-u", str(RUN_STACK), *arguments],
            env=environment | (environ or {}),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(Started(process, ready_file))
        return started[-1]

    yield start
    for stack in started:
        stack.process.terminate()
    for stack in started:
        try:
            stack.process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            stack.process.kill()
            stack.process.communicate()


type EndOf = Callable[[list[int]], list[int]]


def test_a_taken_gateway_port_is_one_clear_line_before_anything_starts(start: Start, tmp_path: Path) -> None:
    data_dir = tmp_path / "new"
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        stack = start(data_dir, port=port)
        assert stack.process.wait(30) == 1
    assert stack.stderr() == f"error: port {port} on 127.0.0.1 cannot be used: Address already in use\n"
    assert not (data_dir / "postgres").exists()


def test_a_wrong_key_is_one_clear_line_before_anything_starts(start: Start, tmp_path: Path) -> None:
    data_dir = tmp_path / "new"
    stack = start(data_dir, environ={"GROUNDLINE_API_KEYS": "not json"})
    assert stack.process.wait(30) == 1
    assert stack.stderr() == "error: gateway settings: GROUNDLINE_GATEWAY_API_KEYS is not a JSON list\n"
    assert not (data_dir / "postgres").exists()


def test_a_data_directory_in_use_is_one_clear_line(start: Start, data_dir: Path) -> None:
    first = start(data_dir)
    first.wait_until_ready()
    second = start(data_dir)
    assert second.process.wait(30) == 1
    assert f"{data_dir} is in use by process {first.process.pid}" in second.stderr()
    assert first.process.poll() is None


def test_a_failed_migration_stops_all_and_shows_its_log(start: Start, data_dir: Path, end_of: EndOf) -> None:
    stack = start(data_dir, migrate="raise SystemExit('the schema is newer than this version')")
    assert stack.process.wait(60) == 1
    error = stack.stderr()
    assert error.startswith(f"error: migrate exited with code 1; log: {data_dir}/logs/migrate.log\n")
    assert "the schema is newer than this version" in error
    assert not (data_dir / "postgres" / "cluster" / "postmaster.pid").exists()
    assert not stack.ready_file.exists()


def test_a_data_directory_of_an_older_development_version_is_refused_in_one_sentence(
    start: Start, data_dir: Path
) -> None:
    make = "import os, asyncio, asyncpg, pathlib\nasync def main():\n"
    make += "    sql = await asyncpg.connect(os.environ['GROUNDLINE_DATABASE_URL'])\n"
    make += f"    await sql.execute(pathlib.Path({str(DEVELOPMENT)!r}).read_text())\n"
    make += (
        "    await sql.execute('DELETE FROM schema_migrations WHERE version = 28')\n    await sql.close()\n"
    )
    make += "asyncio.run(main())\n"
    make += "from groundline_ingestor.__main__ import main as ingestor\ningestor(['migrate'])"
    stack = start(data_dir, migrate=make)
    assert stack.process.wait(60) == 1
    assert stack.stderr() == (
        "error: migrate: the ingestor's schema is of a development version before the first release: migrate "
        "it with the commit e18be48 first, or begin with an empty database (groundline up: another "
        f"--data-dir) and ingest again; log: {data_dir}/logs/migrate.log\n"
    )


def test_a_killed_child_is_started_again_and_said(start: Start, data_dir: Path) -> None:
    stack = start(data_dir)
    stack.wait_until_ready()
    assert stack.process.stdout is not None
    for name in ("coordinator", "envoy", "postgres"):
        ready = json.loads(stack.ready_file.read_text())
        os.kill(ready["pids"][name], signal.SIGKILL)
        line = stack.process.stdout.readline()
        expected = f"{name} was killed by SIGKILL; starting it again in 0.5 s; log: {data_dir}/logs/"
        assert line.startswith(expected)
        for _ in range(1000):
            again = json.loads(stack.ready_file.read_text())
            if again["pids"][name] != ready["pids"][name]:
                break
            time.sleep(0.02)
        assert psutil.pid_exists(again["pids"][name])
        asyncio.run(_ask(again["database_url"]))
        assert {**again["pids"], name: 0} == {**ready["pids"], name: 0}
        assert stack.process.poll() is None


async def _ask(database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    await connection.fetchval("SELECT 1")
    await connection.close()


def test_a_postgres_that_cannot_be_started_again_stops_everything_and_is_named(
    start: Start, data_dir: Path, end_of: EndOf
) -> None:
    stack = start(data_dir)
    ready = stack.wait_until_ready()
    family = stack.family()
    with (data_dir / "postgres" / "cluster" / "postgresql.conf").open("a") as configuration:
        configuration.write("max_connections = nonsense\n")
    os.kill(ready["pids"]["postgres"], signal.SIGKILL)
    assert stack.process.wait(60) == 1
    assert f"error: postgres was killed by SIGKILL; log: {data_dir}/logs/postgres.log" in stack.stderr()
    assert end_of(family) == []
    assert not stack.ready_file.exists()


@pytest.mark.parametrize(("number", "times"), [(signal.SIGTERM, 1), (signal.SIGINT, 5)])
def test_a_stop_signal_also_an_impatient_one_leaves_no_process_and_ends_with_0(
    number: signal.Signals, times: int, start: Start, data_dir: Path, end_of: EndOf
) -> None:
    stack = start(data_dir)
    stack.wait_until_ready()
    family = stack.family()
    for _ in range(times):
        stack.process.send_signal(number)
    assert stack.process.wait(60) == 0
    assert stack.stderr() == ""
    assert end_of(family) == []
    assert not stack.ready_file.exists()


def test_a_stop_signal_while_starting_leaves_no_process_and_ends_with_0(
    start: Start, data_dir: Path, tmp_path: Path, end_of: EndOf
) -> None:
    reached = tmp_path / "reached"
    os.mkfifo(reached)
    stack = start(data_dir, migrate=f"open({str(reached)!r}, 'w').close(); import signal; signal.pause()")
    reached.read_text()
    family = stack.family()
    stack.process.send_signal(signal.SIGINT)
    assert stack.process.wait(60) == 0
    assert end_of(family) == []


def test_kill_9_of_the_supervisor_leaves_no_process_and_the_data_can_be_used_again(
    start: Start, data_dir: Path, end_of: EndOf
) -> None:
    stack = start(data_dir)
    ready = stack.wait_until_ready()
    family = stack.family()
    assert set(ready["pids"].values()) < set(family)
    stack.process.kill()
    stack.process.wait()
    again = start(data_dir)
    again.wait_until_ready()
    assert end_of(family) == []


def test_two_stacks_run_side_by_side(start: Start, data_dir: Path, tmp_path: Path) -> None:
    """The second one's PostgreSQL is set up from nothing, beside the running first."""
    stacks = [start(data_dir), start(tmp_path / "new")]
    one, two = (stack.wait_until_ready() for stack in stacks)
    assert one["gateway"] != two["gateway"]
    assert one["api_key"] != two["api_key"]
    assert not set(one["services"].values()) & set(two["services"].values())
    for stack in (one, two):
        assert urllib.request.urlopen(f"{stack['gateway']}/healthz").status == 200


def test_a_second_start_keeps_the_database_and_the_key(start: Start, data_dir: Path) -> None:
    make = "import os, asyncio, asyncpg\nasync def main():\n"
    make += "    sql = await asyncpg.connect(os.environ['GROUNDLINE_DATABASE_URL'])\n"
    make += "    await sql.execute('CREATE TABLE IF NOT EXISTS kept (n int); INSERT INTO kept VALUES (1)')\n"
    make += "    print(await sql.fetchval('SELECT count(*) FROM kept'))\n    await sql.close()\n"
    make += "asyncio.run(main())"
    keys = []
    for _ in range(2):
        stack = start(data_dir, migrate=make)
        keys.append(stack.wait_until_ready()["api_key"])
        stack.process.send_signal(signal.SIGINT)
        assert stack.process.wait(60) == 0
    assert (data_dir / "logs" / "migrate.log").read_text() == "2\n"
    assert keys[0] == keys[1]


def test_the_ready_file_tells_where_everything_is(start: Start, data_dir: Path) -> None:
    with reserved_port() as port:
        pass
    stack = start(data_dir, port=port)
    ready = stack.wait_until_ready()
    assert set(ready) == {"gateway", "api_key", "services", "pids", "database_url", "metrics", "viewer"}
    assert (ready["metrics"], ready["viewer"]) == ({}, None)
    assert not (data_dir / "prometheus.json").exists()
    assert ready["gateway"] == f"http://127.0.0.1:{port}"
    assert ready["api_key"] == (data_dir / "api_key").read_text().strip()
    assert list(ready["services"]) == ["ingestor", "coordinator"]
    assert list(ready["pids"]) == CHILDREN
    assert all(psutil.pid_exists(pid) for pid in ready["pids"].values())
    assert stat.S_IMODE(stack.ready_file.stat().st_mode) == 0o600


def test_a_database_and_a_key_of_the_users_replace_the_embedded_ones(start: Start, tmp_path: Path) -> None:
    url, key = "postgresql://elsewhere/db", "chosen-by-the-user"
    ready = start(
        tmp_path / "new", environ={"GROUNDLINE_DATABASE_URL": url, "GROUNDLINE_API_KEY": key}
    ).wait_until_ready()
    assert "postgres" not in ready["pids"]
    assert ready["database_url"] == url
    assert ready["api_key"] == key
    assert not (tmp_path / "new" / "postgres").exists()
    assert not (tmp_path / "new" / "api_key").exists()
