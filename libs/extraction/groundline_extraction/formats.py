"""Detection of formats by content; a name or a given type only decides between similar ones.

Files are neither unpacked nor parsed here, and only a bounded part is read: the rest is the readers' work.
"""

import re
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import BinaryIO, Final, Literal

from groundline_extraction.encoding import decoded
from groundline_extraction.readers.common import ReadError
from groundline_extraction.readers.data.delimiters import delimiter_of
from groundline_extraction.readers.zips import zip_names

type ReaderName = Literal[
    "containers.archive",
    "containers.mail",
    "containers.tar",
    "data.notebook",
    "data.records",
    "data.rst",
    "data.table",
    "data.xml",
    "images.image",
    "office.doc",
    "office.docx",
    "office.epub",
    "office.odf",
    "office.ppt",
    "office.pptx",
    "office.rtf",
    "office.workbook",
    "pdf.reader",
    "web.html",
    "web.mhtml",
]
"""A module of `readers`."""

PLAIN: Final = "text/plain"
MARKDOWN: Final = "text/markdown"
RST: Final = "text/x-rst"
HTML: Final = "text/html"
CSV: Final = "text/csv"
TSV: Final = "text/tab-separated-values"
JSON: Final = "application/json"
JSON_LINES: Final = "application/x-ndjson"
PDF: Final = "application/pdf"
DOCX: Final = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
XLSX: Final = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
XLSB: Final = "application/vnd.ms-excel.sheet.binary.macroenabled.12"
XLS: Final = "application/vnd.ms-excel"
PPTX: Final = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
ODT: Final = "application/vnd.oasis.opendocument.text"
ODS: Final = "application/vnd.oasis.opendocument.spreadsheet"
ODP: Final = "application/vnd.oasis.opendocument.presentation"
EPUB: Final = "application/epub+zip"
RTF: Final = "application/rtf"
EML: Final = "message/rfc822"
NOTEBOOK: Final = "application/x-ipynb+json"
XML: Final = "application/xml"
SVG: Final = "image/svg+xml"
ZIP: Final = "application/zip"
TAR: Final = "application/x-tar"
DOC: Final = "application/msword"
PPT: Final = "application/vnd.ms-powerpoint"
MSG: Final = "application/vnd.ms-outlook"
MHTML: Final = "multipart/related"
COMPRESSED: Final = ("application/gzip", "application/x-bzip2", "application/x-xz")
"""Types of a TAR archive, or of another file, that is compressed."""

LOOKED_AT_BYTES: Final = 256 * 1024
MAX_OLE_BYTES: Final = 64 * 1024**2
"""Maximum bytes of a file of the old Microsoft formats that are searched for its type."""

