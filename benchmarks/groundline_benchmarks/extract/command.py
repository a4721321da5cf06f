"""groundline bench extract"""

from dataclasses import asdict

import click
from groundline_cli.commands.gateway import json_option
from groundline_cli.terminal import print_columns, print_json

from groundline_benchmarks.extract.benchmark import ExtractFigures, measure_extraction
from groundline_benchmarks.ingest.corpus import only_warnings
from groundline_benchmarks.measuring.goals import goals_as_json, print_goals
from groundline_benchmarks.measuring.options import number
from groundline_benchmarks.measuring.running import Report, run

__all__ = ["extract"]


@click.command()
@click.option("--seed", default=1, show_default=True, help="Of the documents; another makes others.")
@number("--pages", 300, "Of the PDF that is timed.")
@click.option("--scans/--no-scans", "with_scans", default=True, show_default=True, help="They take a minute.")
@json_option
def extract(seed: int, pages: int, with_scans: bool, as_json: bool) -> None:
    """Measure how much of documents of each format is read (words, tables, order, headings, pages), and how
    fast.

    The documents are made by the libraries of their formats, so that their contents are known. Scans are read
    if tesseract's language data is installed.
    """

    only_warnings()

    async def measure(report: Report) -> ExtractFigures:
        return measure_extraction(seed, pages, report, with_scans=with_scans)

    figures = run(measure)
    if as_json:
        print_json(
            {
                "documents": [asdict(one) for one in figures.extracted],
                "pagesPerSecond": figures.pages_per_second,
                "memoryMegabytes": figures.memory,
                "goals": goals_as_json(figures.goals()),
            }
        )
        return
    print_columns(
        ("DOCUMENT", "FOUND", "RIGHT", "ORDER", "CELLS", "HEADINGS", "PAGES", "MS"),
        [
            (
                one.name,
                *(
                    "-" if share is None else f"{share:.3f}"
                    for share in (
                        one.scores.recall,
                        one.scores.precision,
                        one.scores.order,
                        one.scores.cells,
                        one.scores.headings,
                        one.scores.pages,
                    )
                ),
                one.seconds * 1000,
            )
            for one in figures.extracted
        ],
    )
    click.echo(f"most memory of the process that reads: {figures.memory:.0f} MB")
    print_goals(figures.goals())
