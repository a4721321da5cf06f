"""Children that live and die together, as real processes."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from groundline_cli.stack.errors import ChildDiedError, StackError, StepFailedError
from groundline_cli.stack.process import ChildProcess, Command
from groundline_cli.stack.supervisor import Supervisor

# Says who it is once it is up, and notes in a shared file when it is told to stop.
OBEDIENT = """
import pathlib, signal, sys
def stop(number, frame):
    with open(sys.argv[2], "a") as file: file.write(sys.argv[1] + "\\n")
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
print("up", flush=True)
while True: signal.pause()
"""
STUBBORN = """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
while True: signal.pause()
"""
PARENT = """
import signal, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
print("up", child.pid, flush=True)
signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
while True: signal.pause()
"""
DOOMED = "print('up', flush=True); input_ = 'line\\n' * 50; print(input_); print('the last words'); exit(3)"


def command(name: str, script: str, *arguments: str, grace_seconds: float = 10.0) -> Command:
    argv = (sys.executable, "-u", "-c", script, *arguments)
    return Command(name=name, argv=argv, env={}, grace_seconds=grace_seconds)


async def first_line(child: ChildProcess) -> str:
    """Wait until it is whole: an unbuffered program writes it word by word."""
    async with asyncio.timeout(20):
        while True:
            line, end, _ = child.log_path.read_text().partition("\n")
            if end:
                return line
            await asyncio.sleep(0.01)


@pytest.fixture
async def supervisor(tmp_path: Path) -> AsyncIterator[Supervisor]:
    async with Supervisor(tmp_path / "logs") as supervisor:
        yield supervisor


async def test_a_program_that_does_not_exist_is_one_clear_error(supervisor: Supervisor) -> None:
    missing = Command(name="ghost", argv=("/nowhere/ghost",), env={})
    with pytest.raises(StackError, match="ghost"):
        await supervisor.run(missing, timeout_seconds=10)


async def test_the_death_of_a_child_names_it_with_its_exit_code_log_and_last_words(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    await supervisor.start(command("steady", OBEDIENT, "steady", str(tmp_path / "stops")))
    await supervisor.start(command("doomed", DOOMED))
    with pytest.raises(ChildDiedError) as caught:
        await supervisor.until(asyncio.Event().wait())
    report = str(caught.value)
    assert report.startswith(f"doomed exited with code 3; log: {tmp_path}/logs/doomed.log\n")
    assert report.endswith("    the last words")
    assert len(report.splitlines()) <= 13


async def test_the_death_of_a_child_by_a_signal_names_the_signal(supervisor: Supervisor) -> None:
    child = await supervisor.start(command("victim", STUBBORN))
    await first_line(child)
    os.kill(child.pid, signal.SIGKILL)
    with pytest.raises(ChildDiedError, match="victim was killed by SIGKILL"):
        await supervisor.until(asyncio.Event().wait())


async def test_a_child_that_crashes_is_started_again_and_given_up_after_several_times_in_a_row(
    tmp_path: Path,
) -> None:
    reports: list[str] = []
    restarted: list[int] = []
    async with Supervisor(tmp_path / "logs", restart_pauses_seconds=(0.01, 0.01)) as supervisor:
        restarts = supervisor.restart_crashed(
            reports.append, lambda: restarted.append(supervisor.pids["doomed"])
        )
        with restarts:
            first = await supervisor.start(command("doomed", DOOMED))
            with pytest.raises(ChildDiedError, match="doomed exited with code 3"):
                await supervisor.until(asyncio.Event().wait())
    assert len(reports) == 2
    assert reports[0].startswith("doomed exited with code 3; starting it again in 0.01 s; log: ")
    assert len({first.pid, *restarted}) == 3


async def test_a_start_that_outlasts_the_body_is_announced_to_nobody(tmp_path: Path) -> None:
    calls: list[str] = []
    starting, may_end, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def start_slowly() -> ChildProcess:
        starting.set()
        await may_end.wait()
        again = await ChildProcess.start(command("victim", STUBBORN, grace_seconds=0.1), tmp_path / "victim")
        ended.set()
        return again

    async with Supervisor(tmp_path, restart_pauses_seconds=(0.01,)) as supervisor:
        with supervisor.restart_crashed(lambda _: None, lambda: calls.append("written again")):
            supervisor.adopt(
                await ChildProcess.start(command("victim", DOOMED), tmp_path / "victim"), start_slowly
            )
            await starting.wait()
        may_end.set()
        await ended.wait()
        await asyncio.sleep(0)
    assert calls == []


async def test_work_in_hand_is_cancelled_when_a_child_dies(supervisor: Supervisor) -> None:
    ended = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    await supervisor.start(command("doomed", DOOMED))
    with pytest.raises(ChildDiedError):
        await supervisor.until(work())
    assert ended == ["cancelled"]


async def test_a_step_that_fails_shows_its_log(supervisor: Supervisor) -> None:
    with pytest.raises(StepFailedError, match=r"(?s)migrate exited with code 3; log: .*the last words"):
        await supervisor.run(command("migrate", DOOMED), timeout_seconds=20)


async def test_a_step_that_takes_too_long_is_ended(supervisor: Supervisor) -> None:
    with pytest.raises(StepFailedError, match=r"migrate did not end within 0.2 s"):
        await supervisor.run(command("migrate", STUBBORN, grace_seconds=0.1), timeout_seconds=0.2)


async def test_a_child_that_does_not_stop_is_killed(tmp_path: Path, is_gone: Callable[[int], bool]) -> None:
    async with Supervisor(tmp_path) as supervisor:
        child = await supervisor.start(command("stubborn", STUBBORN, grace_seconds=0.1))
        await first_line(child)
    assert child.returncode == -signal.SIGKILL
    assert is_gone(child.pid)


async def test_what_a_child_has_started_itself_does_not_stay_behind(
    tmp_path: Path, end_of: Callable[[list[int]], list[int]]
) -> None:
    async with Supervisor(tmp_path) as supervisor:
        child = await supervisor.start(command("parent", PARENT))
        grandchild = int((await first_line(child)).split()[1])
    assert end_of([child.pid, grandchild]) == []


async def test_children_stop_in_reverse_order(tmp_path: Path) -> None:
    stops = tmp_path / "stops"
    async with Supervisor(tmp_path / "logs") as supervisor:
        for name in ("first", "second", "third"):
            await first_line(await supervisor.start(command(name, OBEDIENT, name, str(stops))))
        assert list(supervisor.pids) == ["first", "second", "third"]
    assert stops.read_text().split() == ["third", "second", "first"]


async def test_a_cancelled_stop_ends_the_child(tmp_path: Path, is_gone: Callable[[int], bool]) -> None:
    stubborn = await ChildProcess.start(
        command("stubborn", STUBBORN, grace_seconds=0.3), tmp_path / "stubborn.log"
    )
    await first_line(stubborn)
    stopping = asyncio.create_task(stubborn.stop())
    await asyncio.sleep(0)
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping
    assert is_gone(stubborn.pid)


async def test_a_child_leads_a_session_of_its_own(supervisor: Supervisor, tmp_path: Path) -> None:
    script = "import os; print(os.getpid() == os.getpgrp() == os.getsid(0))"
    await supervisor.run(command("session", script), timeout_seconds=20)
    log = tmp_path / "logs" / "session.log"
    assert log.read_text().strip() == "True"


async def test_the_log_of_the_run_before_is_kept(supervisor: Supervisor, tmp_path: Path) -> None:
    for word in ("before", "now"):
        await supervisor.run(command("twice", f"print({word!r})"), timeout_seconds=20)
    log = tmp_path / "logs" / "twice.log"
    assert log.read_text() == "now\n"
    assert log.with_suffix(".previous.log").read_text() == "before\n"
    assert log.stat().st_mode & 0o077 == 0
