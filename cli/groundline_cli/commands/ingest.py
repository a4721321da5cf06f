"""groundline ingest and sync"""

import asyncio
import codecs
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click
from groundline_client import AsyncClient, JsonObject
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from groundline_cli import ingestion
from groundline_cli.commands.gateway import json_object, json_option, run, with_gateway
from groundline_cli.connection import Connection
from groundline_cli.files import Description, Failure
from groundline_cli.terminal import one_line, print_json

SOME_FAILED: Final = 4


class _SourcePath(click.Path):
    """A path that exists."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | os.PathLike[str]:
        if isinstance(value, str) and value.startswith(("http://", "https://")):
            self.fail("is not a path; for a web site use groundline crawl", param, ctx)
        return super().convert(value, param, ctx)


exclude_option = click.option(
    "--exclude",
    multiple=True,
    metavar="PATTERN",
    help="Files and directories to pass over below a directory, by path or name; * stands for anything. "
    "May be given several times.",
)


_SHOWN_NAMES: Final = 20


def _charset(_context: click.Context, _option: click.Parameter, value: str | None) -> str:
    if not value:
        return ""
    try:
        return codecs.lookup(value).name
    except LookupError:
        raise click.BadParameter(f"{value} is not a known charset, such as windows-1252") from None


metadata_option = click.option(
    "--metadata",
    metavar="JSON",
    callback=json_object,
    help='Metadata of every document, such as \'{"team": "people"}\'.',
)
principals_option = click.option(
    "--principal",
    "principals",
    multiple=True,
    metavar="PRINCIPAL",
    help="Who alone may read the documents, such as group:staff; may be given several times. Default: "
    "whoever may read the collection.",
)
_charset_option = click.option(
    "--charset",
    metavar="NAME",
    callback=_charset,
    help="Charset of texts, such as windows-1252. Default: UTF-8, or what their bytes look like.",
)


def _described[F: Callable[..., Any]](command: F) -> F:
    """Add the options that describe every file."""
    return metadata_option(principals_option(_charset_option(command)))


@click.command(short_help="Put files into a collection.")
@click.argument(
    "paths", nargs=-1, required=True, metavar="PATH…", type=_SourcePath(exists=True, path_type=Path)
)
@click.option("--collection", required=True, metavar="NAME", help="Collection to put the documents in.")
@exclude_option
@click.option("--title", default="", help="Title of the document; for a single file.")
@_described
@click.option(
    "--create/--no-create",
    default=True,
    help="Whether to create the collection when missing, for the language of most texts and HTML files.",
)
@click.option(
    "--watch/--detach",
    default=True,
    help="Wait until the documents are searchable, with a progress bar, or only hand them in.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Only tell how many chunks there would be and how many tokens their contexts would take, where a "
    "language model writes them. The collection must exist.",
)
@json_option
@with_gateway
def ingest(
    connection: Connection,
    paths: tuple[Path, ...],
    collection: str,
    exclude: tuple[str, ...],
    title: str,
    metadata: JsonObject | None,
    principals: tuple[str, ...],
    charset: str,
    create: bool,
    watch: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Put files into a collection: PDF, office documents, HTML, Markdown, CSV, JSON, source code, any other
    text, books, mails, archives, and images, whose text is read.

    A directory is taken with all below it, except hidden entries, empty files, links to directories and what
    is none of these types, which is named. Each document is known by its path below the directory given, so
    doing it again replaces what has changed and passes over what has not. Attachments of a mail and members
    of an archive are documents of their own, such as mails/offer.eml!/prices.xlsx; those that cannot be read
    are named. A JSON file of records {"type": "object", "properties": {…}} gives a document for each.

    What is to be said of a single file stands beside it, in FILE.meta.json: an object with any of title,
    mimeType, metadata and allowedPrincipals.

    Exit code 4: a file could not be ingested, others were. 1: none was.
    """
    if title and not (len(paths) == 1 and paths[0].is_file()):
        raise click.UsageError("--title is for a single file")
    given = Description(title=title, metadata=metadata or {}, allowed_principals=principals, charset=charset)
    if dry_run:
        _estimate(connection, paths, collection, exclude, given, as_json=as_json)
        return

    async def work(client: AsyncClient) -> ingestion.IngestReport:
        with going_on(), progress_bar() as on_progress:
            return await ingestion.ingest_paths(
                client,
                paths,
                collection,
                exclude=exclude,
                given=given,
                create=create,
                on_progress=on_progress,
                wait=watch,
            )

    report = run(connection, work)
    _print_language(report, collection)
    print_report(report, collection, watched=watch, as_json=as_json)
    _exit(report, others=not watch and bool(report.jobs))


