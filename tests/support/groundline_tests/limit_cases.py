"""Requests on and beyond every limit that the contract states, made from the options on its fields."""

import math
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor, MethodDescriptor
from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message
from groundline.v1 import limits_pb2
from groundline_validation.rules import rules_of

PROTOS: Final = Path(__file__).resolve().parents[3] / "protos/groundline/v1"

MAX_LENGTH: Final = 200_000
"""Maximum length of generated texts; longer ones take seconds to send."""

_UNKNOWN_ENUM: Final = 9999
_INTEGERS: Final = (FieldDescriptor.TYPE_INT32, FieldDescriptor.TYPE_INT64, FieldDescriptor.TYPE_FIXED32)

# What a message needs beyond what its limits ask for, by its rules between fields.
_NEEDED: Final[Mapping[str, Mapping[str, Any]]] = {
    "ChatMessage": {"role": "USER"},
    "QueryTablesRequest": {"question": "How heavy is it?"},
    "PlanTableRequest": {"tables": [{}]},
    "TableCondition": {"operator": "TABLE_OPERATOR_EQUAL", "values": ["x"]},
    "TableGroupCondition": {"operator": "TABLE_OPERATOR_EQUAL"},
    "CreateApiKeyRequest": {"name": "limits", "principals": ["user:limits"], "scopes": ["search"]},
    "CollectionChunks": {"chunkIds": ["1"]},
    "RankedList": {"arm": "SEARCH_ARM_KEYWORD"},
    "Chunk": {"chunkId": "a"},
    "ContextualizeChunksRequest": {"documentText": "text"},
    "DeleteDocumentsRequest": {"filter": {"year": 2026}},
    "EmbedTextsRequest": {"texts": ["text"]},
    "DocumentInput": {"text": "text"},
    "IngestDocumentsRequest": {"documents": [{"text": "text"}]},
    "WebCrawl": {"startUrl": "https://example.com/"},
    "WebSource": {"startUrl": "https://example.com/"},
    "GitSource": {"url": "https://example.com/a.git"},
    "FeedSource": {"url": "https://example.com/feed", "username": "a", "passwordSecret": "a"},
    "ImapSource": {"host": "imap.example.com"},
    "S3Source": {
        "endpointUrl": "https://example.com",
        "bucket": "abc",
        "accessKeySecret": "a",
        "secretKeySecret": "a",
    },
    "PluginSource": {"kind": "webdav", "settings": {"url": "https://example.com/"}},
    "DocumentSource": {"name": "a", "directory": {"path": "/srv/a"}},
    "CreateSourceRequest": {"source": {"name": "a", "directory": {"path": "/srv/a"}}},
    "CheckSourceRequest": {"source": {"name": "a", "directory": {"path": "/srv/a"}}},
    "CollectStart": {"source": {"name": "a", "directory": {"path": "/srv/a"}}},
    "Webhook": {"url": "https://example.com/"},
}

# Columns that must match each other: one value alone never is beyond its limit and nothing else.
_COLUMNS: Final = ("RankedList",)

# Fields that exclude each other.
_EXCLUDES: Final = {"crawl": "documents"}

