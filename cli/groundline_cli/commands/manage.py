"""groundline documents, document, delete, jobs and stats"""

import json
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Final
from uuid import UUID

import click
from groundline_client import AsyncClient, JsonObject, to_json
from groundline_client.models import (
    Chunk,
    ChunkCounts,
    CollectionStats,
    Document,
    IngestionItem,
    IngestionJob,
    JobState,
    Quota,
    QuotaUsage,
)

from groundline_cli.commands.gateway import all_of, json_object, json_option, run, with_gateway
from groundline_cli.commands.ingest import progress_bar
from groundline_cli.connection import Connection
from groundline_cli.errors import CommandFailedError
from groundline_cli.ingestion import UploadProgress
from groundline_cli.terminal import print_columns, print_json, printable, shown_enum, shown_time

_JOB_HEADINGS: Final = ("JOB", "STATE", "COLLECTION", "DOCUMENTS", "DONE", "FAILED", "CREATED")
_SHOWN_CHARACTERS: Final = 60
_STATS: Final = (
    ("chunks", "chunk_count"),
    ("vectors", "vector_count"),
    ("chunks without a document", "orphan_count"),
    ("bytes of documents", "document_bytes"),
    ("bytes of chunks", "text_bytes"),
    ("bytes of table and indexes", "storage_bytes"),
    ("tokens", "token_count"),
)


_filter_option = partial(click.option, "--filter", "condition", metavar="JSON", callback=json_object)


@click.command(short_help="List the documents of a collection.")
@click.argument("collection")
@_filter_option(
    help="List only documents that it selects, as in `search`, such as "
    '\'{"$uri": {"$prefix": "handbook/"}, "$mime_type": "application/pdf"}\'.',
)
@click.option(
    "--order-by",
    metavar="FIELD",
    default="",
    help="uri (the default), title, mime_type, size_bytes, create_time or update_time; "
    "'update_time desc' begins with the highest.",
)
@click.option("--limit", type=click.IntRange(1), help="Maximum documents to list.")
@json_option
@with_gateway
def documents(
    connection: Connection,
    collection: str,
    condition: JsonObject | None,
    order_by: str,
    limit: int | None,
    as_json: bool,
) -> None:
    """List the documents of COLLECTION."""
    found = run(
        connection,
        lambda client: all_of(
            client.list_documents(collection, filter=condition, order_by=order_by, limit=limit)
        ),
    )
    if as_json:
        print_json({"documents": [to_json(one) for one in found]})
        return
    rows = [
        (
            d.document_id,
            shown_enum(d.state),
            d.chunk_count,
            d.mime_type,
            shown_time(d.update_time),
            d.uri,
            d.title,
        )
        for d in found
    ]
    print_columns(("DOCUMENT", "STATE", "CHUNKS", "TYPE", "UPDATED", "URI", "TITLE"), rows)


