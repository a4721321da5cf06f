"""Draw figures for docs/performance.md and docs/scaling.md, as SVG.

plots.py write    draw them
plots.py check    fail when a drawing is not of the figures as they stand now

The figures have one place, and are read from there: the tables of the services' READMEs, and, for how cost
grows with a collection, what `make bench-scale` has written.
"""

import io
import json
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

import matplotlib as mpl
from generated import write_or_check
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, StrMethodFormatter
from project import ROOT

DRAWINGS: Final = ROOT / "docs/images"
RETRIEVER: Final = "services/retriever/README.md"
RERANKER: Final = "libs/ranking/README.md"
SCALE: Final = ROOT / "benchmarks/figures"
RECALL: Final = "Recall@50 of vector search"
# Legible on a light and on a dark page; distinguishable without seeing red or green.
COLOURS: Final = ("#8a8a8a", "#009e73", "#0072b2", "#e69f00", "#cc79a7")
INK: Final = "#777777"

# Same figures, same bytes: no random ids, no fonts turned into paths.
mpl.rcParams.update({"svg.hashsalt": "groundline", "svg.fonttype": "none", "font.family": "sans-serif"})

type Lines = Mapping[str, Mapping[int, float]]
"""For each series, figures by the number of chunks."""

type Bars = Mapping[str, Mapping[str, float]]
"""For each group on the axis, the bar of each series."""


def table(readme: str, first_header: str) -> list[list[str]]:
    """Return the rows, without the head, of the table whose second header cell is `first_header`.

    Raises SystemExit if it is missing.
    """
    lines = (ROOT / readme).read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines):
        cells = cells_of(line)
        if len(cells) > 1 and cells[1] == first_header:
            rows = [cells]
            for below in lines[number + 2 :]:
                if not below.startswith("|"):
                    return rows
                rows.append(cells_of(below))
            return rows
    raise SystemExit(f"plots: {readme} has no table with the column {first_header!r}")


def cells_of(line: str) -> list[str]:
    return [cell.strip(" `") for cell in line.strip().strip("|").split("|")] if line.startswith("|") else []


def latency() -> Bars:
    """Return milliseconds at the median, by mode."""
    head, *rows = table(RETRIEVER, "floor")
    return {row[0]: dict(zip(head[1:5], map(float, row[1:5]), strict=True)) for row in rows}


def throughput() -> Bars:
    """Return searches per second with eight clients, by mode."""
    head, *rows = table(RETRIEVER, "floor")
    series = head[5].partition(": ")[2].split(", ")
    return {row[0]: dict(zip(series, map(float, row[5].split(", ")), strict=True)) for row in rows}


def quality() -> Bars:
    """Return nDCG@10 of each set, by mode."""
    head, *rows = table(RERANKER, "mode")
    found: dict[str, dict[str, float]] = {}
    name = ""
    for row in rows:
        name = re.sub(r" \(.*", "", row[0]) or name
        found.setdefault(name, {})[row[1]] = float(row[head.index("nDCG@10")])
    return found


