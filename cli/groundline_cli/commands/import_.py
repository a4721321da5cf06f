"""groundline import"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import click
from groundline_client import GatewayError
from groundline_indexing.imports.loading import discard as discard_import
from groundline_indexing.imports.loading import import_files
from groundline_indexing.imports.records import BatchResult, ImportFailedError, ImportProgress
from groundline_ingestor.settings import IngestorSettings
from groundline_runtime.errors import GroundlineError
from pydantic import SecretStr

from groundline_cli.commands.gateway import gateway_of_database, json_option, with_database
from groundline_cli.commands.gating import Gate, GateOptions, gate_options
from groundline_cli.connection import Connection
from groundline_cli.errors import CommandFailedError
from groundline_cli.evaluation.sets import DatasetError
from groundline_cli.interrupts import run_interruptible
from groundline_cli.terminal import print_json, printable

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
@gate_options
@click.option(
    "--api-key",
    envvar="GROUNDLINE_API_KEY",
    show_envvar=True,
    metavar="KEY",
    help="With --gate: key to the gateway, which is asked.",
)
@json_option
@with_database
def import_(
    database_url: str,
    /,
    files: tuple[Path, ...],
    collection: str,
    *,
    processes: int,
    skip_invalid: bool,
    discard: bool,
    api_key: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Load records from FILEs of JSON Lines, or Parquet (*.parquet), into a collection.

    A record is a document: `text`, and if wanted `uri`, `title`, `mimeType`, `metadata`, `allowedPrincipals`.
    With a `vector` of the collection's model the text is one chunk; with `chunks`, a list of `text` and
    `vector`, in place of a text, these are its chunks. Without vectors it is cut and embedded here.

    Searches go on as before until all is loaded and indexed; then everything is there at once. Documents of
    the same uri are replaced, unless they change while the import runs; others stay. An import that was
    stopped or killed goes on when the same command is given again. Nothing changes while records are wrong:
    they are named, and after --skip-invalid left out.

    With --gate the collection is asked the questions of the set (see `eval`), by what it has and by what it
    would have. If a measure of the latter is worse by more than --max-drop, and not by chance (p below .05, a
    paired test), what was loaded is dropped, and the questions that became worse are named.

    It works on the database itself: the keys of the gateway do not count, the ingestor's settings do. Exit
    codes: 1 records are wrong, or the import could not end, 2 wrong usage, 5 significantly worse.
    """
    settings = IngestorSettings(database_url=SecretStr(database_url))
    gate_wanted = GateOptions.taken_from(options)
    if discard == bool(files) or (discard and gate_wanted):
        raise click.UsageError("give FILEs, or --discard alone")
    connection = gateway_of_database(api_key) if gate_wanted else None
    try:
        if discard:
            _discard(settings, collection, as_json=as_json)
            return
        gate = Gate(collection, gate_wanted) if gate_wanted else None
        begun = time.monotonic()
        with _progress() as show:
            loading = import_files(
                settings,
                collection,
                files,
                processes=processes,
                skip_invalid=skip_invalid,
                passes=partial(_passes, connection, gate) if connection and gate else None,
                on_progress=show,
            )
            result = run_interruptible(loading)
    except (ImportFailedError, GroundlineError, GatewayError, DatasetError) as error:
        raise CommandFailedError(getattr(error, "message", str(error))) from error
    except KeyboardInterrupt:
        raise CommandFailedError("stopped; give the same command again to go on") from None
    _report(collection, result, time.monotonic() - begun, gate, skip_invalid=skip_invalid, as_json=as_json)
    _end(result, gate)


def _end(result: BatchResult, gate: Gate | None) -> None:
    """End the command by an exit code that tells what is wrong, if anything is."""
    if gate is not None:
        gate.write_page()
        gate.require_passed()
    if result.failures:
        raise SystemExit(1)


def _discard(settings: IngestorSettings, collection: str, *, as_json: bool) -> None:
    dropped = run_interruptible(discard_import(settings, collection))
    if as_json:
        print_json({"discarded": dropped})
    else:
        click.echo(f"{collection}: {'dropped' if dropped else 'no import has begun'}")


async def _passes(connection: Connection, gate: Gate) -> bool:
    """Ask the gateway. Raises DatasetError, GatewayError."""
    async with connection.client() as client:
        # New documents are listed by now.
        return await gate.passes(client, await gate.load(client))


def _report(
    collection: str,
    result: BatchResult,
    seconds: float,
    gate: Gate | None,
    *,
    skip_invalid: bool,
    as_json: bool,
) -> None:
    is_worse = gate is not None and bool(gate.losses)
    is_switched = not is_worse and (skip_invalid or not result.failures)
    if as_json:
        print_json(
            {
                "collection": collection,
                "imported": is_switched,
                "job": result.job_id or None,
                **(gate.as_json() if gate else {}),
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
    if gate is not None:
        gate.print_comparison()
    replaced = result.document_count - result.added_count
    click.echo(
        f"{collection}: {result.added_count} new, {replaced} changed, {result.unchanged_count} unchanged; "
        f"{result.chunk_count} chunks {'imported' if is_switched else 'loaded'} in {seconds:.0f} s"
    )
    if result.job_id:
        click.echo(f"to take it back: groundline rollback --job {result.job_id}")
    if not is_switched and not is_worse:
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