@click.command(short_help="Make a collection hold what a directory holds.")
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--collection", required=True, metavar="NAME", help="Collection to bring up to date.")
@exclude_option
@_described
@click.option("--dry-run", is_flag=True, help="Only say what would be deleted; nothing is changed.")
@click.option("--yes", is_flag=True, help="Do not ask before documents are deleted.")
@json_option
@with_gateway
def sync(
    connection: Connection,
    directory: Path,
    collection: str,
    exclude: tuple[str, ...],
    metadata: JsonObject | None,
    principals: tuple[str, ...],
    charset: str,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Make a collection hold what DIRECTORY holds.

    As `ingest`, and documents whose files have vanished are deleted, after they were named. Objects and web
    pages stay, and so do documents whose files are excluded or cannot be read.

    Exit code 4: a file could not be ingested, others were. 1: none was.
    """
    vanished = run(
        connection,
        lambda client: ingestion.vanished_documents(client, directory, collection, exclude=exclude),
    )
    uris = [document.uri for document in vanished]
    count = f"{len(vanished)} document{'' if len(vanished) == 1 else 's'}"
    if dry_run and as_json:
        print_json({"collection": collection, "wouldDelete": uris})
        return
    if dry_run or (vanished and not yes):
        _print_names(uris)
    if dry_run:
        click.echo(f"{count} of {collection} would be deleted")
        return
    if vanished and not yes:
        click.confirm(f"Delete {count} of {collection}, whose files are gone?", abort=True)
    given = Description(metadata=metadata or {}, allowed_principals=principals, charset=charset)

    async def work(client: AsyncClient) -> ingestion.IngestReport:
        with going_on(), progress_bar() as on_progress:
            report = await ingestion.ingest_paths(
                client, [directory], collection, exclude=exclude, given=given, on_progress=on_progress
            )
        for document in vanished:
            await client.delete_document(collection, document.document_id)
        return report

    report = run(connection, work)
    _print_language(report, collection)
    _print_failures(report)
    if as_json:
        print_json({"collection": collection, **_report_json(report), "deleted": uris})
    else:
        click.echo(f"{_summary(report, collection)}; {count} deleted")
    _exit(report)


def _print_language(report: ingestion.IngestReport, collection: str) -> None:
    if report.guessed_language:
        click.echo(
            f"{collection}: created for {report.guessed_language}, the language of most of its texts; "
            f"groundline reindex {collection} --language changes that",
            err=True,
        )


def _print_names(names: Sequence[str]) -> None:
    for name in names[:_SHOWN_NAMES]:
        click.echo(f"  {one_line(name)}", err=True)
    if len(names) > _SHOWN_NAMES:
        click.echo(f"  and {len(names) - _SHOWN_NAMES} more", err=True)


def _estimate(
    connection: Connection,
    paths: Sequence[Path],
    collection: str,
    exclude: Sequence[str],
    given: Description,
    *,
    as_json: bool,
) -> None:
    estimate = run(
        connection,
        lambda client: ingestion.estimate_paths(client, paths, collection, exclude=exclude, given=given),
    )
    _print_unsupported(estimate.unsupported)
    _print_failed(estimate.failures)
    if as_json:
        print_json(
            {
                "collection": collection,
                "documents": estimate.documents,
                "chunks": estimate.chunks,
                "promptTokens": estimate.prompt_tokens,
                "cachedTokens": estimate.cached_tokens,
                "outputTokens": estimate.output_tokens,
                "skipped": dict(estimate.skipped),
                "unsupported": estimate.unsupported,
                "failed": _failed_json(estimate.failures),
            }
        )
    else:
        skipped = f", {_skipped(estimate.skipped)}" if estimate.skipped else ""
        click.echo(
            f"{collection}: {estimate.documents} documents with {estimate.chunks} chunks{skipped}; "
            "nothing is stored"
        )
        click.echo(
            f"contexts by a language model: about {estimate.prompt_tokens} prompt tokens, of them "
            f"{estimate.cached_tokens} cached, {estimate.output_tokens} output tokens"
            if estimate.prompt_tokens
            else "no contexts are to be written by a language model"
        )
    if estimate.failures:
        raise SystemExit(SOME_FAILED if estimate.documents else 1)


def _exit(report: ingestion.IngestReport, *, others: bool = False) -> None:
    """Exit with the code for the report. `others`: whether documents were handed in without waiting for
    them."""
    if report.failures:
        raise SystemExit(SOME_FAILED if others or report.ended > len(report.failures) else 1)


def _print_failures(report: ingestion.IngestReport) -> None:
    """Print on stderr what was skipped, and a line for each document that could not be ingested."""
    _print_unsupported(report.unsupported)
    if report.unread:
        click.echo("skipped, within other documents:", err=True)
        _print_names([f"{one.name}: {one.reason}" for one in report.unread])
    _print_failed(report.failures)


def _print_unsupported(uris: Sequence[str]) -> None:
    if uris:
        click.echo("skipped, of an unsupported type:", err=True)
        _print_names(uris)


def _print_failed(failures: Sequence[Failure]) -> None:
    for failure in failures:
        name, reason = one_line(failure.name), one_line(failure.reason)
        click.echo(f"{click.style('failed:', fg='red')} {name}: {reason}", err=True)


def print_report(report: ingestion.IngestReport, collection: str, *, watched: bool, as_json: bool) -> None:
    """Print what failed, and what became of the others, or if they were not watched, their jobs."""
    _print_failures(report)
    if as_json:
        print_json({"collection": collection, **_report_json(report)})
    elif watched:
        click.echo(_summary(report, collection))
    else:
        click.echo(f"{collection}: handed in; see groundline jobs")
        for job in report.jobs:
            click.echo(job)


def _report_json(report: ingestion.IngestReport) -> dict[str, object]:
    """Return the report as JSON values."""
    return {
        "created": report.created,
        "updated": report.updated,
        "unchanged": report.unchanged,
        "chunks": report.chunks,
        "skipped": dict(report.skipped),
        "unsupported": report.unsupported,
        "unread": _failed_json(report.unread),
        "failed": _failed_json(report.failures),
        "jobs": report.jobs,
        **({"guessedLanguage": report.guessed_language} if report.guessed_language else {}),
    }


def _failed_json(failures: Sequence[Failure]) -> list[dict[str, str]]:
    return [{"name": failure.name, "reason": failure.reason} for failure in failures]


@contextmanager
def going_on() -> Iterator[None]:
    """Tell users who interrupt the wait that the work itself continues."""
    try:
        yield
    except asyncio.CancelledError:
        click.echo("what was handed in goes on; see groundline jobs", err=True)
        raise


@contextmanager
def progress_bar(
    doing: str = "ingesting", things: str = "documents"
) -> Iterator[Callable[[ingestion.UploadProgress], None]]:
    """Show a progress bar on stderr, or a line for each 5% if stderr is not a terminal of known size."""
    console = Console(stderr=True)
    if not console.is_terminal or console.is_dumb_terminal or not _has_size():
        shown = 0.0

        def tell(progress: ingestion.UploadProgress) -> None:
            nonlocal shown
            if progress.documents < progress.total and progress.documents >= shown + progress.total / 20:
                shown = progress.documents
                click.echo(
                    f"{doing}: {progress.documents} of {progress.total} {things}, {progress.chunks} chunks",
                    err=True,
                )

        yield tell
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[what]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        sending = bar.add_task("sending", total=None, what=things, visible=False)
        task = bar.add_task(doing, total=None, what=things)

        def show(progress: ingestion.UploadProgress) -> None:
            is_sent = progress.sent >= progress.total
            bar.update(
                sending,
                completed=progress.sent,
                total=progress.total,
                visible=progress.sent > 0 and not is_sent,
            )
            what = f"{things}, {progress.chunks} chunks"
            bar.update(task, completed=progress.documents, total=progress.total, what=what)

        yield show


def _has_size() -> bool:
    """Tell whether the terminal reports its size; without one, lines cannot be overwritten."""
    try:
        return 0 not in os.get_terminal_size(sys.stderr.fileno())
    except (OSError, ValueError):
        return False


def _summary(report: ingestion.IngestReport, collection: str) -> str:
    """Return the report on one line."""
    parts = [f"{report.created} new", f"{report.updated} changed", f"{report.unchanged} unchanged"]
    if report.failures:
        parts.append(f"{len(report.failures)} failed")
    skipped = report.skipped + Counter({"within other documents": len(report.unread)})
    if skipped:
        parts.append(_skipped(skipped))
    return f"{collection}: {', '.join(parts)}; {report.chunks} chunks stored"


def _skipped(skipped: Counter[str]) -> str:
    reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(skipped.items()))
    return f"{skipped.total()} skipped ({reasons})"