_RIGHT: Final = {
    limits_pb2.TEXT_FORMAT_COLLECTION_ID: ("a", "0", "a" * 63, "a_-0"),
    limits_pb2.TEXT_FORMAT_UUID: (str(uuid.UUID(int=1)), str(uuid.UUID(int=2**128 - 1)).upper()),
    limits_pb2.TEXT_FORMAT_CHUNK_ID: ("0", str(2**63 - 1)),
    limits_pb2.TEXT_FORMAT_POSITION: ("0" * 16, f"{2**63 - 1:x}"),
    limits_pb2.TEXT_FORMAT_PRINCIPAL: ("u", "p" * 200),
    limits_pb2.TEXT_FORMAT_SECRET_NAME: ("a", "A.b_-0", "s" * 100),
    limits_pb2.TEXT_FORMAT_REVISION: ("0" * 32, "0123456789abcdef" * 2),
    limits_pb2.TEXT_FORMAT_LANGUAGE: ("english", "simple"),
    limits_pb2.TEXT_FORMAT_FILTER: ('{"year": 2024}', "{}"),
}
_WRONG: Final = {
    limits_pb2.TEXT_FORMAT_COLLECTION_ID: ("A", "-a", "a" * 64, "a b", "ä"),
    limits_pb2.TEXT_FORMAT_UUID: ("1", str(uuid.UUID(int=1)).replace("-", ""), f"{{{uuid.UUID(int=1)}}}"),
    limits_pb2.TEXT_FORMAT_CHUNK_ID: ("-1", "01", str(2**63), "x"),
    limits_pb2.TEXT_FORMAT_POSITION: ("0", f"{2**63:x}", "0/1A2B3C4D", "A" * 16),
    limits_pb2.TEXT_FORMAT_REVISION: ("0" * 31, "0" * 33, "A" * 32, "g" * 32),
    limits_pb2.TEXT_FORMAT_SECRET_NAME: (".a", "..", "a/b", "s" * 101, "a b"),
    limits_pb2.TEXT_FORMAT_PRINCIPAL: ("p" * 201, "a b", "a\tb"),
    limits_pb2.TEXT_FORMAT_LANGUAGE: ("e", "English", "x" * 31),
    limits_pb2.TEXT_FORMAT_FILTER: ("year", "[]", '{"$no": 1}'),
}
_WRONG_STRUCTS: Final[Mapping[int, tuple[Mapping[str, Any], ...]]] = {
    limits_pb2.STRUCT_FORMAT_FILTER: (
        {"year": {"$near": 1}},
        {"$document_id": "x"},
        {"year": {"$in": list(range(1001))}},
        {"team": {"$regex": "a" * 257}},
        {"team": {"$not": {"$regex": r"(a)\1"}}},
    ),
    limits_pb2.STRUCT_FORMAT_JSON: ({"a": "\0"}, {"a": {"b\0": 1}}),
}
_RIGHT_STRUCTS: Final[Mapping[int, tuple[Mapping[str, Any], ...]]] = {
    limits_pb2.STRUCT_FORMAT_FILTER: (
        {"year": {"$in": list(range(1000))}},
        {"team": {"$not": {"$regex": "a" * 256}}},
    ),
    limits_pb2.STRUCT_FORMAT_JSON: ({"a": [1, {"b": None}]},),
}


@dataclass(frozen=True, slots=True)
class LimitCase:
    """A request that differs from the smallest valid one in a single value."""

    request: Message
    field: str
    """Path of the field, as a violation names it."""
    is_right: bool
    concept: str
    """Message and field that state the limit, and the value: all services must agree on it."""


def methods() -> list[MethodDescriptor]:
    """Return the methods of all services of the contract."""
    found: list[MethodDescriptor] = []
    for path in sorted(PROTOS.glob("*_service.proto")):
        import_module(f"groundline.v1.{path.stem}_pb2")
        file = descriptor_pool.Default().FindFileByName(f"groundline/v1/{path.name}")
        for service in file.services_by_name.values():
            found.extend(service.methods)
    return found


def smallest(descriptor: Descriptor) -> Message:
    """Return a message with no more than it needs."""
    message = message_factory.GetMessageClass(descriptor)()
    ParseDict(dict(_NEEDED.get(descriptor.name, {})), message)
    for field in fields_of(descriptor):
        if needs_value(field) and not getattr(message, field.name):
            setattr(message, field.name, right_text(limits_of(field)))
        if field.name == "number" and limits_of(field).minimum:
            setattr(message, field.name, 1)
    return message


