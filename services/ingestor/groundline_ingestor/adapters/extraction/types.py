"""Types by content; a name or a given type only decides between what looks alike."""

import codecs
import csv
import io
import json
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import PurePosixPath
from typing import Any, Final

from groundline_ingestor.domain import (
    DocumentInput,
    FileContent,
    IngestionError,
    IngestionState,
    SourceType,
    last_part,
)

__all__ = [
    "CSV",
    "DOCX",
    "HTML",
    "JSON",
    "JSON_LINES",
    "MARKDOWN",
    "PDF",
    "PLAIN",
    "TSV",
    "decoded",
    "decoded_parts",
    "failure",
    "is_image",
    "is_markdown",
    "json_values",
    "long_text_type",
    "table_dialect",
    "type_of",
]

PLAIN: Final = "text/plain"
MARKDOWN: Final = "text/markdown"
HTML: Final = "text/html"
CSV: Final = "text/csv"
TSV: Final = "text/tab-separated-values"
JSON: Final = "application/json"
JSON_LINES: Final = "application/x-ndjson"
PDF: Final = "application/pdf"
DOCX: Final = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"

_ALIASES: Final = {
    "text/x-markdown": MARKDOWN,
    "application/xhtml+xml": HTML,
    "application/jsonl": JSON_LINES,
    "application/ndjson": JSON_LINES,
    "text/javascript": "text/x-javascript",
    "application/javascript": "text/x-javascript",
    "application/typescript": "text/x-typescript",
}
_SUFFIXES: Final[Mapping[str, str]] = {
    ".md": MARKDOWN,
    ".markdown": MARKDOWN,
    ".mdown": MARKDOWN,
    ".htm": HTML,
    ".html": HTML,
    ".xhtml": HTML,
    ".csv": CSV,
    ".tsv": TSV,
    ".json": JSON,
    ".jsonl": JSON_LINES,
    ".ndjson": JSON_LINES,
    ".py": "text/x-python",
    ".pyi": "text/x-python",
    ".js": "text/x-javascript",
    ".cjs": "text/x-javascript",
    ".mjs": "text/x-javascript",
    ".jsx": "text/x-javascript",
    ".ts": "text/x-typescript",
    ".tsx": "text/x-tsx",
    ".java": "text/x-java",
    ".go": "text/x-go",
    ".rs": "text/x-rust",
    ".c": "text/x-c",
    ".h": "text/x-c",
    ".cc": "text/x-c++",
    ".cpp": "text/x-c++",
    ".cxx": "text/x-c++",
    ".hh": "text/x-c++",
    ".hpp": "text/x-c++",
}
_IMAGES: Final = {"image/png", "image/jpeg", "image/gif", "image/tiff", "image/bmp", "image/webp"}
_MARKDOWN: Final = {MARKDOWN, HTML, DOCX}
_BINARY: Final = {PDF, DOCX, *_IMAGES}
_TEXTS: Final = {PLAIN, *_SUFFIXES.values()}
_SIGNATURES: Final = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
    b"II*\x00": "image/tiff",
    b"MM\x00*": "image/tiff",
    b"\x1f\x8b": "application/gzip",
    b"7z\xbc\xaf\x27\x1c": "application/x-7z-compressed",
    b"Rar!": "application/vnd.rar",
    b"BZh": "application/x-bzip2",
    b"\xfd7zXZ": "application/x-xz",
    b"\x7fELF": "application/x-elf",
}
_OLE: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
# Where readers of PDF still look for its mark.
_PDF_MARK_WITHIN: Final = 1024
_LOOKED_AT_CHARACTERS: Final = 65_536
_LOOKED_AT_ROWS: Final = 50
_CSV_FIELD_CHARACTERS: Final = 16 * 1024**2

csv.field_size_limit(_CSV_FIELD_CHARACTERS)