@click.command(short_help="Show a document, its text or its chunks.")
@click.argument("collection")
@click.argument("document")
@click.option("--text", "part", flag_value="text", help="Print the text that was extracted from it.")
@click.option("--revision", metavar="REVISION", help="With --text, --original, --picture: of this revision.")
@click.option("--chunks", "part", flag_value="chunks", help="List its chunks, with offsets and pages.")
@click.option(
    "--original",
    type=click.Path(dir_okay=False, writable=True, allow_dash=True, path_type=Path),
    metavar="FILE",
    help="Write it as it was handed in to FILE, - for standard output; its collection must keep originals "
    "(`update COLLECTION --keep-originals`).",
)
@click.option(
    "--picture",
    type=(click.IntRange(1), click.Path(dir_okay=False, writable=True, allow_dash=True, path_type=Path)),
    metavar="PAGE FILE",
    help="Write a picture of a page of a PDF or image, as PNG, to FILE, - for standard output; its "
    "collection must keep originals.",
)
@json_option
@with_gateway
def document(
    connection: Connection,
    collection: str,
    document: str,
    part: str | None,
    revision: str | None,
    original: Path | None,
    picture: tuple[int, Path] | None,
    as_json: bool,
) -> None:
    """Show a DOCUMENT of COLLECTION, by its id or its uri.

    Offsets count characters (code points) of the text that --text prints.
    """
    if (original or picture) and (part or as_json or (original and picture)):
        raise click.UsageError("--original and --picture exclude each other, --text, --chunks and --json")
    if revision and not (part == "text" or original or picture):
        raise click.UsageError("--revision needs --text, --original or --picture")
    found = run(connection, lambda client: find_document(client, collection, document))
    if original:
        run(connection, lambda client: _download(client, found, original, revision or ""))
        return
    if picture:
        run(connection, lambda client: _draw(client, found, *picture, revision or ""))
        return
    if part == "text":
        text = run(connection, lambda client: _whole_text(client, found, revision or ""))
        if as_json:
            print_json({"text": text})
        else:
            click.echo(printable(text))
    elif part == "chunks":
        chunks = run(connection, lambda client: all_of(client.list_chunks(collection, found.document_id)))
        if as_json:
            print_json({"chunks": [to_json(one) for one in chunks]})
        else:
            print_columns(("CHUNK", "FROM", "TO", "PAGE", "TEXT"), [_chunk_row(one) for one in chunks])
    elif as_json:
        print_json({"document": to_json(found)})
    else:
        print_columns(("", found.title), _document_rows(found))


async def find_document(client: AsyncClient, collection: str, document: str) -> Document:
    """Return a document by its id or its uri. Raises CommandFailedError."""
    try:
        return await client.get_document(collection, str(UUID(document)))
    except ValueError:
        pass
    found = await all_of(client.list_documents(collection, filter={"$uri": document}))
    if not found:
        raise CommandFailedError(f"{collection} has no document {document}")
    return found[0]


async def _draw(client: AsyncClient, document: Document, page: int, path: Path, revision: str) -> None:
    """Write a picture of a page to `path`."""
    picture = await client.get_document_page(
        document.collection_id, document.document_id, page, revision=revision
    )

    async def parts() -> AsyncGenerator[bytes]:
        yield picture

    await _write(parts(), path)


async def _download(client: AsyncClient, document: Document, path: Path, revision: str) -> None:
    """Write the original to `path`."""
    parts = client.download_document(document.collection_id, document.document_id, revision=revision)
    await _write(parts, path)


async def _write(parts: AsyncGenerator[bytes], path: Path) -> None:
    """Write the parts to `path`; delete the file if they do not come whole."""
    async with aclosing(parts):
        if path == Path("-"):
            async for part in parts:
                sys.stdout.buffer.write(part)
            return
        beside = path.with_name(f".{path.name}.part")
        try:
            with beside.open("wb") as file:
                async for part in parts:
                    file.write(part)
            beside.replace(path)
        except OSError as error:
            raise CommandFailedError(f"{path}: {error.strerror}") from error
        finally:
            beside.unlink(missing_ok=True)


async def _whole_text(client: AsyncClient, document: Document, revision: str) -> str:
    text = ""
    while True:
        part = await client.get_document_text(
            document.collection_id, document.document_id, start_offset=len(text), revision=revision
        )
        text += part.text
        if not part.text or part.end_offset >= part.character_count:
            return text


def _chunk_row(chunk: Chunk) -> tuple[object, ...]:
    metadata = chunk.metadata or {}
    pages = [str(metadata[name]) for name in ("page", "lastPage") if name in metadata]
    start = " ".join(chunk.text.split())[:_SHOWN_CHARACTERS]
    return chunk.chunk_id, chunk.start_offset, chunk.end_offset, "-".join(pages), start


