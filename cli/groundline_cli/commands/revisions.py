"""groundline revisions"""

from dataclasses import replace
from typing import Final

import click
from groundline_client import AsyncClient, to_json
from groundline_client.models import (
    CompareRevisionsResponse,
    IngestionJob,
    JobState,
    RevertAction,
    RevertJobResponse,
    Revision,
    TextChange,
    TextFate,
)

from groundline_cli.commands.gateway import all_of, json_option, run, with_gateway
from groundline_cli.commands.manage import find_document, print_job, watch_job
from groundline_cli.connection import Connection
from groundline_cli.terminal import print_columns, print_json, printable, shown_time

_MARKS: Final = {TextChange.DELETED: ("[-", "-]"), TextChange.INSERTED: ("{+", "+}")}
_FATES: Final = {
    TextFate.SAME: "the text is the same",
    TextFate.MOVED: "the text stands elsewhere, as it was",
    TextFate.CHANGED: "the text has changed",
    TextFate.GONE: "the text is gone",
}


_ACTIONS: Final = {
    RevertAction.RESTORE: "put back",
    RevertAction.DELETE: "deleted",
    RevertAction.NONE: "as before",
    RevertAction.CHANGED_SINCE: "changed since, stays",
    RevertAction.NOT_KEPT: "not kept, stays",
    RevertAction.HELD: "held, stays",
}


@click.command(short_help="List the revisions of a document, or compare two.")
@click.argument("collection")
@click.argument("document")
@click.option("--compare", metavar="REVISION", help="Compare this revision with the one in use.")
@click.option(
    "--with", "other", metavar="REVISION", default="", help="With --compare: with this one instead."
)
@click.option(
    "--span",
    type=(click.IntRange(0), click.IntRange(1)),
    metavar="FROM TO",
    help="With --compare: what became of these characters, such as the offsets of an answer's source.",
)
@json_option
@with_gateway
def revisions(
    connection: Connection,
    collection: str,
    document: str,
    compare: str | None,
    other: str,
    span: tuple[int, int] | None,
    as_json: bool,
) -> None:
    """List the revisions of a DOCUMENT of COLLECTION, by its id or its uri: the one in use, and those that
    its collection keeps or answers cite.

    A collection keeps more of them by `update COLLECTION --settings '{"history": {"revisions": 10}}'`. The
    text of one is printed by `document --text --revision`. A comparison shows what only the first has as
    [-…-], what only the second has as {+…+}.
    """
    if compare is None and (other or span):
        raise click.UsageError("--with and --span need --compare")

    async def listed(client: AsyncClient) -> list[Revision]:
        found = await find_document(client, collection, document)
        return await all_of(client.list_revisions(collection, found.document_id))

    async def compared(client: AsyncClient) -> CompareRevisionsResponse:
        found = await find_document(client, collection, document)
        start, end = span or (0, 0)
        return await client.compare_revisions(
            collection,
            found.document_id,
            compare or "",
            other_revision=other,
            start_offset=start,
            end_offset=end,
        )

    if compare is not None:
        result = run(connection, compared)
        if as_json:
            print_json(to_json(result))
        else:
            _print(result)
        return
    kept = run(connection, listed)
    if as_json:
        print_json({"revisions": [to_json(one) for one in kept]})
        return
    rows = [
        (
            each.revision,
            shown_time(each.store_time),
            "in use" if each.is_current else shown_time(each.replace_time),
            each.size_bytes,
            each.provenance.stored_by if each.provenance else "",
            each.title,
        )
        for each in kept
    ]
    print_columns(("REVISION", "SINCE", "UNTIL", "BYTES", "BY", "TITLE"), rows)


