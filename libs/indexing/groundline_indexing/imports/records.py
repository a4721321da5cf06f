"""Records of an import, its results and its progress."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from google.protobuf import json_format
from groundline.v1 import document_pb2
from groundline_extraction.documents import GivenDocument
from groundline_runtime.errors import Violations
from groundline_validation import violations_of
from numpy.typing import NDArray

from groundline_indexing.inputs import document_input

PASSAGE_BREAK: Final = "\n\n"
"""Separator of a document's passages, in its text."""


class ImportFailedError(Exception):
    """The import cannot continue; the message says what to do. Loaded data is kept."""


class ImportFileError(ImportFailedError):
    """A file cannot be read."""


@dataclass(frozen=True, slots=True)
class GivenRecord:
    """A document; with vectors, one for each of its passages, which then are its chunks."""

    given: GivenDocument
    passages: Sequence[str] = ()
    vectors: NDArray[np.float16] | None = None
    """Vectors of the passages, of shape (passages, dimensions); None without."""


@dataclass(frozen=True, slots=True)
class RecordFailure:
    """A reason why a record is refused; lines count from 1."""

    file: str
    line: int
    field: str
    description: str

    def as_json(self) -> Mapping[str, str | int]:
        return {"file": self.file, "line": self.line, "field": self.field, "description": self.description}

    def __str__(self) -> str:
        return ": ".join(filter(None, (f"{self.file}:{self.line}", self.field, self.description)))


@dataclass(frozen=True, slots=True)
class BatchResult:
    """Counts of the documents of a part of a file."""

    document_count: int = 0
    added_count: int = 0
    """Number of documents that the collection has not had."""
    byte_count: int = 0
    """Bytes by which the collection's documents grow."""
    chunk_count: int = 0
    unchanged_count: int = 0
    failures: Sequence[RecordFailure] = ()
    job_id: str = ""
    """Job of an import that has changed its collection, by which it can be taken back; "" before."""


@dataclass(frozen=True, slots=True)
class ImportProgress:
    """Progress of an import; `done` of `total` in units of the stage."""

    stage: str
    done: int
    total: int
    chunk_count: int


_RECORD_FIELDS: Final = frozenset({"uri", "title", "text", "mimeType", "metadata", "allowedPrincipals"})


def given_record(values: Mapping[str, Any], dimensions: int) -> GivenRecord:
    """Read a record of an import: fields of a DocumentInput with text in JSON, and `vector`, or `chunks` of
    `text` and `vector` in place of a text. Raises InvalidArgumentError, which names every wrong field."""
    violations = Violations()
    described = {name: value for name, value in values.items() if name in _RECORD_FIELDS}
    for name in values.keys() - _RECORD_FIELDS - {"vector", "chunks"}:
        violations.add(name, "is not a field of a record")
    passages, vectors = _passages(values, violations)
    if vectors:
        described["text"] = PASSAGE_BREAK.join(passages)
    message = document_pb2.DocumentInput()
    try:
        # The parser of JSON examines each character of a text: a tenth of the time of loading a record.
        if isinstance(text := described.get("text"), str):
            message.text = text
            del described["text"]
        json_format.ParseDict(described, message, max_recursion_depth=50)
    except (json_format.ParseError, UnicodeEncodeError) as error:
        violations.add("", str(error))
    else:
        violations.extend(violations_of(message))
        if not message.text.strip() and not violations:
            violations.add("text", "must not be empty")
    embedded = [_vector(vector, path, dimensions, violations) for path, vector in vectors.items()]
    violations.raise_if_any()
    return GivenRecord(
        document_input(message), passages, np.array(embedded, np.float16) if embedded else None
    )


def _passages(values: Mapping[str, Any], violations: Violations) -> tuple[Sequence[str], Mapping[str, Any]]:
    """Return the texts that have vectors, and the vectors by their paths; both may be empty."""
    if "chunks" not in values:
        if "vector" not in values:
            return (), {}
        text = values.get("text")
        return [text] if isinstance(text, str) else (), {"vector": values["vector"]}
    for name in ("text", "vector"):
        if name in values:
            violations.add(name, "must not be given beside chunks")
    chunks = values["chunks"]
    if not isinstance(chunks, list) or not chunks:
        violations.add("chunks", "must be a list of chunks, at least one")
        return (), {}
    texts: list[str] = []
    vectors: dict[str, Any] = {}
    for index, chunk in enumerate(chunks):
        path = f"chunks[{index}]"
        if not isinstance(chunk, Mapping) or chunk.keys() != {"text", "vector"}:
            violations.add(path, "must have a text and a vector, and nothing else")
            continue
        if not isinstance(chunk["text"], str) or not chunk["text"].strip():
            violations.add(f"{path}.text", "must be a text that is not empty")
        texts.append(str(chunk["text"]))
        vectors[f"{path}.vector"] = chunk["vector"]
    return texts, vectors


def _vector(values: Any, path: str, dimensions: int, violations: Violations) -> NDArray[np.float16]:
    """Return a vector in half precision, as it is stored; all zeros if it is wrong, which is noted."""
    try:
        vector = np.asarray(values, np.float32)
        with np.errstate(over="ignore"):
            halves = vector.astype(np.float16)
    except (TypeError, ValueError):
        halves = np.empty(0, np.float16)
    if halves.shape != (dimensions,):
        violations.add(path, f"must be a list of {dimensions} numbers")
    elif not np.isfinite(halves).all() or not halves.any():
        violations.add(path, "must be numbers within what halfvec holds, not all of them 0")
    else:
        return halves
    return np.zeros(dimensions, np.float16)