def type_of(given: DocumentInput) -> str:
    """The MIME type of what was handed in.

    Raises IngestionError with UNSUPPORTED_TYPE, ENCRYPTED_DOCUMENT or CORRUPT_DOCUMENT (it is not what its
    given type says).
    """
    assert not isinstance(given.content, FileContent), "is for long_text_type()"
    if given.source_type is SourceType.OBJECT:
        return JSON
    claimed = given.mime_type.split(";", 1)[0].strip().lower()
    claimed = _ALIASES.get(claimed, claimed)
    if claimed == "application/octet-stream":
        claimed = ""
    if isinstance(given.content, bytes):
        if (binary := _binary_type(given.content)) is not None:
            if binary not in _BINARY:
                raise _unsupported(binary)
            return binary
        if claimed in _BINARY:
            raise failure("CORRUPT_DOCUMENT", f"the content is not {claimed}")
    if claimed:
        if claimed not in _TEXTS:
            raise _unsupported(claimed)
        return claimed
    hint = _SUFFIXES.get(PurePosixPath(last_part(given.uri)).suffix.lower(), "")
    if isinstance(given.content, str):
        # Text is taken as it is, whatever it looks like, but for what its name says of its form.
        return hint if hint in {MARKDOWN} or hint.startswith("text/x-") else PLAIN
    start = given.content[: 4 * _LOOKED_AT_CHARACTERS]
    if _is_html(start.decode("latin-1"), hint):
        return HTML  # which declares its encoding itself
    return _text_type(decoded(start, whole=False), hint, given.content)


def long_text_type(given: DocumentInput, content: FileContent, *, may_be_whole: bool) -> str | None:
    """The MIME type of a text that can be read piece by piece; None for what has to be looked at as a whole.

    `may_be_whole` says whether it is small enough for that. Raises what `type_of` raises.
    """
    if given.source_type is SourceType.OBJECT:
        return None
    head = next(content.parts(4 * _LOOKED_AT_CHARACTERS), b"")
    if not content.is_text and _binary_type(head) is not None:
        return None
    hint = _SUFFIXES.get(PurePosixPath(last_part(given.uri)).suffix.lower(), "")
    is_open = not content.is_text and given.mime_type in {"", "application/octet-stream"}
    if is_open and hint in {"", JSON, JSON_LINES}:
        begin = decoded(head, whole=False).lstrip()[:1]
        if begin in {"{", "["}:
            return None if hint or may_be_whole else PLAIN
    mime_type = type_of(replace(given, content=decoded(head, whole=False) if content.is_text else head))
    return mime_type if mime_type in {PLAIN, MARKDOWN} or mime_type.startswith("text/x-") else None


def is_markdown(mime_type: str) -> bool:
    """Whether the text that extraction makes of it is Markdown."""
    return mime_type in _MARKDOWN


def is_image(mime_type: str) -> bool:
    return mime_type in _IMAGES


def decoded(content: str | bytes, *, charset: str = "", whole: bool = True) -> str:
    """UTF-8, UTF-16 where a byte order mark says so, or the charset given. Raises IngestionError with
    INVALID_ENCODING. What is not the whole may end within a character."""
    if isinstance(content, str):
        return content.removeprefix("\ufeff")
    return "".join(decoded_parts([content], charset=charset, whole=whole))


def decoded_parts(parts: Iterable[bytes], *, charset: str = "", whole: bool = True) -> Iterator[str]:
    """The same of a content that comes in parts, which may end within a character."""
    position = 0
    decoder: codecs.IncrementalDecoder | None = None
    encoding = ""
    try:
        for part in parts:
            if decoder is None:
                is_utf16 = part.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
                encoding = "utf-16" if is_utf16 else charset or "utf-8"
                decoder = codecs.getincrementaldecoder(encoding)()
                begin = "\ufeff"
            else:
                begin = ""
            undecoded = len(decoder.getstate()[0])
            text = decoder.decode(part)
            position += len(part)
            yield text.removeprefix(begin) if begin else text
        if whole and decoder is not None:
            undecoded = len(decoder.getstate()[0])
            yield decoder.decode(b"", final=True)
    except LookupError:
        raise failure("INVALID_ENCODING", f"the charset {encoding[:50]!r} is not known") from None
    except UnicodeDecodeError as error:
        at = position - undecoded + error.start
        raise failure("INVALID_ENCODING", f"not {encoding.upper()} text at byte {at}") from None


