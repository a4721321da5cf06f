"""Pictures within documents."""

from typing import Final

from groundline_extraction.readers.common import NO_HINTS, ReaderLimits, ReadError
from groundline_extraction.readers.images import image

__all__ = ["picture_text"]

MIN_PICTURE_BYTES: Final = 2000
"""Minimum size of a picture; smaller ones are lines, logos and icons."""


def picture_text(data: bytes, limits: ReaderLimits) -> str:
    """Return the text on a picture, "" if it cannot be read: the document around it can."""
    if not limits.ocr_data or len(data) < MIN_PICTURE_BYTES:
        return ""
    try:
        return image.read(data, NO_HINTS, limits).text
    except ReadError:
        return ""
