"""Parameters and results of readers."""

import base64
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import ceil, floor
from typing import Any, BinaryIO, Final, NamedTuple

from groundline_extraction.tables import TableRows, read_rows, rows_between

PIECE_CHARACTERS: Final = 1 << 18
"""Approximate length of the pieces of a text."""


LINE_UNITS: Final = 2000
"""Parts of a page's width and height in which the places of lines are counted."""

BYTES_PER_SECOND: Final = 4_000_000
CHARACTERS_PER_SECOND: Final = 250_000
"""Minimum speed of a reader of large files, in characters per second, which sets its time limit; readers are
several times as fast."""


@dataclass(frozen=True, slots=True)
class ReaderLimits:
    """Limits of one file. `ocr_data` is the folder of tesseract's languages, "" without any."""

    max_pages: int = 5000
    max_unpacked_bytes: int = 1024**3
    max_image_pixels: int = 100_000_000
    memory_bytes: int = 2 * 1024**3
    seconds: float = 120.0
    ocr_data: str = ""
    ocr_languages: str = "eng"

    def seconds_for(self, size: int, given: int = 0) -> float:
        """Return the seconds that the reader of a file may compute: by its size in bytes, and the characters
        that it has given so far."""
        least = min(self.seconds, 20.0 + size / 20_000)
        return least + size / BYTES_PER_SECOND + given / CHARACTERS_PER_SECOND


@dataclass(frozen=True, slots=True)
class Hints:
    """Known properties of a file besides its bytes. `is_guess`: nobody stated its type; `with_members`: the
    files within it are wanted too; `with_pictures`: its pictures are, too; `name`: the last part of its uri.
    What is to be drawn is `page`, from 1, with `width` in pixels."""

    mime_type: str = ""
    charset: str = ""
    is_guess: bool = False
    with_members: bool = False
    with_pictures: bool = False
    name: str = ""
    page: int = 0
    width: int = 0


NO_HINTS: Final = Hints()


@dataclass(frozen=True, slots=True)
class MemberPart:
    """Bytes of a file within the one that is read; the parts of one follow each other.

    `path` names it, and `container` the inner file that holds it, both from the outermost file on;
    `container` is "" if the outermost does. `reason`: why it is not read, whatever parts came before, and
    `message` the same for people.
    """

    path: str
    container: str = ""
    mime_type: str = ""
    data: bytes = b""
    reason: str = ""
    message: str = ""


class LineEdges(NamedTuple):
    """A line's page, its start in the text, and its edges on the page as it is shown, from the upper left
    corner, in LINE_UNITS of width and height. It ends where the next begins."""

    page: int
    start: int
    left: int
    top: int
    right: int
    bottom: int


class PicturePart(NamedTuple):
    """A picture, as JPEG: its place in the whole text, at the end of what stands before it, and its edges on
    its page if the format tells. These edges have no start of their own."""

    start: int
    data: bytes
    edges: LineEdges | None = None


@dataclass(frozen=True, slots=True)
class Read:
    """A text, or a piece of one, and its properties.

    `headings`: level, title and start, in code points of this piece. The others may come with any piece,
    mostly the last. `mime_type`: the actual type, if it differs from the assumed one. `metadata`: the
    document's own. `members`: the next bytes of files within it. `lines`: those of the whole text, in its
    order; they come with the last piece. `tables`: rows that begin in this piece, where headings count; a
    table that continues has its index again. `pictures`: further ones, which count in the whole text.
    """

    text: str
    markdown: bool = False
    title: str = ""
    headings: Sequence[tuple[int, str, int]] = ()
    mime_type: str = ""
    metadata: Mapping[str, str | float] = field(default_factory=dict)
    members: Sequence[MemberPart] = ()
    lines: Sequence[LineEdges] = ()
    tables: Sequence[TableRows] = ()
    pictures: Sequence[PicturePart] = ()


def line_edges(page: int, start: int, left: float, top: float, right: float, bottom: float) -> LineEdges:
    """Return the place of a line, by its edges in shares of the page, which are rounded outwards."""
    edges = (
        floor(left * LINE_UNITS),
        floor(top * LINE_UNITS),
        ceil(right * LINE_UNITS),
        ceil(bottom * LINE_UNITS),
    )
    return LineEdges(page, start, *(min(max(edge, 0), LINE_UNITS) for edge in edges))


