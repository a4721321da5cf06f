"""Programs of the suite, forked from one process that has imported what they share."""

import asyncio
import json
import os
import signal
import socket
import sys
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Self

from groundline_cli.stack.errors import StackError
from groundline_cli.stack.fork_server import FAILED
from groundline_cli.stack.process import ChildProcess, Command, open_log

_PROGRAM: Final = (sys.executable, "-m")
_MESSAGE_BYTES: Final = 64


class Forks:
    """Starter of programs: modules of the suite are forked from a server, which shares its memory with them
    (Linux only), all others run as by ChildProcess.

    What a server has forked dies with it; the next start has a new one.
    """

    def __init__(self, environ: Mapping[str, str], log_path: Path) -> None:
        """Take the environment that all programs have, and where the server logs."""
        self._command = Command(
            name="fork server",
            argv=(*_PROGRAM, "groundline_cli.stack.fork_server"),
            # Settings of one program are none of another's business.
            env={name: value for name, value in environ.items() if not name.startswith("GROUNDLINE_")},
        )
        self._log_path = log_path
        self._server: _Server | None = None
        self._starting = asyncio.Lock()

    @classmethod
    @asynccontextmanager
    async def opened(cls, environ: Mapping[str, str], log_path: Path) -> AsyncIterator[Self]:
        """Provide a starter; leave it when its programs have ended."""
        forks = cls(environ, log_path)
        try:
            yield forks
        finally:
            if forks._server is not None:
                await forks._server.stop()

    async def start(self, command: Command, log_path: Path) -> ChildProcess:
        """Start a program; call it from the main thread. Raises StackError."""
        is_of_suite = command.argv[: len(_PROGRAM)] == _PROGRAM and command.identity is None
        if sys.platform != "linux" or not is_of_suite:
            return await ChildProcess.start(command, log_path)
        async with self._starting:
            if self._server is None or self._server.has_ended:
                if self._server is not None:
                    await self._server.stop()
                self._server = await _Server.started(self._command, self._log_path)
            return await self._server.fork(command, log_path)


class _Server:
    """A running fork server."""

    def __init__(self, child: ChildProcess, requests: socket.socket) -> None:
        self._child = child
        self._socket = requests
        self._asked: deque[asyncio.Future[_Fork]] = deque()
        self._forks: dict[int, _Fork] = {}
        self.has_ended = False
        asyncio.get_running_loop().add_reader(requests, self._answered)

    @classmethod
    async def started(cls, command: Command, log_path: Path) -> Self:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                child = await ChildProcess.start(command, log_path, stdin=theirs.fileno())
            except BaseException:
                ours.close()
                raise
        ours.setblocking(False)
        return cls(child, ours)

    async def fork(self, command: Command, log_path: Path) -> ChildProcess:
        described = {
            "name": command.name,
            "arguments": command.argv[len(_PROGRAM) :],
            "environment": dict(command.env),
            "orphan_signal": command.orphan_signal,
            "server": self._child.pid,
        }
        asked: asyncio.Future[_Fork] = asyncio.get_running_loop().create_future()
        with os.fdopen(os.memfd_create("program"), "w+", encoding="utf-8") as program:
            json.dump(described, program)
            program.flush()
            program.seek(0)
            log = open_log(log_path)
            try:
                socket.send_fds(self._socket, [b"+"], [log, program.fileno()])
            except OSError as error:
                raise StackError(f"cannot run {command.name}: {error}") from error
            finally:
                os.close(log)
        self._asked.append(asked)
        try:
            return ChildProcess(command, log_path, await asked)
        except OSError as error:
            raise StackError(f"cannot run {command.name}: {error}; log: {self._child.log_path}") from error

    async def stop(self) -> None:
        self._end()
        await self._child.stop()

    def _answered(self) -> None:
        """Take what the server says: a process id answers a request, one with an exit code has ended."""
        while not self.has_ended:
            try:
                message = self._socket.recv(_MESSAGE_BYTES)
            except BlockingIOError:
                return
            except OSError:
                message = b""
            if not message:
                self._end()
                return
            pid, *exit_codes = map(int, message.split())
            if exit_codes:
                self._forks.pop(pid).end(exit_codes[0])
            elif pid == FAILED:
                self._answer(OSError("no process can be made"))
            else:
                self._forks[pid] = _Fork(pid)
                self._answer(self._forks[pid])

    def _answer(self, answer: "_Fork | OSError") -> None:
        """Answer the oldest request. What nobody waits for any more does not go on."""
        asked = self._asked.popleft()
        if isinstance(answer, OSError):
            if not asked.done():
                asked.set_exception(answer)
        elif asked.done():
            answer.send_signal(signal.SIGKILL)
        else:
            asked.set_result(answer)

    def _end(self) -> None:
        """Count everything that it has forked as killed with it."""
        if not self.has_ended:
            self.has_ended = True
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
            while self._asked:
                self._answer(OSError("the fork server has ended"))
            while self._forks:
                self._forks.popitem()[1].end(-signal.SIGKILL)


class _Fork:
    """A forked process, with what ChildProcess asks of asyncio's."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._exit_code: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    @property
    def returncode(self) -> int | None:
        return self._exit_code.result() if self._exit_code.done() else None

    def send_signal(self, number: int) -> None:
        if not self._exit_code.done():
            os.kill(self.pid, number)

    async def wait(self) -> int:
        return await asyncio.shield(self._exit_code)

    def end(self, exit_code: int) -> None:
        self._exit_code.set_result(exit_code)