_READERS: Final[Mapping[str, ReaderName]] = {
    PDF: "pdf.reader",
    DOCX: "office.docx",
    HTML: "web.html",
    JSON: "data.records",
    JSON_LINES: "data.records",
    CSV: "data.table",
    TSV: "data.table",
    XLSX: "office.workbook",
    XLSB: "office.workbook",
    XLS: "office.workbook",
    PPTX: "office.pptx",
    ODT: "office.odf",
    ODS: "office.odf",
    ODP: "office.odf",
    EPUB: "office.epub",
    RTF: "office.rtf",
    EML: "containers.mail",
    NOTEBOOK: "data.notebook",
    RST: "data.rst",
    XML: "data.xml",
    SVG: "data.xml",
    ZIP: "containers.archive",
    **dict.fromkeys((TAR, *COMPRESSED), "containers.tar"),
    DOC: "office.doc",
    PPT: "office.ppt",
    MSG: "containers.mail",
    MHTML: "web.mhtml",
    **dict.fromkeys(
        ("image/png", "image/jpeg", "image/gif", "image/tiff", "image/bmp", "image/webp"), "images.image"
    ),
}
READ_TYPES: Final = frozenset(_READERS)
"""Types that have a reader; text, Markdown and source code are taken as they are."""
_PIECEWISE: Final[frozenset[ReaderName]] = frozenset(
    {"containers.archive", "containers.tar", "office.docx", "web.html", "data.records", "data.table"}
)
_NOT_MARKDOWN: Final = {JSON, JSON_LINES, CSV, TSV}
"""Formats whose readers write other text than Markdown."""
_ALIASES: Final = {
    "text/x-markdown": MARKDOWN,
    "application/xhtml+xml": HTML,
    "application/csv": CSV,
    "application/jsonl": JSON_LINES,
    "application/ndjson": JSON_LINES,
    "text/json": JSON,
    "text/javascript": "text/x-javascript",
    "application/javascript": "text/x-javascript",
    "application/typescript": "text/x-typescript",
    "application/octet-stream": "",
    "binary/octet-stream": "",
    "image/jpg": "image/jpeg",
    "application/mbox": EML,
    "application/x-mimearchive": MHTML,
    "application/x-gzip": COMPRESSED[0],
    "application/x-gtar": TAR,
    "application/x-compressed-tar": COMPRESSED[0],
    "text/xml": XML,
    "text/rtf": RTF,
    "application/x-zip-compressed": ZIP,
    "application/vnd.ms-excel.sheet.macroenabled.12": XLSX,
    "application/vnd.ms-powerpoint.presentation.macroenabled.12": PPTX,
    "application/vnd.ms-word.document.macroenabled.12": DOCX,
}
_SUFFIXES: Final[Mapping[str, str]] = {
    ".md": MARKDOWN,
    ".markdown": MARKDOWN,
    ".mdown": MARKDOWN,
    ".rst": RST,
    ".htm": HTML,
    ".html": HTML,
    ".xhtml": HTML,
    ".csv": CSV,
    ".tsv": TSV,
    ".json": JSON,
    ".jsonl": JSON_LINES,
    ".ndjson": JSON_LINES,
    ".xml": XML,
    ".svg": SVG,
    ".rtf": RTF,
    ".eml": EML,
    ".mbox": EML,
    ".mht": MHTML,
    ".mhtml": MHTML,
    ".ipynb": NOTEBOOK,
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
_TEXTS: Final = {PLAIN, *_SUFFIXES.values()}
_REFUSED: Final[Mapping[str, str]] = {
    "application/x-ole-storage": "a file of an old Microsoft format",
    "application/x-7z-compressed": "a 7z archive",
    "application/vnd.rar": "a RAR archive",
    "application/zstd": "a Zstandard archive",
    "application/x-elf": "a program",
}
"""Names of known formats without a reader."""
_SIGNATURES: Final = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
    b"II*\x00": "image/tiff",
    b"MM\x00*": "image/tiff",
    b"\x1f\x8b": COMPRESSED[0],
    b"7z\xbc\xaf\x27\x1c": "application/x-7z-compressed",
    b"Rar!": "application/vnd.rar",
    b"BZh": COMPRESSED[1],
    b"\xfd7zXZ": COMPRESSED[2],
    b"\x28\xb5\x2f\xfd": "application/zstd",
    b"\x7fELF": "application/x-elf",
}
_OLE: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_OLE_STREAMS: Final = {
    "__substg1.0_": MSG,  # may hold the others as attachments
    "WordDocument": DOC,
    "PowerPoint Document": PPT,
    "Workbook": XLS,
    "Book\0": XLS,  # of Excel 5 and 95
}
_ZIP_PARTS: Final = {
    "word/document.xml": DOCX,
    "xl/workbook.xml": XLSX,
    "xl/workbook.bin": XLSB,
    "ppt/presentation.xml": PPTX,
    "META-INF/container.xml": EPUB,
}
# Headers that begin a mail; three of them begin nothing else.
_MAIL_HEADER: Final = re.compile(
    rb"^(?:Received|Return-Path|Delivered-To|From|To|Subject|Date|Message-ID|MIME-Version|Content-Type): ?",
    re.MULTILINE | re.IGNORECASE,
)
# Headers that browsers write into pages saved as one file.
_SAVED_PAGE: Final = re.compile(
    rb"^(?:Snapshot-Content-Location:|From: \"?<Saved by )", re.MULTILINE | re.IGNORECASE
)
# Where readers of PDF still look for its mark.
_PDF_MARK_WITHIN: Final = 1024
_CHARSET: Final = re.compile(r"charset\s*=\s*\"?([\w.:-]{1,50})", re.IGNORECASE)


