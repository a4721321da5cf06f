"""The extractor: it tells formats apart and calls the reader of each."""

import io
import json
import re
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from typing import Any, BinaryIO, Final

from groundline.v1 import document_pb2, passage_pb2

from groundline_extraction.documents import FileContent, GivenDocument, IngestionError
from groundline_extraction.encoding import decoded_file
from groundline_extraction.formats import (
    JSON,
    LOOKED_AT_BYTES,
    MARKDOWN,
    ReaderName,
    clean_type,
    is_guessed,
    is_markdown,
    is_piecewise,
    reader_of,
    type_of_file,
    type_of_text,
)
from groundline_extraction.headings import read_headings
from groundline_extraction.members import MemberSpool
from groundline_extraction.readers.building import MAX_PICTURES
from groundline_extraction.readers.common import Hints, MemberPart, PicturePart, ReadError, one_line
from groundline_extraction.readers.data.records import record_text
from groundline_extraction.sandbox import Sandbox
from groundline_extraction.segments import SEGMENT_CHARACTERS, HeadedCutter, known_headings
from groundline_extraction.spooling import Spool
from groundline_extraction.tables import rows_between
from groundline_extraction.texts import (
    ExtractedText,
    Heading,
    TextSegment,
    TextStream,
    is_paged,
    last_part,
)

MAX_PICTURE_BYTES: Final = 4 * 1024**2
"""Maximum size of a picture as a model is shown it; larger ones are left out."""

_TITLE_FIELDS: Final = ("title", "name", "label")
# NUL, and halves of surrogate pairs, which JSON can spell.
_NO_TEXT: Final = re.compile("[\x00\ud800-\udfff]")


class DocumentExtractor:
    """Extractor of files, objects and web pages, piece by piece if the format allows."""

    def __init__(
        self,
        sandbox: Sandbox,
        *,
        max_whole_bytes: int = 64 * 1024**2,
        segment_characters: int = SEGMENT_CHARACTERS,
    ) -> None:
        """Take the sandbox and the limits. `max_whole_bytes`: maximum content of a format that must be read
        in memory."""
        self._sandbox = sandbox
        self._segment_characters = segment_characters
        self._max_whole_bytes = max_whole_bytes

    def read(
        self,
        given: GivenDocument,
        *,
        client: str = "",
        members: MemberSpool | None = None,
        pictures: Spool[PicturePart] | None = None,
    ) -> TextStream:
        """Read a document's text, which is CPU work, also while the segments are read; `client` owns the
        document. Files within it are put into `members` meanwhile, and its pictures into `pictures`: a
        document with one needs no text.

        The uri is a name and hints at a type; it is never opened. Raises IngestionError with
        UNSUPPORTED_TYPE, DOCUMENT_TOO_LARGE, INVALID_ENCODING, INVALID_TEXT (it holds NUL, which PostgreSQL
        cannot store, or half a surrogate pair), EMPTY_TEXT or one of the readers' reasons (see `readers`,
        `sandbox`).
        """
        try:
            if given.source_type == passage_pb2.SOURCE_TYPE_OBJECT:
                return self._object(given)
            mime_type = _type_of(given)
            reader = reader_of(mime_type)
            if reader is None:
                return self._text(given, mime_type)
            return self._file(given, mime_type, reader, client, members, pictures)
        except ReadError as error:
            raise _failure(error) from None

    def extract(self, given: GivenDocument, *, client: str = "") -> ExtractedText:
        """Return all of the text at once. Raises what `read` raises."""
        stream = self.read(given, client=client)
        segments = list(stream.segments)
        headings = tuple(heading for segment in segments for heading in segment.headings)
        text = "".join(segment.text for segment in segments)
        return ExtractedText(text, stream.mime_type, headings, stream.title)

    def _object(self, given: GivenDocument) -> TextStream:
        content = given.content
        data = b"".join(content.parts(content.size)) if isinstance(content, FileContent) else content
        properties: dict[str, Any] = json.loads(data)
        title = next(
            (properties[name] for name in _TITLE_FIELDS if isinstance(properties.get(name), str)), ""
        )
        cutter = HeadedCutter(
            is_markdown=False, read_headings=known_headings(deque()), characters=self._segment_characters
        )
        text = (text for text in [record_text(properties)])
        return TextStream(_checked(_cut(cutter, text)), JSON, one_line(title))

    def _text(self, given: GivenDocument, mime_type: str) -> TextStream:
        def headings(text: str, start: int) -> Iterator[Heading]:
            if mime_type == MARKDOWN:
                for level, title, begin in read_headings(text, is_beginning=start == 0):
                    yield Heading(level, title, start + begin)

        content = given.content
        if isinstance(content, str):
            parts = (text for text in [content.removeprefix("\ufeff")])
        else:
            _, charset = clean_type(given.mime_type)
            is_utf8 = isinstance(content, FileContent) and content.is_text
            parts = decoded_file(_file_of(content), charset="utf-8" if is_utf8 else charset)
        cutter = HeadedCutter(
            is_markdown=mime_type == MARKDOWN,
            read_headings=headings,
            characters=self._segment_characters,
        )
        return TextStream(_checked(_cut(cutter, parts)), mime_type)

    def _file(
        self,
        given: GivenDocument,
        mime_type: str,
        reader: ReaderName,
        client: str,
        members: MemberSpool | None,
        pictures: Spool[PicturePart] | None,
    ) -> TextStream:
        said, charset = clean_type(given.mime_type)
        content = given.content
        if isinstance(content, str):
            content = content.encode("utf-8", "surrogatepass")
        if not isinstance(content, FileContent):
            content = FileContent(io.BytesIO(content), len(content), isinstance(given.content, str))
        if content.size > self._max_whole_bytes and not is_piecewise(reader):
            raise ReadError(
                "DOCUMENT_TOO_LARGE",
                f"{content.size} bytes; at most {self._max_whole_bytes} are taken of a format that is read "
                "in memory",
            )
        if not any(part.strip() for part in content.parts(LOOKED_AT_BYTES)):
            raise ReadError("EMPTY_TEXT", "the document holds no text")
        hints = Hints(
            mime_type,
            "utf-8" if content.is_text else charset,
            is_guess=is_guessed(said, last_part(given.uri)),
            with_members=members is not None,
            with_pictures=pictures is not None,
            name=last_part(given.uri),
        )
        headings: deque[Heading] = deque()

        def texts() -> Generator[str]:
            length = 0
            parts = content.parts(LOOKED_AT_BYTES)
            with closing(self._sandbox.pieces(reader, parts, hints, client=client)) as pieces:
                for piece in pieces:
                    if members is not None:
                        _keep(piece.members, members)
                    if pictures is not None:
                        _keep_pictures(piece.pictures, pictures)
                    headings.extend(
                        Heading(level, title, length + start) for level, title, start in piece.headings
                    )
                    stream.title = one_line(piece.title) or stream.title
                    stream.mime_type = piece.mime_type or stream.mime_type
                    cutter.rows += rows_between(piece.tables, -length, len(piece.text) + 1)
                    length += len(piece.text)
                    cutter.lines = piece.lines
                    yield piece.text

        cutter = HeadedCutter(
            is_markdown=is_markdown(mime_type),
            read_headings=known_headings(headings),
            characters=self._segment_characters,
            has_pages=is_paged(mime_type),
        )
        stream = TextStream(_checked(_cut(cutter, texts()), pictures), mime_type)
        return stream


