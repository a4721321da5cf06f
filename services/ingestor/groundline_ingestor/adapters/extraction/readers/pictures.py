"""Pictures within documents."""

from groundline_ingestor.adapters.extraction.readers import image
from groundline_ingestor.adapters.extraction.readers.common import NO_HINTS, ReaderLimits, ReadError

__all__ = ["picture_text"]

MIN_PICTURE_BYTES = 2000
"""Smaller ones are lines, logos and icons."""


def picture_text(data: bytes, limits: ReaderLimits) -> str:
    """What is written on it, empty where that cannot be read: the document around it can."""
    if not limits.ocr_data or len(data) < MIN_PICTURE_BYTES:
        return ""
    try:
        return image.read(data, NO_HINTS, limits).text
    except ReadError:
        return ""
