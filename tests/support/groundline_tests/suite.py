"""The whole suite as a user runs it: `groundline up` in a process of its own."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import psutil

from groundline_tests.commands.forked import Finished, run_forked
from groundline_tests.postgres import wait_for_no_disk

ROOT: Final = Path(__file__).resolve().parents[3]
EXAMPLES: Final = ROOT / "examples"
START_SECONDS: Final = 600.0
"""Patience with a start, which may install the viewer of traces."""
STOP_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Stack:
    """A running suite."""

    process: asyncio.subprocess.Process
    ready: Mapping[str, Any]
    data_dir: Path

    @property
    def environment(self) -> dict[str, str]:
        """Environment of commands that should find it."""
        return {
            **os.environ,
            "GROUNDLINE_GATEWAY_URL": self.ready["gateway"],
            "GROUNDLINE_API_KEY": self.ready["api_key"],
        }

    def client(self) -> httpx.AsyncClient:
        """Return an authenticated client of the gateway."""
        headers = {"x-api-key": self.ready["api_key"]}
        return httpx.AsyncClient(base_url=self.ready["gateway"], headers=headers, timeout=60, trust_env=False)

    async def command(self, *arguments: str) -> Finished:
        """Run `groundline ARGUMENTS…` against it."""
        return await run_forked(arguments, self.environment)

    async def stop(self) -> int:
        """Interrupt it as Ctrl-C does; return its exit code."""
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGINT)
        async with asyncio.timeout(STOP_SECONDS):
            return await self.process.wait()

    def living(self) -> list[str]:
        """Return the names of its children that still run."""
        return [name for name, pid in self.ready["pids"].items() if is_running(pid)]


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def delete_collection(client: httpx.AsyncClient, collection_id: str) -> None:
    """Delete a collection, also one that a test has put under a legal hold."""
    address = f"/api/collections/{collection_id}"
    for hold in (await client.get(f"{address}/holds?pageSize=1000")).json().get("holds", ()):
        held = [hold["documentId"]] if hold["documentId"] else []
        await client.post(f"{address}:hold", json={"documentIds": held, "reason": ""})
    await client.delete(address)


async def ended_job(client: httpx.AsyncClient, job_id: str) -> Mapping[str, Any]:
    """Watch the job as a client does, and return it when it has ended."""
    while True:
        async with client.stream("GET", f"/api/jobs/{job_id}:watch") as watched:
            assert watched.status_code == 200
            async for _ in watched.aiter_bytes():
                pass
        job: Mapping[str, Any] = (await client.get(f"/api/jobs/{job_id}")).json()["job"]
        if job["state"] not in ("JOB_STATE_QUEUED", "JOB_STATE_RUNNING"):
            return job


@asynccontextmanager
async def running_stack(data_dir: Path, *options: str, **environment: str) -> AsyncIterator[Stack]:
    """Run `groundline up OPTIONS…` on free ports; stop it at the end, in whatever state."""
    ready_file = data_dir.parent / f"{data_dir.name}.ready.json"
    log = data_dir.parent / f"{data_dir.name}.log"
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "groundline_cli",
            "up",
            *("--data-dir", str(data_dir), "--gateway-port", "0", "--ready-file", str(ready_file)),
            *options,
            env={**os.environ, **environment},
            stdout=output,
            stderr=output,
        )
    try:
        async with asyncio.timeout(START_SECONDS):
            while not ready_file.exists():
                assert process.returncode is None, log.read_text()
                await asyncio.sleep(0.05)
        stack = Stack(process, json.loads(ready_file.read_text()), data_dir)
        if "postgres" in stack.ready["pids"]:
            wait_for_no_disk(data_dir / "postgres", stack.ready["pids"]["postgres"])
        yield stack
        if process.returncode is None:
            assert await stack.stop() == 0, log.read_text()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
