"""Documents from the contract's messages."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from google.protobuf.struct_pb2 import Struct, Value
from groundline.v1 import document_pb2, passage_pb2
from groundline_contracts import limits_of
from groundline_extraction.documents import GivenDocument
from groundline_extraction.front_matter import MAX_EXACT

from groundline_indexing.collections import EVERYONE

_MAX_OWN_URI: Final = limits_of(document_pb2.DocumentInput, "uri").max_bytes // 4
"""Maximum characters of a record's own name, which may have 4 bytes each."""


def restriction(principals: Sequence[str]) -> tuple[str, ...]:
    """Return who alone may read; empty if everyone is named."""
    return () if EVERYONE in principals else tuple(dict.fromkeys(principals))


def document_input(given: document_pb2.DocumentInput) -> GivenDocument:
    """Return a document as it was handed in; an object becomes the JSON of its properties."""
    content: str | bytes = given.data if given.WhichOneof("content") == "data" else given.text
    uri, source_type = given.uri, passage_pb2.SOURCE_TYPE_FILE
    metadata = plain_values(given.metadata)
    if given.HasField("object"):
        properties = plain_values(given.object.properties)
        # Sorted keys, since messages have no order: the same record has the same content.
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


def _own_uri(properties: Mapping[str, Any]) -> str:
    """Return the name that an object's properties give it; empty without one."""
    for name in ("uri", "uuid"):
        value = properties.get(name)
        if isinstance(value, str) and 0 < len(value) <= _MAX_OWN_URI:
            return value
    return ""


def _object_metadata(schema: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object's schema and uuid as metadata; metadata that was handed in goes before them."""
    shown = {"schema": schema, "uuid": properties.get("uuid")}
    return {name: value for name, value in shown.items() if value and isinstance(value, str)}


def plain_values(struct: Struct) -> dict[str, Any]:
    """Return a Struct as JSON values, whole numbers as ints: so they are shown, and compared by filters."""
    return {key: _value(value) for key, value in struct.fields.items()}


def _value(value: Value) -> Any:
    match value.WhichOneof("kind"):
        case "number_value":
            number = value.number_value
            return int(number) if number.is_integer() and abs(number) <= MAX_EXACT else number
        case "string_value":
            return value.string_value
        case "bool_value":
            return value.bool_value
        case "struct_value":
            return plain_values(value.struct_value)
        case "list_value":
            return [_value(one) for one in value.list_value.values]
        case _:
            return None
