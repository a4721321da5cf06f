"""groundline bench retrieval"""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import click
from groundline_cli.commands.gateway import json_option
from groundline_cli.terminal import print_columns, print_json

from groundline_benchmarks.measuring.databases import database_option, suite_database
from groundline_benchmarks.measuring.goals import goals_as_json, print_goals
from groundline_benchmarks.measuring.load import Figures, services_to_postgres
from groundline_benchmarks.measuring.options import number
from groundline_benchmarks.measuring.running import Report, run
from groundline_benchmarks.measuring.suite import PROCESSES, started_suite, working_directory
from groundline_benchmarks.retrieval.benchmark import Result, goals, load, measure_collection
from groundline_benchmarks.retrieval.cases import CLIENTS, FLOOR, HYBRID
from groundline_benchmarks.retrieval.corpus import SMALL_COLLECTION_CHUNKS
from groundline_benchmarks.retrieval.small_collections import (
    ENVIRONMENT,
    LONE,
    SmallCollections,
    measure_small_collections,
    measure_start,
)
from groundline_benchmarks.retrieval.weaviate import (
    Fed,
    Nodes,
    nodes_here,
    suite_on_weaviate,
    weaviate_settings,
)

_HEADINGS: Final = ("CASE", "WAY", "P50 MS", "P95 MS", "PER SECOND")
_PROCESSOR_HEADINGS: Final = (
    "PROCESSOR MS OF ONE",
    "WAY",
    *(name.upper() for name in PROCESSES),
    "SERVICES / POSTGRES",
)


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
    "--collections",
    type=click.IntRange(min=1),
    help=f"Measure this many collections of {SMALL_COLLECTION_CHUNKS} chunks instead: creating "
    "them, searching one, some and all of them, memory, an idle suite, and its start.",
)
@click.option(
    "--search-index",
    type=click.Choice(["postgres", "weaviate"]),
    default="postgres",
    show_default=True,
    help="With weaviate, measure it beside PostgreSQL: GROUNDLINE_WEAVIATE__HTTP_URL and "
    "GROUNDLINE_WEAVIATE__GRPC_TARGET say where it runs.",
)
@number("--queries", 100, "Serial searches.")
@number("--seconds", 3.0, f"How long {CLIENTS} clients search at once, for each way and case.", minimum=0)
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep the database here, so that the next run finds it loaded. Default: it is removed.",
)
@database_option
@json_option
def retrieval(
    chunks: tuple[int, ...],
    collections: int | None,
    search_index: str,
    queries: int,
    seconds: float,
    data_dir: Path | None,
    database_url: str | None,
    as_json: bool,
) -> None:
    """Retrieval by mode: latency, throughput, processor time, memory.

    Starts a suite of its own. The texts (150 words that follow Zipf's law) and vectors (about 200 topics, 384
    dimensions) are made from a fixed seed, written by COPY, and indexed (BM25, HNSW) before anything is
    measured; 100,000 take two minutes, 1,000,000 about half an hour. Every query's vector is in the
    retriever's cache when it is measured, so the embedding model's time is not in the figures.

    The floor is the two SQL statements alone, issued at the same time on open connections; "with texts" adds
    the one that fetches the hits' texts. Behind one and two gRPC hops it is what any retriever, and any
    coordinator before it, would take at least: bare processes of the same kind, which neither check nor
    measure anything; their processor time stands under the services that they stand for. The ways take
    turns. Processor time is what the system counts for
    each process, PostgreSQL's backends included, while all clients search. Goals are set for 100,000 chunks;
    the one of filtered search for 10,000.

    Weaviate is fed by a second suite on the same database, whose retriever searches it, when everything is
    loaded. The nodes must keep their data where --data-dir is given.
    """

    if data_dir is not None and database_url is not None:
        raise click.UsageError("--data-dir keeps an embedded database: it does not go with --database-url")

    async def measure(report: Report) -> tuple[list[Result], Fed | None, Nodes | None]:
        weaviate = weaviate_settings() if search_index == "weaviate" else None
        with working_directory(data_dir) as directory:
            async with AsyncExitStack() as stack:
                environment = await stack.enter_async_context(suite_database(database_url))
                suite = await stack.enter_async_context(started_suite(directory, environment))
                client = await stack.enter_async_context(suite.connection.client())
                loaded = await load(client, suite.database_url, chunks, report)
                other = None
                if weaviate is not None:
                    is_kept = data_dir is not None
                    searching = suite_on_weaviate(
                        suite, directory / "weaviate", weaviate, report, is_kept=is_kept
                    )
                    other = await stack.enter_async_context(searching)
                results = [
                    await measure_collection(suite, count, load_seconds, queries, seconds, report, other)
                    for count, load_seconds in zip(chunks, loaded, strict=True)
                ]
                if other is None:
                    return results, None, None
                return results, other.fed, nodes_here(other.settings)

    async def measure_small(report: Report) -> tuple[SmallCollections, float]:
        assert collections is not None
        with working_directory(data_dir) as directory:
            async with suite_database(database_url) as database:
                environment = {**ENVIRONMENT, **database}
                async with (
                    started_suite(directory, environment) as suite,
                    suite.connection.client() as client,
                ):
                    measured = await measure_small_collections(
                        suite, client, collections, queries, seconds, report
                    )
                return measured, await measure_start(directory, environment, report)

    if collections is not None:
        small = run(measure_small)
        print_json(_small_as_json(*small)) if as_json else _print_small(*small)
        return
    results, fed, nodes = run(measure)
    if as_json:
        print_json([_as_json(result, fed, nodes) for result in results])
    else:
        for result in results:
            _print(result)
        if fed and nodes:
            click.echo(
                f"\nWeaviate: {_fed(fed)}; {nodes.count} nodes on this machine take "
                f"{nodes.memory_mib:.0f} MiB of memory and {nodes.disk_mib:.0f} of disk"
            )


