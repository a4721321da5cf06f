"""Plots of a report, as SVG within the page."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from xml.etree.ElementTree import Element, SubElement

from groundline_cli.evaluation.results import Estimate

_SIDE: Final = 260
_MARGIN: Final = 46
_ROW: Final = 22
_LABEL_WIDTH: Final = 230
_BAR_WIDTH: Final = 320


def reliability_plot(bins: Sequence[tuple[int, float, float]]) -> Element:
    """Draw the share of right answers over the confidence that was stated; points grow with their number, and
    what is calibrated lies on the diagonal."""
    svg = _square("Reliability: right answers over stated confidence", "confidence", "share right")
    _line(svg, [(0, 0), (1, 1)], "guide")
    most = max((count for count, _, _ in bins), default=1)
    for count, stated, right in bins:
        radius = 3 + 7 * (count / most) ** 0.5
        circle = SubElement(svg, "circle", {"class": "mark", "r": f"{radius:.1f}", **_at(stated, right, "c")})
        SubElement(circle, "title").text = f"{count} answers: stated {stated:.3f}, right {right:.3f}"
    return svg


def risk_coverage_plot(points: Sequence[tuple[float, float]]) -> Element:
    """Draw the share of wrong answers over the share that is answered, the most confident first."""
    svg = _square("Risk over coverage", "share answered", "share wrong")
    _line(svg, points, "curve")
    return svg


def curves_plot(
    title: str, below: str, beside: str, curves: Mapping[str, Sequence[tuple[float, float]]]
) -> Element:
    """Draw figures of at least 0 over others, a curve for each name, which stands at its end."""
    widest = max((x for points in curves.values() for x, _ in points), default=1.0) or 1.0
    highest = max((y for points in curves.values() for _, y in points), default=1.0) or 1.0
    svg = _square(title, below, beside, widest, highest)
    for name, points in curves.items():
        placed = [(x / widest, y / highest) for x, y in points]
        _line(svg, placed, "curve")
        if placed:
            across, down = _place(*placed[-1])
            _text(svg, name, across, down - 6, "end")
    return svg


def interval_plot(rows: Iterable[tuple[str, Estimate]]) -> Element:
    """Draw figures from 0 to 1 with their intervals, one below the other."""
    named = list(rows)
    height = _ROW * (len(named) + 1)
    width = _LABEL_WIDTH + _BAR_WIDTH + 20
    svg = _svg("Figures with their 95 % intervals", width, height)
    for tick in range(6):
        x = f"{_LABEL_WIDTH + _BAR_WIDTH * tick / 5:.1f}"
        SubElement(svg, "line", {"class": "grid", "x1": x, "x2": x, "y1": "0", "y2": str(height - _ROW)})
        _text(svg, f"{tick / 5:.1f}", float(x), height - 6, "middle")
    for number, (title, one) in enumerate(named):
        y = _ROW * number + _ROW / 2
        _text(svg, title, _LABEL_WIDTH - 10, y + 4, "end")
        low, value, high = (
            _LABEL_WIDTH + _BAR_WIDTH * min(max(x, 0.0), 1.0) for x in (one.low, one.value, one.high)
        )
        ends = {"x1": f"{low:.1f}", "x2": f"{high:.1f}", "y1": f"{y:.1f}", "y2": f"{y:.1f}"}
        SubElement(svg, "line", {"class": "interval", **ends})
        mark = SubElement(svg, "circle", {"class": "mark", "cx": f"{value:.1f}", "cy": f"{y:.1f}", "r": "4"})
        SubElement(mark, "title").text = f"{one.value:.3f} ({one.low:.3f}–{one.high:.3f})"
    return svg


def _square(title: str, below: str, beside: str, widest: float = 1.0, highest: float = 1.0) -> Element:
    """Begin a plot of 0 to 1 over 0 to 1, whose axes are named for 0 to `widest` and to `highest`."""
    size = _SIDE + 2 * _MARGIN
    svg = _svg(title, size, size)
    for tick in range(6):
        share = tick / 5
        _line(svg, [(share, 0), (share, 1)], "grid")
        _line(svg, [(0, share), (1, share)], "grid")
        x, y = _place(share, share)
        _text(svg, f"{share * widest:.1f}", x, _MARGIN + _SIDE + 16, "middle")
        _text(svg, f"{share * highest:.1f}", _MARGIN - 6, y + 4, "end")
    _text(svg, below, _MARGIN + _SIDE / 2, _MARGIN + _SIDE + 34, "middle")
    middle = _MARGIN + _SIDE / 2
    turned = _text(svg, beside, 14, middle, "middle")
    turned.set("transform", f"rotate(-90 14 {middle:.1f})")
    return svg


def _svg(title: str, width: int, height: int) -> Element:
    svg = Element(
        "svg",
        {"viewBox": f"0 0 {width} {height}", "width": str(width), "height": str(height), "role": "img"},
    )
    SubElement(svg, "title").text = title
    return svg


def _place(x: float, y: float) -> tuple[float, float]:
    return _MARGIN + _SIDE * x, _MARGIN + _SIDE * (1 - y)


def _at(x: float, y: float, prefix: str) -> dict[str, str]:
    across, down = _place(x, y)
    return {f"{prefix}x": f"{across:.1f}", f"{prefix}y": f"{down:.1f}"}


def _line(svg: Element, points: Sequence[tuple[float, float]], kind: str) -> None:
    placed = (_place(*point) for point in points)
    SubElement(svg, "polyline", {"class": kind, "points": " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)})


def _text(svg: Element, text: str, x: float, y: float, anchor: str) -> Element:
    element = SubElement(svg, "text", {"x": f"{x:.1f}", "y": f"{y:.1f}", "text-anchor": anchor})
    element.text = text
    return element