def _keep(parts: Sequence[MemberPart], members: MemberSpool) -> None:
    for part in parts:
        if part.reason:
            failure = _failure(ReadError(part.reason, part.message)).failure
            members.refuse(part.path, part.container, failure)
        else:
            members.add(part.path, part.container, part.mime_type, part.data)


def _keep_pictures(found: Sequence[PicturePart], pictures: Spool[PicturePart]) -> None:
    """Keep pictures within the limits, which a reader keeps to unless a file has taken it over."""
    for picture in found:
        if len(pictures) < MAX_PICTURES and 0 < len(picture.data) <= MAX_PICTURE_BYTES:
            pictures.append(picture)


def _type_of(given: GivenDocument) -> str:
    said, charset = clean_type(given.mime_type)
    name = last_part(given.uri)
    content = given.content
    if isinstance(content, FileContent) and content.is_text:
        start = next(content.parts(LOOKED_AT_BYTES), b"").decode("utf-8", "ignore")
        return type_of_text(said, name, start)
    if isinstance(content, str):
        return type_of_text(said, name, content[:LOOKED_AT_BYTES])
    return type_of_file(said, name, _file_of(content), charset=charset)


def _file_of(content: bytes | FileContent) -> BinaryIO:
    return content.file if isinstance(content, FileContent) else io.BytesIO(content)


def _cut(cutter: HeadedCutter, texts: Generator[str]) -> Generator[TextSegment]:
    with closing(texts):
        for text in texts:
            yield from cutter.feed(text)
        yield from cutter.end()


def _checked(
    segments: Generator[TextSegment], pictures: Spool[PicturePart] | None = None
) -> Generator[TextSegment]:
    """Yield the segments, after checking that the text is not blank, unless there are pictures, and holds
    nothing that PostgreSQL cannot store. Raises IngestionError, also for what they raise."""
    is_blank = True
    try:
        with closing(segments):
            for segment in segments:
                if found := _NO_TEXT.search(segment.text):
                    what = "a NUL character" if found[0] == "\x00" else "half a surrogate pair"
                    position = segment.start + found.start()
                    raise ReadError("INVALID_TEXT", f"the text holds {what} at position {position}")
                is_blank = is_blank and not segment.text.strip()
                yield segment
    except ReadError as error:
        raise _failure(error) from None
    if is_blank and not pictures:
        raise _failure(ReadError("EMPTY_TEXT", "the document holds no text"))


def _failure(error: ReadError) -> IngestionError:
    return IngestionError(document_pb2.INGESTION_STATE_EXTRACTING, error.reason, error.message)
