"""A real Prometheus on loopback, which scrapes, records and alerts as it does in production.

What it scrapes and evaluates comes with the next interval: wait by `wait_for` and `wait_for_alert`.
"""

import asyncio
import os
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx
import yaml
from groundline_cli.stack.process import ChildProcess, Command
from groundline_tests.observability.programs import programs

START_SECONDS: Final = 60
STOP_SECONDS: Final = 20
WAIT_SECONDS: Final = 30
POLL_SECONDS: Final = 0.25

LISTENS: Final = re.compile(r'msg="Listening on" .*\baddress=(\S+)')
EVER: Final = {"start": "0", "end": "4102444800"}
"""Range of time that every exemplar is in: until the year 2100."""

type Labels = Mapping[str, str]


class Sample(NamedTuple):
    """A series of a query's result; a scalar has no labels."""

    labels: Labels
    value: float


@dataclass(frozen=True, slots=True)
class Exemplar:
    series: Labels
    labels: Labels
    value: float


@dataclass(frozen=True, slots=True)
class Alert:
    name: str
    state: str
    """State of an active alert: pending or firing."""
    labels: Labels
    annotations: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Target:
    job: str
    url: str
    health: str
    """Outcome of the last scrape: up, down, or unknown before the first."""
    error: str


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A running server. A request that it refuses fails the test with its reason."""

    url: str
    client: httpx.AsyncClient

    async def query(self, expr: str) -> list[Sample]:
        """Return the present value of each series that the expression selects."""
        data = await self._asked("/api/v1/query", query=expr)
        if data["resultType"] == "scalar":
            return [Sample({}, float(data["result"][1]))]
        assert data["resultType"] == "vector", f"{expr}: the result is a {data['resultType']}"
        return [Sample(each["metric"], float(each["value"][1])) for each in data["result"]]

    async def exemplars(self, expr: str) -> list[Exemplar]:
        """Return all exemplars of the series in the expression."""
        return [
            Exemplar(series["seriesLabels"], each["labels"], float(each["value"]))
            for series in await self._asked("/api/v1/query_exemplars", query=expr, **EVER)
            for each in series["exemplars"]
        ]

    async def alerts(self) -> list[Alert]:
        """Return the active alerts of all rules."""
        return [
            Alert(each["labels"]["alertname"], each["state"], each["labels"], each["annotations"])
            for each in (await self._asked("/api/v1/alerts"))["alerts"]
        ]

    async def targets(self) -> list[Target]:
        """Return every target, also those that are down."""
        return [
            Target(each["labels"]["job"], each["scrapeUrl"], each["health"], each["lastError"])
            for each in (await self._asked("/api/v1/targets", state="active"))["activeTargets"]
        ]

    async def wait_for(
        self, expr: str, holds: Callable[[list[Sample]], bool] = bool, *, seconds: float = WAIT_SECONDS
    ) -> list[Sample]:
        """Query until the predicate holds, by default until there is a series; return the result."""
        return await self._until(lambda: self.query(expr), holds, expr, seconds)

    async def wait_for_alert(
        self, name: str, state: str | None, *, seconds: float = WAIT_SECONDS
    ) -> list[Alert]:
        """Wait until an alert of this name is in the state, with None until none is active; return them."""

        async def named() -> list[Alert]:
            return [each for each in await self.alerts() if each.name == name]

        def holds(found: list[Alert]) -> bool:
            return any(each.state == state for each in found) if state else not found

        return await self._until(named, holds, f"alert {name} {state or 'resolved'}", seconds)

    async def _until[T](
        self, ask: Callable[[], Awaitable[T]], holds: Callable[[T], bool], what: str, seconds: float
    ) -> T:
        deadline = time.monotonic() + seconds
        while True:
            found = await ask()
            if holds(found):
                return found
            if time.monotonic() >= deadline:
                raise AssertionError(
                    f"{what}: not within {seconds} s; last: {found}; targets: {await self.targets()}"
                )
            await asyncio.sleep(POLL_SECONDS)

    async def _asked(self, path: str, **parameters: str) -> Any:
        answer = await self.client.get(path, params=parameters)
        assert answer.is_success, f"{path} {parameters}: {answer.status_code} {answer.text}"
        return answer.json()["data"]


@asynccontextmanager
async def running_prometheus(
    folder: Path,
    *,
    targets: Mapping[str, Sequence[str]] | Path,
    rules: Sequence[Path] = (),
    scrape_seconds: float = 1,
    evaluation_seconds: float = 1,
) -> AsyncIterator[Prometheus]:
    """Start Prometheus, which scrapes /metrics of each `host:port` of a job of `targets`, or of what a file
    of targets names; stop it at the end.

    The configuration, the series and the log are in `folder`; series of an earlier run are still there.
    """
    built = await asyncio.to_thread(programs)
    config = folder / "prometheus.yml"
    described = _configuration(targets, rules, scrape_seconds, evaluation_seconds)
    await asyncio.to_thread(config.write_text, described)
    arguments = (
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'data'}",
        # The system chooses the port, so that another server of the tests cannot have it.
        "--web.listen-address=127.0.0.1:0",
        "--enable-feature=exemplar-storage",
        # By default the first scrape comes after five seconds.
        "--scrape.discovery-reload-interval=100ms",
    )
    command = Command(
        "prometheus",
        (str(built / "bin/prometheus"), *arguments),
        dict(os.environ),
        grace_seconds=STOP_SECONDS,
    )
    # The kernel ends it if this process is killed.
    process = await ChildProcess.start(command, folder / "prometheus.log")
    try:
        async with asyncio.timeout(START_SECONDS):
            url = await _address(process)
            async with httpx.AsyncClient(base_url=url, trust_env=False) as client:
                await _ready(process, client)
        async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=WAIT_SECONDS) as client:
            yield Prometheus(url, client)
    finally:
        await process.stop()


def _configuration(
    targets: Mapping[str, Sequence[str]] | Path,
    rules: Sequence[Path],
    scrape_seconds: float,
    evaluation_seconds: float,
) -> str:
    scrape = _duration(scrape_seconds)
    return yaml.safe_dump(
        {
            "global": {
                "scrape_interval": scrape,
                # It may not be longer than the interval.
                "scrape_timeout": scrape,
                "evaluation_interval": _duration(evaluation_seconds),
                # Exemplars come in OpenMetrics alone.
                "scrape_protocols": ["OpenMetricsText1.0.0", "PrometheusText0.0.4"],
            },
            "rule_files": [str(path.absolute()) for path in rules],
            "scrape_configs": (
                [{"job_name": "groundline", "file_sd_configs": [{"files": [str(targets.absolute())]}]}]
                if isinstance(targets, Path)
                else [
                    {"job_name": job, "static_configs": [{"targets": list(addresses)}]}
                    for job, addresses in targets.items()
                ]
            ),
        }
    )


def _duration(seconds: float) -> str:
    return f"{round(seconds * 1000)}ms"


async def _address(process: ChildProcess) -> str:
    """Return the URL that the server listens at, once its log says so."""
    while not (listens := LISTENS.search(await asyncio.to_thread(process.log_path.read_text))):
        assert process.returncode is None, process.obituary()
        await asyncio.sleep(POLL_SECONDS)
    return f"http://{listens[1]}"


async def _ready(process: ChildProcess, client: httpx.AsyncClient) -> None:
    while True:
        assert process.returncode is None, process.obituary()
        with suppress(httpx.TransportError):
            if (await client.get("/-/ready")).is_success:
                return
        await asyncio.sleep(POLL_SECONDS)