def clean_type(mime_type: str) -> tuple[str, str]:
    """Return a given MIME type in the one spelling used here, "" if it says nothing, and its charset."""
    charset = _CHARSET.search(mime_type)
    named = mime_type.split(";", 1)[0].strip().lower()
    return _ALIASES.get(named, named), charset[1] if charset else ""


def reader_of(mime_type: str) -> ReaderName | None:
    """Return the reader of a format; None for text that is taken as it is."""
    return _READERS.get(mime_type)


def drawer_of(mime_type: str) -> Literal["images.drawing", "pdf.drawing"] | None:
    """Return the module that draws the pages of a file; None if its type has none that can be drawn."""
    reader = reader_of(mime_type)
    return "pdf.drawing" if reader == "pdf.reader" else "images.drawing" if reader == "images.image" else None


def is_piecewise(reader: ReaderName) -> bool:
    """Return whether a reader reads piece by piece, so that a file may be larger than memory."""
    return reader in _PIECEWISE


def is_markdown(mime_type: str) -> bool:
    """Return whether extraction makes Markdown of a type."""
    return mime_type == MARKDOWN or (mime_type in _READERS and mime_type not in _NOT_MARKDOWN)


def type_of_text(mime_type: str, name: str, text: str) -> str:
    """Return the MIME type of what was handed in as text: the one given, else the one its name says.

    `mime_type` is clean; the beginning of `text` is enough. Raises ReadError with UNSUPPORTED_TYPE.
    """
    if mime_type:
        return _text_type(mime_type)
    hint = _hint(name)
    if hint == HTML and not _is_html(text, hint):
        return PLAIN
    return hint or PLAIN


def type_of_file(mime_type: str, name: str, file: BinaryIO, *, charset: str = "") -> str:
    """Return the MIME type of a file: what it shows to be, else the one given, else what it looks like.

    `mime_type` is clean; only the beginning of a text is read. Raises ReadError with UNSUPPORTED_TYPE,
    ENCRYPTED_DOCUMENT, CORRUPT_DOCUMENT (it is not of the given type) or INVALID_ENCODING.
    """
    file.seek(0)
    start = file.read(LOOKED_AT_BYTES)
    if (binary := _binary_type(start, file)) is not None:
        if binary not in _READERS:
            raise _unsupported(binary)
        return binary
    if mime_type:
        if mime_type in _READERS and mime_type not in _TEXTS:
            raise ReadError("CORRUPT_DOCUMENT", f"the content is not {mime_type}")
        return _text_type(mime_type)
    hint = _hint(name)
    if _is_html(start.decode("latin-1"), hint):
        return HTML  # which declares its encoding itself
    text = decoded(start, charset=charset, whole=False).lstrip()
    if _is_html(text, hint):  # in UTF-16
        return HTML
    if hint == HTML:
        return PLAIN
    if hint in {"", JSON, JSON_LINES} and text[:1] in {"{", "["}:
        return hint or JSON
    if hint in {"", XML} and text.startswith(("<?xml", "<svg")):
        return SVG if "<svg" in text[:2000] else XML
    headers = re.split(rb"\r?\n\r?\n", start[:10_000])[0]
    if hint in {"", EML} and _SAVED_PAGE.search(headers):
        return MHTML
    if not hint and len(_MAIL_HEADER.findall(headers)) >= 3:
        return EML
    return hint or _unnamed_text_type(text)


