"""Names and metadata of mails, wherever they are kept."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from datetime import UTC
from email.errors import MessageError
from email.header import decode_header, make_header
from email.message import Message
from email.parser import BytesHeaderParser
from email.utils import parsedate_to_datetime
from typing import Any, Final
from urllib.parse import quote

from groundline_extraction.formats import EML
from groundline_extraction.readers.common import one_line

from groundline_collector.adapters.sources.common import refused
from groundline_collector.changes import LoadedDocument

MAX_HEADER_BYTES: Final = 64 * 1024
"""Maximum bytes of a mail's header that are read."""
MAX_MAILS: Final = 1_000_000
"""Maximum mails of one source: a run holds all that it has found in memory."""
MAX_ID_CHARACTERS: Final = 500
# What may stand as it is in the address of a mail, "mid:" and its Message-ID (RFC 2392).
_SAFE: Final = "@!$&'*+-=_.~"


class SeenMails:
    """Mails that a run has found: a copy in another folder is the same document."""

    def __init__(self) -> None:
        self._digests = set[bytes]()

    def is_new(self, path: str) -> bool:
        """Tell whether this mail is found for the first time. Raises FailedPreconditionError (SOURCE_REFUSED)
        if there are too many."""
        digest = hashlib.sha256(path.encode()).digest()[:16]
        if digest in self._digests:
            return False
        if len(self._digests) == MAX_MAILS:
            raise refused(f"there are more than {MAX_MAILS} mails; take fewer folders by include_paths")
        self._digests.add(digest)
        return True


def state_of(folders: Iterable[Sequence[str | int]]) -> str:
    """Return a cursor that is the same as long as the folders are, which come with the values that change
    with them."""
    return hashlib.sha256(json.dumps(list(folders)).encode()).hexdigest()


def mail_path(header: bytes) -> str:
    """Return the name of a mail by its header: its Message-ID, or a hash of the header."""
    said = one_line(str(_parsed(header)["Message-ID"] or ""), MAX_HEADER_BYTES).strip("<> ")
    if said and len(said) <= MAX_ID_CHARACTERS:
        return quote(said, safe=_SAFE)
    return hashlib.sha256(header).hexdigest()


def mail_document(content: Iterable[bytes], header: bytes, *, uri: str, folder: str) -> LoadedDocument:
    """Return a mail as a document to ingest. Its text is read later, by the reader of .eml files."""
    message = _parsed(header)
    metadata = {
        "folder": one_line(folder),
        "message_id": one_line(str(message["Message-ID"] or ""), MAX_ID_CHARACTERS),
        "from": _decoded(message["From"]),
        "to": _decoded(message["To"]),
        "cc": _decoded(message["Cc"]),
        "date": _date(message["Date"]),
    }
    return LoadedDocument(
        uri,
        content,
        title=_decoded(message["Subject"]),
        mime_type=EML,
        metadata={name: value for name, value in metadata.items() if value},
    )


def _parsed(start: bytes) -> Message:
    """Parse the header at the beginning of a mail."""
    return BytesHeaderParser().parsebytes(start[:MAX_HEADER_BYTES])


def _decoded(value: Any) -> str:
    """Return a header's text, undecoded if its encoding is not valid."""
    try:
        return one_line(str(make_header(decode_header(value or ""))))
    except (MessageError, LookupError, ValueError):
        return one_line(str(value))


def _date(value: Any) -> str:
    """Return a date in ISO 8601 and UTC; empty for a text that is not a date."""
    try:
        return parsedate_to_datetime(str(value)).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError):
        return ""
