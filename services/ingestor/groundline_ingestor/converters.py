"""Documents as the service works on them, out of requests that were checked, and as they are handed out."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

import numpy as np
from google.protobuf import json_format
from google.protobuf.struct_pb2 import Struct
from groundline.v1 import document_pb2, passage_pb2
from groundline.v1 import ingestor_service_pb2 as pb
from groundline_runtime.errors import Violations
from groundline_validation import limits_of, violations_of
from numpy.typing import NDArray

from groundline_ingestor.domain.documents import GivenDocument, restriction
from groundline_ingestor.domain.imports import GivenRecord
from groundline_ingestor.domain.metadata import plain_values
from groundline_ingestor.domain.texts import last_part
from groundline_ingestor.service.imports import PASSAGE_BREAK

__all__ = ["described_upload", "document_input", "download_metadata", "given_record"]

# What HTTP clients send that were not told a type.
_SAYS_NOTHING: Final = ("application/octet-stream", "application/x-www-form-urlencoded")
_RECORD_FIELDS: Final = frozenset({"uri", "title", "text", "mimeType", "metadata", "allowedPrincipals"})
_MAX_FILE_NAME: Final = 100
_MAX_OWN_URI: Final = limits_of(document_pb2.DocumentInput, "uri").max_bytes // 4
"""Characters of a record's own name, which may have 4 bytes each."""


def document_input(given: document_pb2.DocumentInput) -> GivenDocument:
    """A document as handed in; an object becomes the JSON of its properties."""
    content: str | bytes = given.data if given.WhichOneof("content") == "data" else given.text
    uri, source_type = given.uri, passage_pb2.SOURCE_TYPE_FILE
    metadata = plain_values(given.metadata)
    if given.HasField("object"):
        properties = plain_values(given.object.properties)
        # Keys in one order, since messages keep none: the same record has the same content.
        content = json.dumps(properties, ensure_ascii=False, sort_keys=True)
        source_type = passage_pb2.SOURCE_TYPE_OBJECT
        uri = uri or _own_uri(properties)
        metadata = _object_metadata(given.object.schema, properties) | metadata
    return GivenDocument(
        content=content,
        uri=uri,
        title=given.title,
        mime_type=given.mime_type,
        source_type=source_type,
        metadata=metadata,
        allowed_principals=restriction(given.allowed_principals),
    )


def described_upload(request: pb.UploadDocumentRequest) -> GivenDocument:
    """The document that the first message of an upload describes, without content. Raises
    InvalidArgumentError, also for what is wrong with the metadata, which come as text."""
    violations = violations_of(request)
    metadata = Struct()
    try:
        json_format.Parse(request.metadata_json or "{}", metadata, max_recursion_depth=50)
    except json_format.ParseError:
        violations.add("metadata_json", "must be a JSON object")
    mime_type = request.content.content_type
    given = document_pb2.DocumentInput(
        uri=request.uri,
        title=request.title,
        mime_type="" if mime_type.startswith(_SAYS_NOTHING) else mime_type,
        metadata=metadata,
        allowed_principals=request.allowed_principals,
        data=b"",
    )
    if not violations:
        violations.extend(violations_of(given))
    violations.raise_if_any()
    return document_input(given)


def given_record(values: Mapping[str, Any], dimensions: int) -> GivenRecord:
    """A record of an import: the fields of a DocumentInput with text in JSON, and `vector`, or `chunks` of
    `text` and `vector` in place of a text. Raises InvalidArgumentError, which names every wrong field."""
    violations = Violations()
    described = {name: value for name, value in values.items() if name in _RECORD_FIELDS}
    for name in values.keys() - _RECORD_FIELDS - {"vector", "chunks"}:
        violations.add(name, "is no field of a record")
    passages, vectors = _passages(values, violations)
    if vectors:
        described["text"] = PASSAGE_BREAK.join(passages)
    message = document_pb2.DocumentInput()
    try:
        # The parser of JSON looks at each character of a text: a tenth of what loading a record takes.
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
    """The texts that have vectors, and the vectors by their paths; both empty where there are none."""
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
    """Halves, as they are stored; all zeros where something is wrong."""
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


def download_metadata(document: document_pb2.Document) -> tuple[tuple[str, str], ...]:
    """What goes before the content of a document; over HTTP these are headers."""
    name = quote(last_part(document.uri)[:_MAX_FILE_NAME], safe="")
    return (
        ("content-disposition", f"attachment; filename*=UTF-8''{name}"),
        ("etag", f'"{document.content_hash}"'),
    )


def _own_uri(properties: Mapping[str, Any]) -> str:
    """What a record calls itself, where it was handed in without a uri."""
    for name in ("uri", "uuid"):
        value = properties.get(name)
        if isinstance(value, str) and 0 < len(value) <= _MAX_OWN_URI:
            return value
    return ""


def _object_metadata(schema: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    """What is shown of a record beside its text; metadata that was handed in goes before it."""
    shown = {"schema": schema, "uuid": properties.get("uuid")}
    return {name: value for name, value in shown.items() if value and isinstance(value, str)}
