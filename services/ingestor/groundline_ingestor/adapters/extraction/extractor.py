"""The Extractor: tells types apart and leads to the reader of each."""

import json
import re
from typing import Any, Final

from groundline_ingestor.adapters.extraction.readers.common import ReadError
from groundline_ingestor.adapters.extraction.sandbox import FormatName, Sandbox
from groundline_ingestor.adapters.extraction.text import json_text, record_text, table_text
from groundline_ingestor.adapters.extraction.types import (
    CSV,
    DOCX,
    HTML,
    JSON,
    JSON_LINES,
    MARKDOWN,
    PDF,
    TSV,
    decoded,
    failure,
    is_image,
    type_of,
)
from groundline_ingestor.adapters.markdown import read_headings
from groundline_ingestor.domain import DocumentInput, Extraction, Heading, SourceType

__all__ = ["DocumentExtractor"]

MAX_TITLE_CHARACTERS: Final = 500

_CHARSET: Final = re.compile(r"charset\s*=\s*\"?([\w.:-]{1,50})", re.IGNORECASE)
_TITLE_FIELDS: Final = ("title", "name", "label")


class DocumentExtractor:
    """Reads files, objects and web pages."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    def extract(self, given: DocumentInput) -> Extraction:
        """The text without its byte order mark, line ends as they are.

        The uri is a name and hints at a type; nothing is ever opened by it. Raises IngestionError with
        UNSUPPORTED_TYPE, INVALID_ENCODING, INVALID_TEXT (it holds NUL, which PostgreSQL cannot store),
        INVALID_JSON, INVALID_TABLE, EMPTY_TEXT or one of the readers' reasons (see `readers`, `sandbox`).
        """
        mime_type = type_of(given)
        if given.source_type is SourceType.OBJECT:
            extraction = _object(given)
        elif (format_name := _risky(mime_type)) is not None:
            extraction = self._read(format_name, given, mime_type)
        else:
            extraction = _text(given, mime_type)
        if not extraction.text.strip():
            raise failure("EMPTY_TEXT", "the document holds no text")
        if "\x00" in extraction.text:
            position = extraction.text.index("\x00")
            raise failure("INVALID_TEXT", f"the text holds a NUL character at position {position}")
        return extraction

    def _read(self, format_name: FormatName, given: DocumentInput, mime_type: str) -> Extraction:
        content = given.content if isinstance(given.content, bytes) else given.content.encode()
        if not content.strip():
            raise failure("EMPTY_TEXT", "the document holds no text")
        try:
            read = self._sandbox.read(format_name, content)
        except ReadError as error:
            raise failure(error.reason, error.message) from None
        headings = (
            read_headings(read.text)
            if read.markdown
            else tuple(Heading(level, title, start) for level, title, start in read.headings)
        )
        return Extraction(read.text, mime_type, headings, read.title[:MAX_TITLE_CHARACTERS])


def _risky(mime_type: str) -> FormatName | None:
    match mime_type:
        case _ if mime_type == PDF:
            return "pdf"
        case _ if mime_type == HTML:
            return "html"
        case _ if mime_type == DOCX:
            return "docx"
        case _:
            return "image" if is_image(mime_type) else None


def _text(given: DocumentInput, mime_type: str) -> Extraction:
    charset = _CHARSET.search(given.mime_type)
    text = decoded(given.content, charset=charset[1] if charset else "")
    if mime_type in {JSON, JSON_LINES}:
        return Extraction(json_text(text, mime_type), mime_type)
    if mime_type in {CSV, TSV}:
        return Extraction(table_text(text, mime_type), mime_type)
    headings = read_headings(text) if mime_type == MARKDOWN else ()
    return Extraction(text, mime_type, headings)


def _object(given: DocumentInput) -> Extraction:
    properties: dict[str, Any] = json.loads(given.content)
    title = next((properties[name] for name in _TITLE_FIELDS if isinstance(properties.get(name), str)), "")
    return Extraction(record_text(properties), JSON, title=" ".join(title.split())[:MAX_TITLE_CHARACTERS])
