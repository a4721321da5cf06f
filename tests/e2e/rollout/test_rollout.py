"""Two versions of the retriever side by side under load: a good one takes over, and a bad one is taken back,
as deploy/roll-out does it with `groundline rollout-check`."""

import asyncio
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import httpx
import pytest
from groundline_tests.commands.forked import write_command
from groundline_tests.gateway.versions import BAD_RETRIEVER, gateway_to, version
from groundline_tests.suite import ROOT, Stack

SET: Final = ROOT / "evaluation" / "examples"
CLIENTS: Final = 4
PAUSE_SECONDS: Final = 0.1
"""Pause of a client between requests, in seconds; without it they take whatever the cores give."""


@dataclass
class Rollout:
    """A gateway that shares its requests between two versions, and the driver of the share."""

    public: str
    alone: str
    beside: str
    share: Path
    environment: dict[str, str]
    outcomes: Counter[str] = field(default_factory=Counter)
    """Numbers of the load's requests by outcome."""

    async def driven(self, *options: str, steps: str) -> tuple[int, str]:
        """Run deploy/roll-out to its end; return its exit code, and what it and the checks have printed."""
        groundline = self.share.with_name("groundline")
        write_command(groundline)
        process = await asyncio.create_subprocess_exec(
            str(ROOT / "deploy/roll-out"),
            str(self.share),
            *(groundline, "rollout-check", SET, "--collection", "examples"),
            *("--gateway", self.alone, "--beside", self.beside, "--rounds", "1", "--answers", "5"),
            *options,
            env={**self.environment, "STEPS": steps},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        printed, _ = await process.communicate()
        assert process.returncode is not None
        return process.returncode, printed.decode()

    async def further(self, requests: int) -> None:
        """Wait until the load has this number of outcomes more."""
        enough = self.outcomes.total() + requests
        while self.outcomes.total() < enough:  # noqa: ASYNC110
            await asyncio.sleep(0.05)

    @asynccontextmanager
    async def loaded(self, key: str) -> AsyncIterator[None]:
        """Search and ask while the body runs, without a retry."""
        headers = {"x-api-key": key}
        async with (
            httpx.AsyncClient(base_url=self.public, headers=headers, timeout=30, trust_env=False) as client,
            asyncio.TaskGroup() as group,
        ):
            tasks = [group.create_task(self._ask(client, number)) for number in range(CLIENTS)]
            yield
            for task in tasks:
                task.cancel()

    async def _ask(self, client: httpx.AsyncClient, number: int) -> None:
        path = "/api/answer" if number == 0 else "/api/search"
        while True:
            body = {"query": "What torque closes the hatch screws?", "collectionIds": ["examples"]}
            try:
                response = await client.post(path, json=body)
                outcome = "ok" if response.is_success else f"HTTP {response.status_code}"
            except httpx.TransportError as error:
                outcome = type(error).__name__
            self.outcomes[outcome] += 1
            await asyncio.sleep(PAUSE_SECONDS)


@asynccontextmanager
async def rolled_out(stack: Stack, directory: Path, *argv: str) -> AsyncIterator[Rollout]:
    """Run a second retriever and a coordinator that calls it, with a gateway to these alone, one to the
    suite's own alone, and one with a share."""
    share = directory / "share"
    share.write_text("0")
    async with AsyncExitStack() as running:
        retriever = await running.enter_async_context(version(stack, "retriever", directory, *argv))
        coordinator = await running.enter_async_context(
            version(stack, "coordinator", directory, retriever=retriever)
        )
        candidates = {"retriever": retriever, "coordinator": coordinator}
        shared = {
            "GROUNDLINE_GATEWAY_CANARY_ADDRESSES": str(candidates).replace("'", '"'),
            "GROUNDLINE_GATEWAY_CANARY_WEIGHT_FILE": str(share),
        }
        public, alone, beside = [
            await running.enter_async_context(gateway_to(stack, directory, settings, **addresses))
            for settings, addresses in ((shared, {}), ({}, candidates), ({}, {}))
        ]
        yield Rollout(public, alone, beside, share, stack.environment)


async def test_a_good_version_takes_over_and_no_request_fails(stack: Stack, tmp_path: Path) -> None:
    async with rolled_out(stack, tmp_path) as rollout, rollout.loaded(stack.ready["api_key"]):
        code, printed = await rollout.driven("--max-slowdown", "1000", steps="0 50 100")
        assert code == 0, printed
        assert rollout.share.read_text() == "100\n"
        # A change takes effect within two seconds; it could lose only the requests under way then.
        for share in ("0", "100", "50", "0"):
            rollout.share.write_text(share)
            await rollout.further(150)
    print(dict(rollout.outcomes))
    assert set(rollout.outcomes) == {"ok"}


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("wrong", "searches: R@10 fell from"),
        ("slow", "searches: 95 % came within"),
        ("crashing", "requests failed"),
    ],
)
async def test_a_bad_version_is_taken_back(stack: Stack, tmp_path: Path, fault: str, reason: str) -> None:
    argv = (sys.executable, BAD_RETRIEVER, fault)
    async with rolled_out(stack, tmp_path, *argv) as rollout, rollout.loaded(stack.ready["api_key"]):
        begun = time.monotonic()
        code, printed = await rollout.driven("--timeout", "40", steps="10 50 100")
        print(f"{fault}: {time.monotonic() - begun:.1f} s", printed)
        assert code == 1, printed
        assert reason in printed
        assert "50 %" not in printed
        assert rollout.share.read_text() == "0\n"
        print(dict(rollout.outcomes))
        async with asyncio.timeout(30):
            while set(rollout.outcomes) != {"ok"}:
                rollout.outcomes.clear()
                await rollout.further(60)
