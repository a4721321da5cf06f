"""Mails (EML): who wrote to whom, the text, and the attachments as sections below."""

import email
import email.policy
from email.message import EmailMessage, MIMEPart
from typing import Any, Final

from groundline_ingestor.adapters.extraction.readers.building import MarkdownBuilder
from groundline_ingestor.adapters.extraction.readers.common import (
    Hints,
    Read,
    ReaderLimits,
    ReadError,
    one_line,
)
from groundline_ingestor.adapters.extraction.readers.members import read_member

__all__ = ["read"]

type Part = MIMEPart[Any, Any]

MAX_ATTACHMENTS: Final = 200

_SHOWN: Final = ("From", "To", "Cc", "Date")


def read(data: bytes, hints: Hints, limits: ReaderLimits) -> Read:
    """Raises ReadError with CORRUPT_DOCUMENT, DOCUMENT_TOO_LARGE."""
    try:
        message = email.message_from_bytes(data, policy=email.policy.default)
        assert isinstance(message, EmailMessage), "is what the policy makes"
        return _read(message, hints, limits)
    except (ReadError, MemoryError, RecursionError):
        raise
    except Exception as error:
        # Headers that break the rules make the parser fail in many ways.
        raise ReadError("CORRUPT_DOCUMENT", f"not a sound mail ({type(error).__name__})") from None


def _read(message: EmailMessage, hints: Hints, limits: ReaderLimits) -> Read:
    builder = MarkdownBuilder(limits)
    said = {name: one_line(str(message[name])) for name in _SHOWN if message[name]}
    subject = one_line(str(message["Subject"] or ""))
    builder.heading(1, subject)
    builder.paragraph("\n".join(f"{name}: {value}" for name, value in said.items()))
    body = message.get_body(("plain", "html"))
    # A text that only says that there is one in HTML is none.
    if body is not None and body.get_content_type() == "text/plain" and len(_bytes(body).split()) < 5:
        body = message.get_body(("html", "plain")) or body
    if body is not None:
        _include(builder, body, "", hints, limits)
    for number, part in enumerate(message.iter_attachments()):
        if number == MAX_ATTACHMENTS:
            raise ReadError("DOCUMENT_TOO_LARGE", f"more than {MAX_ATTACHMENTS} attachments")
        name = one_line(part.get_filename() or "")
        if not name and part.get_content_maintype() == "image":
            continue  # a picture in the text
        builder.heading(2, f"Attachment: {name or part.get_content_type()}")
        _include(builder, part, name, hints, limits)
    return builder.read(title=subject, metadata={name.lower(): value for name, value in said.items()})


def _include(builder: MarkdownBuilder, part: Part, name: str, hints: Hints, limits: ReaderLimits) -> None:
    charset = part.get_content_charset()
    mime_type = f"{part.get_content_type()}; charset={charset}" if charset else part.get_content_type()
    try:
        if part.get_content_type() == "text/html" and not name:
            builder.include(read_member(_bytes(part), "", mime_type, hints, limits), below=1)
        else:
            builder.include(read_member(_bytes(part), name, mime_type, hints, limits), below=2)
    except ReadError as error:
        if not name:
            raise
        builder.paragraph(f"Not read ({error.reason})")


def _bytes(part: Part) -> bytes:
    if part.get_content_type() == "message/rfc822":
        inner: Any = part.get_payload()
        return bytes(inner[0].as_bytes())
    payload = part.get_payload(decode=True)
    return payload if isinstance(payload, bytes) else b""
