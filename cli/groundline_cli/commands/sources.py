"""groundline sources"""

import json
import sys
from pathlib import Path
from typing import Any, Final

import click
from groundline_client import AsyncClient, JsonObject, to_json
from groundline_client.models import DocumentSource, IngestionItem, IngestionJob

from groundline_cli.commands.gateway import all_of, json_option, run, with_gateway
from groundline_cli.commands.manage import print_job, print_preview, watch_job
from groundline_cli.configuration import SOURCE_KINDS
from groundline_cli.connection import Connection
from groundline_cli.errors import CommandFailedError
from groundline_cli.terminal import print_columns, print_json, shown_enum, shown_time

_HEADINGS: Final = ("SOURCE", "NAME", "KIND", "DOCUMENTS", "LAST RUN", "BEGUN", "NEXT RUN")


@click.group(short_help="Directories, sites, feeds, mail, buckets, repositories and queries to follow.")
def sources() -> None:
    """Follow sources that documents of a collection come from.

    The ingestor reads a source when it is created, at its interval and on request: it ingests what is new or
    has changed, and deletes what has gone. Administrators of a collection manage its sources.
    """


@sources.command("create")
@click.argument("collection")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path))
@json_option
@with_gateway
def create_source(connection: Connection, collection: str, file: Path, as_json: bool) -> None:
    """Create the source of COLLECTION that FILE describes, in JSON; - is standard input.

    \b
      {
        "name": "handbook",
        "intervalSeconds": 3600,
        "includePaths": ["**.md"],
        "git": {"url": "https://git.example/handbook.git", "passwordSecret": "git-token"}
      }

    Instead of git: directory, s3, postgres, web, feed, imap or mbox, or what a plug-in reads:
    {"plugin": {"kind": "webdav", "settings": {…}}}. Secrets are named, and never given: the collector's
    operator puts them into its SECRETS_DIRECTORY.
    """
    described = _read(file)
    _print_source(run(connection, lambda client: client.create_source(collection, described)), as_json)


@sources.command("list")
@click.argument("collection")
@json_option
@with_gateway
def list_sources(connection: Connection, collection: str, as_json: bool) -> None:
    """List the sources of COLLECTION, with their last runs."""
    found = run(connection, lambda client: all_of(client.list_sources(collection)))
    if as_json:
        print_json({"sources": [to_json(one) for one in found]})
    else:
        print_columns(_HEADINGS, [_row(one) for one in found])


@sources.command("get")
@click.argument("collection")
@click.argument("source")
@with_gateway
def get_source(connection: Connection, collection: str, source: str) -> None:
    """Print a SOURCE of COLLECTION, by its id or its name, as JSON."""
    found = run(connection, lambda client: _find(client, collection, source))
    print_json({"source": to_json(found)})


@sources.command("update")
@click.argument("collection")
@click.argument("source")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path))
@json_option
@with_gateway
def update_source(connection: Connection, collection: str, source: str, file: Path, as_json: bool) -> None:
    """Change a SOURCE of COLLECTION, by its id or its name, to what FILE has, in JSON; - is standard input.

    \b
      {"intervalSeconds": 7200, "excludePaths": null}

    Fields that FILE does not have stay as they are; null takes one away. After other changes than of name and
    interval everything is read again.
    """
    changes = _read(file)

    async def work(client: AsyncClient) -> Any:
        found = await _find(client, collection, source)
        given = {name: value for name, value in changes.items() if value is not None}
        return await client.update_source(collection, found.source_id, given, update_mask=list(changes))

    _print_source(run(connection, work), as_json)


@sources.command("pause")
@click.argument("collection")
@click.argument("source")
@json_option
@with_gateway
def pause_source(connection: Connection, collection: str, source: str, as_json: bool) -> None:
    """Let a SOURCE of COLLECTION, by its id or its name, run only when it is asked to. `resume` ends that."""
    _print_source(run(connection, lambda client: _set_paused(client, collection, source, True)), as_json)


