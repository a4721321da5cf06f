"""groundline bench feed"""

from dataclasses import asdict
from pathlib import Path

import click
from groundline_cli.commands.gateway import json_option
from groundline_cli.terminal import print_columns, print_json
from groundline_weaviate import WeaviateSettings
from pydantic import AnyHttpUrl, SecretStr

from groundline_benchmarks.feed.benchmark import Sizes, measure
from groundline_benchmarks.ingest.corpus import only_warnings
from groundline_benchmarks.measuring.databases import database_option
from groundline_benchmarks.measuring.options import number
from groundline_benchmarks.measuring.running import run


@click.command()
@click.option("--http-url", required=True, envvar="GROUNDLINE_WEAVIATE__HTTP_URL", show_envvar=True)
@click.option("--grpc-target", required=True, envvar="GROUNDLINE_WEAVIATE__GRPC_TARGET", show_envvar=True)
@click.option(
    "--api-key-file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="File with its key."
)
@click.option(
    "--replication-factor",
    type=click.IntRange(1, 10),
    default=1,
    show_default=True,
    envvar="GROUNDLINE_WEAVIATE__REPLICATION_FACTOR",
    help="Nodes that hold each object.",
)
@number("--chunks", 5_000, "Chunks to store, three times.")
@number("--documents", 100, "Documents to look for.")
@click.option(
    "--data-dir", type=click.Path(path_type=Path), help="Directory of the database. Default: temporary."
)
@database_option
@json_option
def feed(
    http_url: str,
    grpc_target: str,
    api_key_file: Path | None,
    replication_factor: int,
    chunks: int,
    documents: int,
    data_dir: Path | None,
    database_url: str | None,
    as_json: bool,
) -> None:
    """Measure feeding Weaviate: the cost of recording changes, chunks per second, time from commit to found.

    Takes a running engine, where it creates a class and drops it; the suite need not run.
    """
    only_warnings()
    settings = WeaviateSettings(
        http_url=AnyHttpUrl(http_url),
        grpc_target=grpc_target,
        api_key=SecretStr(api_key_file.read_text().strip()) if api_key_file else None,
        replication_factor=replication_factor,
    )
    figures = run(lambda report: measure(Sizes(chunks, documents), settings, data_dir, database_url, report))
    if as_json:
        print_json({"figures": [asdict(one) for one in figures]})
    else:
        print_columns(("", "FIGURE"), [(one.name, f"{one.value:,.2f} {one.unit}") for one in figures])
