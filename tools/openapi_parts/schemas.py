"""Schemas of the contract's messages for the OpenAPI document, with their limits."""

from collections.abc import Mapping, Sequence
from inspect import cleandoc
from typing import Any, Final

from contract import PACKAGE, Comments, is_map, message_of
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from groundline.v1 import chat_pb2, limits_pb2
from groundline_gateway.endpoints import Endpoint
from groundline_validation.rules import rules_of

type Json = dict[str, Any]

_SCALARS: Final[Mapping[int, Json]] = {
    FieldDescriptor.TYPE_STRING: {"type": "string"},
    FieldDescriptor.TYPE_BYTES: {"type": "string", "contentEncoding": "base64"},
    FieldDescriptor.TYPE_BOOL: {"type": "boolean"},
    FieldDescriptor.TYPE_INT32: {"type": "integer", "format": "int32"},
    FieldDescriptor.TYPE_FLOAT: {"type": "number", "format": "float"},
    FieldDescriptor.TYPE_DOUBLE: {"type": "number", "format": "double"},
}
_WELL_KNOWN: Final[Mapping[str, Json]] = {
    "google.protobuf.Struct": {"type": "object"},
    "google.protobuf.Timestamp": {"type": "string", "format": "date-time"},
    "google.protobuf.FieldMask": {"type": "string"},
}


