"""groundline bench ingest"""

import asyncio
from pathlib import Path

import click

from groundline_cli.benchmarks import ingest as ingestion
from groundline_cli.commands.gateway import json_option
from groundline_cli.terminal import print_columns, print_json

__all__ = ["ingest"]


@click.command()
@click.option(
    "--chunks", type=click.IntRange(100), default=20_000, show_default=True, help="Chunks to store."
)
@click.option(
    "--texts", type=click.IntRange(16), default=512, show_default=True, help="Texts to embed with the model."
)
@click.option(
    "--document-mb",
    type=click.IntRange(1),
    default=200,
    show_default=True,
    help="Size of the large document.",
)
@click.option(
    "--data-dir", type=click.Path(path_type=Path), help="Directory of the database. Default: temporary."
)
@json_option
def ingest(chunks: int, texts: int, document_mb: int, data_dir: Path | None, as_json: bool) -> None:
    """Storing with indexes live, ingesting with the local model, and the memory that a large text takes.

    Storing is compared to one COPY of the same rows and the building of the indexes after it; ingesting, from
    hand-in to searchable, to the model alone on the same texts.
    """
    figures = asyncio.run(ingestion.measure(chunks, texts, document_mb, data_dir))
    if as_json:
        print_json(figures)
    else:
        print_columns(("FIGURE", "VALUE"), list(figures.items()))
