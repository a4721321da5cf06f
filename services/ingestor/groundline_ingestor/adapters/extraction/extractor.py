"""The Extractor: tells types apart and leads to the reader of each."""

import json
import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
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
    decoded_parts,
    failure,
    is_image,
    is_markdown,
    long_text_type,
    type_of,
)
from groundline_ingestor.adapters.markdown import read_headings
from groundline_ingestor.domain import (
    DocumentInput,
    Extraction,
    FileContent,
    Heading,
    SourceType,
    Stretch,
)
from groundline_ingestor.ports import TextStream
from groundline_ingestor.stretches import STRETCH_CHARACTERS, HeadedCutter, known_headings

__all__ = ["DocumentExtractor"]

MAX_TITLE_CHARACTERS: Final = 500
_CHARSET: Final = re.compile(r"charset\s*=\s*\"?([\w.:-]{1,50})", re.IGNORECASE)
_TITLE_FIELDS: Final = ("title", "name", "label")


class DocumentExtractor:
    """Reads files, objects and web pages; plain text, Markdown and source code piece by piece."""

    def __init__(
        self,
        sandbox: Sandbox,
        *,
        max_whole_bytes: int = 64 * 1024**2,
        stretch_characters: int = STRETCH_CHARACTERS,
    ) -> None:
        """`max_whole_bytes`: largest content of a format that has to be in memory to be read."""
        self._sandbox = sandbox
        self._stretch_characters = stretch_characters
        self._max_whole_bytes = max_whole_bytes

    def read(self, given: DocumentInput) -> TextStream:
        """See Extractor. Raises what `extract` raises and DOCUMENT_TOO_LARGE."""
        content = given.content
        if isinstance(content, FileContent):
            may_be_whole = content.size <= self._max_whole_bytes
            mime_type = long_text_type(given, content, may_be_whole=may_be_whole)
            if mime_type is not None:
                return TextStream(_checked(self._stretches(given, content, mime_type)), mime_type)
            if not may_be_whole:
                raise failure(
                    "DOCUMENT_TOO_LARGE",
                    f"{content.size} bytes; at most {self._max_whole_bytes} are taken of what is not plain "
                    "text, Markdown or source code",
                )
            whole = b"".join(content.parts(content.size))
            given = replace(given, content=whole.decode() if content.is_text else whole)
        extraction = self.extract(given)
        cutter = HeadedCutter(
            is_markdown=is_markdown(extraction.mime_type),
            read_headings=known_headings(deque(extraction.headings)),
            characters=self._stretch_characters,
        )
        stretches = chain(cutter.feed(extraction.text), cutter.end())
        return TextStream(stretches, extraction.mime_type, extraction.title)

    def extract(self, given: DocumentInput) -> Extraction:
        """The text without its byte order mark, line ends as they are.

        The uri is a name and hints at a type; nothing is ever opened by it. Raises IngestionError with
        UNSUPPORTED_TYPE, INVALID_ENCODING, INVALID_TEXT (it holds NUL, which PostgreSQL cannot store),
        INVALID_JSON, INVALID_TABLE, EMPTY_TEXT or one of the readers' reasons (see `readers`, `sandbox`).
        """
        assert not isinstance(given.content, FileContent), "is for read()"
        mime_type = type_of(given)
        if given.source_type is SourceType.OBJECT:
            extraction = _object(given)
        elif (format_name := _risky(mime_type)) is not None:
            extraction = self._read(format_name, given, mime_type)
        else:
            extraction = _text(given, mime_type)
        for _ in _checked([Stretch(extraction.text)]):
            pass
        return extraction

    def _stretches(self, given: DocumentInput, content: FileContent, mime_type: str) -> Iterator[Stretch]:
        def headings(text: str, start: int) -> Iterator[Heading]:
            if mime_type == MARKDOWN:
                for heading in read_headings(text, is_beginning=start == 0):
                    yield replace(heading, start=start + heading.start)

        cutter = HeadedCutter(
            is_markdown=mime_type == MARKDOWN,
            read_headings=headings,
            characters=self._stretch_characters,
        )
        charset = "" if content.is_text else _charset(given)
        for piece in decoded_parts(content.parts(self._stretch_characters), charset=charset):
            yield from cutter.feed(piece)
        yield from cutter.end()

    def _read(self, format_name: FormatName, given: DocumentInput, mime_type: str) -> Extraction:
        content = given.content.encode() if isinstance(given.content, str) else given.content
        assert isinstance(content, bytes), "extract() sees to it"
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


def _checked(stretches: Iterable[Stretch]) -> Iterator[Stretch]:
    """The stretches of a text that is one: not blank, and without what PostgreSQL cannot store."""
    is_blank = True
    for stretch in stretches:
        if "\x00" in stretch.text:
            position = stretch.start + stretch.text.index("\x00")
            raise failure("INVALID_TEXT", f"the text holds a NUL character at position {position}")
        is_blank = is_blank and not stretch.text.strip()
        yield stretch
    if is_blank:
        raise failure("EMPTY_TEXT", "the document holds no text")


def _charset(given: DocumentInput) -> str:
    charset = _CHARSET.search(given.mime_type)
    return charset[1] if charset else ""


def _text(given: DocumentInput, mime_type: str) -> Extraction:
    assert not isinstance(given.content, FileContent), "is for read()"
    text = decoded(given.content, charset=_charset(given))
    if mime_type in {JSON, JSON_LINES}:
        return Extraction(json_text(text, mime_type), mime_type)
    if mime_type in {CSV, TSV}:
        return Extraction(table_text(text, mime_type), mime_type)
    headings = read_headings(text) if mime_type == MARKDOWN else ()
    return Extraction(text, mime_type, headings)


def _object(given: DocumentInput) -> Extraction:
    assert not isinstance(given.content, FileContent), "is for read()"
    properties: dict[str, Any] = json.loads(given.content)
    title = next((properties[name] for name in _TITLE_FIELDS if isinstance(properties.get(name), str)), "")
    return Extraction(record_text(properties), JSON, title=" ".join(title.split())[:MAX_TITLE_CHARACTERS])