def json_values(text: str, mime_type: str) -> list[Any]:
    """The values of a JSON text: the elements of a list, the lines of JSON Lines, or the one there is.

    Raises ValueError.
    """
    try:
        if mime_type == JSON_LINES:
            return [json.loads(line) for line in text.splitlines() if line.strip()]
        value = json.loads(text)
    except RecursionError:
        raise ValueError("nested too deep") from None
    return value if isinstance(value, list) else [value]


def table_dialect(text: str, mime_type: str = CSV) -> str | None:
    """The delimiter of a table, None where the first rows do not agree on a number of columns."""
    sample = text[:_LOOKED_AT_CHARACTERS]
    lines = sample.splitlines(keepends=True)
    if len(text) > len(sample):
        lines.pop()  # it may be cut off
    for delimiter in "\t" if mime_type == TSV else ",;\t|":
        try:
            rows = [row for row in islice(csv.reader(lines, delimiter=delimiter), _LOOKED_AT_ROWS) if row]
        except csv.Error:
            continue
        if len(rows) >= 2 and len(rows[0]) >= 2 and len({len(row) for row in rows}) == 1:
            return delimiter
    return None


def failure(reason: str, message: str) -> IngestionError:
    """A failure of extraction."""
    return IngestionError(IngestionState.EXTRACTING, reason, message)


def _binary_type(content: bytes) -> str | None:
    if b"%PDF-" in content[:_PDF_MARK_WITHIN]:
        return PDF
    if content.startswith(b"PK\x03\x04"):
        return _zip_type(content)
    if content.startswith(_OLE):
        if "EncryptedPackage".encode("utf-16-le") in content:
            raise failure("ENCRYPTED_DOCUMENT", "the document needs a password")
        return "application/x-ole-storage"
    if content.startswith(b"RIFF") and content[8:12] == b"WEBP":
        return "image/webp"
    if content.startswith(b"BM") and content[6:10] == bytes(4):
        return "image/bmp"
    return next((kind for mark, kind in _SIGNATURES.items() if content.startswith(mark)), None)


def _zip_type(content: bytes) -> str:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            names = archive.NameToInfo
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError):
        return DOCX if b"word/" in content else "application/zip"
    return DOCX if "word/document.xml" in names else "application/zip"


def _text_type(start: str, hint: str, content: bytes) -> str:
    text = start.lstrip()
    if _is_html(text, hint):  # in UTF-16
        return HTML
    if hint == HTML:
        return PLAIN
    if hint in {CSV, TSV}:
        return hint if table_dialect(start, hint) else PLAIN
    if text[:1] in {"{", "["} and hint in {"", JSON, JSON_LINES}:
        for mime_type in (JSON_LINES, JSON) if hint == JSON_LINES else (JSON, JSON_LINES):
            try:
                json_values(decoded(content), mime_type)
            except ValueError:
                continue
            return mime_type
        return PLAIN
    if hint in {JSON, JSON_LINES}:
        return PLAIN
    return hint or _unnamed_text_type(text)


def _is_html(text: str, hint: str) -> bool:
    opening = text.lstrip("\ufeffï»¿ \t\r\n")[:2000].lower()
    return (
        opening.startswith(("<!doctype html", "<html"))
        or (opening.startswith(("<?xml", "<!--")) and "<html" in opening)
        or (hint == HTML and "<" in opening)
    )


def _unnamed_text_type(text: str) -> str:
    """Of a text whose name says nothing: a table of three columns, or what begins with a heading and a blank
    line, is hardly anything else."""
    lines = text[:_LOOKED_AT_CHARACTERS].splitlines()
    if len(lines) >= 2 and lines[0].startswith(("# ", "## ")) and not lines[1].strip():
        return MARKDOWN
    delimiter = table_dialect(text)
    if delimiter in {",", ";", "\t"} and len(lines) >= 3 and lines[0].count(delimiter) >= 2:
        return TSV if delimiter == "\t" else CSV
    return PLAIN


def _unsupported(mime_type: str) -> IngestionError:
    return failure(
        "UNSUPPORTED_TYPE",
        f"{mime_type[:100]} is not supported; text, Markdown, CSV, JSON, HTML, PDF, DOCX and images are",
    )