def drawn(bars: Bars, title: str) -> str:
    """Draw groups of bars, each with its figure above."""
    series: Sequence[str] = list(next(iter(bars.values())))
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    axes = figure.subplots()
    width = 0.8 / len(series)
    for index, name in enumerate(series):
        places = [group + (index - (len(series) - 1) / 2) * width for group in range(len(bars))]
        drawn_bars = axes.bar(
            places, [of[name] for of in bars.values()], width * 0.92, label=name, color=COLOURS[index]
        )
        axes.bar_label(drawn_bars, fmt="{:g}", fontsize=7, color=INK, padding=1)
    axes.set_title(title, loc="left", fontsize=10, color=INK)
    axes.set_xticks(range(len(bars)), list(bars))
    axes.tick_params(colors=INK, labelsize=8, length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(INK)
    axes.set_yticks([])
    figure.legend(loc="outside lower center", ncols=len(series), frameon=False, fontsize=8, labelcolor=INK)
    return _svg(figure)


def measured() -> list[dict[str, Any]]:
    """Read the results of `make bench-scale`, by the number of chunks."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in SCALE.glob("scale-*.json")]
    return sorted((result for (result,) in found), key=lambda result: result["chunks"])


def scale(results: Sequence[dict[str, Any]]) -> Mapping[str, Lines]:
    """Return the series by the title of each panel; a series has the sizes at which it was measured."""

    def lines(of: Mapping[str, Sequence[str]]) -> Lines:
        return {
            name: {one["chunks"]: figure for one in results if (figure := _at(one, path))}
            for name, path in of.items()
        }

    ways = {"floor": "floor", "PostgreSQL": "coordinator, gRPC", "Weaviate": "coordinator, gRPC, Weaviate"}
    for result in results:
        for name, case in (("hybrid", "hybrid"), ("filtered", "hybrid, 1% filter")):
            result[name] = {figure["way"]: figure for figure in result["figures"] if figure["case"] == case}
    return {
        "Seconds to build": lines(
            {
                "rows": ["loadSeconds", "copied"],
                "keyword index": ["loadSeconds", "bm25"],
                "vector index": ["loadSeconds", "hnsw"],
                "fed to Weaviate": ["weaviate", "feedSeconds"],
            }
        ),
        "MiB on disk": lines(
            {
                "rows": ["sizesMib", "rows"],
                "keyword index": ["sizesMib", "bm25"],
                "vector index": ["sizesMib", "hnsw"],
                "Weaviate, all nodes": ["weaviate", "diskMib"],
            }
        ),
        "MiB of memory": lines(
            {
                "retriever": ["retrieverPeakRssMib"],
                "PostgreSQL": ["postgresMib"],
                "Weaviate, all nodes": ["weaviate", "memoryMib"],
            }
        ),
        "Hybrid search, ms, median": lines({name: ["hybrid", way, "p50Ms"] for name, way in ways.items()}),
        "Hybrid search, ms, 95 %": lines({name: ["hybrid", way, "p95Ms"] for name, way in ways.items()}),
        "Hybrid searches a second, 8 clients": lines(
            {name: ["hybrid", way, "perSecond"] for name, way in ways.items()}
        ),
        "Hybrid, 1 % filter, ms, median": lines(
            {name: ["filtered", way, "p50Ms"] for name, way in ways.items()}
        ),
        RECALL: lines(
            {
                "PostgreSQL": ["recall", "all"],
                "PostgreSQL, 1 % filter": ["recall", "1% filter"],
                "Weaviate": ["weaviate", "recall", "all"],
                "Weaviate, 1 % filter": ["weaviate", "recall", "1% filter"],
            }
        ),
    }


def _at(result: Any, path: Sequence[str]) -> float | None:
    """Return the figure at a path; None if it was not measured."""
    for name in path:
        result = result.get(name)
        if result is None:
            return None
    return float(result)


def drawn_lines(panels: Mapping[str, Lines]) -> str:
    """Draw a panel for each title, over the number of chunks.

    Both axes are logarithmic, so that what grows as the chunks do is a diagonal; shares are not.
    """
    figure = Figure(figsize=(9, 10), layout="constrained")
    sizes = sorted({size for lines in panels.values() for points in lines.values() for size in points})
    for axes, (title, lines) in zip(figure.subplots(4, 2).flat, panels.items(), strict=True):
        for colour, (name, points) in zip(COLOURS, lines.items(), strict=False):
            if points:
                axes.plot(points.keys(), points.values(), marker="o", markersize=4, label=name, color=colour)
        axes.set(xscale="log", yscale="log")
        axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
        if title == RECALL:
            axes.set(yscale="linear", ylim=(0.7, 1.01))
        else:
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.minorticks_off()
        axes.set_title(title, loc="left", fontsize=9, color=INK)
        axes.tick_params(colors=INK, labelsize=7)
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(INK)
        axes.legend(frameon=False, fontsize=7, labelcolor=INK)
    return _svg(figure)


def _svg(figure: Figure) -> str:
    file = io.StringIO()
    figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return re.sub(r"[ \t]+$", "", file.getvalue(), flags=re.MULTILINE)


def main() -> int:
    fresh = {
        DRAWINGS / "latency.svg": drawn(latency(), "Milliseconds at the median, 20,000 chunks"),
        DRAWINGS / "throughput.svg": drawn(throughput(), "Searches a second, 8 clients"),
        DRAWINGS / "quality.svg": drawn(quality(), "nDCG@10"),
        DRAWINGS / "scale.svg": drawn_lines(scale(measured())),
    }
    return write_or_check(sys.argv[1:], fresh, "make plots", str(__doc__))


if __name__ == "__main__":
    raise SystemExit(main())
