"""What is within another file: attachments of mails, members of archives."""

import importlib
import io
from typing import Any

from groundline_ingestor.adapters.extraction.encoding import decoded
from groundline_ingestor.adapters.extraction.formats import (
    MARKDOWN,
    clean_type,
    is_guessed,
    reader_of,
    type_of_file,
)
from groundline_ingestor.adapters.extraction.headings import read_headings
from groundline_ingestor.adapters.extraction.readers.common import Hints, Read, ReaderLimits, ReadError

__all__ = ["MAX_DEPTH", "read_member"]

MAX_DEPTH = 3
"""How deep files may be within files."""


def read_member(data: bytes, name: str, mime_type: str, hints: Hints, limits: ReaderLimits) -> Read:
    """A file as if it were alone; `hints` are those of the file that it is in. Raises ReadError."""
    depth = hints.depth + 1
    if depth > MAX_DEPTH:
        raise ReadError("DOCUMENT_TOO_LARGE", f"files within files more than {MAX_DEPTH} deep")
    said, charset = clean_type(mime_type)
    try:
        found = type_of_file(said, name, io.BytesIO(data), charset=charset)
    except ReadError:
        if not said:
            raise
        found = type_of_file("", name, io.BytesIO(data))  # senders say much
    reader = reader_of(found)
    if reader is None:
        text = decoded(data, charset=charset)
        headings = read_headings(text) if found == MARKDOWN else ()
        return Read(text, markdown=found == MARKDOWN, headings=headings)
    module: Any = importlib.import_module(f"groundline_ingestor.adapters.extraction.readers.{reader}")
    read: Read = module.read(data, Hints(found, charset, is_guessed(said, name), depth), limits)
    return read
