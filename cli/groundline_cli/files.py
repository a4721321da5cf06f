"""Documents in files and directories."""

import base64
import codecs
import json
import mimetypes
import os
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, Literal

SIDECAR_SUFFIX: Final = ".meta.json"
"""Suffix of the file that describes another: `{"title": …, "mimeType": …, "metadata": {…},
"allowedPrincipals": […]}`."""

type Form = Literal["text", "data", "json"]
"""How a file is handed in: decoded here, as it is, or as it is unless it holds objects."""

# What the ingestor takes as it reads, so that it need not be told apart there.
_TEXTS: Final = {
    ".markdown": "text/markdown",
    ".md": "text/markdown",
    ".rst": "text/x-rst",
    ".text": "text/plain",
    ".txt": "text/plain",
}
_JSON: Final = {".json", ".jsonl", ".ndjson"}
# The ingestor finds out the encoding of these, which office programs often write in another than UTF-8.
_ANY_ENCODING: Final = {".csv", ".tsv", ".htm", ".html", ".xhtml", ".xml", ".svg"}
_OFFICE: Final = "application/vnd.openxmlformats-officedocument"
_OPEN: Final = "application/vnd.oasis.opendocument"
# Named here so that a file that is none of its kind is refused for that, and not for what it happens to be.
_BINARIES: Final = {
    ".pdf": "application/pdf",
    ".docx": f"{_OFFICE}.wordprocessingml.document",
    ".docm": f"{_OFFICE}.wordprocessingml.document",
    ".xlsx": f"{_OFFICE}.spreadsheetml.sheet",
    ".xlsm": f"{_OFFICE}.spreadsheetml.sheet",
    ".xlsb": "application/vnd.ms-excel.sheet.binary.macroenabled.12",
    ".xls": "application/vnd.ms-excel",
    ".doc": "application/msword",
    ".ppt": "application/vnd.ms-powerpoint",
    ".msg": "application/vnd.ms-outlook",
    ".pptx": f"{_OFFICE}.presentationml.presentation",
    ".pptm": f"{_OFFICE}.presentationml.presentation",
    ".odt": f"{_OPEN}.text",
    ".ods": f"{_OPEN}.spreadsheet",
    ".odp": f"{_OPEN}.presentation",
    ".epub": "application/epub+zip",
    ".rtf": "application/rtf",
    ".eml": "message/rfc822",
    ".mbox": "message/rfc822",
    ".mht": "multipart/related",
    ".mhtml": "multipart/related",
    ".zip": "application/zip",
    ".tar": "application/x-tar",
    # A TAR archive or not, the ingestor finds out.
    ".gz": "application/gzip",
    ".tgz": "application/gzip",
    ".bz2": "application/x-bzip2",
    ".tbz2": "application/x-bzip2",
    ".xz": "application/x-xz",
    ".txz": "application/x-xz",
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".tif": "image/tiff",
    ".tiff": "image/tiff",
    ".bmp": "image/bmp",
    ".webp": "image/webp",
}
HANDED_IN_TYPES: Final = frozenset(_BINARIES.values())
"""Types as which files are handed in by their suffix."""
_SIGNATURES: Final = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a", b"II*\0", b"MM\0*")
_ZIP: Final = b"PK\x03\x04"
_SNIFFED_BYTES: Final = 8192
# Where readers of PDF still look for its mark.
_PDF_MARK_WITHIN: Final = 1024
# The ingestor's own limit, unless its operator has changed it; a file is read whole.
_MOST_MEBIBYTES: Final = 64
# What is not handed in as text grows by a third on the way.
_MOST_DATA_MEBIBYTES: Final = 47

_EMPTY: Final = "empty"
_UNSUPPORTED: Final = "unsupported type"
_SIDECAR: Final = "description"
_DESCRIBING: Final = {"title": str, "mimeType": str, "metadata": dict, "allowedPrincipals": list}


class UnreadableFileError(Exception):
    """A file cannot be handed in; the message says why."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A document that could not be ingested."""

    name: str
    """Its uri, or its path if it has none."""
    reason: str


