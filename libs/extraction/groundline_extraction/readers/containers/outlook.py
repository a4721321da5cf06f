"""Outlook's messages (MSG) as mails, so that they are read as those are.

A message is a storage of properties: a stream for each text or blob, named by its tag, and a table of the
others (MS-OXMSG). Recipients and attachments are storages within it. extract-msg, which reads it too, is GPL.
"""

import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from email.utils import format_datetime, formataddr
from typing import Any, Final

from compressed_rtf import decompress  # type: ignore[import-untyped]

from groundline_extraction.encoding import decoded
from groundline_extraction.readers.common import NO_HINTS, ReaderLimits, ReadError, one_line, parsing
from groundline_extraction.readers.compound import CompoundFile
from groundline_extraction.readers.containers.members import MAX_DEPTH
from groundline_extraction.readers.office import rtf

MAX_STORAGES: Final = 200
"""Maximum recipients, and attachments, of one message."""
MAX_RTF_BYTES: Final = 64 * 1024**2

_SUBJECT, _BODY, _HTML, _RTF = "0037", "1000", "1013", "1009"
_SENDER, _SENDER_ADDRESSES = ("0042", "0C1A"), ("5D01", "5D02", "0065", "0C1F")
_NAME, _ADDRESSES = "3001", ("39FE", "3003")
_FILE_NAMES, _MIME_TYPE = ("3707", "3704", "3001"), "370E"
_ATTACHED: Final = "__substg1.0_37010102"
_ATTACHED_MESSAGE: Final = "__substg1.0_3701000D"
_RECIPIENT_KIND: Final = 0x0C15
_TIMES: Final = (0x0039, 0x0E06)
_CODE_PAGE: Final = 0x3FFD
_KINDS: Final = {1: "To", 2: "Cc"}
_EPOCH: Final = datetime(1601, 1, 1, tzinfo=UTC)
_TYPE: Final = re.compile(r"[\w.+-]+/[\w.+-]+")


def mail_of(data: bytes) -> bytes:
    """Return a message as a mail. Raises ReadError with CORRUPT_DOCUMENT or DOCUMENT_TOO_LARGE."""
    with parsing("a sound document"):
        return _Message(CompoundFile(data), ()).mail(0).as_bytes()


class _Storage:
    """Properties of a message, a recipient or an attachment."""

    def __init__(self, file: CompoundFile, path: Sequence[str], header: int) -> None:
        self.file = file
        self.path = path
        table = file.read(*path, "__properties_version1.0")[header:]
        self.fixed: Mapping[int, int] = {
            tag >> 16: value for tag, _, value in struct.iter_unpack("<IIQ", table[: len(table) // 16 * 16])
        }

    def blob(self, tag: str) -> bytes:
        return self.file.read(*self.path, f"__substg1.0_{tag}0102")

    def text(self, *tags: str) -> str:
        """Return the first of the texts that is not empty."""
        return next(filter(None, map(self._text, tags)), "")

    def _text(self, tag: str) -> str:
        if wide := self.file.read(*self.path, f"__substg1.0_{tag}001F"):
            return wide.decode("utf-16-le", "replace").rstrip("\0")
        narrow = self.file.read(*self.path, f"__substg1.0_{tag}001E").rstrip(b"\0")
        page = self.fixed.get(_CODE_PAGE, 0) & 0xFFFF
        try:
            return narrow.decode("utf-8" if page == 65001 else f"cp{page}")
        except (LookupError, UnicodeDecodeError):
            return decoded(narrow)


class _Message(_Storage):
    def __init__(self, file: CompoundFile, path: Sequence[str]) -> None:
        super().__init__(file, path, 24 if path else 32)

    def mail(self, depth: int) -> EmailMessage:
        mail = EmailMessage()
        for name, value in self._said():
            mail[name] = one_line(value, 10_000)
        self._add_body(mail)
        for name in self._storages("__attach_version1.0_#"):
            self._attach(mail, (*self.path, name), depth)
        return mail

    def _said(self) -> Iterator[tuple[str, str]]:
        address = next((one for tag in _SENDER_ADDRESSES if "@" in (one := self.text(tag))), "")
        if sender := _address(self.text(*_SENDER), address):
            yield "From", sender
        people: dict[str, list[str]] = {}
        for name in self._storages("__recip_version1.0_#"):
            person = _Storage(self.file, (*self.path, name), 8)
            kind = _KINDS.get(person.fixed.get(_RECIPIENT_KIND, 1) & 0xFFFF, "")
            people.setdefault(kind, []).append(_address(person.text(_NAME), person.text(*_ADDRESSES)))
        for kind in _KINDS.values():
            if shown := ", ".join(filter(None, people.get(kind, ()))):
                yield kind, shown
        if subject := self.text(_SUBJECT):
            yield "Subject", subject
        if sent := next(filter(None, map(self.fixed.get, _TIMES)), 0):
            yield "Date", format_datetime(_EPOCH + timedelta(microseconds=sent // 10))

    def _add_body(self, mail: EmailMessage) -> None:
        if body := self.text(_BODY):
            mail.set_content(body)
        elif not self.blob(_HTML) and (packed := self.blob(_RTF)):
            if int.from_bytes(packed[4:8], "little") > MAX_RTF_BYTES:
                raise ReadError("DOCUMENT_TOO_LARGE", f"a text of more than {MAX_RTF_BYTES} bytes")
            mail.set_content(rtf.read(decompress(packed), NO_HINTS, ReaderLimits()).text)
        if page := self.blob(_HTML) or self.text(_HTML).encode():
            add: Any = mail.add_alternative if body else mail.set_content
            add(page, maintype="text", subtype="html")

    def _attach(self, mail: EmailMessage, path: Sequence[str], depth: int) -> None:
        if any(self.file.below(path, _ATTACHED_MESSAGE)):
            if depth > MAX_DEPTH:
                raise ReadError("DOCUMENT_TOO_LARGE", f"messages within messages more than {MAX_DEPTH} deep")
            mail.add_attachment(_Message(self.file, (*path, _ATTACHED_MESSAGE)).mail(depth + 1))
            return
        attachment = _Storage(self.file, path, 8)
        said = attachment.text(_MIME_TYPE)
        main, _, sub = (said if _TYPE.fullmatch(said) else "application/octet-stream").partition("/")
        if main in {"multipart", "message"}:
            main, sub = "application", "octet-stream"
        data = self.file.read(*path, _ATTACHED)
        name = one_line(attachment.text(*_FILE_NAMES), 300)
        mail.add_attachment(data, maintype=main, subtype=sub, filename=name or None)

    def _storages(self, prefix: str) -> Iterator[str]:
        for number, name in enumerate(self.file.below(self.path, prefix), 1):
            if number > MAX_STORAGES:
                raise ReadError("DOCUMENT_TOO_LARGE", f"more than {MAX_STORAGES} recipients or attachments")
            yield name


def _address(name: str, address: str) -> str:
    """Return who is meant as a mail names them; addresses of Exchange's directory say nothing."""
    name, address = one_line(name, 300), one_line(address, 300)
    if "@" not in address or not address.isascii():
        return formataddr((name, "")) if name else ""
    return formataddr((name if name != address else "", address))