@click.command(short_help="Put an earlier revision of a document back, or all that a job changed.")
@click.argument("collection", required=False)
@click.argument("document", required=False)
@click.argument("revision", required=False)
@click.option("--job", "job_id", metavar="ID", help="Take back what this job did, in place of a document.")
@click.option("--dry-run", is_flag=True, help="With --job: tell only what would be done.")
@click.option("--overwrite", is_flag=True, help="With --job: also documents that were changed again since.")
@click.option("--yes", is_flag=True, help="With --job: do not ask before documents are deleted.")
@click.option("--watch/--detach", default=True, help="Wait until it is done, or not.")
@json_option
@with_gateway
def rollback(
    connection: Connection,
    collection: str | None,
    document: str | None,
    revision: str | None,
    *,
    job_id: str | None,
    dry_run: bool,
    overwrite: bool,
    yes: bool,
    watch: bool,
    as_json: bool,
) -> None:
    """Put a REVISION of a DOCUMENT of COLLECTION in the place of the one in use.

    `revisions` lists what is kept, and compares first. Text, title, metadata, access and the original, where
    it is kept, are those of the revision.

    With --job, everything that a hand-in, a crawl, the run of a source, an import or another rollback did:
    documents that it changed get the revision that they had before, those that it created are deleted for
    good. What was changed again since stays as it is, and so does what the collection keeps no earlier
    revision of.
    """
    if job_id is not None and collection is None:
        _revert(
            connection, job_id, dry_run=dry_run, overwrite=overwrite, yes=yes, watch=watch, as_json=as_json
        )
        return
    if (
        job_id is not None
        or dry_run
        or overwrite
        or collection is None
        or document is None
        or revision is None
    ):
        raise click.UsageError("give COLLECTION DOCUMENT REVISION, or --job ID")
    _restore(connection, collection, document, revision, watch=watch, as_json=as_json)


def _restore(
    connection: Connection, collection: str, document: str, revision: str, *, watch: bool, as_json: bool
) -> None:
    async def work(client: AsyncClient) -> IngestionJob:
        found = await find_document(client, collection, document)
        response = await client.restore_revision(collection, found.document_id, revision)
        job = response.job or IngestionJob()
        return await watch_job(client, job.job_id) if watch else job

    print_job(run(connection, work), as_json, must_be_done=watch)


def _revert(
    connection: Connection,
    job_id: str,
    *,
    dry_run: bool,
    overwrite: bool,
    yes: bool,
    watch: bool,
    as_json: bool,
) -> None:
    plan = run(connection, lambda client: client.revert_job(job_id, dry_run=True, overwrite=overwrite))
    if dry_run:
        _print_reverted(plan, as_json)
        return
    deleted = sum(each.document_count for each in plan.counts if each.action == RevertAction.DELETE)
    if deleted and not yes:
        click.confirm(f"Delete the {deleted} documents that the job created?", abort=True, err=True)

    async def work(client: AsyncClient) -> tuple[RevertJobResponse, IngestionJob | None]:
        response = await client.revert_job(job_id, overwrite=overwrite)
        job = response.job
        return response, await watch_job(client, job.job_id) if job and watch else job

    response, job = run(connection, work)
    _print_reverted(replace(response, job=job), as_json)
    if watch and job and job.state != JobState.DONE:
        raise SystemExit(1)


def _print_reverted(response: RevertJobResponse, as_json: bool) -> None:
    if as_json:
        print_json(to_json(response))
        return
    rows = [(_ACTIONS.get(each.action, "not known"), each.uri, each.revision) for each in response.documents]
    print_columns(("DOCUMENT", "URI", "REVISION"), rows)
    for each in response.counts:
        click.echo(f"{_ACTIONS.get(each.action, 'not known')}: {each.document_count}")


def _print(compared: CompareRevisionsResponse) -> None:
    click.echo(_FATES.get(compared.fate, "not known"))
    if compared.fate == TextFate.SAME:
        return
    if compared.fate != TextFate.GONE:
        click.echo(f"now from {compared.start_offset} to {compared.end_offset}")
    click.echo()
    for each in compared.texts:
        before, after = _MARKS.get(each.change, ("", ""))
        click.echo(f"{before}{printable(each.text)}{after}", nl=False)
    click.echo("\n…" if compared.is_cut else "")
