"""Mails (EML, MSG, mbox): sender and recipients, the text, and the names of the attachments, each a document
of its own. Each message of an mbox is a section."""

import email
import email.policy
import importlib
import io
import mimetypes
import re
from collections.abc import Iterator, Mapping, Sequence
from email.message import EmailMessage, MIMEPart
from functools import partial
from typing import Any, BinaryIO, Final

from groundline_extraction.encoding import decoded
from groundline_extraction.formats import is_guessed, reader_of, type_of_file
from groundline_extraction.readers.building import MarkdownBuilder
from groundline_extraction.readers.common import (
    Give,
    Hints,
    Read,
    ReaderLimits,
    ReadError,
    one_line,
    parsing,
    whole,
)
from groundline_extraction.readers.compound import OLE_MARK
from groundline_extraction.readers.containers.members import MAX_WHOLE_BYTES, Members
from groundline_extraction.readers.containers.outlook import mail_of

type Part = MIMEPart[Any, Any]

MAX_ATTACHMENTS: Final = 200

_SHOWN: Final = ("From", "To", "Cc", "Date")
# The line before each message of an mbox: an address and a time. In a text no headers follow such a line.
_ENVELOPE: Final = re.compile(
    rb"(?:\A|(?<=\n\n)|(?<=\n\r\n))From [^\r\n]{0,500}[0-9]:[0-9]{2}[^\r\n]{0,100}\r?\n(?=[A-Za-z][\w-]*:)"
)
_QUOTED: Final = re.compile(rb"^>(>*From )", re.MULTILINE)


def read(data: bytes, hints: Hints, limits: ReaderLimits) -> Read:
    """Return all of `read_pieces` at once, without the attachments."""
    return whole(read_pieces, data, hints, limits)


def read_pieces(file: BinaryIO, hints: Hints, limits: ReaderLimits, give: Give) -> None:
    """Give headers, text and the names of the attachments. Raises ReadError with CORRUPT_DOCUMENT,
    DOCUMENT_TOO_LARGE."""
    sources = _sources(file)
    if len(sources) == 1:
        message = message_of(sources[0])
        with parsing("a sound mail"):
            give(_read(message, hints, limits))
    else:
        _give_all(sources, hints, limits, give)
    if hints.with_members:
        _find(sources, Members.of_document(limits, give))


def find_members(file: BinaryIO, members: Members) -> None:
    """Take the attachments of a mail. Raises ReadError."""
    _find(_sources(file), members)


def _find(sources: Sequence[bytes], members: Members) -> None:
    for source in sources:
        message = message_of(source)
        with parsing("a sound mail"):
            _take_attachments(message, members)


def _give_all(sources: Sequence[bytes], hints: Hints, limits: ReaderLimits, give: Give) -> None:
    builder = MarkdownBuilder(limits)
    for source in sources:
        message = message_of(source)
        with parsing("a sound mail"):
            _add(builder, message, hints, limits)
        if builder.is_piece:
            give(builder.read())
    give(builder.read())


def _sources(file: BinaryIO) -> Sequence[bytes]:
    """Return the messages of an mbox, without what its format adds to them, or the one mail that it is."""
    data = file.read(MAX_WHOLE_BYTES + 1)
    if len(data) > MAX_WHOLE_BYTES:
        raise ReadError("DOCUMENT_TOO_LARGE", f"a mail of more than {MAX_WHOLE_BYTES} bytes")
    if data.startswith(OLE_MARK):
        return [mail_of(data)]
    if not _ENVELOPE.match(data):
        return [data]
    return [_QUOTED.sub(rb"\1", source) for source in _ENVELOPE.split(data)[1:]]


def message_of(data: bytes) -> EmailMessage:
    with parsing("a sound mail"):
        message = email.message_from_bytes(data, policy=email.policy.default)
    assert isinstance(message, EmailMessage), "is what the policy makes"
    return message


def _read(message: EmailMessage, hints: Hints, limits: ReaderLimits) -> Read:
    builder = MarkdownBuilder(limits)
    said = _add(builder, message, hints, limits)
    metadata = {name.lower(): value for name, value in said.items()}
    return builder.read(title=_subject(message), metadata=metadata)


def _add(
    builder: MarkdownBuilder, message: EmailMessage, hints: Hints, limits: ReaderLimits
) -> Mapping[str, str]:
    """Append a message, and return the headers that are shown."""
    said = {name: one_line(str(message[name]).replace(" <>", "")) for name in _SHOWN if message[name]}
    builder.heading(1, _subject(message))
    builder.paragraph("\n".join(f"{name}: {value}" for name, value in said.items()))
    body = message.get_body(("plain", "html"))
    bodies = [body]
    # A text that only refers to the HTML part does not count, unless that part has no text.
    if body is not None and body.get_content_type() == "text/plain" and len(bytes_of(body).split()) < 5:
        bodies.insert(0, message.get_body(("html", "plain")))
    for one in filter(None, bodies):
        read = _text_of(one, hints, limits)
        if read.text.strip():
            builder.include(read, below=1 if one.get_content_type() == "text/html" else 2)
            break
    if names := [name for name, _ in _attachments(message)]:
        builder.paragraph(f"Attachments: {', '.join(names)}")
    return said


def _subject(message: EmailMessage) -> str:
    return one_line(str(message["Subject"] or ""))


def _text_of(part: Part, hints: Hints, limits: ReaderLimits) -> Read:
    """Return the text of a mail, read by its type. Raises ReadError."""
    data = bytes_of(part)
    said, charset = part.get_content_type(), part.get_content_charset() or ""
    try:
        found = type_of_file(said, "", io.BytesIO(data), charset=charset)
    except ReadError:
        found = type_of_file("", "", io.BytesIO(data))  # stated types are unreliable
    reader = reader_of(found)
    if reader is None:
        return Read(decoded(data, charset=charset))
    module: Any = importlib.import_module(f"groundline_extraction.readers.{reader}")
    read: Read = module.read(data, Hints(found, charset, is_guessed(said, "")), limits)
    return read


def _take_attachments(message: EmailMessage, members: Members) -> None:
    for name, part in _attachments(message):
        charset = part.get_content_charset()
        said = part.get_content_type()
        members.take(name, f"{said}; charset={charset}" if charset else said, partial(_opened, part))


def _attachments(message: EmailMessage) -> Iterator[tuple[str, Part]]:
    """Yield attachments with their names; one without a name is named after its subject or its place."""
    for number, part in enumerate(message.iter_attachments(), start=1):
        if number > MAX_ATTACHMENTS:
            raise ReadError("DOCUMENT_TOO_LARGE", f"more than {MAX_ATTACHMENTS} attachments")
        name = one_line(part.get_filename() or "")
        if not name and part.get_content_maintype() == "image":
            continue  # an inline picture
        yield name or _made_name(number, part), part


def _made_name(number: int, part: Part) -> str:
    if part.get_content_type() == "message/rfc822":
        inner: Any = part.get_payload()
        subject = one_line(str(inner[0]["Subject"] or ""), 200).replace("/", "-")
        return f"{subject or f'attachment {number}'}.eml"
    return f"attachment {number}{mimetypes.guess_extension(part.get_content_type()) or ''}"


def _opened(part: Part) -> BinaryIO:
    return io.BytesIO(bytes_of(part))


def bytes_of(part: Part) -> bytes:
    if part.get_content_type() == "message/rfc822":
        inner: Any = part.get_payload()
        return bytes(inner[0].as_bytes())
    payload = part.get_payload(decode=True)
    return payload if isinstance(payload, bytes) else b""