@dataclass(frozen=True, slots=True)
class Description:
    """Metadata of a file that its content does not hold."""

    title: str = ""
    mime_type: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    allowed_principals: Sequence[str] = ()
    charset: str = ""
    """Charset of a text that is not UTF-8."""


PLAIN: Final = Description()
"""An empty description."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file to ingest."""

    path: Path
    uri: str
    """Path below the directory that was given, with slashes."""
    form: Form
    mime_type: str = ""
    """MIME type if the name leaves no doubt; otherwise the ingestor tells it by the content."""
    given: Description = PLAIN
    """Description of all files that are ingested with it."""

    @property
    def size(self) -> int:
        """Size in bytes; 0 if the file has gone."""
        try:
            return self.path.stat().st_size
        except OSError:
            return 0

    def beginning(self) -> str:
        """Return the first 8 KiB of a text or of HTML; "" for another file, or one that cannot be read."""
        if self.form != "text" and self.path.suffix.lower() not in _ANY_ENCODING:
            return ""
        try:
            with self.path.open("rb") as file:
                return file.read(_SNIFFED_BYTES).decode(self.given.charset or "utf-8", errors="ignore")
        except OSError:
            return ""

    def documents(self) -> Iterator[dict[str, Any]]:
        """Yield its DocumentInputs: one, or one for each object that it holds. Raises UnreadableFileError."""
        described = self.described()
        content = self._read()
        if self.form == "json" and not described.mime_type and (records := _records(content)):
            for number, record in enumerate(records, start=1):
                one = _object_input(record, f"{self.uri}#{number}")
                one["metadata"] = {**described.metadata, **one.get("metadata", {})}
                yield _filled(one | {"allowedPrincipals": [*described.allowed_principals]})
            return
        text = _decoded(content) if self.form == "text" and not self.given.charset else None
        # What is not UTF-8 is for the ingestor, which finds out.
        data = {"data": base64.b64encode(content).decode()} if text is None else {"text": text}
        yield _filled(
            {
                "uri": self.uri,
                **data,
                "title": described.title,
                "mimeType": described.mime_type,
                "metadata": {**described.metadata},
                "allowedPrincipals": [*described.allowed_principals],
            }
        )

    def described(self) -> Description:
        """Return its description: its sidecar file's members, then those given for all files. Raises
        UnreadableFileError."""
        own = _sidecar(self.path)
        return replace(
            self.given,
            title=own.get("title", self.given.title),
            mime_type=own.get("mimeType", self._mime_type()),
            metadata={**self.given.metadata, **own.get("metadata", {})},
            allowed_principals=own.get("allowedPrincipals", self.given.allowed_principals),
        )

    def _mime_type(self) -> str:
        if not self.given.charset or self.mime_type.startswith(("application/", "image/")):
            return self.mime_type
        guess = self.mime_type or mimetypes.guess_type(self.path.name)[0] or ""
        kind = guess if guess.startswith("text/") or guess == "application/json" else "text/plain"
        return f"{kind}; charset={self.given.charset}"

    def _read(self) -> bytes:
        most = _MOST_MEBIBYTES if self.form == "text" else _MOST_DATA_MEBIBYTES
        try:
            if self.path.stat().st_size > most << 20:
                raise UnreadableFileError(f"larger than {most} MiB")
            return self.path.read_bytes()
        except OSError as error:
            raise UnreadableFileError(error.strerror or str(error)) from error


@dataclass(slots=True)
class FileScan:
    """Files that a scan found."""

    files: list[SourceFile] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    """Number of directory entries that were skipped, by reason: "hidden", "unsupported type", …"""
    unsupported: list[str] = field(default_factory=list)
    """Uris of files of an unsupported type."""
    failures: list[Failure] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)
    """Uri prefixes of directories that could not be read."""


