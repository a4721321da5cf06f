"""Decoding of bytes: accepted encodings, and detection if none is named."""

import codecs
import io
import re
from collections.abc import Generator, Iterable, Iterator
from typing import BinaryIO, Final

from chardetng_py import EncodingDetector

from groundline_extraction.readers.common import ReadError

_PART_BYTES: Final = 1024**2
MAX_LINE_CHARACTERS: Final = 64 * 1024**2

_SAMPLE_BYTES: Final = 1024**2
"""Bytes that are examined from the first one that is not UTF-8."""
_DAMAGED_SHARE: Final = 0.8
"""Share of non-ASCII bytes that must be UTF-8 for the text to count as damaged UTF-8."""

# By the name that Python's codec gives itself. Others turn bytes into bytes (zlib, hex), take quadratic time
# (punycode), or are not encodings of documents (utf-7, unicode_escape).
_ENCODINGS: Final = frozenset(
    {
        "ascii",
        *("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"),
        *(f"iso8859-{part}" for part in range(1, 17) if part != 12),
        *(f"cp125{page}" for page in range(9)),
        *("cp437", "cp850", "cp852", "cp855", "cp858", "cp862", "cp864", "cp866", "cp874"),
        *("koi8-r", "koi8-u", "mac-roman", "mac-cyrillic", "mac-greek", "mac-latin2", "mac-turkish"),
        *("shift_jis", "cp932", "euc_jp", "iso2022_jp", "gb2312", "gbk", "gb18030", "hz"),
        *("big5", "big5hkscs", "cp950", "euc_kr", "cp949", "iso2022_kr", "johab", "tis-620"),
    }
)
# Names of the Encoding Standard that Python does not know.
_ALIASES: Final = {"x-mac-cyrillic": "mac-cyrillic", "iso-8859-8-i": "iso8859-8", "windows-874": "cp874"}
_BYTE_ORDER_MARKS: Final = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_ASCII_TEXT: Final = re.compile(rb"[\t\n\r -~]")
_CONTROLS: Final = re.compile(rb"[\x01-\x08\x0e-\x1a\x1c-\x1f\x7f]")


def decoded(content: str | bytes, *, charset: str = "", whole: bool = True) -> str:
    """Return the text without its byte order mark, in the given charset or else the detected one. A content
    that is not `whole` may end within a character. Raises ReadError with INVALID_ENCODING."""
    if isinstance(content, str):
        return content.removeprefix("\ufeff")
    charset = charset or detected([content], whole=whole)
    return "".join(decoded_parts([content], charset=charset, whole=whole))


def decoded_file(file: BinaryIO, *, charset: str = "") -> Generator[str]:
    """Yield the text of a file part by part, as `decoded`. Raises ReadError with INVALID_ENCODING."""
    charset = charset or detected(_parts(file))
    return decoded_parts(_parts(file), charset=charset)


