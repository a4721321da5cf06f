"""groundline ingest"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from groundline_cli import ingestion
from groundline_cli.client import GatewayClient
from groundline_cli.commands.gateway import json_option, run, with_gateway
from groundline_cli.connection import Connection
from groundline_cli.terminal import print_json, printable

__all__ = [
    "ingest",
    "print_failures",
    "print_handed_in",
    "progress_bar",
    "report_json",
    "summary",
    "sync",
]


@click.command()
@click.argument(
    "paths", nargs=-1, required=True, metavar="PATH…", type=click.Path(exists=True, path_type=Path)
)
@click.option("--collection", required=True, metavar="NAME", help="Collection to put the documents in.")
@click.option("--create/--no-create", default=True, help="Whether to create the collection when missing.")
@click.option(
    "--watch/--detach",
    default=True,
    help="Wait until the documents are searchable, with a progress bar, or only hand them in.",
)
@json_option
@with_gateway
def ingest(
    connection: Connection,
    paths: tuple[Path, ...],
    collection: str,
    create: bool,
    watch: bool,
    as_json: bool,
) -> None:
    """Put Markdown and text files into a collection.

    A directory is taken with all below it, except hidden entries and other types of files. Each document is
    known by its path below the directory given, so doing it again replaces what has changed and passes over
    what has not.

    Exit code 1: a file could not be ingested; the others were.
    """

    async def work(client: GatewayClient) -> ingestion.IngestReport:
        with progress_bar() as on_progress:
            return await ingestion.ingest_paths(
                client, paths, collection, create=create, on_progress=on_progress, wait=watch
            )

    report = run(connection, work)
    print_failures(report)
    if as_json:
        print_json({"collection": collection, **report_json(report)})
    elif watch:
        click.echo(summary(report, collection))
    else:
        print_handed_in(report, collection)
    if report.failures:
        raise SystemExit(1)


@click.command()
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--collection", required=True, metavar="NAME", help="Collection to bring up to date.")
@click.option("--yes", is_flag=True, help="Do not ask before documents are deleted.")
@json_option
@with_gateway
def sync(connection: Connection, directory: Path, collection: str, yes: bool, as_json: bool) -> None:
    """Make a collection hold what DIRECTORY holds.

    As `ingest`, and documents whose files have vanished are deleted. Objects and web pages stay.

    Exit code 1: a file could not be ingested; the others were.
    """
    if not yes:
        click.confirm(f"Delete documents of {collection} that are not in {directory}?", abort=True)

    async def work(client: GatewayClient) -> ingestion.SyncReport:
        with progress_bar() as on_progress:
            return await ingestion.sync_directory(client, directory, collection, on_progress=on_progress)

    report = run(connection, work)
    print_failures(report.ingested)
    if as_json:
        print_json({"collection": collection, **report_json(report.ingested), "deleted": report.deleted})
    else:
        click.echo(f"{summary(report.ingested, collection)}; {len(report.deleted)} documents deleted")
    if report.ingested.failures:
        raise SystemExit(1)


def print_failures(report: ingestion.IngestReport) -> None:
    """A line on stderr for each document that could not be ingested."""
    for failure in report.failures:
        click.echo(
            f"{click.style('failed:', fg='red')} {_line(failure.name)}: {_line(failure.reason)}", err=True
        )


def print_handed_in(report: ingestion.IngestReport, collection: str) -> None:
    """What can be followed of documents that nobody waits for."""
    click.echo(f"{collection}: handed in; see groundline jobs")
    for job in report.jobs:
        click.echo(job)


def report_json(report: ingestion.IngestReport) -> dict[str, object]:
    """The report as JSON values."""
    return {
        "created": report.created,
        "updated": report.updated,
        "unchanged": report.unchanged,
        "chunks": report.chunks,
        "skipped": dict(report.skipped),
        "failed": [{"name": failure.name, "reason": failure.reason} for failure in report.failures],
        "jobs": report.jobs,
    }


@contextmanager
def progress_bar(
    doing: str = "ingesting", things: str = "documents"
) -> Iterator[Callable[[ingestion.Progress], None]]:
    """A bar on stderr, which moves as it is told; nothing where stderr is not a terminal."""
    console = Console(stderr=True)
    columns = (
        TextColumn(doing),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(f"{things}, {{task.fields[chunks]}} chunks"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(doing, total=None, chunks=0)

        def show(progress: ingestion.Progress) -> None:
            bar.update(task, completed=progress.documents, total=progress.total, chunks=progress.chunks)

        yield show


def summary(report: ingestion.IngestReport, collection: str) -> str:
    """The report on one line."""
    parts = [f"{report.created} new", f"{report.updated} changed", f"{report.unchanged} unchanged"]
    if report.failures:
        parts.append(f"{len(report.failures)} failed")
    if report.skipped:
        reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(report.skipped.items()))
        parts.append(f"{report.skipped.total()} skipped ({reasons})")
    return f"{collection}: {', '.join(parts)}; {report.chunks} chunks stored"


def _line(text: str) -> str:
    return printable(" ".join(text.split()))