def scan(paths: Iterable[Path], exclude: Sequence[str] = (), given: Description = PLAIN) -> FileScan:
    """Find the named files, and the readable files below named directories, sorted by path.

    Types are told by name and by the first 8 KiB: office documents, PDF, books, mails, archives, images, and
    all text. Below directories, hidden and excluded entries, other types, empty files, sidecar files and
    links to directories (which could lead in circles) are skipped. `given` describes all files.
    """
    result = FileScan()
    taken: dict[str, Path] = {}
    for file in _candidates(paths, exclude, given, result):
        if file.uri in taken:
            if not _same_file(taken[file.uri], file.path):
                reason = (
                    f"{taken[file.uri]} has the same name below its directory; ingest a directory above both"
                )
                result.failures.append(Failure(str(file.path), reason))
        elif not _is_encodable(file.uri):
            result.failures.append(Failure(str(file.path), "its name is not valid UTF-8"))
        else:
            taken[file.uri] = file.path
            result.files.append(file)
    return result


def is_excluded(uri: str, exclude: Sequence[str]) -> bool:
    """Tell whether a pattern matches a path, its last part, or a directory above it; `*` matches anything."""
    parts = uri.split("/")
    return any(
        fnmatchcase("/".join(parts[: end + 1]), pattern) or fnmatchcase(parts[end], pattern)
        for end in range(len(parts))
        for pattern in exclude
    )


def _candidates(
    paths: Iterable[Path], exclude: Sequence[str], given: Description, result: FileScan
) -> Iterator[SourceFile]:
    for path in paths:
        if path.is_dir():
            for file in _walk(path, "", exclude, result):
                uri = file.relative_to(path).as_posix()
                try:
                    found = _source_file(file, uri, given)
                except OSError as error:
                    result.failures.append(Failure(uri, error.strerror or str(error)))
                    continue
                if isinstance(found, SourceFile):
                    yield found
                else:
                    result.skipped[found] += 1
                    if found == _UNSUPPORTED:
                        result.unsupported.append(uri)
        else:
            try:
                found = _source_file(path, path.name, given) if path.is_file() else _why_not(path)
            except OSError as error:
                found = error.strerror or str(error)
            if isinstance(found, SourceFile):
                yield found
            else:
                result.failures.append(Failure(str(path), found))


def _walk(directory: Path, prefix: str, exclude: Sequence[str], result: FileScan) -> Iterator[Path]:
    """Yield the files below a directory; their uris begin with `prefix`."""
    try:
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
    except OSError as error:
        result.failures.append(Failure(str(directory), error.strerror or str(error)))
        result.unseen.append(prefix)
        return
    for entry in entries:
        if entry.name.startswith("."):
            result.skipped["hidden"] += 1
        elif is_excluded(f"{prefix}{entry.name}", exclude):
            result.skipped["excluded"] += 1
        elif entry.is_dir(follow_symlinks=False):
            yield from _walk(directory / entry.name, f"{prefix}{entry.name}/", exclude, result)
        else:
            path = directory / entry.name  # whose answers are false, not errors, for links in a circle
            try:
                if path.is_file():
                    yield path
                else:
                    result.skipped["link to a directory" if path.is_dir() else "not a file"] += 1
            except OSError as error:
                name = f"{prefix}{entry.name}"
                result.failures.append(Failure(name, error.strerror or str(error)))


def _source_file(path: Path, uri: str, given: Description) -> SourceFile | str:
    """Return the file to hand in, or the reason why it cannot be. Raises OSError."""
    if uri.endswith(SIDECAR_SUFFIX) and Path(str(path).removesuffix(SIDECAR_SUFFIX)).is_file():
        return _SIDECAR
    with path.open("rb") as file:
        start = file.read(_SNIFFED_BYTES)
    if not start:
        return _EMPTY
    suffix = path.suffix.lower()
    if suffix in _TEXTS:
        return SourceFile(path, uri, "text", _TEXTS[suffix], given)
    if suffix in _BINARIES:
        return SourceFile(path, uri, "data", _BINARIES[suffix], given)
    if _is_known_binary(start, path):
        return SourceFile(path, uri, "data", given=given)
    is_text = b"\0" not in start if given.charset else suffix in _ANY_ENCODING or _looks_like_text(start)
    if start.startswith(_ZIP) or not is_text:
        return _UNSUPPORTED
    return SourceFile(path, uri, "json" if suffix in _JSON else "data", given=given)


