"""Files as tests of their readers make them."""

import io
import zipfile
from collections.abc import Mapping
from datetime import date
from typing import Any

import openpyxl
import pptx
from groundline_extraction.texts import ExtractedText
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches


def saved(document: Any) -> bytes:
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def zip_of(parts: Mapping[str, bytes | str], *, first: str = "") -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        if first:
            archive.writestr("mimetype", first, zipfile.ZIP_STORED)
        for name, data in parts.items():
            archive.writestr(name, data)
    return out.getvalue()


def titles(extraction: ExtractedText) -> list[tuple[int, str]]:
    for heading in extraction.headings:
        assert extraction.text[heading.start :].lstrip("# ").startswith(heading.title[:10])
    return [(heading.level, heading.title) for heading in extraction.headings]


# --- spreadsheets ---


def workbook() -> "openpyxl.Workbook":
    book = openpyxl.Workbook()
    book.properties.title = "Sales 2026"
    sheet = book.worksheets[0]
    sheet.title = "North"
    sheet.append(["Sales of the north"])
    sheet.append(["Region", "Share", "Turnover", "Since", "Code", "Paid"])
    sheet.append(["Oslo", 0.125, 1234567.891, date(2024, 3, 1), 7, True])
    sheet.append(["Bergen", None, -40, None, 42, False])
    for row in (3, 4):
        sheet.cell(row, 2).number_format = "0.0 %"
        sheet.cell(row, 3).number_format = '#,##0.00 "€"'
        sheet.cell(row, 5).number_format = "0000"
    return book


# --- slides ---


def presentation() -> Any:
    deck = pptx.Presentation()
    deck.core_properties.title = "Valves"
    slide = deck.slides.add_slide(deck.slide_layouts[1])
    slide.shapes.title.text = "Mounting"
    body = slide.placeholders[1].text_frame
    body.text = "Close the screws"
    below = body.add_paragraph()
    below.text, below.level = "crosswise", 1
    slide.notes_slide.notes_text_frame.text = "Ask who has a wrench."
    slide = deck.slides.add_slide(deck.slide_layouts[5])
    slide.shapes.title.text = "Figures"
    right = slide.shapes.add_textbox(Inches(5), Inches(2), Inches(3), Inches(1))
    right.text_frame.text = "on the right"
    left = slide.shapes.add_textbox(Inches(1), Inches(2), Inches(3), Inches(1))
    left.text_frame.text = "on the left"
    table = slide.shapes.add_table(2, 3, Inches(1), Inches(4), Inches(6), Inches(1)).table
    for cell, text in zip(table.iter_cells(), ("Valve", "Width", "", "A", "4", "5"), strict=True):
        cell.text = text
    table.cell(0, 1).merge(table.cell(0, 2))
    data = CategoryChartData()  # type: ignore[no-untyped-call]
    data.categories = ["Q1", "Q2"]
    data.add_series("North", (1.5, 2))  # type: ignore[no-untyped-call]
    slide.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, Inches(1), Inches(5), Inches(5), Inches(2), data)
    return deck


# --- OpenDocument and EPUB ---

ODF = (
    'xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
    'xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0" '
    'xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0" '
    'xmlns:style="urn:oasis:names:tc:opendocument:xmlns:style:1.0" '
    'xmlns:draw="urn:oasis:names:tc:opendocument:xmlns:drawing:1.0" '
    'xmlns:presentation="urn:oasis:names:tc:opendocument:xmlns:presentation:1.0" '
    'xmlns:chart="urn:oasis:names:tc:opendocument:xmlns:chart:1.0" '
    'xmlns:xlink="http://www.w3.org/1999/xlink" '
    'xmlns:dc="http://purl.org/dc/elements/1.1/"'
)


def opendocument(kind: str, body: str, list_styles: str = "", **more: str) -> bytes:
    """Return a document; `more`: its other parts by name, without ".xml", "__" for "/"."""
    content = (
        f"<office:document-content {ODF}><office:automatic-styles>{list_styles}</office:automatic-styles>"
        f"<office:body><office:{kind}>{body}</office:{kind}></office:body></office:document-content>"
    )
    title = "<office:meta><dc:title>Valves</dc:title></office:meta>"
    meta = f"<office:document-meta {ODF}>{title}</office:document-meta>"
    parts: dict[str, bytes | str] = {
        "META-INF/manifest.xml": "<m/>",
        "content.xml": content,
        "meta.xml": meta,
    }
    parts |= {f"{name.replace('__', '/')}.xml": part for name, part in more.items()}
    return zip_of(parts, first=f"application/vnd.oasis.opendocument.{kind}")
