"""Another client's load, sent by a process of its own: in the rig's, what is measured would wait for it."""

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from groundline_benchmarks.chaos.load import prepared_load
from groundline_benchmarks.measuring.running import MeasurementError

_COLLECTION: Final = "neighbour"
_DONE: Final = "done"


class Neighbour:
    """Another client, on a collection of its own."""

    def __init__(self, process: Process) -> None:
        self._process = process

    @asynccontextmanager
    async def running(self, **clients: int) -> AsyncIterator[None]:
        """Run this many clients, as `Load.running` takes them, within the block. Raises MeasurementError."""
        if not clients:
            yield
            return
        await self.tell(clients)
        try:
            yield
        finally:
            await self.tell({})

    async def tell(self, what: object) -> None:
        """Have the process do something, and wait until it has. Raises MeasurementError."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(what).encode() + b"\n")
        if (await self._process.stdout.readline()).decode().strip() != _DONE:
            raise MeasurementError("the process of the other client has ended")


@asynccontextmanager
async def other_client(gateway: str, api_key: str) -> AsyncIterator[Neighbour]:
    """Provide another client whose collection has some documents. Raises MeasurementError."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", __name__, stdin=PIPE, stdout=PIPE)
    try:
        neighbour = Neighbour(process)
        await neighbour.tell({"gateway": gateway, "api_key": api_key})
        yield neighbour
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _obey() -> None:
    connection = json.loads(sys.stdin.readline())
    async with prepared_load([connection["gateway"]], connection["api_key"], _COLLECTION) as load:
        print(_DONE, flush=True)
        while clients := await asyncio.to_thread(sys.stdin.readline):
            async with load.running(**json.loads(clients)):
                print(_DONE, flush=True)
                await asyncio.to_thread(sys.stdin.readline)
            load.asked.clear()
            print(_DONE, flush=True)


if __name__ == "__main__":
    asyncio.run(_obey())
