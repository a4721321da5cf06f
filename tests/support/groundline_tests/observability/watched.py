"""A suite that a real Prometheus watches with the rules of deploy/observability, a minute as a second."""

import asyncio
import json
import re
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx
import psutil
import yaml
from groundline_tests.generator.providers import OpenAIWire, ProviderServer, Reply, Request
from groundline_tests.observability.prometheus import Prometheus, running_prometheus
from groundline_tests.runtime import OtlpCollector
from groundline_tests.suite import EXAMPLES, ROOT, Stack, running_stack

RULES: Final = ROOT / "deploy/observability/rules"
WIRE: Final = OpenAIWire()
SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
FASTER: Final = 60
"""Factor by which the rules' durations are shorter: a minute is a second."""
FASTER_YET: Final = {"GroundlineSpendingJumped": 12 * FASTER}
"""Factor of those that look back for days: an hour is five seconds, a week 14 minutes."""

PAUSE_SECONDS: Final = 0.2
PATIENCE_SECONDS: Final = 20.0
"""Time after which a request of the load is given up, in seconds."""

ALERT_SECONDS: Final = 180
"""Maximum time until an alert fires, or is gone, in seconds."""

AGES: Final = ("groundline_ingestion_oldest_seconds", "groundline_search_index_lag_seconds")
"""Metrics whose limits are durations too."""

_DURATION: Final = re.compile(r"(\d+)([smhd])")
_RANGES: Final = re.compile(r"\[[^\]]+\]|offset \w+")


@dataclass(slots=True)
class Watched:
    """A running suite, its model and its Prometheus."""

    stack: Stack
    client: httpx.AsyncClient
    model: ProviderServer
    prometheus: Prometheus
    reply: Reply = field(default_factory=lambda: WIRE.answer("The torque is 12 Nm [1]."))
    """Answer of the model."""

    async def ask(self, **fields: Any) -> httpx.Response:
        """Ask what the examples answer plainly; a weak search would ask the model for a rewriting, too."""
        query = "How many days of annual leave does a full-time employee in Galway have?"
        return await self._post("/api/chat", {"query": query, "collectionIds": ["examples"], **fields})

    async def search(self, collection: str = "examples", **fields: Any) -> httpx.Response:
        return await self._post(
            "/api/search", {"query": "deployment", "collectionIds": [collection], **fields}
        )

    async def _post(self, path: str, body: dict[str, Any]) -> httpx.Response:
        return await self.client.post(path, json=body)

    @asynccontextmanager
    async def going_on(self, *works: Any, side_by_side: int = 1) -> AsyncIterator[None]:
        """Repeat the requests until the block ends, whether they succeed or fail."""

        async def repeat(work: Any) -> None:
            while True:
                with suppress(httpx.HTTPError, TimeoutError):
                    async with asyncio.timeout(PATIENCE_SECONDS):
                        await work()
                await asyncio.sleep(PAUSE_SECONDS)

        tasks = [asyncio.create_task(repeat(work)) for work in works for _ in range(side_by_side)]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    @contextmanager
    def hanging(self, service: str) -> Iterator[None]:
        """Let a service hang for the block."""
        process = psutil.Process(self.stack.ready["pids"][service])
        process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            process.send_signal(signal.SIGCONT)

    def respond(self, request: Request) -> Reply:
        return self.reply


def _ringing(name: str) -> str:
    """Return the query of an alert; of an objective's two the one that pages, the other lasts for days."""
    return f'ALERTS{{alertname="{name}", alertstate="firing", sloth_severity!="ticket"}}'


async def firing(watched: Watched, *names: str) -> None:
    """Wait until all of the alerts fire."""
    for name in names:
        await watched.prometheus.wait_for(_ringing(name), seconds=ALERT_SECONDS)


async def silent(watched: Watched, *names: str) -> None:
    """Wait until none of the alerts fires."""
    for name in names:
        await watched.prometheus.wait_for(_ringing(name), lambda found: not found, seconds=ALERT_SECONDS)


@asynccontextmanager
async def fires_and_resolves(watched: Watched, *names: str) -> AsyncIterator[None]:
    """Expect the alerts to be silent before the block, which makes them fire, and after it."""
    await silent(watched, *names)
    yield
    await silent(watched, *names)


def quick_rules(path: Path, folder: Path) -> Path:
    """Write a file of rules with every duration shorter, and return its path."""
    document = yaml.safe_load(path.read_text())
    for group in document["groups"]:
        for rule in group["rules"]:
            quicker = partial(_quicker, FASTER_YET.get(rule.get("alert"), FASTER))
            rule["expr"] = _RANGES.sub(partial(_all_quicker, quicker), rule["expr"])
            if any(name in rule["expr"] for name in AGES):
                rule["expr"] = re.sub(r"> (\d+)", lambda found: f"> {int(found[1]) // FASTER}", rule["expr"])
            if "for" in rule:
                rule["for"] = _DURATION.sub(quicker, rule["for"])
    written = folder / path.name
    written.write_text(yaml.safe_dump(document))
    return written


def _quicker(factor: int, duration: re.Match[str]) -> str:
    return f"{int(duration[1]) * SECONDS[duration[2]] * 1000 // factor}ms"


def _all_quicker(quicker: Callable[[re.Match[str]], str], found: re.Match[str]) -> str:
    return _DURATION.sub(quicker, found[0])


@asynccontextmanager
async def watched_suite(folder: Path, **more: str) -> AsyncIterator[Watched]:
    """Run a suite, with more variables of its environment, and Prometheus."""
    async with AsyncExitStack() as stack:
        collector = await stack.enter_async_context(OtlpCollector())
        model = await stack.enter_async_context(ProviderServer())
        environment = {
            "GROUNDLINE_OTLP_ENDPOINT": collector.endpoint,
            "GROUNDLINE_GENERATOR_PROVIDER": "openai",
            "GROUNDLINE_GENERATOR_MODEL": "scripted",
            "GROUNDLINE_GENERATOR_PROVIDER_BASE_URL": WIRE.base_url(model),
            # A dollar for each token: few calls are a jump.
            "GROUNDLINE_GENERATOR_PRICES": json.dumps({"scripted": {"input_usd": 1e6, "output_usd": 1e6}}),
            "GROUNDLINE_GATEWAY_RATE_LIMIT_PER_MINUTE": "1000000",
            "GROUNDLINE_GATEWAY_RATE_LIMIT_BURST": "1000000",
            "GROUNDLINE_GATEWAY_MAX_CONCURRENT_REQUESTS": "10000",
            **more,
        }
        suite = await stack.enter_async_context(running_stack(folder / "data", "--metrics", **environment))
        ingested = await suite.command(
            "ingest", str(EXAMPLES), "--collection", "examples", "--exclude", "questions.json"
        )
        assert ingested.code == 0, ingested.err
        client = await stack.enter_async_context(suite.client())
        watching = folder / "prometheus"
        watching.mkdir()
        prometheus = await stack.enter_async_context(
            running_prometheus(
                watching,
                targets=suite.data_dir / "prometheus.json",
                rules=[quick_rules(path, watching) for path in sorted(RULES.glob("*.yaml"))],
                scrape_seconds=0.5,
                evaluation_seconds=0.5,
            )
        )
        watched = Watched(suite, client, model, prometheus)
        model.respond = watched.respond
        yield watched