@sources.command("resume")
@click.argument("collection")
@click.argument("source")
@json_option
@with_gateway
def resume_source(connection: Connection, collection: str, source: str, as_json: bool) -> None:
    """Let a SOURCE of COLLECTION, by its id or its name, run at its interval again, and now."""
    _print_source(run(connection, lambda client: _set_paused(client, collection, source, False)), as_json)


@sources.command("run")
@click.argument("collection")
@click.argument("source")
@click.option("--full", is_flag=True, help="Read everything again, also what has not changed.")
@click.option(
    "--watch/--detach", default=True, help="Wait until its documents are searchable, or only begin."
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Only say what would be created, updated and deleted; nothing is stored, deleted or remembered.",
)
@json_option
@with_gateway
def run_source(
    connection: Connection,
    collection: str,
    source: str,
    full: bool,
    watch: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Run a SOURCE of COLLECTION, by its id or its name, now.

    `groundline jobs JOB` shows what failed. Exit code 1: the run was waited for and did not reach its end.
    """
    if dry_run:
        if full or not watch:
            raise click.UsageError("--dry-run goes with neither --full nor --detach")
        _preview(connection, collection, source, as_json=as_json)
        return

    async def work(client: AsyncClient) -> Any:
        found = await _find(client, collection, source)
        job = await client.run_source(collection, found.source_id, full=full)
        return await watch_job(client, job.job_id) if watch else job

    print_job(run(connection, work), as_json, must_be_done=watch)


def _preview(connection: Connection, collection: str, source: str, *, as_json: bool) -> None:
    async def work(client: AsyncClient) -> tuple[IngestionJob, list[IngestionItem]]:
        found = await _find(client, collection, source)
        job = await client.run_source(collection, found.source_id, dry_run=True)
        job = await watch_job(client, job.job_id)
        return job, await all_of(client.list_job_items(job.job_id))

    print_preview(*run(connection, work), "DOCUMENT", as_json=as_json)


@sources.command("delete")
@click.argument("collection")
@click.argument("source")
@click.option("--documents", is_flag=True, help="Delete the documents that it brought, too.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@with_gateway
def delete_source(connection: Connection, collection: str, source: str, documents: bool, yes: bool) -> None:
    """Delete a SOURCE of COLLECTION, by its id or its name. Its documents stay, unless --documents."""
    found = run(connection, lambda client: _find(client, collection, source))
    if not yes:
        also = f" and its {found.document_count} documents" if documents else ""
        click.confirm(f"Delete the source {found.name}{also}?", abort=True)
    run(
        connection,
        lambda client: client.delete_source(collection, found.source_id, delete_documents=documents),
    )
    click.echo(f"deleted {found.name}")


def _read(file: Path) -> JsonObject:
    text = sys.stdin.read() if str(file) == "-" else file.read_text("utf-8")
    try:
        described = json.loads(text)
    except ValueError as error:
        raise CommandFailedError(f"{file}: not JSON ({error})") from error
    if not isinstance(described, dict):
        raise CommandFailedError(
            f"{file}: must describe a source, as `groundline sources create --help` shows"
        )
    return described


async def _set_paused(client: AsyncClient, collection: str, source: str, is_paused: bool) -> DocumentSource:
    found = await _find(client, collection, source)
    return await client.update_source(collection, found.source_id, {"isPaused": is_paused})


async def _find(client: AsyncClient, collection: str, source: str) -> DocumentSource:
    found = [
        one for one in await all_of(client.list_sources(collection)) if source in (one.source_id, one.name)
    ]
    if not found:
        raise CommandFailedError(f"{collection} has no source {source}")
    return found[0]


def _print_source(source: DocumentSource, as_json: bool) -> None:
    if as_json:
        print_json({"source": to_json(source)})
    else:
        print_columns(_HEADINGS, [_row(source)])


def _row(source: DocumentSource) -> tuple[object, ...]:
    job = source.last_job
    return (
        source.source_id,
        source.name,
        next((kind for kind in SOURCE_KINDS if getattr(source, kind) is not None), ""),
        source.document_count,
        shown_enum(job.state) if job else "",
        shown_time(job.create_time) if job else "",
        "paused" if source.is_paused else shown_time(source.next_run_time) if source.next_run_time else "",
    )
