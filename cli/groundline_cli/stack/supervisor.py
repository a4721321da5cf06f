"""Children that live and die together."""

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from groundline_cli.stack.errors import ChildDiedError, StepFailedError
from groundline_cli.stack.process import ChildProcess, Command

__all__ = ["Supervisor"]


class Supervisor:
    """Starts children, notices the first that ends, and stops all in reverse order of their start.

    Use as an async context manager: leaving it, for whatever reason, leaves no child behind.
    """

    def __init__(self, log_dir: Path) -> None:
        self._log_dir = log_dir
        self._children: list[ChildProcess] = []
        self._watchers: list[asyncio.Task[None]] = []
        self._first_death: asyncio.Future[ChildProcess] = asyncio.get_running_loop().create_future()

    @property
    def pids(self) -> dict[str, int]:
        """Process id of each child by name, in order of start."""
        return {child.name: child.pid for child in self._children}

    async def start(self, command: Command) -> ChildProcess:
        """Start a child that has to stay up."""
        child = await ChildProcess.start(command, self._log_path(command))
        self.adopt(child)
        return child

    def adopt(self, child: ChildProcess) -> None:
        """Watch over, and in the end stop, a child that someone else has started."""
        self._children.append(child)
        self._watchers.append(asyncio.create_task(self._watch(child)))

    async def run(self, command: Command, *, timeout_seconds: float) -> None:
        """Run a command to its end. Raises StepFailedError when it fails or takes longer."""
        child = await ChildProcess.start(command, self._log_path(command))
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
        """The result of `work`; raises ChildDiedError, cancelling `work`, as soon as a child has ended."""
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

    async def _watch(self, child: ChildProcess) -> None:
        await child.wait()
        if not self._first_death.done():
            self._first_death.set_result(child)

    def _log_path(self, command: Command) -> Path:
        return self._log_dir / f"{command.name}.log"