def _document_rows(document: Document) -> list[tuple[object, ...]]:
    failure = document.failure.message if document.failure else ""
    rows: list[tuple[object, ...]] = [
        ("document", document.document_id),
        ("uri", document.uri),
        ("state", f"{shown_enum(document.state)} {failure}".rstrip()),
        ("source type", shown_enum(document.source_type)),
        ("MIME type", document.mime_type),
        ("bytes", document.size_bytes),
        ("chunks", document.chunk_count),
        ("original", "kept" if document.has_original else "not kept"),
        ("SHA-256", document.content_hash),
        ("revision", document.revision),
        ("created", shown_time(document.create_time)),
        ("updated", shown_time(document.update_time)),
    ]
    rows += [("read by", principal) for principal in document.allowed_principals]
    rows += [
        (f"metadata {name}", json.dumps(value, ensure_ascii=False))
        for name, value in (document.metadata or {}).items()
    ]
    return rows


@click.command(short_help="Delete a collection, or documents of it.")
@click.argument("collection")
@click.option("--document", metavar="ID", help="Delete only this document.")
@_filter_option(
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
    if dry_run or not yes:
        count = run(connection, lambda client: client.delete_documents(collection, condition, dry_run=True))
        if dry_run:
            click.echo(f"{_documents(count)} of {collection} would be deleted")
            return
        if count:
            click.confirm(f"Delete {_documents(count)} of {collection}?", abort=True)
    count = run(connection, lambda client: client.delete_documents(collection, condition))
    click.echo(f"deleted {_documents(count)} of {collection}")


def _documents(count: int) -> str:
    return "1 document" if count == 1 else f"{count} documents"


@click.command(short_help="List, watch, cancel, retry or swap in ingestion jobs.")
@click.argument("job", required=False)
@click.option(
    "--limit", type=click.IntRange(1, 500), default=20, show_default=True, help="Maximum jobs to list."
)
@click.option("--watch", "action", flag_value="watch", help="Wait until JOB has ended, with a progress bar.")
@click.option("--cancel", "action", flag_value="cancel", help="Cancel what has not ended of JOB.")
@click.option(
    "--retry", "action", flag_value="retry", help="Queue what failed or was cancelled of JOB again."
)
@click.option(
    "--swap", "action", flag_value="swap", help="Use the index that JOB, a re-index, holds back; wait for it."
)
@json_option
@with_gateway
def jobs(connection: Connection, job: str | None, limit: int, action: str | None, as_json: bool) -> None:
    """List the newest ingestion jobs, or the documents of JOB."""
    if action and job is None:
        raise click.UsageError(f"--{action} needs a JOB")
    if job is None:
        found = run(connection, lambda client: all_of(client.list_jobs(limit=limit)))
        if as_json:
            print_json({"jobs": [to_json(one) for one in found]})
        else:
            print_columns(_JOB_HEADINGS, [_job_row(entry) for entry in found])
    elif action:
        changed = run(connection, lambda client: _act(client, job, action))
        print_job(changed, as_json, must_be_done=action in ("watch", "swap"))
    else:
        items = run(connection, lambda client: all_of(client.list_job_items(job)))
        if as_json:
            print_json({"items": [to_json(one) for one in items]})
        else:
            headings = ("DOCUMENT", "STATE", "OUTCOME", "CHUNKS", "ATTEMPTS", "URI", "FAILURE")
            print_columns(headings, [_item_row(entry) for entry in items])


async def _act(client: AsyncClient, job_id: str, action: str) -> IngestionJob:
    if action == "cancel":
        return await client.cancel_job(job_id)
    if action == "retry":
        return await client.retry_job(job_id)
    if action == "swap":
        await client.swap_index(job_id)
    return await watch_job(client, job_id)


async def watch_job(
    client: AsyncClient, job_id: str, *, until: Callable[[IngestionJob], bool] = lambda _: False
) -> IngestionJob:
    """Return the job when it has ended, or is as it is waited for; show a progress bar until then."""
    job = IngestionJob(job_id=job_id)
    with progress_bar() as show:
        async with aclosing(client.watch_job(job_id)) as changes:
            async for change in changes:
                job = change.job or job
                ended = job.done_count + job.failed_count + job.cancelled_count
                show(UploadProgress(0, ended, job.item_count, (job.chunks or ChunkCounts()).stored))
                if until(job):
                    break
    return job


def print_job(job: IngestionJob, as_json: bool, *, must_be_done: bool) -> None:
    """Print a job. With `must_be_done`, exit with code 1 unless every document was ingested."""
    if as_json:
        print_json({"job": to_json(job)})
    else:
        print_columns(_JOB_HEADINGS, [_job_row(job)])
    if must_be_done and job.state != JobState.DONE:
        raise SystemExit(1)


@click.command(short_help="Show what a collection holds.")
@click.argument("collection")
@json_option
@with_gateway
def stats(connection: Connection, collection: str, as_json: bool) -> None:
    """Show documents by state, chunks, vectors, bytes and tokens of COLLECTION, and what is used of quotas.

    Exit code 1: there are chunks without a document, which no sound database has.
    """

    async def both(client: AsyncClient) -> tuple[CollectionStats, Sequence[QuotaUsage]]:
        return await client.get_collection_stats(collection), await client.get_quotas()

    found, of_caller = run(connection, both)
    if as_json:
        print_json({"stats": to_json(found), "quotas": [to_json(each) for each in of_caller]})
    else:
        rows: list[tuple[object, ...]] = [
            (f"documents {shown_enum(count.state)}", count.document_count) for count in found.states
        ]
        rows += [(label, int(getattr(found, name))) for label, name in _STATS]
        rows.append(("vector index", shown_enum(found.vector_index)))
        rows += [
            (f"quota of {shown_enum(each.quota)}", _shown_quota(each)) for each in (*found.quotas, *of_caller)
        ]
        print_columns(("", "NUMBER"), rows)
    if found.orphan_count:
        raise SystemExit(1)


def print_preview(job: IngestionJob, items: Sequence[IngestionItem], heading: str, *, as_json: bool) -> None:
    """Print what a dry run found; exit with code 1 if it did not finish."""
    found = [item for item in items if not item.is_crawl or item.failure]
    if as_json:
        print_json({"job": to_json(job), "items": [to_json(item) for item in found]})
    else:
        print_columns((heading, "WOULD BE"), [(item.uri, _would_be(item)) for item in found])
        counts = Counter("failed" if item.failure else shown_enum(item.outcome) for item in found)
        shown = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
        click.echo(f"{shown or 'nothing has changed'}; nothing is stored or deleted", err=True)
    if job.state != JobState.DONE:
        raise SystemExit(1)


def _would_be(item: IngestionItem) -> str:
    return f"failed: {item.failure.message}" if item.failure else shown_enum(item.outcome)


def _job_row(job: IngestionJob) -> tuple[object, ...]:
    return (
        job.job_id,
        "held" if job.is_held else shown_enum(job.state),
        job.collection_id,
        job.item_count,
        job.done_count,
        job.failed_count,
        shown_time(job.create_time),
    )


def _item_row(item: IngestionItem) -> tuple[object, ...]:
    return (
        item.document_id,
        shown_enum(item.state),
        "crawl" if item.is_crawl else shown_enum(item.outcome),
        (item.chunks or ChunkCounts()).stored,
        item.attempts,
        item.uri,
        item.failure.message if item.failure else _missing(item),
    )


def _missing(item: IngestionItem) -> str:
    count = item.undescribed_picture_count
    return f"{count} picture{'' if count == 1 else 's'} not described" if count else ""


def _shown_quota(usage: QuotaUsage) -> str:
    if usage.quota in (Quota.COST_DAY, Quota.COST_MONTH):
        return f"{usage.used:.2f} of {usage.limit:.2f} US dollars"
    return f"{int(usage.used)} of {int(usage.limit)}"
