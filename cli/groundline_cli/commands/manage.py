"""groundline documents, delete, jobs and stats"""

import uuid
from collections.abc import AsyncIterator
from contextlib import aclosing

import click

from groundline_cli.client import GatewayClient, JsonObject
from groundline_cli.commands.gateway import json_object, json_option, run, with_gateway
from groundline_cli.commands.ingest import progress_bar
from groundline_cli.connection import Connection
from groundline_cli.ingestion import Progress
from groundline_cli.terminal import print_columns, print_json

__all__ = ["delete", "documents", "jobs", "print_job", "stats", "watch_job"]

_JOB_HEADINGS = ("JOB", "STATE", "COLLECTION", "DOCUMENTS", "DONE", "FAILED", "CREATED")
_STATS = (
    ("chunks", "chunkCount"),
    ("vectors", "vectorCount"),
    ("chunks without a document", "orphanCount"),
    ("bytes of documents", "documentBytes"),
    ("bytes of chunks", "textBytes"),
    ("bytes of table and indexes", "storageBytes"),
    ("tokens", "tokenCount"),
)


@click.command(short_help="List the documents of a collection.")
@click.argument("collection")
@json_option
@with_gateway
def documents(connection: Connection, collection: str, as_json: bool) -> None:
    """List the documents of COLLECTION."""
    found = run(connection, lambda client: _all(client.list_documents(collection)))
    if as_json:
        print_json({"documents": found})
        return
    rows = [
        (
            d.get("documentId", ""),
            _enum(d.get("state", "")),
            d.get("chunkCount", 0),
            d.get("uri", ""),
            d.get("title", ""),
        )
        for d in found
    ]
    print_columns(("DOCUMENT", "STATE", "CHUNKS", "URI", "TITLE"), rows)