def limit_cases(base: Message) -> Iterator[LimitCase]:
    """Yield every limit of the message and of its parts, from a valid message; recursive types once."""
    for field, path, holder in walk(base, "", ()):
        for value, is_right in values_of(field):
            request = type(base)()
            request.CopyFrom(base)
            target = holder(request)
            where = put(target, field, value, path)
            if is_right and any(list(rule(target)) for rule in rules_of(target.DESCRIPTOR.full_name)):
                continue  # within its own limits, it may be beyond another field's
            yield LimitCase(request, where, is_right, f"{field.full_name} {shown(value)}")


def walk(base: Message, path: str, above: tuple[str, ...]) -> Iterator[tuple[FieldDescriptor, str, Any]]:
    """Yield each field that has limits, the path of its message, and a function that reaches that message."""
    for field in fields_of(base.DESCRIPTOR):
        if has_limits(field):
            yield field, path, lambda request: request
        inner: Any = field.message_type
        if inner is None or is_map(field) or inner.full_name.startswith("google."):
            continue
        if inner.name in (*above, *_COLUMNS):
            continue
        within = smallest(inner)
        prefix = f"{path}{field.name}[0]." if field.is_repeated else f"{path}{field.name}."
        for one, where, holder in walk(within, prefix, (*above, inner.name)):
            yield one, where, reach(field, within, holder)


def fields_of(descriptor: Any) -> list[FieldDescriptor]:
    """Return the fields in one class, for the type checker: in protobuf's stubs they may be of either of
    two."""
    return list(descriptor.fields)


def reach(field: FieldDescriptor, within: Message, holder: Any) -> Any:
    """Return the function from the message that has `field` to the one that `holder` finds in its value."""

    def find(request: Any) -> Any:
        if other := _EXCLUDES.get(field.name):
            request.ClearField(other)
        if field.is_repeated:
            entries = getattr(request, field.name)
            if not entries:
                entries.add().CopyFrom(within)
            return holder(entries[0])
        if not request.HasField(field.name):
            getattr(request, field.name).CopyFrom(within)
        return holder(getattr(request, field.name))

    return find


def put(target: Any, field: FieldDescriptor, value: Any, path: str) -> str:
    """Set the value; return the path that a violation of it has."""
    if is_map(field):
        target_map = getattr(target, field.name)
        for key, one in value.items():
            target_map[key] = one
        return f'{path}{field.name}["{next(iter(value))}"]'
    if field.is_repeated:
        target.ClearField(field.name)
        getattr(target, field.name).extend(value)
        limits = limits_of(field)
        too_many = limits.HasField("max_items") and len(value) > limits.max_items
        return f"{path}{field.name}" if too_many else f"{path}{field.name}[{len(value) - 1}]"
    if field.message_type is not None:
        getattr(target, field.name).update(value)
    else:
        setattr(target, field.name, value)
    return f"{path}{field.name}"


def values_of(field: FieldDescriptor) -> Iterator[tuple[Any, bool]]:
    """Yield values of a field, and whether each is valid."""
    limits = limits_of(field)
    if is_map(field):
        for key in limits.allowed_values:
            yield from (({key: value}, is_right) for value, is_right in numbers(limits, is_float=True))
        yield {"no-such-key": 0.5}, False
        return
    if not field.is_repeated:
        yield from single_values(field, limits)
        return
    entry: Any = 1 if field.type in _INTEGERS else right_text(limits)
    if field.message_type is not None:
        entry = smallest(field.message_type)
    if limits.HasField("max_items"):
        yield numbered([entry] * limits.max_items), True
        yield numbered([entry] * (limits.max_items + 1)), False
    if field.message_type is None:
        yield from (([value], is_right) for value, is_right in single_values(field, limits))


def numbered(entries: list[Any]) -> list[Any]:
    """Give the entries numbers of their own, if they have numbers."""
    if not isinstance(entries[0], Message) or "number" not in entries[0].DESCRIPTOR.fields_by_name:
        return entries
    made: list[Any] = []
    for number, entry in enumerate(entries, 1):
        made.append(type(entry)())
        made[-1].CopyFrom(entry)
        made[-1].number = number
    return made


