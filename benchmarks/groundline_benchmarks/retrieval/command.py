"""groundline bench retrieval"""

import asyncio
import os
import tempfile
import time
from pathlib import Path

import click
from groundline_cli.client import GatewayClient
from groundline_cli.commands.gateway import CommandFailedError
from groundline_cli.connection import Connection
from groundline_cli.errors import GatewayError
from groundline_cli.stack.errors import StackError
from groundline_cli.stack.stack import Report, RunningStack, StackOptions, running_stack
from groundline_cli.terminal import print_columns, print_json

from groundline_benchmarks.retrieval.benchmark import (
    CASES,
    CLIENTS,
    Result,
    load,
    measure,
    open_ways,
    size_mib,
)

__all__ = ["retrieval"]

# The gateway's rate limit is not what is measured.
_UNLIMITED = "1000000000"


@click.command()
@click.option(
    "--chunks",
    type=click.IntRange(min=1),
    multiple=True,
    default=(10_000,),
    show_default=True,
    help="Chunks in the collection; may be given several times, from small to large.",
)
@click.option(
    "--queries", type=click.IntRange(min=1), default=100, show_default=True, help="Serial searches."
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=3.0,
    show_default=True,
    help=f"How long {CLIENTS} clients search at once, for each way and case.",
)
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep the database here, so that the next run finds it loaded. Default: it is removed.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON instead of tables.")
def retrieval(
    chunks: tuple[int, ...], queries: int, seconds: float, data_dir: Path | None, as_json: bool
) -> None:
    """Retrieval by mode: latency, throughput, memory.

    Starts a suite of its own. The texts (150 words that follow Zipf's law) and vectors (random, 384
    dimensions) are made from a fixed seed, written by COPY, and indexed (BM25, HNSW) before anything is
    measured; 100,000 take two minutes, 1,000,000 about half an hour. Every query's vector is in the
    retriever's cache when it is measured, so the embedding model's time is not in the figures.

    The floor is the two SQL statements alone, issued at the same time on open connections; "with texts" adds
    the one that fetches the hits' texts, which the other ways bring as well. The ways take turns.
    """
    os.environ["GROUNDLINE_GATEWAY_RATE_LIMIT_PER_MINUTE"] = _UNLIMITED
    os.environ["GROUNDLINE_GATEWAY_RATE_LIMIT_BURST"] = _UNLIMITED
    started = time.monotonic()

    def report(step: str) -> None:
        click.echo(f"{time.monotonic() - started:6.1f} s  {step}", err=True)

    async def work(directory: Path) -> list[Result]:
        environ = {name: value for name, value in os.environ.items() if name != "GROUNDLINE_DATABASE_URL"}
        options = StackOptions(data_dir=directory, gateway_port=0, environ=environ)
        async with running_stack(options, report) as stack:
            return [await _measured(stack, count, queries, seconds, report) for count in chunks]

    try:
        if data_dir is not None:
            results = asyncio.run(work(data_dir))
        else:
            with tempfile.TemporaryDirectory(prefix="groundline-bench-") as directory:
                results = asyncio.run(work(Path(directory) / "data"))
    except (StackError, GatewayError, RuntimeError) as error:
        raise CommandFailedError(str(error)) from error
    if as_json:
        print_json([_as_json(result) for result in results])
    else:
        for result in results:
            _print(result)


async def _measured(stack: RunningStack, count: int, queries: int, seconds: float, report: Report) -> Result:
    info, collection = stack.info, f"bench-{count}"
    async with GatewayClient(Connection(info.gateway, info.api_key)) as client:
        load_seconds = await load(client, info.database_url, collection, count)
        loaded_mib = await size_mib(info.database_url, collection)
        report(f"{count} chunks loaded, BM25 and HNSW indexes built: {loaded_mib:.0f} MiB")
        async with open_ways(info, client, collection, queries) as ways:
            return await measure(ways, count, load_seconds, loaded_mib, seconds=seconds, report=report)


def _print(result: Result) -> None:
    click.echo(
        f"\n{result.chunks} chunks ({result.loaded_mib:.0f} MiB with BM25 and HNSW index), "
        f"{_loaded(result.load_seconds)}; "
        f"the retriever has taken {result.retriever_rss_mib:.0f} MiB at most so far"
    )
    headings = ["CASE", "WAY", "P50 MS", "P95 MS", "P50 / FLOOR", "PER SECOND"]
    rows: list[list[object]] = []
    for case in CASES:
        floor = result.figures["floor", case.name].quantile(0.5)
        for (way, name), figures in result.figures.items():
            if name == case.name:
                half = figures.quantile(0.5)
                rows.append(
                    [case.name, way, half, figures.quantile(0.95), half / floor, round(figures.per_second)]
                )
    print_columns(headings, rows)


def _loaded(seconds: float) -> str:
    return f"loaded in {seconds:.0f} s" if seconds else "loaded by an earlier run"


def _as_json(result: Result) -> dict[str, object]:
    return {
        "chunks": result.chunks,
        "loadSeconds": result.load_seconds,
        "loadedMib": result.loaded_mib,
        "retrieverPeakRssMib": result.retriever_rss_mib,
        "figures": [
            {
                "case": case,
                "way": way,
                "p50Ms": figures.quantile(0.5),
                "p95Ms": figures.quantile(0.95),
                "perSecond": figures.per_second,
            }
            for (way, case), figures in result.figures.items()
        ],
    }
