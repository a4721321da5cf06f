"""Drawing of PDF files by reportlab, which writes them as other programs do."""

from collections.abc import Callable, Sequence
from typing import Any

from groundline_extraction.ocr import find_ocr_data
from reportlab.lib import colors
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import Table, TableStyle

OCR_DATA = find_ocr_data(None)

type Draw = Callable[[Canvas], None]

PROSE = (
    "The relief valve opens when the pressure in the line is higher than its spring allows, and it closes "
    "again once the pressure has fallen by a tenth. Its setting is sealed at the works and must not be "
    "changed on site, since the seal is what the inspector looks for first in every single year. "
)

GRID = ("GRID", (0, 0), (-1, -1), 0.5, colors.black)


def lines(canvas: Canvas, texts: Sequence[str], *, x: float = 60, y: float = 760, step: float = 14) -> None:
    for number, text in enumerate(texts):
        canvas.drawString(x, y - number * step, text)


def wrapped(text: str, width: int) -> list[str]:
    found = [""]
    for word in text.split():
        if len(found[-1]) + len(word) > width:
            found.append("")
        found[-1] = f"{found[-1]} {word}".strip()
    return found


def table(canvas: Canvas, rows: Sequence[list[str]], *style: Any, y: float = 500) -> None:
    drawn = Table(rows)
    drawn.setStyle(TableStyle([("FONTNAME", (0, 0), (-1, -1), "Times-Roman"), *style]))
    drawn.wrapOn(canvas, 400, 400)
    drawn.drawOn(canvas, 60, y)