@click.command(short_help="Delete a collection, or documents of it.")
@click.argument("collection")
@click.option("--document", metavar="ID", help="Delete only this document.")
@click.option(
    "--filter",
    "condition",
    metavar="JSON",
    callback=json_object,
    help="Delete only documents that it selects, as in `search`, such as "
    '\'{"$source_type": "web", "$update_time": {"$lt": "2024-01-31"}}\'.',
)
@click.option("--dry-run", is_flag=True, help="With --filter: only count them.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@with_gateway
def delete(
    connection: Connection,
    collection: str,
    document: str | None,
    condition: JsonObject | None,
    dry_run: bool,
    yes: bool,
) -> None:
    """Delete COLLECTION with all its documents, one of its documents, or those that a filter selects.

    Documents that the key may not read are not selected.
    """
    if document and condition is not None:
        raise click.UsageError("--document and --filter exclude each other")
    if dry_run and condition is None:
        raise click.UsageError("--dry-run needs --filter")
    if condition is not None:
        _delete_selected(connection, collection, condition, dry_run=dry_run, yes=yes)
        return
    what = (
        f"document {document} of {collection}"
        if document
        else f"collection {collection} with all its documents"
    )
    if not yes:
        click.confirm(f"Delete {what}?", abort=True)
    if document:
        run(connection, lambda client: client.delete_document(collection, document))
    else:
        run(connection, lambda client: client.delete_collection(collection))
    click.echo(f"deleted {what}")


def _delete_selected(
    connection: Connection, collection: str, condition: JsonObject, *, dry_run: bool, yes: bool
) -> None:
    request: JsonObject = {"filter": condition, "requestId": str(uuid.uuid4())}
    if dry_run or not yes:
        count = run(
            connection, lambda client: client.delete_documents(collection, request | {"dryRun": True})
        )
        if dry_run:
            click.echo(f"{_documents(count)} of {collection} would be deleted")
            return
        if count:
            click.confirm(f"Delete {_documents(count)} of {collection}?", abort=True)
    count = run(connection, lambda client: client.delete_documents(collection, request))
    click.echo(f"deleted {_documents(count)} of {collection}")


def _documents(count: int) -> str:
    return "1 document" if count == 1 else f"{count} documents"


@click.command(short_help="List, watch, cancel or retry ingestion jobs.")
@click.argument("job", required=False)
@click.option(
    "--limit", type=click.IntRange(1, 500), default=20, show_default=True, help="Maximum jobs to list."
)
@click.option("--watch", "action", flag_value="watch", help="Wait until JOB has ended, with a progress bar.")
@click.option("--cancel", "action", flag_value="cancel", help="Cancel what has not ended of JOB.")
@click.option(
    "--retry", "action", flag_value="retry", help="Queue what failed or was cancelled of JOB again."
)
@json_option
@with_gateway
def jobs(connection: Connection, job: str | None, limit: int, action: str | None, as_json: bool) -> None:
    """List the newest ingestion jobs, or the documents of JOB."""
    if action and job is None:
        raise click.UsageError(f"--{action} needs a JOB")
    if job is None:
        found = run(connection, lambda client: _all(client.list_jobs(limit=limit)))
        if as_json:
            print_json({"jobs": found})
        else:
            print_columns(_JOB_HEADINGS, [_job_row(entry) for entry in found])
    elif action:
        changed = run(connection, lambda client: _act(client, job, action))
        print_job(changed, as_json, must_be_done=action == "watch")
    else:
        items = run(connection, lambda client: _all(client.list_job_items(job)))
        if as_json:
            print_json({"items": items})
        else:
            headings = ("DOCUMENT", "STATE", "OUTCOME", "CHUNKS", "ATTEMPTS", "URI", "FAILURE")
            print_columns(headings, [_item_row(entry) for entry in items])


async def _act(client: GatewayClient, job_id: str, action: str) -> JsonObject:
    if action == "cancel":
        return await client.cancel_job(job_id)
    if action == "retry":
        return await client.retry_job(job_id)
    return await watch_job(client, job_id)


async def watch_job(client: GatewayClient, job_id: str) -> JsonObject:
    """The job when it has ended, after a progress bar."""
    job: JsonObject = {}
    with progress_bar() as show:
        async with aclosing(client.wait_for_job(job_id)) as states:
            async for job in states:
                ended = sum(job.get(f"{end}Count", 0) for end in ("done", "failed", "cancelled"))
                show(Progress(0, ended, job.get("itemCount", 0), job.get("chunks", {}).get("stored", 0)))
    return job


def print_job(job: JsonObject, as_json: bool, *, must_be_done: bool) -> None:
    """Print a job. With `must_be_done` one that has not reached its end with every document ends the command
    with exit code 1."""
    if as_json:
        print_json({"job": job})
    else:
        print_columns(_JOB_HEADINGS, [_job_row(job)])
    if must_be_done and job.get("state") != "JOB_STATE_DONE":
        raise SystemExit(1)


@click.command(short_help="Show what a collection holds.")
@click.argument("collection")
@json_option
@with_gateway
def stats(connection: Connection, collection: str, as_json: bool) -> None:
    """Show documents by state, chunks, vectors, bytes and tokens of COLLECTION.

    Exit code 1: there are chunks without a document, which no sound database has.
    """
    found = run(connection, lambda client: client.get_stats(collection))
    if as_json:
        print_json({"stats": found})
    else:
        rows: list[tuple[object, ...]] = [
            (f"documents {_enum(count.get('state', ''))}", count.get("documentCount", 0))
            for count in found.get("states", [])
        ]
        rows += [(label, int(found.get(name, 0))) for label, name in _STATS]
        rows.append(("vector index", _enum(found.get("vectorIndex", ""))))
        print_columns(("", "NUMBER"), rows)
    if found.get("orphanCount"):
        raise SystemExit(1)


def _job_row(job: JsonObject) -> tuple[object, ...]:
    return (
        job.get("jobId", ""),
        _enum(job.get("state", "")),
        job.get("collectionId", ""),
        job.get("itemCount", 0),
        job.get("doneCount", 0),
        job.get("failedCount", 0),
        job.get("createTime", ""),
    )


def _item_row(item: JsonObject) -> tuple[object, ...]:
    return (
        item.get("documentId", ""),
        _enum(item.get("state", "")),
        "crawl" if item.get("isCrawl") else _enum(item.get("outcome", "")),
        item.get("chunks", {}).get("stored", 0),
        item.get("attempts", 0),
        item.get("uri", ""),
        item.get("failure", {}).get("message", ""),
    )


def _enum(name: str) -> str:
    """The part of an enum value's name that is its own, in lower case."""
    for prefix in ("INGESTION_STATE_", "INGESTION_OUTCOME_", "JOB_STATE_", "VECTOR_INDEX_STATE_"):
        name = name.removeprefix(prefix)
    return name.lower()


async def _all(items: AsyncIterator[JsonObject]) -> list[JsonObject]:
    return [item async for item in items]
