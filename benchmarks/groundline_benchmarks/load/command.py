"""groundline bench load"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import click
from groundline_cli.commands.gateway import json_option
from groundline_cli.connection import Connection
from groundline_cli.terminal import print_columns, print_json

from groundline_benchmarks.chat.provider import Provider, serving_provider
from groundline_benchmarks.load.arrivals import Ramp
from groundline_benchmarks.load.benchmark import LoadBench
from groundline_benchmarks.load.figures import LoadFigures
from groundline_benchmarks.load.page import page_of
from groundline_benchmarks.load.requests import KINDS, prepared_requests
from groundline_benchmarks.load.tables import notes, tables
from groundline_benchmarks.measuring.databases import database_option, suite_database
from groundline_benchmarks.measuring.options import number
from groundline_benchmarks.measuring.running import Report, run
from groundline_benchmarks.measuring.suite import Suite, started_suite, working_directory

_INVALID_EXIT_CODE: Final = 1


class _Rate(click.ParamType[tuple[float, float]]):
    """A rate, or two with dots between."""

    name = "rate"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, float]:
        try:
            first, last = map(float, (f"{value}..{value}" if ".." not in value else value).split(".."))
        except ValueError:
            self.fail(f"{value!r} is not a rate such as 20, nor a ramp such as 5..50", param, ctx)
        if not 0 < min(first, last) <= max(first, last) < float("inf"):
            self.fail(f"{value!r}: rates are above 0", param, ctx)
        return first, last


class _Mix(click.ParamType[dict[str, float]]):
    """Weights of kinds of requests."""

    name = "mix"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> dict[str, float]:
        mix: dict[str, float] = {}
        for part in value.split(","):
            kind, _, weight = part.partition("=")
            if kind not in KINDS or kind in mix:
                self.fail(f"{kind!r} is not one of {', '.join(KINDS)}, or is there twice", param, ctx)
            try:
                mix[kind] = float(weight or 1)
            except ValueError:
                self.fail(f"{part!r}: the weight is not a number", param, ctx)
            if not 0 < mix[kind] < float("inf"):
                self.fail(f"{part!r}: weights are above 0", param, ctx)
        return mix


RATE: Final = _Rate()


@click.command(short_help="Measure an open load of mixed requests.")
@click.option(
    "--rate",
    type=RATE,
    default="5..50",
    show_default=True,
    metavar="FROM..TO",
    help="Requests a second: a ramp, or one steady rate.",
)
@number("--over", 60.0, "Length of the ramp, in seconds.", minimum=0)
@click.option(
    "--mix",
    type=_Mix(),
    default="search=8,answer=1,chat=1",
    show_default=True,
    metavar="KIND=WEIGHT,…",
    help=f"Kinds of requests: {', '.join(KINDS)}.",
)
@number("--within", 1.0, "Seconds within which 99 % are answered while the load holds.", minimum=0)
@number("--documents", 200, "Documents of 150 words to ask for.")
@number("--seed", 1, "Seed of the arrivals; the same one gives the same.")
@click.option("--url", metavar="URL", help="A gateway at hand. Default: a suite started for this.")
@click.option(
    "--api-key",
    envvar="GROUNDLINE_API_KEY",
    show_envvar=True,
    metavar="KEY",
    help="Key to --url. The environment hides it from other users of this machine.",
)
@number("--replicas", 1, "Replicas of each service of the suite.")
@number("--tokens", 0, "Tokens of an answer by a model of 100 a second; 0: no model.", minimum=0)
@number("--cost-seconds", 10, "How long each kind is sent alone; 0: not at all.", minimum=0)
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="File for the report.")
@database_option
@json_option
def load(
    rate: tuple[float, float],
    over: float,
    mix: dict[str, float],
    within: float,
    documents: int,
    seed: int,
    url: str | None,
    api_key: str | None,
    replicas: int,
    tokens: int,
    cost_seconds: int,
    html: Path | None,
    database_url: str | None,
    as_json: bool,
) -> None:
    """Send requests as a Poisson process, each at its time whatever the others do, and find the rate up to
    which the suite holds.

    A duration counts from the time when its request was due, so a server that stalls shows it. Requests
    that are refused with a time to try again are counted apart from errors. In a suite of its own each kind
    is also sent alone first, at the ramp's first rate, to see what processor time it takes of each process.

    With --url a collection `bench-load` is made there and deleted afterwards. Exits with 1 if the sender
    itself was late, which makes the figures invalid.
    """
    if url is not None and not api_key:
        raise click.UsageError("--url takes a key to that gateway: set GROUNDLINE_API_KEY")
    bench = LoadBench(
        ramp=Ramp(*rate, over),
        mix=mix,
        within=within,
        cost_seconds=cost_seconds,
        seed=seed,
    )

    async def measure(report: Report) -> LoadFigures:
        if url is not None:
            async with prepared_requests(
                Connection(url.rstrip("/"), api_key or ""), documents, report
            ) as requests:
                return await bench.run(requests, report)
        report("starting a suite")
        async with (
            _suite(database_url, replicas, tokens) as suite,
            prepared_requests(suite.connection, documents, report) as requests,
        ):
            return await bench.run_suite(suite, requests, report)

    figures = run(measure)
    if as_json:
        print_json(figures.as_json())
    else:
        _print(figures)
    if html is not None:
        html.write_text(page_of(figures), encoding="utf-8")
    if not figures.is_valid:
        raise SystemExit(_INVALID_EXIT_CODE)


@asynccontextmanager
async def _suite(database_url: str | None, replicas: int, tokens: int) -> AsyncIterator[Suite]:
    with working_directory(None) as directory:
        async with AsyncExitStack() as stack:
            environment = {**await stack.enter_async_context(suite_database(database_url))}
            if tokens:
                provider = await stack.enter_async_context(serving_provider(Provider(tokens=tokens)))
                environment |= provider.environment
            yield await stack.enter_async_context(started_suite(directory, environment, replicas=replicas))


def _print(figures: LoadFigures) -> None:
    for title, headings, rows in tables(figures):
        click.echo(f"{title}:")
        print_columns([heading.upper() for heading in headings], rows)
        click.echo()
    for note in notes(figures):
        click.echo(note)
