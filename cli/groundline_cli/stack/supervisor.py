"""Child processes that are started and stopped together."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from groundline_cli.stack.errors import ChildDiedError, StackError, StepFailedError
from groundline_cli.stack.process import ChildProcess, Command, describe_exit

_RESTART_PAUSES_SECONDS: Final = (0.5, 1.0, 2.0, 4.0, 8.0)
_STEADY_SECONDS: Final = 60.0
"""Run time after which a crash no longer counts as one in a row, in seconds."""


class Supervisor:
    """A supervisor that starts children, notices the first that ends, and stops all in reverse order of their
    start.

    While the body of `restart_crashed` runs, a child is started again when it ends.

    Use as an async context manager: leaving it, for whatever reason, leaves no child behind.
    """

    def __init__(
        self,
        log_dir: Path,
        *,
        start: Callable[[Command, Path], Awaitable[ChildProcess]] = ChildProcess.start,
        restart_pauses_seconds: Sequence[float] = _RESTART_PAUSES_SECONDS,
    ) -> None:
        """Take what starts a program with its log, and the pauses before each start after a crash, in
        seconds; one more crash in a row ends the suite."""
        self._log_dir = log_dir
        self._start = start
        self._restart_pauses_seconds = restart_pauses_seconds
        self._report: Callable[[str], None] | None = None
        self._on_restart: Callable[[], None] = lambda: None
        self._children: list[ChildProcess] = []
        self._watchers: list[asyncio.Task[None]] = []
        self._first_death: asyncio.Future[ChildProcess] = asyncio.get_running_loop().create_future()

    @property
    def pids(self) -> dict[str, int]:
        """Process id of each child by name, in order of start."""
        return {child.name: child.pid for child in self._children}

    async def start(self, command: Command) -> ChildProcess:
        """Start a child that must keep running."""
        log_path = self.log_path(command.name)
        child = await self._start(command, log_path)
        self.adopt(child, lambda: self._start(command, log_path))
        return child

    def adopt(self, child: ChildProcess, start_again: Callable[[], Awaitable[ChildProcess]]) -> None:
        """Watch over a child that was started elsewhere, and stop it in the end. `start_again` starts it anew
        when it has ended."""
        self._children.append(child)
        self._watchers.append(asyncio.create_task(self._keep(child, start_again)))

    @contextmanager
    def restart_crashed(
        self, report: Callable[[str], None], on_restart: Callable[[], None]
    ) -> Iterator[None]:
        """Restart children that end while the body runs: `report` gets a line each time, and `on_restart` is
        called when `pids` has changed. Neither is called after the body, also for a start under way."""
        self._report, self._on_restart = report, on_restart
        try:
            yield
        finally:
            self._report, self._on_restart = None, lambda: None

    async def run(self, command: Command, *, timeout_seconds: float) -> None:
        """Run a command to its end. Raises StepFailedError when it fails or takes longer."""
        child = await self._start(command, self.log_path(command.name))
        try:
            async with asyncio.timeout(timeout_seconds):
                returncode = await self.until(child.wait())
        except TimeoutError as error:
            message = f"{command.name} did not end within {timeout_seconds:g} s; log: {child.log_path}"
            raise StepFailedError(message) from error
        finally:
            await child.stop()
        if returncode != 0:
            raise StepFailedError(child.obituary())

    async def until[T](self, work: Awaitable[T]) -> T:
        """Return the result of `work`; raise ChildDiedError, cancelling `work`, as soon as a child has
        ended."""
        task = asyncio.ensure_future(work)
        try:
            either: list[asyncio.Future[Any]] = [task, self._first_death]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if self._first_death.done():
                raise ChildDiedError(self._first_death.result().obituary())
            return task.result()
        finally:
            if not task.done():
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    async def stop(self) -> None:
        """Stop all children, the youngest first."""
        for watcher in self._watchers:
            watcher.cancel()
        await asyncio.gather(*self._watchers, return_exceptions=True)
        while self._children:
            await self._children[-1].stop()
            self._children.pop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def _keep(self, child: ChildProcess, start_again: Callable[[], Awaitable[ChildProcess]]) -> None:
        crashes = 0
        while True:
            begun = time.monotonic()
            returncode = await child.wait()
            crashes = 1 if time.monotonic() - begun > _STEADY_SECONDS else crashes + 1
            if self._report is None or crashes > len(self._restart_pauses_seconds):
                break
            pause = self._restart_pauses_seconds[crashes - 1]
            self._report(
                f"{child.name} {describe_exit(returncode)}; starting it again in {pause:g} s; "
                f"log: {child.previous_log_path}"
            )
            await asyncio.sleep(pause)
            position = self._children.index(child)
            await child.stop()  # what it has left behind
            try:
                child = await start_again()
            except StackError as error:
                if self._report is not None:
                    self._report(str(error))
                break
            self._children[position] = child
            self._on_restart()
        if not self._first_death.done():
            self._first_death.set_result(child)

    def log_path(self, name: str) -> Path:
        """Return the log of the child of this name."""
        return self._log_dir / f"{name}.log"
