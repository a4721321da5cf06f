"""groundline collections, documents, delete and jobs"""

from collections.abc import AsyncIterator

import click

from groundline_cli.client import JsonObject
from groundline_cli.commands.gateway import json_option, run, with_gateway
from groundline_cli.connection import Connection
from groundline_cli.terminal import print_columns, print_json

__all__ = ["collections", "delete", "documents", "jobs"]


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


@click.command(short_help="List ingestion jobs.")
@click.argument("job", required=False)
@click.option(
    "--limit", type=click.IntRange(1, 500), default=20, show_default=True, help="Most jobs to list."
)
@json_option
@with_gateway
def jobs(connection: Connection, job: str | None, limit: int, as_json: bool) -> None:
    """List the newest ingestion jobs, or the documents of JOB."""
    if job is None:
        found = run(connection, lambda client: _all(client.list_jobs(limit=limit)))
    else:
        found = run(connection, lambda client: _all(client.list_job_items(job)))
    if as_json:
        print_json({"jobs" if job is None else "items": found})
    elif job is None:
        headings = ("JOB", "STATE", "COLLECTION", "DOCUMENTS", "DONE", "FAILED", "CREATED")
        print_columns(headings, [_job_row(entry) for entry in found])
    else:
        print_columns(
            ("DOCUMENT", "STATE", "OUTCOME", "CHUNKS", "URI", "FAILURE"),
            [_item_row(entry) for entry in found],
        )


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
        item.get("uri", ""),
        item.get("failure", {}).get("message", ""),
    )


def _enum(name: str) -> str:
    """The part of an enum value's name that is its own, in lower case."""
    for prefix in ("INGESTION_STATE_", "INGESTION_OUTCOME_", "JOB_STATE_"):
        name = name.removeprefix(prefix)
    return name.lower()


async def _all(items: AsyncIterator[JsonObject]) -> list[JsonObject]:
    return [item async for item in items]
