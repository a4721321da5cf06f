"""Text out of what was handed in: plain text and Markdown."""

import codecs
import mimetypes
from pathlib import PurePosixPath
from typing import Final

from groundline_ingestor.adapters.markdown import read_headings
from groundline_ingestor.domain import DocumentInput, Extraction, IngestionError, IngestionState, last_part

__all__ = ["MARKDOWN", "PLAIN", "TextExtractor"]

PLAIN: Final = "text/plain"
MARKDOWN: Final = "text/markdown"

_SUPPORTED: Final = {PLAIN: PLAIN, MARKDOWN: MARKDOWN, "text/x-markdown": MARKDOWN}
_MARKDOWN_SUFFIXES: Final = (".md", ".markdown", ".mdown")
# Text by its bytes, but of a structure that is not to be searched as text.
_STRUCTURED: Final = {
    "text/html",
    "text/csv",
    "text/tab-separated-values",
    "application/json",
    "application/xhtml+xml",
}
_SIGNATURES: Final = {
    b"%PDF-": "application/pdf",
    b"PK\x03\x04": "application/zip",
    b"\x1f\x8b": "application/gzip",
    b"\x89PNG": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
}


class TextExtractor:
    """Reads UTF-8 (UTF-16 where a byte order mark says so) text and Markdown."""

    def extract(self, given: DocumentInput) -> Extraction:
        """The text without its byte order mark, line ends as they are.

        Raises IngestionError with UNSUPPORTED_TYPE, INVALID_ENCODING, INVALID_TEXT (it holds NUL, which
        PostgreSQL cannot store) or EMPTY_TEXT.
        """
        mime_type = _type_of(given)
        text = _decoded(given.content).removeprefix("\ufeff")
        if "\x00" in text:
            raise _failure("INVALID_TEXT", f"the text holds a NUL character at position {text.index(chr(0))}")
        if not text.strip():
            raise _failure("EMPTY_TEXT", "the document holds no text")
        return Extraction(text, mime_type, read_headings(text) if mime_type == MARKDOWN else ())


def _type_of(given: DocumentInput) -> str:
    suffix = PurePosixPath(last_part(given.uri)).suffix.lower()
    if given.mime_type:
        mime_type = given.mime_type.split(";", 1)[0].strip().lower()
        if mime_type not in _SUPPORTED:
            raise _unsupported(mime_type)
        return _SUPPORTED[mime_type]
    if isinstance(given.content, bytes):
        for signature, mime_type in _SIGNATURES.items():
            if given.content.startswith(signature):
                raise _unsupported(mime_type)
        guessed = mimetypes.guess_type(f"x{suffix}")[0]
        if guessed in _STRUCTURED:
            raise _unsupported(guessed)
    return MARKDOWN if suffix in _MARKDOWN_SUFFIXES else PLAIN


def _decoded(content: str | bytes) -> str:
    if isinstance(content, str):
        return content
    encoding = "utf-16" if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8"
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        raise _failure("INVALID_ENCODING", f"not {encoding.upper()} text at byte {error.start}") from None


def _unsupported(mime_type: str) -> IngestionError:
    return _failure(
        "UNSUPPORTED_TYPE", f"{mime_type[:100]} is not supported; text/plain and text/markdown are"
    )


def _failure(reason: str, message: str) -> IngestionError:
    return IngestionError(IngestionState.EXTRACTING, reason, message)
