"""Draws the figures of the READMEs for docs/performance.md, as SVG.

plots.py write    draw them
plots.py check    fail when a drawing is not of the figures that stand in the READMEs now

The figures have one place, the tables of the services' READMEs, and are read from there.
"""

import io
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
from generated import write_or_check
from matplotlib.figure import Figure

ROOT = Path(__file__).resolve().parent.parent
DRAWINGS = ROOT / "docs/images"
RETRIEVER = "services/retriever/README.md"
RERANKER = "services/reranker/README.md"
# Legible on a light and on a dark page; told apart by those who see no red or green too.
COLOURS = ("#8a8a8a", "#009e73", "#0072b2", "#e69f00", "#cc79a7")
INK = "#777777"

# Same figures, same bytes: no random ids, no fonts turned into paths.
mpl.rcParams.update({"svg.hashsalt": "groundline", "svg.fonttype": "none", "font.family": "sans-serif"})

type Bars = Mapping[str, Mapping[str, float]]
"""For each group on the axis, the bar of each series."""


def table(readme: str, first_header: str) -> list[list[str]]:
    """The rows, without the head, of the table whose second header cell is `first_header`.

    Raises SystemExit where there is none.
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
    """Milliseconds at the median, by mode."""
    head, *rows = table(RETRIEVER, "floor")
    return {row[0]: dict(zip(head[1:5], map(float, row[1:5]), strict=True)) for row in rows}


def throughput() -> Bars:
    """Searches a second with eight clients, by mode."""
    head, *rows = table(RETRIEVER, "floor")
    series = head[5].partition(": ")[2].split(", ")
    return {row[0]: dict(zip(series, map(float, row[5].split(", ")), strict=True)) for row in rows}


def quality() -> Bars:
    """nDCG@10 of each set, by mode."""
    head, *rows = table(RERANKER, "mode")
    found: dict[str, dict[str, float]] = {}
    name = ""
    for row in rows:
        name = re.sub(r" \(.*", "", row[0]) or name
        found.setdefault(name, {})[row[1]] = float(row[head.index("nDCG@10")])
    return found


def drawn(bars: Bars, title: str) -> str:
    """Groups of bars, each with its figure above."""
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
    file = io.StringIO()
    figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return re.sub(r"[ \t]+$", "", file.getvalue(), flags=re.MULTILINE)


def main() -> int:
    fresh = {
        DRAWINGS / "latency.svg": drawn(latency(), "Milliseconds at the median, 100,000 chunks"),
        DRAWINGS / "throughput.svg": drawn(throughput(), "Searches a second, 8 clients"),
        DRAWINGS / "quality.svg": drawn(quality(), "nDCG@10"),
    }
    return write_or_check(sys.argv[1:], fresh, "make plots", str(__doc__))


if __name__ == "__main__":
    raise SystemExit(main())
