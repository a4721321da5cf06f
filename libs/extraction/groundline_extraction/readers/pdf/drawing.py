"""Pictures of pages of PDF files."""

from typing import BinaryIO

import pypdfium2

from groundline_extraction.readers.common import Give, Hints, ReaderLimits, ReadError
from groundline_extraction.readers.images.drawing import give_picture, no_such_page, scale_of
from groundline_extraction.readers.pdf.forms import open_forms
from groundline_extraction.readers.pdf.reader import opened


def read_pieces(file: BinaryIO, hints: Hints, limits: ReaderLimits, give: Give) -> None:
    """Draw the page that the hints name, with its forms. Raises ReadError with PAGE_NOT_FOUND, and as reading
    does."""
    with opened(file.read()) as document:
        if hints.page > len(document):
            raise no_such_page(len(document))
        open_forms(document)
        try:
            page = document[hints.page - 1]
        except pypdfium2.PdfiumError:
            raise ReadError("CORRUPT_DOCUMENT", "the page is not sound") from None
        width, height = page.get_size()
        give_picture(page.render(scale=scale_of(width, height, hints.width)).to_pil(), give)
