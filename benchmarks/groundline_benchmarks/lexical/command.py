"""groundline bench lexical"""

from dataclasses import asdict

import click
from groundline_cli.commands.gateway import json_option
from groundline_cli.terminal import print_columns, print_json

from groundline_benchmarks.lexical.benchmark import (
    CLIENTS,
    LIMIT,
    EngineFigures,
    measure_engines,
)
from groundline_benchmarks.measuring.databases import database_option, database_server
from groundline_benchmarks.measuring.options import number
from groundline_benchmarks.measuring.running import Report, run
from groundline_benchmarks.measuring.suite import working_directory


@click.command()
@number("--chunks", 20_000, "Chunks of 150 words to index.", minimum=100)
@database_option
@json_option
def lexical(chunks: int, database_url: str | None, as_json: bool) -> None:
    """Measure the keyword engines of a server: latency, throughput, inserts and size of the index.

    Each in a database of its own that is dropped at the end, once as live inserts leave the index and once
    after a build.
    """

    async def measure(report: Report) -> list[EngineFigures]:
        with working_directory(None) as directory:
            async with database_server(database_url, directory / "postgres") as databases:
                return await measure_engines(databases, chunks, report)

    figures = run(measure)
    if as_json:
        print_json({"chunks": chunks, "engines": [asdict(one) for one in figures]})
        return
    click.echo(f"{chunks} chunks, the best {LIMIT}, {CLIENTS} connections for throughput")
    print_columns(
        ("ENGINE", "INDEX", "p50 ms", "p95 ms", "SEARCHES/S", "CHUNKS/S", "MIB"),
        [
            (one.name, state, index.p50_ms, index.p95_ms, index.per_second, index.rows_per_second, index.mib)
            for one in figures
            for state, index in (("live", one.live), ("built", one.built))
        ],
    )