def encoded_bytes(value: object) -> str:
    """Return bytes as a JSON answer holds them."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(type(value).__name__)


def read_picture(fields: Sequence[Any]) -> PicturePart:
    """Return a picture from its JSON."""
    start, data, edges = fields
    return PicturePart(start, base64.b64decode(data), LineEdges(*edges) if edges else None)


def read_answer(piece: Mapping[str, Any]) -> Read:
    """Return a piece from its JSON."""
    members = [
        MemberPart(**{**member, "data": base64.b64decode(member["data"])}) for member in piece["members"]
    ]
    lines = [LineEdges(*line) for line in piece["lines"]]
    tables = [read_rows(table) for table in piece["tables"]]
    pictures = [read_picture(picture) for picture in piece["pictures"]]
    return Read(**{**piece, "members": members, "lines": lines, "tables": tables, "pictures": pictures})


type Give = Callable[[Read], None]
"""Takes the pieces of a text, in their order, as soon as they are read."""


def whole(
    read_pieces: Callable[[BinaryIO, Hints, ReaderLimits, Give], None],
    data: bytes,
    hints: Hints,
    limits: ReaderLimits,
) -> Read:
    """Return all that a reader gives of a file."""
    pieces: list[Read] = []
    read_pieces(io.BytesIO(data), hints, limits, pieces.append)
    return joined(pieces)


def joined(pieces: Iterable[Read]) -> Read:
    """Return the pieces of one text as a whole."""
    texts: list[str] = []
    headings: list[tuple[int, str, int]] = []
    tables: tuple[TableRows, ...] = ()
    pictures: list[PicturePart] = []
    length = 0
    whole = Read("")
    for piece in pieces:
        headings += [(level, title, length + start) for level, title, start in piece.headings]
        tables += rows_between(piece.tables, -length, len(piece.text))
        pictures += piece.pictures
        texts.append(piece.text)
        length += len(piece.text)
        whole = Read(
            "",
            markdown=piece.markdown or whole.markdown,
            title=piece.title or whole.title,
            mime_type=piece.mime_type or whole.mime_type,
            metadata={**whole.metadata, **piece.metadata},
            lines=piece.lines,
        )
    return replace(whole, text="".join(texts), headings=headings, tables=tables, pictures=tuple(pictures))


def cut(read: Read) -> Iterator[Read]:
    """Yield a whole text in pieces; each picture comes by itself before them, title, type, metadata and lines
    with the last."""
    yield from (Read("", pictures=[picture]) for picture in read.pictures)
    size = len(read.text)
    following = iter([*read.headings, (0, "", size)])
    heading = next(following)
    for start in range(0, max(size, 1), PIECE_CHARACTERS):
        end = min(start + PIECE_CHARACTERS, size)
        headings = []
        while heading[2] < end:
            headings.append((heading[0], heading[1], heading[2] - start))
            heading = next(following)
        if end < size:
            yield Read(
                read.text[start:end],
                markdown=read.markdown,
                headings=headings,
                tables=rows_between(read.tables, start, end),
            )
        else:
            tables = rows_between(read.tables, start, end + 1)
            yield replace(read, text=read.text[start:end], headings=headings, tables=tables, pictures=())


def packed(texts: Iterable[str], limits: ReaderLimits) -> Iterator[Read]:
    """Yield the parts of a text, however short, in pieces. Raises ReadError with DOCUMENT_TOO_LARGE."""
    parts: list[str] = []
    size = total = 0
    for text in texts:
        parts.append(text)
        size += len(text)
        if size >= PIECE_CHARACTERS:
            total += size
            if total > limits.max_unpacked_bytes:
                most = limits.max_unpacked_bytes
                raise ReadError("DOCUMENT_TOO_LARGE", f"more than {most} characters of text")
            yield Read("".join(parts))
            parts, size = [], 0
    yield Read("".join(parts))


class ReadError(Exception):
    """The file cannot be read: an UPPER_SNAKE reason, and the same for people."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


@contextmanager
def parsing(what: str) -> Iterator[None]:
    """Raise ReadError with CORRUPT_DOCUMENT for whatever a parser fails with on a broken file; `what` names a
    sound one."""
    try:
        yield
    except (ReadError, MemoryError, RecursionError):
        raise
    except Exception as error:
        raise ReadError("CORRUPT_DOCUMENT", f"not {what} ({type(error).__name__})") from None


_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def clean(text: str) -> str:
    """Return text without NUL, which PostgreSQL cannot store, and with halves of surrogate pairs joined or
    replaced."""
    text = text.replace("\x00", "")
    if _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def one_line(text: str, most: int = 500) -> str:
    """Return clean text with single spaces, for titles and names."""
    return " ".join(clean(text).split())[:most]
