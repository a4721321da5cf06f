"""The documents among files and directories."""

import codecs
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Failure", "FileScan", "SourceFile", "UnreadableFileError", "scan"]

_TYPES = {
    ".markdown": "text/markdown",
    ".md": "text/markdown",
    ".rst": "text/plain",
    ".text": "text/plain",
    ".txt": "text/plain",
}
_SNIFFED_BYTES = 8192
# The ingestor's own limit, unless its operator has changed it; a file is read whole.
_MOST_MEBIBYTES = 64


class UnreadableFileError(Exception):
    """A file has no text that can be handed in; the message says why."""


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
    mime_type: str

    @property
    def size(self) -> int:
        """Bytes; 0 where it is gone."""
        try:
            return self.path.stat().st_size
        except OSError:
            return 0

    def read_text(self) -> str:
        """Its text: UTF-8, or what its byte order mark says. Raises UnreadableFileError."""
        try:
            if self.path.stat().st_size > _MOST_MEBIBYTES << 20:
                raise UnreadableFileError(f"larger than {_MOST_MEBIBYTES} MiB")
            content = self.path.read_bytes()
        except OSError as error:
            raise UnreadableFileError(error.strerror or str(error)) from error
        if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            encoding, name = "utf-16", "UTF-16"
        else:
            encoding, name = "utf-8-sig", "UTF-8"
        try:
            return content.decode(encoding)
        except UnicodeDecodeError as error:
            raise UnreadableFileError(f"not {name} text (at byte {error.start})") from error


@dataclass
class FileScan:
    """What a scan has found."""

    files: list[SourceFile] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    """How many entries of directories were passed over, by why: "hidden", "unsupported type", …"""
    failures: list[Failure] = field(default_factory=list)


def scan(paths: Iterable[Path]) -> FileScan:
    """Files that are named, and Markdown and text files below directories that are named, sorted by path.

    A file that is named has to be text, whatever its name. Below directories hidden entries, other types
    and links to directories (which could lead in circles) are passed over. Contents are not read, except
    the first 8 KiB of files whose names say nothing of their type.
    """
    result = FileScan()
    taken: dict[str, Path] = {}
    for path, uri, mime_type in _candidates(paths, result):
        if uri in taken:
            if not _same_file(taken[uri], path):
                reason = f"{taken[uri]} has the same name below its directory; ingest a directory above both"
                result.failures.append(Failure(str(path), reason))
        elif not _is_encodable(uri):
            result.failures.append(Failure(str(path), "its name is not valid UTF-8"))
        else:
            taken[uri] = path
            result.files.append(SourceFile(path, uri, mime_type))
    return result


def _candidates(paths: Iterable[Path], result: FileScan) -> Iterator[tuple[Path, str, str]]:
    for path in paths:
        if path.is_dir():
            for file in _walk(path, result):
                mime_type = _mime_type(file, sniff=not file.suffix)
                if mime_type is None:
                    result.skipped["unsupported type"] += 1
                else:
                    yield file, file.relative_to(path).as_posix(), mime_type
        else:
            mime_type = _mime_type(path, sniff=True)
            if mime_type is None:
                result.failures.append(Failure(str(path), _why_not(path)))
            else:
                yield path, path.name, mime_type


def _walk(directory: Path, result: FileScan) -> Iterator[Path]:
    try:
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
    except OSError as error:
        result.failures.append(Failure(str(directory), error.strerror or str(error)))
        return
    for entry in entries:
        if entry.name.startswith("."):
            result.skipped["hidden"] += 1
        elif entry.is_dir(follow_symlinks=False):
            yield from _walk(directory / entry.name, result)
        elif entry.is_file():
            yield directory / entry.name
        elif entry.is_dir():
            result.skipped["link to a directory"] += 1
        else:
            result.skipped["not a file"] += 1


def _mime_type(path: Path, *, sniff: bool) -> str | None:
    known = _TYPES.get(path.suffix.lower())
    if known and path.is_file():
        return known
    return "text/plain" if sniff and _looks_like_text(path) else None


def _looks_like_text(path: Path) -> bool:
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            start = file.read(_SNIFFED_BYTES)
    except OSError:
        return False
    if b"\0" in start:
        return False
    try:
        codecs.getincrementaldecoder("utf-8")().decode(start)
    except UnicodeDecodeError:
        return False
    return True


def _why_not(path: Path) -> str:
    try:
        with path.open("rb"):
            return "not a text file" if path.is_file() else "not a file"
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