def _print(result: Result) -> None:
    sizes = ", ".join(f"{name} {size:.0f}" for name, size in result.sizes_mib.items())
    recalls = "; ".join(
        f"recall of {index}: " + ", ".join(f"{name} {share:.3f}" for name, share in of.items())
        for index, of in (("HNSW", result.recall), ("Weaviate", result.weaviate_recall))
        if of
    )
    click.echo(
        f"\n{result.chunks} chunks, {_loaded(result.load_seconds)}; MiB: {sizes}; the retriever has taken "
        f"{result.retriever_rss_mib:.0f} MiB at most so far, PostgreSQL takes {result.postgres_mib:.0f}; "
        f"{recalls}\n"
    )
    rows = []
    for (case, way), one in result.figures.items():
        floor = result.figures.get((case, FLOOR), result.of(HYBRID, FLOOR))
        row = _row(case, way, one)
        rows.append((*row, one.p50 / floor.p50, one.per_second / floor.per_second))
    print_columns((*_HEADINGS, "P50 / FLOOR", "PER SECOND / FLOOR"), rows)
    click.echo()
    _print_processor_time(result.figures)
    print_goals(goals(result))


def _print_small(measured: SmallCollections, start_seconds: float) -> None:
    click.echo(
        f"\n{measured.collections} collections of {SMALL_COLLECTION_CHUNKS} chunks, "
        f"{_created(measured.created_per_second)}; a start on them takes {start_seconds:.1f} s\n"
    )
    print_columns(
        ("CASE", "SEARCHED", *_HEADINGS[2:], "P50 / LONE", "TRANSACTIONS OF ONE", "CONNECTIONS"),
        [
            (
                *_row(case, name, one),
                one.p50 / measured.figures[case, LONE].p50,
                measured.transactions[case, name],
                measured.connections[case, name],
            )
            for (case, name), one in measured.figures.items()
        ],
    )
    click.echo()
    _print_processor_time(measured.figures)
    click.echo()
    print_columns(("PROCESS", "MIB OF ITS OWN"), list(measured.memory_mib.items()))
    before, after = measured.idle
    click.echo(f"\nIdle: {before:.2%} of a core before they were created, {after:.2%} with them")
    print_goals(measured.goals(start_seconds))


def _row(case: str, way: str, one: Figures) -> tuple[object, ...]:
    return case, way, one.p50, one.p95, round(one.per_second)


def _print_processor_time(figures: Mapping[tuple[str, str], Figures]) -> None:
    print_columns(
        _PROCESSOR_HEADINGS,
        [
            (
                case,
                way,
                *(round(one.processor_ms[name], 2) for name in PROCESSES),
                services_to_postgres(one.processor_ms),
            )
            for (case, way), one in figures.items()
        ],
    )


def _created(per_second: float) -> str:
    return f"{per_second:.0f} created a second" if per_second else "created by an earlier run"


def _loaded(seconds: Mapping[str, float]) -> str:
    if not seconds:
        return "loaded by an earlier run"
    return ", ".join(f"{name} in {taken:.1f} s" for name, taken in seconds.items())


def _fed(fed: Fed) -> str:
    if not fed.chunks:
        return "fed by an earlier run"
    return f"{fed.chunks} chunks fed in {fed.seconds:.0f} s"


def _as_json(result: Result, fed: Fed | None, nodes: Nodes | None) -> dict[str, object]:
    """Return the figures for programs. Those of Weaviate cover all collections together."""
    on_weaviate: dict[str, object] = {}
    if fed and nodes:
        on_weaviate["weaviate"] = {
            "nodes": nodes.count,
            "memoryMib": nodes.memory_mib,
            "diskMib": nodes.disk_mib,
            "fedChunks": fed.chunks,
            "feedSeconds": fed.seconds,
            "recall": dict(result.weaviate_recall),
        }
    return {
        "chunks": result.chunks,
        "loadSeconds": dict(result.load_seconds),
        "sizesMib": dict(result.sizes_mib),
        "postgresMib": result.postgres_mib,
        "recall": dict(result.recall),
        "retrieverPeakRssMib": result.retriever_rss_mib,
        "figures": [
            {"case": case, "way": way, **_figures_as_json(one)} for (case, way), one in result.figures.items()
        ],
        "goals": goals_as_json(goals(result)),
        **on_weaviate,
    }


def _small_as_json(measured: SmallCollections, start_seconds: float) -> dict[str, object]:
    before, after = measured.idle
    return {
        "collections": measured.collections,
        "chunksOfEach": SMALL_COLLECTION_CHUNKS,
        "createdPerSecond": measured.created_per_second,
        "startSeconds": start_seconds,
        "figures": [
            {
                "case": case,
                "searched": name,
                **_figures_as_json(one),
                "transactions": measured.transactions[case, name],
                "connections": measured.connections[case, name],
            }
            for (case, name), one in measured.figures.items()
        ],
        "memoryMib": dict(measured.memory_mib),
        "idleCores": {"before": before, "after": after},
        "goals": goals_as_json(measured.goals(start_seconds)),
    }


def _figures_as_json(one: Figures) -> dict[str, object]:
    return {
        "p50Ms": one.p50,
        "p95Ms": one.p95,
        "perSecond": one.per_second,
        "processorMs": dict(one.processor_ms),
    }
