"""groundline collections, documents, delete, jobs, stats and reindex"""

import uuid
from collections.abc import AsyncIterator
from contextlib import aclosing

import click

from groundline_cli.client import GatewayClient, JsonObject
from groundline_cli.commands.gateway import json_option, run, with_gateway
from groundline_cli.commands.ingest import progress_bar
from groundline_cli.connection import Connection
from groundline_cli.ingestion import Progress
from groundline_cli.terminal import print_columns, print_json

__all__ = ["collections", "delete", "documents", "jobs", "reindex", "stats"]

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


@click.command()
@json_option
@with_gateway
def collections(connection: Connection, as_json: bool) -> None:
    """List the collections that the key may read."""
    found = run(connection, lambda client: _all(client.list_collections()))
    if as_json:
        print_json({"collections": found})
        return
    rows = [
        (c.get("collectionId", ""), c.get("documentCount", 0), c.get("chunkCount", 0), c.get("name", ""))
        for c in found
    ]
    print_columns(("COLLECTION", "DOCUMENTS", "CHUNKS", "NAME"), rows)


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


@click.command(short_help="Delete a collection or a document.")
@click.argument("collection")
@click.option("--document", metavar="ID", help="Delete only this document.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@with_gateway
def delete(connection: Connection, collection: str, document: str | None, yes: bool) -> None:
    """Delete COLLECTION with all its documents, or one of its documents."""
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


@click.command(short_help="List, watch, cancel or retry ingestion jobs.")
@click.argument("job", required=False)
@click.option(
    "--limit", type=click.IntRange(1, 500), default=20, show_default=True, help="Most jobs to list."
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
        if as_json:
            print_json({"job": changed})
        else:
            print_columns(_JOB_HEADINGS, [_job_row(changed)])
        if action == "watch" and changed.get("state") != "JOB_STATE_DONE":
            raise SystemExit(1)
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
    job: JsonObject = {}
    with progress_bar() as show:
        async with aclosing(client.wait_for_job(job_id)) as states:
            async for job in states:
                ended = sum(job.get(f"{end}Count", 0) for end in ("done", "failed", "cancelled"))
                show(Progress(ended, job.get("itemCount", 0), job.get("chunks", {}).get("stored", 0)))
    return job


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


@click.command(short_help="Build a collection's index again.")
@click.argument("collection")
@click.option("--model", default="", help="Embedding model; it must be the running one.")
@click.option("--language", default="", help="Language of stemming and stop words, such as german.")
@click.option("--chunk-size", type=int, help="Most units in a chunk.")
@click.option("--chunk-overlap", type=int, help="Units that a chunk shares with the one before.")
@click.option("--watch/--detach", default=True, help="Wait until the new index is in use, or not.")
@json_option
@with_gateway
def reindex(
    connection: Connection,
    collection: str,
    model: str,
    language: str,
    chunk_size: int | None,
    chunk_overlap: int | None,
    watch: bool,
    as_json: bool,
) -> None:
    """Build the index of COLLECTION again, beside the one in use; queries go on meanwhile.

    What is not given stays as it is.
    """
    sizes = {"chunkSize": chunk_size, "chunkOverlap": chunk_overlap}
    chunking = {name: value for name, value in sizes.items() if value is not None}
    settings = {
        name: values
        for name, values in (
            ("embedding", {"model": model} if model else {}),
            ("lexical", {"language": language} if language else {}),
            ("chunking", chunking),
        )
        if values
    }
    request = {"settings": settings, "requestId": str(uuid.uuid4())}

    async def work(client: GatewayClient) -> JsonObject:
        job = await client.reindex_collection(collection, request)
        return await _act(client, job["jobId"], "watch") if watch else job

    job = run(connection, work)
    if as_json:
        print_json({"job": job})
    else:
        print_columns(_JOB_HEADINGS, [_job_row(job)])
    if watch and job.get("state") != "JOB_STATE_DONE":
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
        _enum(item.get("outcome", "")),
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
