"""groundline restore"""

import json
import logging
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import click

from groundline_cli.backups.manifest import Manifest
from groundline_cli.backups.one_collection import restore_collection
from groundline_cli.backups.programs import OnProgress
from groundline_cli.backups.restoring import Restored
from groundline_cli.backups.restoring import restore as restore_all
from groundline_cli.commands.backup import ending_clearly, own_database, owner_url_option, report, showing
from groundline_cli.commands.gateway import json_option
from groundline_cli.connection import READY_FILE
from groundline_cli.errors import CommandFailedError
from groundline_cli.interrupts import run_interruptible
from groundline_cli.stack.postgres import EmbeddedPostgres
from groundline_cli.terminal import logging_from, printable


@click.command(short_help="Bring back a backup, or one collection of it.")
@click.argument("backup", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--check", is_flag=True, help="Only compare the backup's files with their checksums.")
@click.option(
    "--erasures",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Erase again what a list says was deleted for good after the backup: one by `groundline backup "
    "--only-erasures`, or `erasures.json` of a later backup.",
)
@click.option(
    "--collection", metavar="NAME", help="Bring back this collection alone, into a suite that runs."
)
@click.option("--as", "new_name", metavar="NAME", help="Name of the collection that is brought back.")
@click.option(
    "--with-erased",
    is_flag=True,
    help="With --collection: documents too that were deleted for good after the backup.",
)
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=READY_FILE.parent,
    show_default=True,
    help="Directory of the suite whose embedded database is restored, if no other database is set.",
)
@json_option
@owner_url_option
def restore(
    backup: Path,
    *,
    check: bool,
    erasures: Path | None,
    collection: str | None,
    new_name: str | None,
    with_erased: bool,
    data_dir: Path,
    as_json: bool,
    database_url: str | None,
) -> None:
    """Bring back the whole of BACKUP into an empty database, or with --collection one collection of it into a
    suite that runs.

    The database may be of another server and have another keyword engine. It is named by
    GROUNDLINE_DATABASE_URL; without it, it is the embedded one of --data-dir, which is started for it, while
    the suite is stopped. Tables of an older release are migrated. No model is called. After an interruption
    give the same command again.

    What was deleted for good after the backup comes back with it, unless --erasures says what that was.

    A collection comes back with its documents, their revisions, settings, readers and legal holds, all at
    once; without sources, jobs and conversations.
    """
    if (new_name or with_erased) and not collection:
        raise click.UsageError("--as and --with-erased need --collection")
    manifest = Manifest.of(backup)
    begun = time.monotonic()
    show = showing()
    # Progress takes the place of the log lines of the builders of indexes.
    with logging_from(logging.CRITICAL), ending_clearly("give the same command again"):
        show("comparing checksums")
        manifest.require_whole(backup)
        if check:
            report(as_json, {"whole": True}, f"{backup}: whole, of {manifest.create_time}")
        elif collection:
            url, name = own_database(database_url), new_name or collection
            found = run_interruptible(
                restore_collection(
                    url, backup, manifest, collection, name, with_erased=with_erased, on_progress=show
                )
            )
            report(
                as_json,
                {"collection": name, **found},
                f"{name}: {found['documents']} documents, {found['chunks']} chunks; left out, as deleted for "
                f"good: {found['erased']}",
            )
        else:
            ledger = _erasures_in(erasures)
            restored = run_interruptible(_restored(database_url, data_dir, backup, manifest, ledger, show))
            _report_all(
                restored, manifest, time.monotonic() - begun, has_ledger=bool(erasures), as_json=as_json
            )


def _erasures_in(file: Path | None) -> Sequence[Mapping[str, Any]]:
    try:
        found = json.loads(file.read_text(encoding="utf-8")) if file else []
    except ValueError:
        found = None
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise CommandFailedError(f"{file} is not a list of erasures")
    return found


async def _restored(
    url: str | None,
    data_dir: Path,
    backup: Path,
    manifest: Manifest,
    erasures: Sequence[Mapping[str, Any]],
    show: OnProgress,
) -> Restored:
    async with _database(url, data_dir) as target:
        return await restore_all(target, backup, manifest, erasures, show)


@asynccontextmanager
async def _database(url: str | None, data_dir: Path) -> AsyncIterator[str]:
    """Provide the database that is set, or the embedded one, which runs meanwhile."""
    if url:
        yield url
        return
    log = data_dir / "logs" / "postgres.log"
    async with EmbeddedPostgres(data_dir / "postgres", log_path=log) as server:
        yield server.dsn


def _report_all(
    restored: Restored, manifest: Manifest, seconds: float, has_ledger: bool, *, as_json: bool
) -> None:
    documents = sum(each["documents"] for each in manifest.collections.values())
    report(
        as_json,
        {
            "collections": len(manifest.collections),
            "documents": documents,
            "engine": restored.engine,
            "erased": restored.erased,
            "held": [{"collection": name, "document": document} for name, document in restored.held],
            "missingIndexes": restored.missing_indexes,
            "seconds": seconds,
        },
        f"restored as of {manifest.create_time} in {seconds:.0f} s: {len(manifest.collections)} collections, "
        f"{documents} documents, {restored.erased} of them erased again; keyword engine {restored.engine}",
    )
    if not has_ledger:
        _note("what was deleted for good after that time is back: see --erasures")
    for name, document in restored.held:
        what = f"the document {document} of {name}" if document else f"the collection {name}"
        _note(
            f"{what} was deleted for good, but the backup has a legal hold on it: release it, then delete it"
        )
    if restored.is_fed:
        _note("the distributed index is of another time: run `groundline-ingestor index verify`")
    if restored.missing_indexes:
        _note(f"{restored.missing_indexes} keyword indexes are missing: workers will try to build them")


def _note(text: str) -> None:
    click.echo(f"note: {printable(text)}", err=True)
