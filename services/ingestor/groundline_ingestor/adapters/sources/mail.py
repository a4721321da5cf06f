"""What mails are called and say of themselves, wherever they are kept."""

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

from groundline_ingestor.adapters.extraction.formats import EML
from groundline_ingestor.adapters.extraction.readers.common import one_line
from groundline_ingestor.adapters.sources.common import refused
from groundline_ingestor.domain.documents import FileContent, GivenDocument

__all__ = ["MAX_HEADER_BYTES", "SeenMails", "mail_document", "mail_path", "state_of"]

MAX_HEADER_BYTES: Final = 64 * 1024
"""Of a mail's header that are looked at."""
MAX_MAILS: Final = 1_000_000
"""Of one source: a run has in memory which it has found."""
MAX_ID_CHARACTERS: Final = 500
# What may stand as it is in the address of a mail, "mid:" and its Message-ID (RFC 2392).
_SAFE: Final = "@!$&'*+-=_.~"


class SeenMails:
    """Which mails a run has found: a copy in another folder is no other document."""

    def __init__(self) -> None:
        self._digests = set[bytes]()

    def is_new(self, path: str) -> bool:
        """Whether this is asked for the first time. Raises FailedPreconditionError (SOURCE_REFUSED) where
        there are too many."""
        digest = hashlib.sha256(path.encode()).digest()[:16]
        if digest in self._digests:
            return False
        if len(self._digests) == MAX_MAILS:
            raise refused(f"there are more than {MAX_MAILS} mails; take fewer folders by include_paths")
        self._digests.add(digest)
        return True


def state_of(folders: Iterable[Sequence[str | int]]) -> str:
    """A cursor, the same as long as the folders are; `folders`: each one's name and what changes with it."""
    return hashlib.sha256(json.dumps(list(folders)).encode()).hexdigest()


def mail_path(header: bytes) -> str:
    """What a mail is called by its header, which names its Message-ID, or by a hash of that."""
    said = one_line(str(_parsed(header)["Message-ID"] or ""), MAX_HEADER_BYTES).strip("<> ")
    if said and len(said) <= MAX_ID_CHARACTERS:
        return quote(said, safe=_SAFE)
    return hashlib.sha256(header).hexdigest()


def mail_document(content: bytes | FileContent, *, uri: str, folder: str) -> GivenDocument:
    """A mail as a document to ingest. Its text is read later, by the reader of .eml files."""
    start = content if isinstance(content, bytes) else next(content.parts(MAX_HEADER_BYTES), b"")
    message = _parsed(start)
    metadata = {
        "folder": one_line(folder),
        "message_id": one_line(str(message["Message-ID"] or ""), MAX_ID_CHARACTERS),
        "from": _decoded(message["From"]),
        "to": _decoded(message["To"]),
        "cc": _decoded(message["Cc"]),
        "date": _date(message["Date"]),
    }
    return GivenDocument(
        content=content,
        uri=uri,
        title=_decoded(message["Subject"]),
        mime_type=EML,
        metadata={name: value for name, value in metadata.items() if value},
    )


def _parsed(start: bytes) -> Message:
    """The header of a mail that begins so."""
    return BytesHeaderParser().parsebytes(start[:MAX_HEADER_BYTES])


def _decoded(value: Any) -> str:
    """A header's text; as it stands there where its encoding is not sound."""
    try:
        return one_line(str(make_header(decode_header(value or ""))))
    except (MessageError, LookupError, ValueError):
        return one_line(str(value))


def _date(value: Any) -> str:
    """ISO 8601 in UTC; empty for what is no date."""
    try:
        return parsedate_to_datetime(str(value)).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError):
        return ""
