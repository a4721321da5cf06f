"""groundline up"""

import asyncio
import logging
import os
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Final

import click
from pydantic import SecretStr

from groundline_cli.connection import READY_FILE
from groundline_cli.errors import CommandFailedError
from groundline_cli.stack.errors import StackError
from groundline_cli.stack.stack import ReadyInfo, Report, StackOptions, run_until_stopped
from groundline_cli.terminal import logging_from

_EXAMPLES_COLLECTION: Final = "examples"
# Beside the documents for whoever tries them out; no document itself.
_QUESTIONS: Final = ("questions.json",)


@click.command()
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=READY_FILE.parent,
    show_default=True,
    help="Where the database, the logs and the API key are kept.",
)
@click.option(
    "--gateway-port",
    type=click.IntRange(0, 65_535),
    default=8080,
    show_default=True,
    help="Port of the gateway on 127.0.0.1; 0 takes a free one, as everything else does.",
)
@click.option(
    "--ready-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="While the suite is ready, keep its addresses, API key and process ids (JSON) there too, "
    "beside ready.json in the data directory.",
)
@click.option(
    "--replicas",
    type=click.IntRange(1, 10),
    default=1,
    show_default=True,
    help="Processes of each service; of several, the others go on when one fails.",
)
@click.option(
    "--metrics",
    "with_metrics",
    is_flag=True,
    help="Let each process serve its metrics on a free port of 127.0.0.1. DATA_DIR/prometheus.json tells "
    "Prometheus where.",
)
@click.option(
    "--observe",
    is_flag=True,
    help="Show traces of chats, searches and ingestion in a local viewer, MLflow. It is installed at first, "
    "apart from the suite (some 70 MB to download), and calls nobody.",
)
@click.option(
    "--observe-port",
    type=click.IntRange(0, 65_535),
    default=0,
    metavar="PORT",
    help="Port of the viewer on 127.0.0.1, instead of a free one; implies --observe.",
)
@click.option(
    "--examples",
    type=click.Path(exists=True, path_type=Path),
    metavar="PATH",
    help=f"Ingest these documents as collection `{_EXAMPLES_COLLECTION}` if there is no collection yet.",
)
def up(
    data_dir: Path,
    gateway_port: int,
    ready_file: Path | None,
    replicas: int,
    with_metrics: bool,
    observe: bool,
    observe_port: int,
    examples: Path | None,
) -> None:
    """Run PostgreSQL, the services and the gateway until Ctrl-C.

    The services read their settings from GROUNDLINE_… variables. GROUNDLINE_DATABASE_URL replaces the
    embedded PostgreSQL, GROUNDLINE_API_KEY the generated key. What crashes is started again.
    """
    options = StackOptions(
        data_dir=data_dir,
        gateway_port=gateway_port,
        environ=dict(os.environ),
        replicas=replicas,
        with_metrics=with_metrics,
        viewer_port=observe_port if observe or observe_port else None,
        ready_files=(data_dir / READY_FILE.name, *([ready_file] if ready_file else [])),
    )
    started = time.monotonic()

    def report(step: str) -> None:
        click.echo(f"{time.monotonic() - started:6.1f} s  {step}", err=True)

    async def after_ready(info: ReadyInfo) -> None:
        report(_embedding_model())
        if examples:
            await _ingest_examples(examples, report)(info)

    announced = partial(announce, ready_file=data_dir / READY_FILE.name)
    try:
        # The lines of what the gateway answers itself are for its log, and this is a terminal.
        with logging_from(logging.WARNING):
            asyncio.run(run_until_stopped(options, report, announced, after_ready=after_ready))
    except StackError as error:
        raise CommandFailedError(str(error)) from error


def _embedding_model() -> str:
    """Describe the model that the services embed with."""
    from groundline_embedding.local.catalog import MULTILINGUAL_MODEL, find_model
    from groundline_embedding.settings import DEFAULT_MODEL
    from groundline_retriever.settings import RetrieverSettings

    # It reads what the retriever has read, and started with; the database has no part in it.
    chosen = RetrieverSettings(database_url=SecretStr("postgresql://"), reranker_target="none").embedding
    if chosen.provider != "local":
        return f"embedding by {chosen.provider}: every text and question goes there"
    known = find_model(chosen.model)
    about = f": {known.languages}; {known.note}" if known else ""
    if chosen.model == DEFAULT_MODEL:
        about += f"; collections of other languages get {MULTILINGUAL_MODEL}"
    return f"embedding by {chosen.model}{about}"


def _ingest_examples(path: Path, report: Report) -> Callable[[ReadyInfo], Awaitable[None]]:
    from groundline_client import AsyncClient, GatewayError

    from groundline_cli import ingestion
    from groundline_cli.commands.ingest import progress_bar

    async def ingest(info: ReadyInfo) -> None:
        try:
            async with AsyncClient(info.gateway, info.api_key) as client:
                if await ingestion.has_collections(client):
                    return
                with progress_bar() as on_progress:
                    result = await ingestion.ingest_paths(
                        client, [path], _EXAMPLES_COLLECTION, exclude=_QUESTIONS, on_progress=on_progress
                    )
        except GatewayError as error:
            raise StackError(f"the examples could not be ingested: {error}") from error
        report(f"examples ingested: {result.created} documents, {result.chunks} chunks")
        for failure in result.failures:
            report(f"not ingested: {failure.name}: {failure.reason}")

    return ingest


def announce(info: ReadyInfo, *, ready_file: Path) -> None:
    """Print on standard output (progress goes to standard error) the suite's address and how to use it.

    The key is shown only on a terminal: output sent elsewhere is often kept, and read by others.
    """
    if sys.stdout.isatty():
        curl = f"""curl -N -H 'x-api-key: {info.api_key}' {info.gateway}/api/chat -d '{{"query": "…"}}'"""
        click.secho(f"\nGroundline is ready: {info.gateway}", fg="green", bold=True)
        traces = f"  traces   {info.viewer}\n" if info.viewer else ""
        click.echo(f"  API key  {info.api_key}\n  try      {curl}\n{traces}  stop     Ctrl-C\n")
    else:
        traces = f" traces: {info.viewer}" if info.viewer else ""
        click.echo(f'ready: {info.gateway} api-key: in {ready_file} try: groundline ask "…"{traces}')
    sys.stdout.flush()
