"""groundline bench ingest"""

from dataclasses import asdict
from pathlib import Path

import click
from groundline_cli.commands.gateway import json_option
from groundline_cli.terminal import print_columns, print_json

from groundline_benchmarks.ingest.benchmark import Measure, Sizes, measure
from groundline_benchmarks.ingest.corpus import only_warnings
from groundline_benchmarks.measuring.databases import database_option
from groundline_benchmarks.measuring.options import number
from groundline_benchmarks.measuring.running import run


@click.command()
@number("--chunks", 20_000, "Chunks to store with vectors given; 0: none.", minimum=0)
@number("--texts", 1_000, "Texts to ingest with the local model; 0: none.", minimum=0)
@number("--document-mib", 200, "Size of the large text; 0: none.", minimum=0)
@click.option(
    "--data-dir", type=click.Path(path_type=Path), help="Directory of the database. Default: temporary."
)
@database_option
@json_option
def ingest(
    chunks: int, texts: int, document_mib: int, data_dir: Path | None, database_url: str | None, as_json: bool
) -> None:
    """Storing, ingesting with the local model, the memory that a large text takes.

    \b
    stored     chunks and vectors given, written as workers write them: BM25 is kept
               up with each transaction, the HNSW index is built when all is there,
               as it is for any collection; both times are shown
    ingested   documents handed in: queue, extraction, chunking, embedding, storing

    Each is compared to what PostgreSQL or onnxruntime alone makes of the same rows or tokens in this run,
    with the same settings. The suite need not run.
    """
    only_warnings()
    sizes = Sizes(chunks, texts, document_mib)
    measures = run(lambda report: measure(sizes, data_dir, database_url, report))
    if as_json:
        print_json({"sizes": asdict(sizes), "measures": [_as_json(one) for one in measures]})
    else:
        print_columns(("", "FIGURE", "BESIDE", "RATIO", "WHICH IS"), [_row(one) for one in measures])


def _as_json(one: Measure) -> dict[str, object]:
    figures: dict[str, object] = {"name": one.name, "figure": round(one.figure, 1), "unit": one.unit}
    if one.reference is not None:
        figures |= {"beside": one.beside, "reference": round(one.reference, 1), "ratio": one.ratio}
    return figures


def _row(one: Measure) -> tuple[object, ...]:
    figure = f"{one.figure:,.0f} {one.unit}"
    if one.reference is None:
        return one.name, figure, "", "", ""
    return one.name, figure, f"{one.reference:,.0f}", f"{one.ratio:.2f}", one.beside