def _is_known_binary(start: bytes, path: Path) -> bool:
    return (
        b"%PDF-" in start[:_PDF_MARK_WITHIN]
        or start.startswith(_SIGNATURES)
        or (start.startswith(b"RIFF") and start[8:12] == b"WEBP")
        or (start.startswith(b"BM") and start[6:10] == bytes(4))
        or (start.startswith(_ZIP) and _is_docx(path))
    )


def _is_docx(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return "word/document.xml" in archive.NameToInfo
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        return False


def _looks_like_text(start: bytes) -> bool:
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return True
    if b"\0" in start:
        return False
    try:
        codecs.getincrementaldecoder("utf-8")().decode(start)
    except UnicodeDecodeError:
        return False
    return True


def _decoded(content: bytes) -> str | None:
    """Decode UTF-8, or what the byte order mark says; None if it is neither."""
    is_wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    if not is_wide and b"\0" in content:
        return None  # UTF-16 without a mark, which would pass for UTF-8
    try:
        return content.decode("utf-16" if is_wide else "utf-8-sig")
    except UnicodeDecodeError:
        return None


def _sidecar(path: Path) -> dict[str, Any]:
    """Read the sidecar file; empty if it does not exist. Raises UnreadableFileError."""
    sidecar = path.with_name(path.name + SIDECAR_SUFFIX)
    try:
        if not sidecar.is_file():
            return {}
        own = json.loads(sidecar.read_bytes())
    except OSError as error:
        raise UnreadableFileError(f"{sidecar.name}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise UnreadableFileError(f"{sidecar.name} is not JSON: {error}") from error
    if not isinstance(own, dict):
        raise UnreadableFileError(f"{sidecar.name} is not a JSON object")
    for name, value in own.items():
        if name not in _DESCRIBING:
            raise UnreadableFileError(f"{sidecar.name} has {name}; there are {', '.join(_DESCRIBING)}")
        if not isinstance(value, _DESCRIBING[name]):
            raise UnreadableFileError(f"{sidecar.name}: {name} is of the wrong type")
    return own


def _filled(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document without its empty members."""
    return {name: value for name, value in document.items() if value or name in ("text", "data")}


def _records(content: bytes) -> list[dict[str, Any]]:
    """Return the records of a JSON text that holds only objects, `{"type": "object", "properties": {…}}`:
    one, a list, or one in each line."""
    if b'"properties"' not in content:
        return []
    try:
        text = content.decode("utf-8-sig")
        try:
            values = json.loads(text)
        except json.JSONDecodeError:
            values = [json.loads(line) for line in text.splitlines() if line.strip()]
    except (ValueError, RecursionError):
        return []  # the ingestor says what is wrong with it
    records = values if isinstance(values, list) else [values]
    return records if all(map(_is_record, records)) else []


def _is_record(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and value.get("type") == "object"
        and isinstance(value.get("properties"), dict)
        # A JSON Schema has the same form, but describes its properties.
        and not any(isinstance(one, dict) and "type" in one for one in value["properties"].values())
    )


def _object_input(record: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a DocumentInput; a record without a name of its own takes `name`."""
    properties = record["properties"]
    uris = (holder.get(key) for key in ("uri", "uuid") for holder in (record, properties))
    content: dict[str, Any] = {"properties": properties}
    if isinstance(record.get("schema"), str):
        content["schema"] = record["schema"]
    given: dict[str, Any] = {
        "uri": next((uri for uri in uris if isinstance(uri, str) and uri), name),
        "object": content,
    }
    if isinstance(record.get("title"), str):
        given["title"] = record["title"]
    if isinstance(record.get("metadata"), dict):
        given["metadata"] = record["metadata"]
    return given


def _why_not(path: Path) -> str:
    try:
        with path.open("rb"):
            return "not a file"
    except OSError as error:
        return error.strerror or str(error)


def _same_file(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
