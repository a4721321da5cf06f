"""Files of records for an import, JSON Lines or Parquet, read in batches that are always the same."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import SEEK_END
from pathlib import Path
from typing import Any, BinaryIO, Final

from groundline_indexing.imports.records import ImportFileError

BATCH_BYTES: Final = 2 * 1024**2
"""Size of a batch of JSON Lines: some 400 records with vectors of 384 dimensions. An import that began with
another number does not know its batches again."""

MAXIMUM_LINE_BYTES: Final = 256 * 1024**2
"""Maximum size of a line."""

_FINGERPRINT_BYTES: Final = 1024**2


@dataclass(frozen=True, slots=True)
class Batch:
    """A part of a file: the lines that begin from byte `start` to before byte `end`, or a row group."""

    number: int
    path: Path
    start: int
    end: int
    first: int
    """Line or row of its first record, from 1."""
    size: int
    """Share of the work, in bytes."""
    row_group: int | None = None


def batches_of(paths: Sequence[Path]) -> Sequence[Batch]:
    """Return all parts of all files, numbered in their order. Raises ImportFileError."""
    parts: list[Batch] = []
    for path in paths:
        if _is_parquet(path):
            metadata = _open_parquet(path).metadata
            first = 1
            for number in range(metadata.num_row_groups):
                group = metadata.row_group(number)
                parts.append(Batch(len(parts), path, 0, 0, first, group.total_byte_size, number))
                first += group.num_rows
        else:
            size = _size(path)
            starts = range(0, size, BATCH_BYTES)
            for start, first in zip(starts, _first_lines(path, starts), strict=True):
                end = min(start + BATCH_BYTES, size)
                parts.append(Batch(len(parts), path, start, end, first, BATCH_BYTES))
    return parts


def fingerprints(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """Return what tells files from others: name, size, a hash of the beginning and the end."""
    return [{"name": path.name, "size": _size(path), "sha256": _edges(path)} for path in paths]


def records_of(batch: Batch) -> Iterator[tuple[int, Mapping[str, Any] | str]]:
    """Yield each record with its line, or row, from 1; in place of one that is not an object, the reason."""
    if batch.row_group is not None:
        yield from _rows(batch)
    else:
        yield from _lines(batch)


def _lines(batch: Batch) -> Iterator[tuple[int, Mapping[str, Any] | str]]:
    with batch.path.open("rb") as file:
        file.seek(max(batch.start - 1, 0))
        if batch.start:
            file.readline()  # the rest of a line that begins before
        number = batch.first
        while file.tell() < batch.end:
            line = file.readline(MAXIMUM_LINE_BYTES + 1)
            if len(line) > MAXIMUM_LINE_BYTES:
                yield number, f"a line has more than {MAXIMUM_LINE_BYTES} bytes"
                _skip_line(file)
            elif not line.isspace():
                yield number, _object(line)
            number += 1


def _object(line: bytes) -> Mapping[str, Any] | str:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return "is not JSON"
    return value if isinstance(value, dict) else "is not a JSON object"


def _skip_line(file: BinaryIO) -> None:
    while (part := file.readline(_FINGERPRINT_BYTES)) and not part.endswith(b"\n"):
        pass


def _first_lines(path: Path, starts: Iterable[int]) -> Iterator[int]:
    """Yield the number, from 1, of the first line that begins at each byte or after it; starts ascend.

    One pass through the file, before anything is loaded: it takes a hundredth of the time of loading.
    """
    lines, position = 1, 0
    with path.open("rb") as file:
        for start in starts:
            # A line begins at the byte itself if the one before it ends a line.
            end = max(start - 1, 0)
            lines += file.read(end - position).count(b"\n")
            position = end
            yield lines + 1 if start else lines


def _rows(batch: Batch) -> Iterator[tuple[int, Mapping[str, Any] | str]]:
    assert batch.row_group is not None, "a batch of Parquet is a row group"
    table = _open_parquet(batch.path).read_row_group(batch.row_group)
    number = batch.first - 1
    for part in table.to_batches():
        for row in part.to_pylist():
            number += 1
            # Every row has every column: null means not given.
            yield number, _given(row)


def _given(row: Mapping[str, Any]) -> Mapping[str, Any] | str:
    given = {name: value for name, value in row.items() if value is not None}
    if isinstance(metadata := given.get("metadata"), str):
        try:
            given["metadata"] = json.loads(metadata)
        except ValueError:
            return "metadata is text, but not JSON"
    return given


def _open_parquet(path: Path) -> Any:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ModuleNotFoundError as error:
        raise ImportFileError(
            f"{path.name}: reading Parquet needs pyarrow: pip install 'groundline-indexing[parquet]'"
        ) from error
    try:
        return ParquetFile(path)
    except (OSError, ArrowException) as error:
        raise ImportFileError(f"{path}: cannot be read as a Parquet file") from error


def _is_parquet(path: Path) -> bool:
    return path.suffix == ".parquet"


def _size(path: Path) -> int:
    """Return a file's size in bytes. Raises ImportFileError where it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.seek(0, SEEK_END)
    except OSError as error:
        raise ImportFileError(f"{path}: {error.strerror}") from error


def _edges(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        digest.update(file.read(_FINGERPRINT_BYTES))
        file.seek(max(_size(path) - _FINGERPRINT_BYTES, 0))
        digest.update(file.read())
    return digest.hexdigest()
