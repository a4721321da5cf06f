"""The Extractor: tells formats apart and leads to the reader of each."""

import json
import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Any, Final

from groundline.v1 import document_pb2, passage_pb2

from groundline_ingestor.adapters.extraction.encoding import decoded, decoded_parts, detected
from groundline_ingestor.adapters.extraction.formats import (
    JSON,
    LOOKED_AT_BYTES,
    MARKDOWN,
    PLAIN,
    ReaderName,
    clean_type,
    is_guessed,
    is_markdown,
    is_streamed,
    reader_of,
    type_of_bytes,
    type_of_text,
)
from groundline_ingestor.adapters.extraction.headings import read_headings
from groundline_ingestor.adapters.extraction.readers.common import Hints, ReadError, one_line
from groundline_ingestor.adapters.extraction.readers.records import record_text
from groundline_ingestor.adapters.extraction.sandbox import Sandbox
from groundline_ingestor.domain.documents import FileContent, GivenDocument, IngestionError
from groundline_ingestor.domain.texts import ExtractedText, Heading, TextSegment, last_part
from groundline_ingestor.ports import TextStream
from groundline_ingestor.segments import SEGMENT_CHARACTERS, HeadedCutter, known_headings

__all__ = ["DocumentExtractor"]

_TITLE_FIELDS: Final = ("title", "name", "label")
# NUL, and halves of surrogate pairs, which JSON can spell.
_NO_TEXT: Final = re.compile("[\x00\ud800-\udfff]")


class DocumentExtractor:
    """Reads files, objects and web pages; plain text, Markdown and source code piece by piece."""

    def __init__(
        self,
        sandbox: Sandbox,
        *,
        max_whole_bytes: int = 64 * 1024**2,
        segment_characters: int = SEGMENT_CHARACTERS,
    ) -> None:
        """`max_whole_bytes`: largest content of a format that has to be in memory to be read."""
        self._sandbox = sandbox
        self._segment_characters = segment_characters
        self._max_whole_bytes = max_whole_bytes

    def read(self, given: GivenDocument, *, client: str = "") -> TextStream:
        """See Extractor. Raises what `extract` raises and DOCUMENT_TOO_LARGE."""
        content = given.content
        if isinstance(content, FileContent):
            mime_type = _streamed_type(given, content, self._max_whole_bytes)
            if mime_type is not None:
                return TextStream(_checked(self._segments(given, content, mime_type)), mime_type)
            if content.size > self._max_whole_bytes:
                raise _failure(
                    ReadError(
                        "DOCUMENT_TOO_LARGE",
                        f"{content.size} bytes; at most {self._max_whole_bytes} are taken of what is not "
                        "plain text, Markdown or source code",
                    )
                )
            whole = b"".join(content.parts(content.size))
            given = replace(given, content=whole.decode() if content.is_text else whole)
        extraction = self.extract(given, client=client)
        cutter = HeadedCutter(
            is_markdown=is_markdown(extraction.mime_type),
            read_headings=known_headings(deque(extraction.headings)),
            characters=self._segment_characters,
        )
        segments = chain(cutter.feed(extraction.text), cutter.end())
        return TextStream(segments, extraction.mime_type, extraction.title)

    def extract(self, given: GivenDocument, *, client: str = "") -> ExtractedText:
        """The text without its byte order mark, line ends as they are.

        The uri is a name and hints at a type; nothing is ever opened by it. Raises IngestionError with
        UNSUPPORTED_TYPE, INVALID_ENCODING, INVALID_TEXT (it holds NUL, which PostgreSQL cannot store, or half
        a surrogate pair), EMPTY_TEXT or one of the readers' reasons (see `readers`, `sandbox`).
        """
        assert not isinstance(given.content, FileContent), "is for read()"
        try:
            if given.source_type == passage_pb2.SOURCE_TYPE_OBJECT:
                extraction = _object(given)
            else:
                mime_type = _type_of(given, given.content)
                reader = reader_of(mime_type)
                if reader:
                    extraction = self._read(reader, given, mime_type, client)
                else:
                    extraction = _text(given, mime_type)
        except ReadError as error:
            raise _failure(error) from None
        for _ in _checked([TextSegment(extraction.text)]):
            pass
        return extraction

    def _segments(self, given: GivenDocument, content: FileContent, mime_type: str) -> Iterator[TextSegment]:
        def headings(text: str, start: int) -> Iterator[Heading]:
            if mime_type == MARKDOWN:
                for level, title, begin in read_headings(text, is_beginning=start == 0):
                    yield Heading(level, title, start + begin)

        cutter = HeadedCutter(
            is_markdown=mime_type == MARKDOWN,
            read_headings=headings,
            characters=self._segment_characters,
        )
        size = self._segment_characters
        _, charset = clean_type(given.mime_type)
        charset = "utf-8" if content.is_text else charset or detected(content.parts(size))
        for piece in decoded_parts(content.parts(size), charset=charset):
            yield from cutter.feed(piece)
        yield from cutter.end()

    def _read(self, reader: ReaderName, given: GivenDocument, mime_type: str, client: str) -> ExtractedText:
        assert not isinstance(given.content, FileContent), "is for read()"
        said, charset = clean_type(given.mime_type)
        content = given.content
        if isinstance(content, str):
            content, charset = content.encode("utf-8", "surrogatepass"), "utf-8"
        if not content.strip():
            raise ReadError("EMPTY_TEXT", "the document holds no text")
        hints = Hints(mime_type, charset, is_guess=is_guessed(said, last_part(given.uri)))
        read = self._sandbox.read(reader, content, hints, client=client)
        headings = tuple(Heading(*heading) for heading in read.headings)
        return ExtractedText(read.text, read.mime_type or mime_type, headings, one_line(read.title))


