"""Services installed as their images install them, and run as their entry points do."""

import asyncio
import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grpc
import project
from groundline_embedding import EmbeddingSettings, prepare_model
from grpc_health.v1 import health_pb2, health_pb2_grpc
from hatchling.builders.wheel import WheelBuilder
from install import UV, install
from service_requirements import ROOT, directory, hashed, needs

PROGRAMS: Final = tuple(name for name in project.SERVICES if name != "gateway")
SERVICES: Final = tuple(name for name in PROGRAMS if name != "bridge")
"""Services that speak gRPC."""
START_SECONDS: Final = 120
INSTALLED: Final = Path(sysconfig.get_path("purelib"))


def _run(*command: str | Path, folder: Path | None = None) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr


def install_wheels(python: Path, *wheels: Path) -> None:
    """Install wheels without their dependencies and without an index in another environment."""
    assert install(python, "--no-index", "--no-deps", *wheels) == 0


class Installation:
    """Virtual environments of the services, made when first asked for, two at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._wheels = folder / "wheels"
        for package in {path for service in PROGRAMS for path in needs(directory(service))[0]}:
            list(WheelBuilder(str(package)).build(directory=str(self._wheels)))
        self._bytecode = list(INSTALLED.rglob("__pycache__"))
        self._threads = ThreadPoolExecutor(2)
        self._made: dict[str, Future[Path]] = {
            service: self._threads.submit(self._install, service) for service in PROGRAMS
        }

    async def python(self, service: str) -> Path:
        """Return the interpreter of the service's environment."""
        return await asyncio.wrap_future(self._made[service])

    def close(self) -> None:
        self._threads.shutdown(cancel_futures=True)

    def _link_bytecode(self, folder: Path) -> None:
        """Link others' bytecode, which an image has, too, from this environment; Python does not take it for
        another file."""
        there = next(folder.glob("lib/python3.*/site-packages"))
        for code in self._bytecode:
            place = there / code.relative_to(INSTALLED)
            if place.parent.is_dir() and not place.exists():
                place.symlink_to(code)

    def _install(self, service: str) -> Path:
        folder = self._folder / service
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
        python = folder / "bin" / "python"
        requirements = self._folder / f"{service}.txt"
        requirements.write_text(hashed(service))
        # Most of it is in uv's cache, which `make setup` has filled.
        assert install(python, "--require-hashes", "--no-deps", "-r", requirements) == 0
        own = [
            next(self._wheels.glob(f"groundline_{one.name}-*.whl")) for one in needs(directory(service))[0]
        ]
        install_wheels(python, *own)
        self._link_bytecode(folder)
        # The closure is complete: no installed package misses a dependency.
        _run(UV, "pip", "check", "--quiet", "--python", python)
        return python


@dataclass(slots=True)
class Running:
    """A started service."""

    process: asyncio.subprocess.Process
    target: str

    async def status(self, name: str) -> health_pb2.HealthCheckResponse.ServingStatus.ValueType:
        async with grpc.aio.insecure_channel(self.target) as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            response: health_pb2.HealthCheckResponse = await stub.Check(
                health_pb2.HealthCheckRequest(service=name), timeout=10
            )
            return response.status

    async def becomes(
        self, name: str, status: health_pb2.HealthCheckResponse.ServingStatus.ValueType
    ) -> None:
        """Wait until the health service says so."""
        async with grpc.aio.insecure_channel(self.target) as channel:
            watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(service=name))
            async for response in watch:
                if response.status == status:
                    watch.cancel()
                    return

    async def stopped(self) -> int:
        """Send SIGTERM and return the exit code."""
        if self.process.returncode is None:
            self.process.terminate()
        return await self.process.wait()


@asynccontextmanager
async def started(
    installation: Installation, service: str, folder: Path, **environment: str
) -> AsyncIterator[Running]:
    """Start the service as the image's entry point does, in nothing but the image's environment."""
    python = await installation.python(service)
    model = await asyncio.to_thread(prepare_model, EmbeddingSettings())
    log = folder / f"{service}.log"
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            python.parent / f"groundline-{service}",
            cwd=folder,
            env={**image_environment(), "GROUNDLINE_EMBEDDING__CACHE_DIR": str(model.parent), **environment},
            stdout=output,
            stderr=output,
        )
    try:
        async with asyncio.timeout(START_SECONDS):
            port = await _port(process, log)
        yield Running(process, f"127.0.0.1:{port}")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def image_environment() -> Mapping[str, str]:
    """Return ENV of services/Dockerfile, on a free port of loopback."""
    lines = (ROOT / "services/Dockerfile").read_text().replace("\\\n", " ").splitlines()
    [last] = [line for line in lines if line.startswith("ENV HOME")]
    values = dict(entry.split("=", 1) for entry in last.split()[1:])
    return {**values, "GROUNDLINE_HOST": "127.0.0.1", "GROUNDLINE_PORT": "0", "PATH": os.defpath}


async def _port(process: asyncio.subprocess.Process, log: Path) -> int:
    while True:
        logged = await asyncio.to_thread(log.read_text)
        for line in logged.splitlines():
            if '"service_started"' in line:
                return int(json.loads(line)["port"])
        assert process.returncode is None, logged
        await asyncio.sleep(0.05)


@dataclass(frozen=True, slots=True)
class Ended:
    """A program that has ended."""

    code: int
    err: str


async def run(*command: str | Path) -> Ended:
    """Run a program to its end, in an environment that has only what leaves bytecode as it is."""
    unchanged = {"PYTHONDONTWRITEBYTECODE": "1"}
    process = await asyncio.create_subprocess_exec(*command, env=unchanged, stderr=asyncio.subprocess.PIPE)
    _, err = await process.communicate()
    assert process.returncode is not None
    return Ended(process.returncode, err.decode())


type Ask = Callable[[grpc.aio.Channel], Coroutine[None, None, None]]


async def stop_under_load(running: Running, name: str, ask: Ask) -> tuple[int, int]:
    """Send SIGTERM while clients ask without pause; return the exit code and how many requests were answered.

    As behind a load balancer, a client sends no new request once the service says NOT_SERVING. A request that
    fails raises.
    """
    leaving = asyncio.Event()
    busy = asyncio.Event()
    answered = 0

    async def client() -> None:
        nonlocal answered
        async with grpc.aio.insecure_channel(running.target) as channel:
            while not leaving.is_set():
                await ask(channel)
                answered += 1
                if answered >= 20:
                    busy.set()

    async def watch() -> None:
        await running.becomes(name, health_pb2.HealthCheckResponse.NOT_SERVING)
        leaving.set()

    async with asyncio.TaskGroup() as clients:
        for _ in range(4):
            clients.create_task(client())
        await busy.wait()
        clients.create_task(watch())
        running.process.terminate()
    return await running.process.wait(), answered