def lines_of(parts: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a text that comes in parts, with their ends: line feeds, carriage returns or both.
    Raises ReadError with DOCUMENT_TOO_LARGE for a line of more than MAX_LINE_CHARACTERS."""
    pending = ""
    for part in parts:
        # A carriage return at the end may be followed by its line feed.
        *lines, pending = io.StringIO(pending + part, newline="") if pending or part else [""]
        if len(pending) > MAX_LINE_CHARACTERS:
            raise ReadError("DOCUMENT_TOO_LARGE", f"a line of more than {MAX_LINE_CHARACTERS} characters")
        yield from lines
        if pending.endswith("\n"):
            yield pending
            pending = ""
    if pending:
        yield pending


class Utf8File:
    """A text that comes in parts, as a file in UTF-8, for parsers that read one."""

    def __init__(self, texts: Iterator[str]) -> None:
        self._texts = texts
        self._rest = memoryview(b"")

    def read(self, size: int) -> bytes:
        while not self._rest and (text := next(self._texts, None)) is not None:
            self._rest = memoryview(text.encode())
        data, self._rest = self._rest[:size], self._rest[size:]
        return bytes(data)


def _parts(file: BinaryIO) -> Iterator[bytes]:
    file.seek(0)
    while part := file.read(_PART_BYTES):
        yield part


def decoded_parts(parts: Iterable[bytes], *, charset: str, whole: bool = True) -> Generator[str]:
    """Yield the text of a content in parts, which may end within a character, as `decoded`."""
    position = undecoded = 0
    decoder: codecs.IncrementalDecoder | None = None
    encoding = charset
    try:
        for part in parts:
            is_first = decoder is None
            if decoder is None:
                encoding = _BYTE_ORDER_MARKS.get(part[:2], charset)
                decoder = _decoder(encoding)
            undecoded = len(decoder.getstate()[0])
            text = decoder.decode(part)
            position += len(part)
            yield text.removeprefix("\ufeff") if is_first else text
        if whole and decoder is not None:
            undecoded = len(decoder.getstate()[0])
            yield decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise _not_in(encoding, position - undecoded + error.start) from None
    except UnicodeError:
        raise _not_in(encoding, position) from None


def detected(parts: Iterable[bytes], *, whole: bool = True) -> str:
    """Return the encoding of a text that names none: UTF-8 if it is valid, else the one its bytes look like.
    Raises ReadError with INVALID_ENCODING if it looks like no text, or is UTF-8 with a fault."""
    utf8 = codecs.getincrementaldecoder("utf-8")()
    position, part = 0, b""
    is_utf8 = False  # whether some non-ASCII part was UTF-8
    parts = iter(parts)
    for part in parts:
        if position == 0 and (wide := _BYTE_ORDER_MARKS.get(part[:2]) or _utf16(part)):
            return wide
        pending = utf8.getstate()[0]
        try:
            utf8.decode(part)
        except UnicodeDecodeError as error:
            invalid_at = position - len(pending) + error.start
            if is_utf8:
                raise _not_in("utf-8", invalid_at) from None
            return _legacy(pending + part, parts, invalid_at)
        is_utf8 = is_utf8 or not (part.isascii() or utf8.getstate()[0])
        position += len(part)
    if whole and (pending := utf8.getstate()[0]):
        if is_utf8:
            raise _not_in("utf-8", position - len(pending))
        return _legacy(part, parts, position - len(pending))
    return "utf-8"


def _decoder(charset: str) -> codecs.IncrementalDecoder:
    try:
        codec = codecs.lookup(_ALIASES.get(charset.lower(), charset))
    except (LookupError, UnicodeError, ValueError):
        codec = None
    if codec is None or codec.name not in _ENCODINGS or codec.incrementaldecoder is None:
        raise ReadError("INVALID_ENCODING", f"the charset {charset[:50]!r} is not known")
    return codec.incrementaldecoder()


def _utf16(start: bytes) -> str:
    """Return the name of UTF-16 without a mark, "" if it is something else. Every other byte of western text
    is zero; in other scripts those of spaces, digits, delimiters and line ends are."""
    sample = start[:512]
    even, odd = sample[::2].count(0), sample[1::2].count(0)
    if len(sample) < 4 or len(sample) % 2 or not even + odd:
        return ""
    if max(even, odd) * 4 >= len(sample) and not min(even, odd):
        return "utf-16-le" if odd else "utf-16-be"
    # Text of one byte a letter with a stray zero.
    if len(sample) < 8 or len(_ASCII_TEXT.findall(sample)) > 0.8 * len(sample):
        return ""
    ascii_count = {name: _ascii_in(sample, name) for name in ("utf-16-le", "utf-16-be")}
    found = max(ascii_count, key=lambda name: ascii_count[name])
    return found if ascii_count[found] else ""


def _ascii_in(sample: bytes, encoding: str) -> int:
    """Return how many characters are ASCII, 0 if not all are letters, signs and spaces."""
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(sample)
    except UnicodeDecodeError:
        return 0
    if not all(char.isprintable() or char.isspace() for char in text):
        return 0
    return sum(map(str.isascii, text))


def _legacy(first: bytes, following: Iterator[bytes], invalid_at: int) -> str:
    sample = bytearray(first[:_SAMPLE_BYTES])
    while len(sample) < _SAMPLE_BYTES and (part := next(following, b"")):
        sample += part[: _SAMPLE_BYTES - len(sample)]
    not_ascii = len(sample) - len(sample.decode("ascii", "ignore"))
    read = sample.decode("utf-8", "ignore")
    in_utf8 = len(read.encode()) - len(read.encode("ascii", "ignore"))
    if in_utf8 >= _DAMAGED_SHARE * not_ascii:
        raise _not_in("utf-8", invalid_at)
    if _CONTROLS.search(sample) or 0 in sample:
        raise ReadError("INVALID_ENCODING", "neither text nor a format that is known")
    detector = EncodingDetector()
    detector.feed(bytes(sample), last=True)
    return str(detector.guess(tld=None, allow_utf8=False))


def _not_in(encoding: str, position: int) -> ReadError:
    return ReadError("INVALID_ENCODING", f"not {encoding.upper()[:50]} text at byte {position}")