def single_values(field: FieldDescriptor, limits: limits_pb2.Limits) -> Iterator[tuple[Any, bool]]:
    if field.enum_type is not None:
        yield _UNKNOWN_ENUM, False
    elif field.type == FieldDescriptor.TYPE_STRING:
        yield from texts(field, limits)
    elif field.message_type is not None:
        if field.name != "settings":  # which only the kind of source knows
            yield from ((value, True) for value in _RIGHT_STRUCTS.get(limits.struct_format, ()))
        yield from ((value, False) for value in _WRONG_STRUCTS.get(limits.struct_format, ()))
        if limits.HasField("max_bytes"):
            yield {"a": "x" * limits.max_bytes}, False
    else:
        is_float = field.type in (FieldDescriptor.TYPE_FLOAT, FieldDescriptor.TYPE_DOUBLE)
        # If 0 cannot be told from unset, it is not checked.
        yield from (pair for pair in numbers(limits, is_float=is_float) if field.has_presence or pair[0])


def numbers(limits: limits_pb2.Limits, *, is_float: bool) -> Iterator[tuple[float, bool]]:
    step = 0.5 if is_float else 1
    cast = float if is_float else int
    if limits.HasField("minimum"):
        yield cast(limits.minimum), True
        yield cast(limits.minimum - step), False
    if limits.HasField("maximum"):
        yield cast(limits.maximum), True
        yield cast(limits.maximum + step), False
    if is_float:
        yield from ((value, False) for value in (math.nan, math.inf, -math.inf))


def texts(field: FieldDescriptor, limits: limits_pb2.Limits) -> Iterator[tuple[str, bool]]:
    if limits.text_format:
        yield from ((text, True) for text in _RIGHT[limits.text_format])
        yield from ((text, False) for text in _WRONG[limits.text_format])
    if limits.HasField("max_length") and limits.max_length <= MAX_LENGTH:
        # Bytes may be the narrower limit. Only a token's author knows its content.
        if not limits.text_format and field.name not in ("page_token", "start_url"):
            yield filled(field, limits.max_length), True
        yield filled(field, limits.max_length + 1), False
    if limits.HasField("max_bytes"):
        yield "ä" * (limits.max_bytes // 2 + 1), False
    if limits.min_length and (field.is_repeated or not field.has_presence):
        yield "", False
        yield " ", False
    if limits.allow_nul:
        yield "a\0b", True
    elif field.name != "page_token":
        yield "a\0b", False


def filled(field: FieldDescriptor, length: int) -> str:
    """Return a text that is valid except for its length."""
    return ("/" if field.name.endswith("_paths") else "x") + "x" * (length - 1)


def right_text(limits: limits_pb2.Limits) -> str:
    """Return a valid text that names no collection of a case."""
    if limits.text_format == limits_pb2.TEXT_FORMAT_COLLECTION_ID:
        return "no-such"
    return _RIGHT[limits.text_format][0] if limits.text_format else "/x"


def limits_of(field: FieldDescriptor) -> limits_pb2.Limits:
    found: limits_pb2.Limits = field.GetOptions().Extensions[limits_pb2.limits]
    return found


def has_limits(field: FieldDescriptor) -> bool:
    """Tell whether a value of the field can be invalid: any text may hold U+0000, any enum be unknown."""
    return (
        field.GetOptions().HasExtension(limits_pb2.limits)
        or field.type in (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_ENUM, FieldDescriptor.TYPE_FLOAT)
    ) and not (field.enum_type is not None and field.is_repeated)


def needs_value(field: FieldDescriptor) -> bool:
    return limits_of(field).min_length > 0 and not field.is_repeated and not field.has_presence


def is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def shown(value: Any) -> str:
    """Return the value, short enough to be read in a failure."""
    if isinstance(value, str):
        return repr(value) if len(value) < 40 else f"{len(value)} characters"
    if isinstance(value, list):
        return f"[{shown(value[0])}] of {len(value)}"
    text = repr(value)
    return text if len(text) < 60 else f"{text[:60]}… ({len(text)} characters)"