def _type_of(given: GivenDocument, content: str | bytes) -> str:
    said, charset = clean_type(given.mime_type)
    name = last_part(given.uri)
    if isinstance(content, str):
        return type_of_text(said, name, content[:LOOKED_AT_BYTES])
    return type_of_bytes(said, name, content, charset=charset)


def _streamed_type(given: GivenDocument, content: FileContent, max_whole_bytes: int) -> str | None:
    """The MIME type of a text that can be read piece by piece; None for what has to be looked at as a whole.

    Raises IngestionError.
    """
    if given.source_type == passage_pb2.SOURCE_TYPE_OBJECT:
        return None
    head = next(content.parts(LOOKED_AT_BYTES), b"")
    try:
        mime_type = _type_of(given, head.decode("utf-8", "ignore") if content.is_text else head)
    except ReadError as error:
        # What begins like a ZIP file says at its end what it is.
        if not content.is_text and error.reason == "UNSUPPORTED_TYPE" and content.size <= max_whole_bytes:
            return None
        raise _failure(error) from None
    said, _ = clean_type(given.mime_type)
    if mime_type == JSON and content.size > max_whole_bytes and is_guessed(said, last_part(given.uri)):
        return PLAIN
    return mime_type if is_streamed(mime_type) else None


def _checked(segments: Iterable[TextSegment]) -> Iterator[TextSegment]:
    """The segments of a text that is one: not blank, and without what PostgreSQL cannot store.

    Raises IngestionError for what they raise.
    """
    is_blank = True
    try:
        for segment in segments:
            if found := _NO_TEXT.search(segment.text):
                what = "a NUL character" if found[0] == "\x00" else "half a surrogate pair"
                position = segment.start + found.start()
                raise ReadError("INVALID_TEXT", f"the text holds {what} at position {position}")
            is_blank = is_blank and not segment.text.strip()
            yield segment
    except ReadError as error:
        raise _failure(error) from None
    if is_blank:
        raise _failure(ReadError("EMPTY_TEXT", "the document holds no text"))


def _failure(error: ReadError) -> IngestionError:
    return IngestionError(document_pb2.INGESTION_STATE_EXTRACTING, error.reason, error.message)


def _text(given: GivenDocument, mime_type: str) -> ExtractedText:
    assert not isinstance(given.content, FileContent), "is for read()"
    _, charset = clean_type(given.mime_type)
    text = decoded(given.content, charset=charset)
    headings = read_headings(text) if mime_type == MARKDOWN else ()
    return ExtractedText(text, mime_type, tuple(Heading(*heading) for heading in headings))


def _object(given: GivenDocument) -> ExtractedText:
    assert not isinstance(given.content, FileContent), "is for read()"
    properties: dict[str, Any] = json.loads(given.content)
    title = next((properties[name] for name in _TITLE_FIELDS if isinstance(properties.get(name), str)), "")
    return ExtractedText(record_text(properties), JSON, title=one_line(title))