def is_guessed(mime_type: str, name: str) -> bool:
    """Return whether neither the given type nor the name says what a file is."""
    return not mime_type and not _hint(name)


def _text_type(mime_type: str) -> str:
    if mime_type not in _TEXTS:
        raise _unsupported(mime_type)
    return mime_type


def _hint(name: str) -> str:
    return _SUFFIXES.get(PurePosixPath(name).suffix.lower(), "")


def _binary_type(start: bytes, file: BinaryIO) -> str | None:
    if start[257:262] == b"ustar":
        return TAR
    if b"%PDF-" in start[:_PDF_MARK_WITHIN]:
        return PDF
    if start.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _zip_type(start, file)
    if start.startswith(_OLE):
        return _ole_type(file)
    if start.startswith(b"{\\rtf"):
        return RTF
    if start.startswith(b"RIFF") and start[8:12] == b"WEBP":
        return "image/webp"
    if start.startswith(b"BM") and start[6:10] == bytes(4):
        return "image/bmp"
    return next((kind for mark, kind in _SIGNATURES.items() if start.startswith(mark)), None)


def _ole_type(file: BinaryIO) -> str:
    file.seek(0)
    content = file.read(MAX_OLE_BYTES)
    if "EncryptedPackage".encode("utf-16-le") in content:
        raise ReadError("ENCRYPTED_DOCUMENT", "the document needs a password")
    found = (kind for name, kind in _OLE_STREAMS.items() if name.encode("utf-16-le") in content)
    return next(found, "application/x-ole-storage")


def _zip_type(start: bytes, file: BinaryIO) -> str:
    # An uncompressed first part names the format.
    if start[30:38] == b"mimetype":
        begin = 38 + struct.unpack_from("<H", start, 28)[0]
        size = struct.unpack_from("<I", start, 18)[0]
        declared = start[begin : begin + min(size, 200)].decode("latin-1").removesuffix("-template")
        if declared in _READERS:
            return declared
    names = list(zip_names(file))
    if found := next((_ZIP_PARTS[name] for name in names if name in _ZIP_PARTS), None):
        return found
    if "mimetype" in names and (declared := _declared_type(file)) in _READERS:
        return declared  # packed again by a program that knows no order of parts
    if names:
        return ZIP  # may hold an uncompressed document
    # A truncated file has none.
    return next((kind for name, kind in _ZIP_PARTS.items() if name.encode() in start), ZIP)


def _declared_type(file: BinaryIO) -> str:
    try:
        with zipfile.ZipFile(file) as archive, archive.open("mimetype") as part:
            return part.read(200).decode("latin-1").strip().removesuffix("-template")
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError):
        return ""


def _is_html(text: str, hint: str) -> bool:
    opening = text.lstrip("\ufeffï»¿ \t\r\n")[:2000].lower()
    return (
        opening.startswith(("<!doctype html", "<html"))
        or (opening.startswith(("<?xml", "<!--")) and "<html" in opening)
        or (hint == HTML and "<" in opening)
    )


def _unnamed_text_type(text: str) -> str:
    """Return the type of a text whose name says nothing: a table of three columns, or a heading with a blank
    line below, is hardly anything else."""
    lines = text.splitlines()
    if len(lines) >= 2 and lines[0].startswith(("# ", "## ")) and not lines[1].strip():
        return MARKDOWN
    if len(lines) >= 3 and (delimiter := delimiter_of(text, ",;\t")) and lines[0].count(delimiter) >= 2:
        return TSV if delimiter == "\t" else CSV
    return PLAIN


def _unsupported(mime_type: str) -> ReadError:
    called = _REFUSED.get(mime_type, mime_type[:100])
    return ReadError(
        "UNSUPPORTED_TYPE", f"{called} is not supported; see the README of groundline-extraction"
    )
