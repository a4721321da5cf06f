"""Pictures on the pages of a PDF, as they are shown."""

from typing import Final

import pypdfium2
import pypdfium2.raw as pdfium

from groundline_extraction.readers.building import MarkdownBuilder
from groundline_extraction.readers.common import ReaderLimits
from groundline_extraction.readers.images.image import MAX_SHOWN_PIXELS, shown
from groundline_extraction.readers.pdf.layout import Box, Page

MIN_POINTS: Final = 54.0
"""Minimum width and height on the page, in points: three quarters of an inch."""
MAX_DPI: Final = 300
BACKGROUND_SHARE: Final = 0.9
"""Share of a page with text from which on a picture is its background, or the scan that was read."""
MAX_OBJECTS: Final = 500
"""Maximum pictures of a page that are looked at."""


def add_pictures(
    builder: MarkdownBuilder,
    document: pypdfium2.PdfDocument,
    number: int,
    page: Page,
    limits: ReaderLimits,
) -> None:
    """Record the pictures of a page behind its text, from top to bottom. A broken one is left out."""
    try:
        opened = document[number]
    except pypdfium2.PdfiumError:
        return
    try:
        boxes = sorted(_boxes(opened, page), key=lambda box: (-box[3], box[0]))
        for left, bottom, right, top in boxes:
            if not builder.takes_pictures:
                return
            width, height = right - left, top - bottom
            bitmap = opened.render(
                scale=min(MAX_SHOWN_PIXELS / max(width, height), MAX_DPI / 72),
                crop=(left, bottom, page.width - right, page.height - top),
            )
            edges = left / page.width, 1 - top / page.height, right / page.width, 1 - bottom / page.height
            builder.picture(shown(bitmap.to_pil(), limits), edges)
    except (pypdfium2.PdfiumError, ValueError):  # the text of the page can be read
        return
    finally:
        opened.close()


def _boxes(opened: pypdfium2.PdfPage, page: Page) -> list[Box]:
    """Return the places of a page's pictures on it as it is shown; of one that lies within another, as parts
    of a picture do, the outer."""
    most = page.width * page.height * (BACKGROUND_SHARE if page.words else 2)
    boxes: list[Box] = []
    for index, found in enumerate(opened.get_objects(filter=[pdfium.FPDF_PAGEOBJ_IMAGE], max_depth=3)):
        if index == MAX_OBJECTS:
            break
        x0, y0, x1, y1 = page.turn(*found.get_bounds())
        box = max(x0, 0.0), max(y0, 0.0), min(x1, page.width), min(y1, page.height)
        width, height = box[2] - box[0], box[3] - box[1]
        if min(width, height) >= MIN_POINTS and width * height <= most:
            boxes.append(box)
    return [box for box in boxes if not any(_lies_in(box, other) for other in boxes if other is not box)]


def _lies_in(inner: Box, outer: Box) -> bool:
    return inner != outer and (
        outer[0] <= inner[0] and outer[1] <= inner[1] and inner[2] <= outer[2] and inner[3] <= outer[3]
    )
