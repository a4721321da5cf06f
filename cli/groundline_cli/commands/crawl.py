"""groundline crawl"""

import click
from groundline_client import AsyncClient, JsonObject
from groundline_client.models import IngestionItem, IngestionJob

from groundline_cli import ingestion
from groundline_cli.commands.gateway import all_of, json_option, run, with_gateway
from groundline_cli.commands.ingest import (
    going_on,
    metadata_option,
    principals_option,
    print_report,
    progress_bar,
)
from groundline_cli.commands.manage import print_preview, watch_job
from groundline_cli.connection import Connection


@click.command(short_help="Put the pages of a web site into a collection.")
@click.argument("url")
@click.option("--collection", required=True, metavar="NAME", help="Collection to put the pages in.")
@click.option(
    "--max-pages",
    type=click.IntRange(1, 10_000),
    default=100,
    show_default=True,
    help="Maximum pages.",
)
@click.option(
    "--depth",
    type=click.IntRange(0, 20),
    default=3,
    show_default=True,
    help="Maximum links to follow from URL; 0 takes it alone.",
)
@click.option(
    "--include",
    multiple=True,
    metavar="PATTERN",
    help="Paths to take, such as '/docs/**'; * stands for anything within a part of a path, ** for anything. "
    "May be given several times. Default: all of the host.",
)
@click.option(
    "--exclude", multiple=True, metavar="PATTERN", help="Paths to leave out; may be given several times."
)
@click.option(
    "--delay",
    type=click.FloatRange(0, 60),
    metavar="SECONDS",
    help="Pause between two requests. Default: what robots.txt asks for, or 1.",
)
@metadata_option
@principals_option
@click.option("--create/--no-create", default=True, help="Whether to create the collection when missing.")
@click.option(
    "--watch/--detach",
    default=True,
    help="Wait until the pages are searchable, with a progress bar, or only begin.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Only list the pages and say which are new or have changed; nothing is taken in. The collection "
    "must exist.",
)
@json_option
@with_gateway
def crawl(
    connection: Connection,
    url: str,
    collection: str,
    max_pages: int,
    depth: int,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    delay: float | None,
    metadata: JsonObject | None,
    principals: tuple[str, ...],
    create: bool,
    watch: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Put the web page at URL and the pages of its host that it leads to into a collection.

    The ingestor fetches them, as robots.txt allows. Doing it again replaces what has changed and passes over
    what has not; pages that have gone from the site stay. Ctrl-C ends the waiting, not the crawl.

    Exit code 1: the crawl failed, or no page could be had. Single pages that fail are listed.
    """
    request: JsonObject = {
        "startUrl": url if "://" in url else f"https://{url}",
        "maxPages": max_pages,
        "maxDepth": depth,
        "includePaths": list(include),
        "excludePaths": list(exclude),
    }
    if metadata:
        request["metadata"] = metadata
    if principals:
        request["allowedPrincipals"] = list(principals)
    if delay is not None:
        request["delaySeconds"] = delay

    if dry_run:
        _preview(connection, request, collection, as_json=as_json)
        return

    async def work(client: AsyncClient) -> ingestion.IngestReport:
        with going_on(), progress_bar("crawling", "pages") as on_progress:
            return await ingestion.crawl_site(
                client, request, collection, create=create, on_progress=on_progress, wait=watch
            )

    report = run(connection, work)
    print_report(report, collection, watched=watch, as_json=as_json)
    if report.broke_off or (report.failures and len(report.failures) == report.ended):
        raise SystemExit(1)


def _preview(connection: Connection, request: JsonObject, collection: str, *, as_json: bool) -> None:
    """Print what would be done with each page; exit with code 1 if the crawl failed."""

    async def work(client: AsyncClient) -> tuple[IngestionJob, list[IngestionItem]]:
        response = await client.ingest_documents(collection, crawl=request, dry_run=True)
        job = await watch_job(client, (response.job or IngestionJob()).job_id)
        return job, await all_of(client.list_job_items(job.job_id))

    job, items = run(connection, work)
    print_preview(job, items, "PAGE", as_json=as_json)
