"""Pictures within documents."""

import base64
import binascii
import io
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Final
from urllib.parse import unquote_to_bytes

from groundline_extraction.readers.building import MarkdownBuilder
from groundline_extraction.readers.common import NO_HINTS, ReaderLimits, ReadError
from groundline_extraction.readers.images import image

MIN_PICTURE_BYTES: Final = 2000
"""Minimum size of a picture; smaller ones are lines, logos and icons."""
_EMBEDDED: Final = re.compile(r"\s*data:image/[^,]*;\s*base64\s*", re.IGNORECASE)


def add_picture(builder: MarkdownBuilder, data: bytes, limits: ReaderLimits) -> None:
    """Append the text on a picture, and record the picture itself if it is wanted."""
    builder.paragraph(picture_text(data, limits))
    record_picture(builder, data, limits)


def record_picture(builder: MarkdownBuilder, data: bytes, limits: ReaderLimits) -> None:
    """Record a picture if it is wanted and new."""
    if builder.takes_file(data):
        builder.picture(_shown(data, limits))


def embedded_pictures(builder: MarkdownBuilder, limits: ReaderLimits) -> Callable[[str], str]:
    """Return a function for `add_markup` that records a picture if it is wanted and its address, a data URI,
    holds it. Other addresses are not opened."""

    def record(src: str) -> str:
        kind, _, data = src.partition(",") if builder.takes_pictures else ("", "", "")
        if _EMBEDDED.fullmatch(kind):
            with suppress(binascii.Error):
                # Browsers do not ask for the padding.
                record_picture(builder, base64.b64decode(unquote_to_bytes(data) + b"=="), limits)
        return ""

    return record


def picture_text(data: bytes, limits: ReaderLimits) -> str:
    """Return the text on a picture, "" if it cannot be read: the document around it can."""
    if not limits.ocr_data or len(data) < MIN_PICTURE_BYTES:
        return ""
    try:
        return image.read(data, NO_HINTS, limits).text
    except ReadError:
        return ""


def _shown(data: bytes, limits: ReaderLimits) -> bytes:
    """Return a picture as a model is shown it, b"" if it cannot be read or is very small."""
    if len(data) < MIN_PICTURE_BYTES:
        return b""
    try:
        with image.opened(io.BytesIO(data), limits) as opened:
            return image.shown(opened, limits)
    except ReadError:
        return b""
