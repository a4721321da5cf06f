"""groundline import"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click
from groundline_indexing.imports.loading import discard as discard_import
from groundline_indexing.imports.loading import import_files
from groundline_indexing.imports.records import BatchResult, ImportFailedError, ImportProgress
from groundline_ingestor.settings import IngestorSettings
from groundline_runtime.errors import GroundlineError
from pydantic import SecretStr

from groundline_cli.commands.gateway import json_option, with_database
from groundline_cli.errors import CommandFailedError
from groundline_cli.interrupts import run_interruptible
from groundline_cli.terminal import print_json, printable

__all__ = ["import_"]

SHOWN_FAILURES: Final = 20
_PROGRESS_SECONDS: Final = 2.0


@click.command("import", short_help="Load files of records into a collection in bulk.")
@click.argument(
    "files", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE..."
)
@click.option("-c", "--collection", required=True, help="The collection, which must be there.")
@click.option(
    "--processes",
    type=click.IntRange(1, 64),
    default=lambda: os.cpu_count() or 1,
    show_default="one for each processor",
    help="Processes that read and prepare records.",
)
@click.option("--skip-invalid", is_flag=True, help="Leave out records that are wrong.")
@click.option("--discard", is_flag=True, help="Drop what an import has loaded that has not ended.")
@json_option
@with_database
def import_(
    database_url: str,
    files: tuple[Path, ...],
    collection: str,
    *,
    processes: int,
    skip_invalid: bool,
    discard: bool,
    as_json: bool,
) -> None:
    """Load records from FILEs of JSON Lines, or Parquet (*.parquet), into a collection.

    A record is a document: `text`, and if wanted `uri`, `title`, `mimeType`, `metadata`, `allowedPrincipals`.
    With a `vector` of the collection's model the text is one chunk; with `chunks`, a list of `text` and
    `vector`, in place of a text, these are its chunks. Without vectors it is cut and embedded here.

    Searches go on as before until all is loaded and indexed; then everything is there at once. Documents of
    the same uri are replaced, unless they change while the import runs; others stay. An import that was
    stopped or killed goes on when the same command is given again. Nothing changes while records are wrong:
    they are named, and after --skip-invalid left out.

    It works on the database itself: the keys of the gateway do not count, the ingestor's settings do. Exit
    status 1: records are wrong, or the import could not end.
    """
    settings = IngestorSettings(database_url=SecretStr(database_url))
    if discard == bool(files):
        raise click.UsageError("give FILEs, or --discard")
    try:
        if discard:
            dropped = run_interruptible(discard_import(settings, collection))
            if as_json:
                print_json({"discarded": dropped})
            else:
                click.echo(f"{collection}: {'dropped' if dropped else 'no import has begun'}")
            return
        begun = time.monotonic()
        with _progress() as show:
            result = run_interruptible(
                import_files(
                    settings,
                    collection,
                    files,
                    processes=processes,
                    skip_invalid=skip_invalid,
                    on_progress=show,
                )
            )
    except (ImportFailedError, GroundlineError) as error:
        raise CommandFailedError(getattr(error, "message", str(error))) from error
    except KeyboardInterrupt:
        raise CommandFailedError("stopped; give the same command again to go on") from None
    _report(collection, result, time.monotonic() - begun, skip_invalid=skip_invalid, as_json=as_json)
    if result.failures:
        raise SystemExit(1)


def _report(
    collection: str, result: BatchResult, seconds: float, *, skip_invalid: bool, as_json: bool
) -> None:
    is_switched = skip_invalid or not result.failures
    if as_json:
        print_json(
            {
                "collection": collection,
                "imported": is_switched,
                "documents": result.document_count,
                "added": result.added_count,
                "unchanged": result.unchanged_count,
                "chunks": result.chunk_count,
                "seconds": seconds,
                "failures": [dict(failure.as_json()) for failure in result.failures],
            }
        )
        return
    for failure in result.failures[:SHOWN_FAILURES]:
        click.echo(printable(str(failure)), err=True)
    if len(result.failures) > SHOWN_FAILURES:
        click.echo(f"and {len(result.failures) - SHOWN_FAILURES} more", err=True)
    replaced = result.document_count - result.added_count
    click.echo(
        f"{collection}: {result.added_count} new, {replaced} changed, {result.unchanged_count} unchanged; "
        f"{result.chunk_count} chunks {'imported' if is_switched else 'loaded'} in {seconds:.0f} s"
    )
    if not is_switched:
        click.echo(
            "nothing is changed yet: give the command again with --skip-invalid to leave these records out, "
            "or --discard to drop what is loaded",
            err=True,
        )


@contextmanager
def _progress() -> Iterator[Callable[[ImportProgress], None]]:
    """Show on stderr the stage, the progress and the estimated time left."""
    stage, begun, shown, first, first_chunks = "", 0.0, 0.0, 0, 0

    def show(progress: ImportProgress) -> None:
        nonlocal stage, begun, shown, first, first_chunks
        now = time.monotonic()
        if progress.stage != stage:
            stage, begun, shown = progress.stage, now, 0.0
            first, first_chunks = progress.done, progress.chunk_count
        elif now - shown < _PROGRESS_SECONDS:
            return
        shown = now
        parts = [progress.stage]
        if progress.total:
            parts.append(f"{progress.done / progress.total:.0%}")
        if progress.chunk_count > first_chunks:
            per_second = (progress.chunk_count - first_chunks) / (now - begun)
            parts.append(f"{progress.chunk_count} chunks, {per_second:.0f} a second")
        if first < progress.done < progress.total:
            left = (progress.total - progress.done) * (now - begun) / (progress.done - first)
            parts.append(f"{_duration(left)} left")
        click.echo(": ".join((parts[0], ", ".join(parts[1:]))) if parts[1:] else parts[0], err=True)

    yield show


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min" if minutes else f"{rest} s"
