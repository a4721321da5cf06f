"""One child process: a session and a log file of its own, and an end no later than its parent's."""

import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, Self

from groundline_cli.stack.errors import StackError
from groundline_cli.stack.identity import Identity

_LOG_TAIL_BYTES: Final = 16_384


@dataclass(frozen=True, slots=True)
class Command:
    """A program to run, and how to stop it."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    stop_signal: signal.Signals = signal.SIGTERM
    """Signal that asks for an orderly end."""
    grace_seconds: float = 10.0
    """Time from the stop signal to SIGKILL, in seconds."""
    orphan_signal: signal.Signals = signal.SIGKILL
    """Signal that the kernel sends if this process dies without having stopped the child (Linux only)."""
    identity: Identity | None = None
    """The OS user to run as; None keeps this process's own."""


class Process(Protocol):
    """A process in a session of its own."""

    @property
    def pid(self) -> int: ...

    @property
    def returncode(self) -> int | None: ...

    async def wait(self) -> int: ...

    def send_signal(self, number: int, /) -> None: ...


class ChildProcess:
    """A running command. Its output goes to `log_path`; the log of the run before is kept beside it."""

    def __init__(self, command: Command, log_path: Path, process: Process) -> None:
        self.command = command
        self.log_path = log_path
        self._process = process
        self._stopped = False

    @classmethod
    async def start(
        cls, command: Command, log_path: Path, *, stdin: int = asyncio.subprocess.DEVNULL
    ) -> Self:
        """Start `command`; call it from the main thread.

        The kernel ties a child's orphan signal to the thread that started it, not to the process. Raises
        StackError when the program cannot be run.
        """
        log = open_log(log_path)
        try:
            process = await asyncio.create_subprocess_exec(
                *_launcher(command),
                *command.argv,
                env=dict(command.env),
                stdin=stdin,
                stdout=log,
                stderr=log,
                # Ctrl-C reaches a terminal's whole foreground group; children must be stopped in our order.
                start_new_session=True,
            )
        except OSError as error:
            raise StackError(f"cannot run {command.name}: {error}") from error
        finally:
            os.close(log)
        return cls(command, log_path, process)

    @property
    def name(self) -> str:
        """The command's name."""
        return self.command.name

    @property
    def pid(self) -> int:
        """Process id; also the id of the child's process group."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """Exit code: None while it runs, negative if a signal ended it."""
        return self._process.returncode

    @property
    def previous_log_path(self) -> Path:
        """Path of the previous run's log."""
        return _previous(self.log_path)

    async def wait(self) -> int:
        """Wait for the end; return the exit code, negative for a signal."""
        return await self._process.wait()

    async def stop(self) -> None:
        """End the child: stop signal, grace, then SIGKILL for its whole process group.

        Runs to its end when cancelled meanwhile, and is cancelled then.
        """
        if not self._stopped:
            await _finish(self._stop())
            self._stopped = True

    async def _stop(self) -> None:
        if self.returncode is None:
            with suppress(ProcessLookupError):
                self._process.send_signal(self.command.stop_signal)
            with suppress(TimeoutError):
                await asyncio.wait_for(self.wait(), self.command.grace_seconds)
        # Also after an orderly end: whatever the child itself has started lives in its group.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        await self.wait()

    def log_tail(self, lines: int = 12) -> str:
        """Return the last lines of the log, at most 16 KiB."""
        try:
            with self.log_path.open("rb") as log:
                log.seek(max(0, os.fstat(log.fileno()).st_size - _LOG_TAIL_BYTES))
                text = log.read().decode("utf-8", errors="replace")
        except OSError:
            return ""
        return "\n".join(text.splitlines()[-lines:])

    def obituary(self) -> str:
        """Return name, exit code or signal, log path and last log lines of an ended child, for a person to
        read; of a program of the suite that refused to go on its own sentence."""
        if (refusal := self._refusal()) is not None:
            return f"{self.name}: {refusal}; log: {self.log_path}"
        ending = describe_exit(self.returncode) if self.returncode is not None else "is still running"
        tail = self.log_tail()
        report = f"{self.name} {ending}; log: {self.log_path}"
        return f"{report}\n{_indented(tail)}" if tail else report

    def _refusal(self) -> str | None:
        """Return the error with which a program of the suite has ended, if it is the last line of its log."""
        try:
            last = json.loads(self.log_tail(1))
            error: str | None = last["error"] if last["event"] == "stopped" else None
        except (ValueError, TypeError, KeyError):
            return None
        return error


async def _finish(work: Coroutine[Any, Any, None]) -> None:
    task = asyncio.create_task(work)
    cancelled = False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError
    task.result()


def describe_exit(returncode: int) -> str:
    """Return `exited with code 3`, or `was killed by SIGKILL` for -9."""
    if returncode >= 0:
        return f"exited with code {returncode}"
    try:
        return f"was killed by {signal.Signals(-returncode).name}"
    except ValueError:
        return f"was killed by signal {-returncode}"


def open_log(path: Path) -> int:
    """Open a new log for writing; the one before is kept beside it."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.exists():
        path.replace(_previous(path))
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def _previous(path: Path) -> Path:
    return path.with_suffix(".previous.log")


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


def _launcher(command: Command) -> list[str]:
    """Return a prefix of `argv` that sets the orphan signal and the OS user, then becomes the program itself.

    setpriv (util-linux) instead of a preexec function: no Python runs between fork and exec, where another
    thread's lock could be held for ever. If it is missing (macOS), a child outlives a killed parent.
    """
    setpriv = shutil.which("setpriv") if sys.platform == "linux" else None
    if setpriv is None:
        if command.identity is not None:
            raise StackError(f"running {command.name} as another user needs `setpriv` (package util-linux)")
        return []
    signal_name = command.orphan_signal.name.removeprefix("SIG")
    options = command.identity.setpriv_options() if command.identity is not None else []
    return [setpriv, *options, "--pdeathsig", signal_name, "--"]
