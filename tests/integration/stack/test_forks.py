"""Programs of the suite that share a process's memory, as real processes."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import psutil
import pytest
from groundline_cli.stack.errors import ChildDiedError, StepFailedError
from groundline_cli.stack.forks import Forks
from groundline_cli.stack.process import ChildProcess, Command
from groundline_cli.stack.supervisor import Supervisor

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing is forked")

PROGRAM = '''
import os, re, signal, sys
def remembers(backwards):
    """Whether its memory holds a text, which it is given backwards; looking for it does not put it there."""
    text = re.compile("".join(f"[{letter}]" for letter in reversed(backwards)).encode())
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
        for line in maps:
            addresses, access, *_ = line.split()
            if access.startswith("rw"):
                begin, end = (int(address, 16) for address in addresses.split("-"))
                memory.seek(begin)
                if text.search(memory.read(end - begin)):
                    return True
    return False
if sys.argv[1] == "exit":
    print("the last words")
    sys.exit(3)
if sys.argv[1] == "look":
    print(remembers(sys.argv[2]), [name for name in os.environ if name.startswith("GROUNDLINE_")])
    print("grpc" in sys.modules)
    sys.exit(0)
print("up", flush=True)
signal.sigwait([signal.SIGTERM])
'''
SECRET = "the-password-of-another"


@pytest.fixture
def environ(tmp_path: Path) -> Mapping[str, str]:
    (tmp_path / "forked_program.py").write_text(PROGRAM)
    return {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONUNBUFFERED": "1"}


@pytest.fixture
async def supervisor(tmp_path: Path, environ: Mapping[str, str]) -> AsyncIterator[Supervisor]:
    logs = tmp_path / "logs"
    async with (
        Forks.opened(environ, logs / "fork-server.log") as forks,
        Supervisor(logs, start=forks.start, restart_pauses_seconds=(0.01,) * 5) as supervisor,
    ):
        yield supervisor


def program(
    name: str, environ: Mapping[str, str], *arguments: str, settings: Mapping[str, str] | None = None
) -> Command:
    argv = (sys.executable, "-m", "forked_program", *arguments)
    return Command(name=name, argv=argv, env={**environ, **(settings or {})})


async def is_up(child: ChildProcess) -> None:
    async with asyncio.timeout(30):
        while "up\n" not in child.log_path.read_text():  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.01)


async def test_the_end_of_a_program_is_told_with_its_exit_code_and_last_words(
    supervisor: Supervisor, environ: Mapping[str, str]
) -> None:
    with pytest.raises(StepFailedError, match=r"(?s)one exited with code 3.*the last words$"):
        await supervisor.run(program("one", environ, "exit"), timeout_seconds=30)
    child = await supervisor.start(program("two", environ, "wait"))
    await is_up(child)
    os.kill(child.pid, signal.SIGKILL)
    with pytest.raises(ChildDiedError, match="two was killed by SIGKILL"):
        await supervisor.until(asyncio.Event().wait())


async def test_a_program_knows_its_own_settings_and_nothing_of_those_started_before(
    supervisor: Supervisor, environ: Mapping[str, str]
) -> None:
    seen = []
    for name, settings in (
        ("one", {"GROUNDLINE_DATABASE_URL": SECRET}),
        ("two", {"GROUNDLINE_COLLECTOR_PORT": "1"}),
    ):
        looking = program(name, environ, "look", SECRET[::-1], settings=settings)
        await supervisor.run(looking, timeout_seconds=30)
        seen.append(supervisor.log_path(name).read_text().splitlines())
    assert seen == [
        ["True ['GROUNDLINE_DATABASE_URL']", "True"],
        ["False ['GROUNDLINE_COLLECTOR_PORT']", "True"],
    ]


async def test_a_program_has_a_session_and_a_name_of_its_own_and_ends_when_it_is_told_to(
    supervisor: Supervisor, environ: Mapping[str, str]
) -> None:
    child = await supervisor.start(program("named", environ, "wait"))
    await is_up(child)
    assert os.getsid(child.pid) == child.pid
    assert psutil.Process(child.pid).name() == "named"
    await child.stop()
    assert child.returncode == -signal.SIGTERM
    assert not psutil.pid_exists(child.pid)


async def test_when_the_server_dies_its_programs_do_and_all_are_started_again(
    supervisor: Supervisor, environ: Mapping[str, str], end_of: Callable[[list[int]], list[int]]
) -> None:
    restarted = asyncio.Queue[str]()
    with supervisor.restart_crashed(restarted.put_nowait, lambda: restarted.put_nowait("again")):
        first = [await supervisor.start(program(name, environ, "wait")) for name in ("one", "two")]
        for child in first:
            await is_up(child)
        psutil.Process(first[0].pid).parent().kill()  # type: ignore[union-attr]
        async with asyncio.timeout(30):
            told = [await restarted.get() for _ in range(4)]
        assert sum("was killed by SIGKILL" in line for line in told) == 2
        assert end_of([child.pid for child in first]) == []
        assert not {child.pid for child in first} & set(supervisor.pids.values())
