"""DOCX by python-docx, as Markdown: headings, lists and tables keep their form."""

import io
import re
from collections.abc import Iterator
from typing import Final

import docx
from docx.document import Document
from docx.table import Table
from docx.text.paragraph import Paragraph

from groundline_ingestor.adapters.extraction.readers.common import Hints, Limits, Read, ReadError, clean
from groundline_ingestor.adapters.extraction.zips import open_zip

__all__ = ["read"]

MAX_SPANNED_COLUMNS: Final = 100_000

_HEADING: Final = re.compile(r"heading ([1-9])", re.IGNORECASE)
# What Markdown would take for a mark at the start of a paragraph.
_MARK: Final = re.compile(r"^(#{1,6}(?=\s)|```|~~~)")


def read(data: bytes, hints: Hints, limits: Limits) -> Read:
    """The body in reading order.

    Raises ReadError with ENCRYPTED_DOCUMENT, CORRUPT_DOCUMENT or DOCUMENT_TOO_LARGE.
    """
    open_zip(data, limits).close()
    try:
        document = docx.Document(io.BytesIO(data))
        _check_spans(document)
        text = "\n\n".join(filter(None, _blocks(document)))
        return Read(clean(text), markdown=True, title=clean(document.core_properties.title or "").strip())
    except (ReadError, MemoryError):
        raise
    except Exception as error:
        # XML and package layers each have errors of their own for a broken file.
        raise ReadError("CORRUPT_DOCUMENT", f"not a sound DOCX ({type(error).__name__})") from None


def _check_spans(document: Document) -> None:
    """A cell that says it spans a million columns would be read as that many."""
    spans = document.element.xpath("//w:gridSpan/@w:val | //w:gridBefore/@w:val | //w:gridAfter/@w:val")
    if sum(map(int, spans)) > MAX_SPANNED_COLUMNS:
        raise ReadError("DOCUMENT_TOO_LARGE", f"its tables span more than {MAX_SPANNED_COLUMNS} columns")


def _blocks(document: Document) -> Iterator[str]:
    items: list[str] = []
    for block in document.iter_inner_content():
        if isinstance(block, Paragraph) and _style(block).startswith("list"):
            items.append(f"- {block.text.strip()}")
            continue
        if items:
            yield "\n".join(items)
            items = []
        yield _table(block) if isinstance(block, Table) else _paragraph(block)
    yield "\n".join(items)


def _paragraph(paragraph: Paragraph) -> str:
    text, style = paragraph.text.strip(), _style(paragraph)
    level = 1 if style == "title" else int(match[1]) if (match := _HEADING.match(style)) else 0
    if text and level:
        return f"{'#' * min(level, 6)} {' '.join(text.split())}"
    return _MARK.sub(r"\\\1", text)


def _style(paragraph: Paragraph) -> str:
    return (paragraph.style.name or "").lower() if paragraph.style is not None else ""


def _table(table: Table) -> str:
    rows = [
        "| " + " | ".join(" ".join(cell.text.split()).replace("|", "\\|") for cell in row.cells) + " |"
        for row in table.rows
    ]
    if rows:
        rows.insert(1, "|" + "---|" * len(table.rows[0].cells))
    return "\n".join(rows)
