"""A reader of PDF files that tests draw."""

import io
from collections.abc import Callable, Iterator

import pytest
from groundline_extraction.readers.common import Read, ReaderLimits
from groundline_extraction.sandbox import Sandbox
from groundline_tests.extraction.pdf import OCR_DATA, Draw
from reportlab.lib.pagesizes import A4
from reportlab.pdfgen.canvas import Canvas


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(ReaderLimits(max_pages=50, seconds=60, ocr_data=OCR_DATA)) as sandbox:
        yield sandbox


@pytest.fixture
def read(sandbox: Sandbox) -> Callable[..., Read]:
    def read(*pages: Draw, title: str = "", rotation: int = 0) -> Read:
        out = io.BytesIO()
        canvas = Canvas(out, pagesize=A4)
        canvas.setTitle(title)
        for draw in pages:
            canvas.setFont("Times-Roman", 11)
            draw(canvas)
            canvas.setPageRotation(rotation)
            canvas.showPage()
        canvas.save()
        return sandbox.read("pdf.reader", out.getvalue())

    return read
