import asyncio
import importlib
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from groundline_runtime.channels import open_channel
from groundline_runtime.serving.server import Application
from groundline_runtime.settings import ServiceSettings
from groundline_tests.runtime import serve

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the modules compiled from probe.proto are."""
    from grpc_tools import protoc

    directory = tmp_path_factory.mktemp("probe")
    arguments = [f"-I{HERE}", f"--python_out={directory}", f"--grpc_python_out={directory}", "probe.proto"]
    assert protoc.main(["protoc", *arguments]) == 0
    return directory


@pytest.fixture(scope="session")
def probe(generated: Path) -> Iterator[SimpleNamespace]:
    """The probe service's messages, stub and servicer."""
    sys.path[:0] = [str(HERE), str(generated)]
    messages, stubs = importlib.import_module("probe_pb2"), importlib.import_module("probe_pb2_grpc")
    servicer = importlib.import_module("probe_servicer")
    yield SimpleNamespace(
        Ask=messages.Ask,
        Answer=messages.Answer,
        Stub=stubs.ProbeServiceStub,
        Servicer=servicer.ProbeServicer,
        application=servicer.application,
        SERVICE=servicer.SERVICE,
    )
    sys.path[:2] = []


type Reach = Callable[..., AbstractAsyncContextManager[Any]]


@pytest.fixture
def reach(probe: SimpleNamespace) -> Reach:
    """Serve a probe with the given behaviour on a real port and yield a stub for it."""

    @asynccontextmanager
    async def reach(
        settings: ServiceSettings | None = None,
        readiness: dict[str, Callable[[], Awaitable[None]]] | None = None,
        **behaviour: Any,
    ) -> AsyncIterator[Any]:
        served: Application = probe.application(probe.Servicer(**behaviour), **(readiness or {}))
        async with serve(served, settings) as target, open_channel(target, service=probe.SERVICE) as channel:
            yield probe.Stub(channel)

    return reach


@dataclass
class Process:
    """A running probe process and the log events it has written so far."""

    process: asyncio.subprocess.Process
    events: list[dict[str, Any]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    async def event(self, name: str) -> dict[str, Any]:
        """Return the next event of that name."""
        assert self.process.stdout is not None
        while line := (await self.process.stdout.readline()).decode():
            self.lines.append(line)
            if line.startswith("{"):
                self.events.append(json.loads(line))
                if self.events[-1]["event"] == name:
                    return self.events[-1]
        raise AssertionError(f"the process ended without {name}: {''.join(self.lines)}")

    async def finish(self) -> tuple[int, str, str]:
        """Exit code, all of stdout, all of stderr."""
        rest, errors = await self.process.communicate()
        return self.process.returncode or 0, "".join(self.lines) + rest.decode(), errors.decode()


type Start = Callable[..., Awaitable[Process]]


@pytest.fixture
async def start(generated: Path) -> AsyncIterator[Start]:
    """Start probe processes; keyword arguments are settings. Whatever still runs is killed afterwards."""
    async with AsyncExitStack() as stack:

        async def start(*arguments: str, **settings: object) -> Process:
            environment = {
                name: value for name, value in os.environ.items() if not name.startswith("GROUNDLINE_")
            }
            environment |= {
                f"GROUNDLINE_PROBE_{name.upper()}": str(value) for name, value in settings.items()
            }
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                str(HERE / "probe_process.py"),
                str(generated),
                *arguments,
                env=environment,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            stack.push_async_callback(_end, process)
            return Process(process)

        yield start


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.kill()
        await process.communicate()
