"""The documents among files and directories."""

import base64
import codecs
import json
import os
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

__all__ = ["Failure", "FileScan", "SourceFile", "UnreadableFileError", "is_excluded", "scan"]

type Form = Literal["text", "data", "json"]
"""How a file is handed in: decoded here, as it is, or as it is unless it holds objects."""

# What the ingestor takes as it reads, so that it need not be told apart there.
_TEXTS = {
    ".markdown": "text/markdown",
    ".md": "text/markdown",
    ".rst": "text/plain",
    ".text": "text/plain",
    ".txt": "text/plain",
}
_JSON = {".json", ".jsonl", ".ndjson"}
_DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
# Named here so that a file that is none of its kind is refused for that, and not for what it happens to be.
_BINARIES = {
    ".pdf": "application/pdf",
    ".docx": _DOCX,
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".tif": "image/tiff",
    ".tiff": "image/tiff",
    ".bmp": "image/bmp",
    ".webp": "image/webp",
}
_SIGNATURES = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a", b"II*\0", b"MM\0*")
_ZIP = b"PK\x03\x04"
_SNIFFED_BYTES = 8192
# Where readers of PDF still look for its mark.
_PDF_MARK_WITHIN = 1024
# The ingestor's own limit, unless its operator has changed it; a file is read whole.
_MOST_MEBIBYTES = 64
# What is not handed in as text grows by a third on the way.
_MOST_DATA_MEBIBYTES = 47

_EMPTY = "empty"
_UNSUPPORTED = "unsupported type"


class UnreadableFileError(Exception):
    """A file cannot be handed in; the message says why."""


@dataclass(frozen=True)
class Failure:
    """Something that was to be ingested and was not."""

    name: str
    """Its uri, or its path where it has none."""
    reason: str


@dataclass(frozen=True)
class SourceFile:
    """A file to ingest."""

    path: Path
    uri: str
    """Its path below the directory that was given, with slashes."""
    form: Form
    mime_type: str = ""
    """Where its name leaves no doubt; else its content tells it to the ingestor."""

    @property
    def size(self) -> int:
        """Bytes; 0 where it is gone."""
        try:
            return self.path.stat().st_size
        except OSError:
            return 0

    def documents(self) -> Iterator[dict[str, Any]]:
        """Its DocumentInputs: one, or one for each object that it holds. Raises UnreadableFileError."""
        content = self._read()
        if self.form == "text":
            yield self._input({"text": _decoded(content)})
        elif self.form == "json" and (records := _records(content)):
            for number, record in enumerate(records, start=1):
                yield _object_input(record, f"{self.uri}#{number}")
        else:
            yield self._input({"data": base64.b64encode(content).decode()})

    def _input(self, content: dict[str, Any]) -> dict[str, Any]:
        given = {"uri": self.uri, **content}
        return given | {"mimeType": self.mime_type} if self.mime_type else given

    def _read(self) -> bytes:
        most = _MOST_MEBIBYTES if self.form == "text" else _MOST_DATA_MEBIBYTES
        try:
            if self.path.stat().st_size > most << 20:
                raise UnreadableFileError(f"larger than {most} MiB")
            return self.path.read_bytes()
        except OSError as error:
            raise UnreadableFileError(error.strerror or str(error)) from error


@dataclass
class FileScan:
    """What a scan has found."""

    files: list[SourceFile] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    """How many entries of directories were passed over, by why: "hidden", "unsupported type", …"""
    failures: list[Failure] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)
    """What uris below directories begin with that could not be read."""


def scan(paths: Iterable[Path], exclude: Sequence[str] = ()) -> FileScan:
    """Files that are named, and files of a kind that can be read below directories that are named, sorted by
    path.

    Kinds are told by the first 8 KiB: PDF, DOCX, images, and all that is text. Below directories hidden and
    excluded entries, other kinds, empty files and links to directories (which could lead in circles) are
    passed over.
    """
    result = FileScan()
    taken: dict[str, Path] = {}
    for file in _candidates(paths, exclude, result):
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
    """Whether a pattern describes a path, its last part, or a directory above it; `*` stands for anything."""
    parts = uri.split("/")
    return any(
        fnmatchcase("/".join(parts[: end + 1]), pattern) or fnmatchcase(parts[end], pattern)
        for end in range(len(parts))
        for pattern in exclude
    )


def _candidates(paths: Iterable[Path], exclude: Sequence[str], result: FileScan) -> Iterator[SourceFile]:
    for path in paths:
        if path.is_dir():
            for file in _walk(path, "", exclude, result):
                uri = file.relative_to(path).as_posix()
                try:
                    found = _source_file(file, uri)
                except OSError as error:
                    result.failures.append(Failure(uri, error.strerror or str(error)))
                    continue
                if isinstance(found, SourceFile):
                    yield found
                else:
                    result.skipped[found] += 1
        else:
            try:
                found = _source_file(path, path.name) if path.is_file() else _why_not(path)
            except OSError as error:
                found = error.strerror or str(error)
            if isinstance(found, SourceFile):
                yield found
            else:
                result.failures.append(Failure(str(path), found))


def _walk(directory: Path, prefix: str, exclude: Sequence[str], result: FileScan) -> Iterator[Path]:
    """Files below a directory, whose uris begin with the prefix."""
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


def _source_file(path: Path, uri: str) -> SourceFile | str:
    """How to hand a file in, or why not. Raises OSError."""
    with path.open("rb") as file:
        start = file.read(_SNIFFED_BYTES)
    if not start:
        return _EMPTY
    suffix = path.suffix.lower()
    if suffix in _TEXTS:
        return SourceFile(path, uri, "text", _TEXTS[suffix])
    if suffix in _BINARIES:
        return SourceFile(path, uri, "data", _BINARIES[suffix])
    if _is_known_binary(start, path):
        return SourceFile(path, uri, "data")
    if start.startswith(_ZIP) or not _looks_like_text(start):
        return _UNSUPPORTED
    return SourceFile(path, uri, "json" if suffix in _JSON else "data")


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


def _decoded(content: bytes) -> str:
    """UTF-8, or what its byte order mark says. Raises UnreadableFileError."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding, name = "utf-16", "UTF-16"
    else:
        encoding, name = "utf-8-sig", "UTF-8"
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        raise UnreadableFileError(f"not {name} text (at byte {error.start})") from error


def _records(content: bytes) -> list[dict[str, Any]]:
    """The records of a JSON text where all of it is objects, `{"type": "object", "properties": {…}}`: one,
    a list, or one in each line."""
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
    """A DocumentInput; a record that does not say what it is called takes the name."""
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
