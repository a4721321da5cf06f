"""MHTML: the page that a browser or an office program has saved as one file, without its pictures."""

from email.message import MIMEPart
from typing import Any, Final

from groundline_extraction.readers.common import Hints, Read, ReaderLimits, ReadError
from groundline_extraction.readers.containers.mail import bytes_of, message_of
from groundline_extraction.readers.web import html

MAX_PARTS: Final = 10_000


def read(data: bytes, hints: Hints, limits: ReaderLimits) -> Read:
    """Read the page that the file begins with, or that it names as its root. Raises ReadError with
    CORRUPT_DOCUMENT, DOCUMENT_TOO_LARGE or what the reader of HTML raises."""
    message = message_of(data)
    root = str(message.get_param("start") or "")
    page: MIMEPart[Any, Any] | None = None
    for number, part in enumerate(message.walk()):
        if number > MAX_PARTS:
            raise ReadError("DOCUMENT_TOO_LARGE", f"more than {MAX_PARTS} parts")
        if part.get_content_type() in {"text/html", "application/xhtml+xml"}:
            page = page or part
            if root and part["Content-ID"] == root:
                page = part
                break
    if page is None:
        raise ReadError("CORRUPT_DOCUMENT", "it holds no page")
    return html.read(bytes_of(page), Hints(hints.mime_type, page.get_content_charset() or ""), limits)