class Schemas:
    """Schemas by name; those of messages and enums are added as they are referred to."""

    def __init__(self, comments: Comments, every: Sequence[Endpoint]) -> None:
        self.by_name: dict[str, Json] = {}
        self._comments = comments
        self._sent = _sent(every)

    def reference(self, message: Descriptor) -> Json:
        name = _name(message.full_name)
        if name not in self.by_name:
            # Messages may hold each other.
            self.by_name[name] = {}
            self.by_name[name] = self._message(message)
        return {"$ref": f"#/components/schemas/{name}"}

    def _message(self, message: Descriptor) -> Json:
        is_sent = message.full_name in self._sent
        fields = [
            field for field in message.fields if field.name not in self._sent.get(message.full_name, ())
        ]
        rules = [cleandoc(str(rule.__doc__)) for rule in rules_of(message.full_name)]
        schema: Json = {
            "type": "object",
            "description": "\n\n".join([self._comments.markdown(message.full_name), *rules]),
            "properties": {field.json_name: self.field(field) for field in fields},
        }
        required = _needed if is_sent else _always_there
        if names := [field.json_name for field in fields if required(field)]:
            schema["required"] = names
        if is_sent:
            schema["additionalProperties"] = False
        for oneof in message.oneofs:
            # An optional field is a oneof of its own.
            if len(oneof.fields) > 1:
                schema["oneOf"] = [{"required": [field.json_name]} for field in oneof.fields]
        return schema

    def field(self, field: FieldDescriptor) -> Json:
        limits = field.GetOptions().Extensions[limits_pb2.limits]
        description = self._comments.markdown(field.full_name)
        if is_map(field):
            schema: Json = {
                "type": "object",
                "additionalProperties": self._value(message_of(field).fields_by_name["value"], limits),
            }
            if limits.allowed_values:
                schema["propertyNames"] = {"enum": list(limits.allowed_values)}
            if limits.HasField("max_items"):
                schema["maxProperties"] = limits.max_items
        elif field.is_repeated:
            schema = {"type": "array", "items": self._value(field, limits)}
            if limits.min_items:
                schema["minItems"] = limits.min_items
            if limits.HasField("max_items"):
                schema["maxItems"] = limits.max_items
        else:
            schema = self._value(field, limits)
        if default := field.GetOptions().Extensions[limits_pb2.default]:
            # In words: generated clients send a schema's `default`, and so would hide the collection's own.
            description += f" Default: `{default}`."
        return {**schema, "description": description}

    def _value(self, field: FieldDescriptor, limits: limits_pb2.Limits) -> Json:
        if field.enum_type is not None:
            first = limits.minimum if limits.HasField("minimum") else 0
            schema = self.enum(field.enum_type)
            if first > 0:
                schema["not"] = {"const": field.enum_type.values_by_number[0].name}
            return schema
        if field.message_type is not None:
            known = _WELL_KNOWN.get(field.message_type.full_name)
            return self.reference(field.message_type) if known is None else dict(known)
        schema = dict(_SCALARS[field.type])
        if field.type == FieldDescriptor.TYPE_STRING:
            return schema | _text_limits(limits, may_be_empty=not limits.min_length and not field.is_repeated)
        if field.type == FieldDescriptor.TYPE_BYTES and limits.HasField("max_bytes"):
            schema["maxLength"] = -(-limits.max_bytes // 3) * 4
        for name in ("minimum", "maximum"):
            if limits.HasField(name):
                schema[name] = _number(getattr(limits, name))
        return schema

    def enum(self, enum: EnumDescriptor) -> Json:
        name = _name(enum.full_name)
        if name not in self.by_name:
            values = "\n".join(
                f"- `{value}`: {self._comments.markdown(f'{enum.full_name}.{value}')}"
                for value in enum.values_by_name
            )
            description = f"{self._comments.markdown(enum.full_name)}\n\n{values}"
            spellings = [[*enum.values_by_name], _short_spellings(enum)]
            # Two lists: generated clients make one name of USER and user, and refuse both in one list.
            lists = [{"type": "string", "enum": each} for each in spellings if each]
            self.by_name[name] = {
                **(lists[0] if len(lists) == 1 else {"oneOf": lists}),
                "description": description,
            }
        return {"$ref": f"#/components/schemas/{name}"}


def _sent(every: Sequence[Endpoint]) -> Mapping[str, frozenset[str]]:
    """Return the messages that a body may hold, by full name, with the fields that are in the address
    instead."""
    found: dict[str, frozenset[str]] = {}

    def add(message: Descriptor, elsewhere: frozenset[str]) -> None:
        if message.full_name in found:
            return
        found[message.full_name] = elsewhere
        for field in message.fields:
            if field.message_type is not None:
                add(field.message_type, frozenset())

    for endpoint in every:
        if endpoint.json_body is not None:
            add(endpoint.json_body, frozenset(endpoint.variables))
    return found


def _needed(field: FieldDescriptor) -> bool:
    limits = field.GetOptions().Extensions[limits_pb2.limits]
    if field.is_repeated:
        return bool(limits.min_items)
    if field.enum_type is not None:
        return bool(limits.minimum > 0)
    return bool(limits.min_length) and not field.has_presence


def _short_spellings(enum: EnumDescriptor) -> list[str]:
    """Return the lower-case spellings of roles, which other APIs use; the gateway takes either case."""
    if enum.full_name != chat_pb2.ChatMessage.Role.DESCRIPTOR.full_name:
        return []
    return [value.name.lower() for value in enum.values if value.number]


def _always_there(field: FieldDescriptor) -> bool:
    """Tell whether the gateway prints the field whatever its value."""
    return not field.has_presence


def _text_limits(limits: limits_pb2.Limits, *, may_be_empty: bool) -> Json:
    schema: Json = {}
    if limits.min_length:
        schema["minLength"] = limits.min_length
    if limits.HasField("max_length"):
        schema["maxLength"] = limits.max_length
    if limits.text_format:
        text_format = limits_pb2.TextFormat.DESCRIPTOR.values_by_number[limits.text_format]
        pattern = text_format.GetOptions().Extensions[limits_pb2.text].pattern
        schema["pattern"] = f"^({pattern})?$" if may_be_empty else f"^({pattern})$"
    elif limits.min_length:
        # White space at both ends does not count.
        schema["pattern"] = r"\S"
    if limits.allowed_values:
        schema["enum"] = list(limits.allowed_values)
    return schema


def _name(full_name: str) -> str:
    return full_name.removeprefix(f"{PACKAGE}.").replace(".", "")


def _number(value: float) -> float | int:
    return int(value) if value.is_integer() else value
