"""Records of an import, what became of them, and how far one has come."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from groundline_ingestor.domain.documents import GivenDocument

__all__ = [
    "BatchResult",
    "GivenRecord",
    "ImportFailedError",
    "ImportFileError",
    "ImportProgress",
    "RecordFailure",
]


class ImportFailedError(Exception):
    """An import cannot go on; the message says what to do. What was loaded is kept."""


class ImportFileError(ImportFailedError):
    """A file cannot be read."""


@dataclass(frozen=True)
class GivenRecord:
    """A document; with vectors, one for each of its passages, which are its chunks then."""

    given: GivenDocument
    passages: Sequence[str] = ()
    vectors: NDArray[np.float16] | None = None
    """Of shape (passages, dimensions)."""


@dataclass(frozen=True)
class RecordFailure:
    """What is wrong with a record, from 1 in its file."""

    file: str
    line: int
    field: str
    description: str

    def as_json(self) -> Mapping[str, str | int]:
        return {"file": self.file, "line": self.line, "field": self.field, "description": self.description}

    def __str__(self) -> str:
        return ": ".join(filter(None, (f"{self.file}:{self.line}", self.field, self.description)))


@dataclass(frozen=True)
class BatchResult:
    """What became of a part of a file."""

    document_count: int = 0
    added_count: int = 0
    """Of documents that the collection has not had."""
    byte_count: int = 0
    """By which the collection's documents grow."""
    chunk_count: int = 0
    unchanged_count: int = 0
    failures: Sequence[RecordFailure] = ()


@dataclass(frozen=True)
class ImportProgress:
    """How far an import is; `done` of `total` in units of the stage."""

    stage: str
    done: int
    total: int
    chunk_count: int
