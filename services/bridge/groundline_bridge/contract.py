"""The contract's messages in JSON: those that objects spell, and for tools schemas and values of fields."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from google.protobuf import json_format
from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message
from groundline_runtime.errors import Violations
from pydantic import GetCoreSchemaHandler

_TYPES: Final = {
    FieldDescriptor.CPPTYPE_STRING: "string",
    FieldDescriptor.CPPTYPE_BOOL: "boolean",
    FieldDescriptor.CPPTYPE_INT32: "integer",
    FieldDescriptor.CPPTYPE_FLOAT: "number",
}


_UNFIT: Final = (json_format.Error, AttributeError, OverflowError, TypeError, ValueError)
"""Errors of protobuf's reader of JSON for a value that does not fit its field."""


def message_of[M: Message](kind: type[M], given: Mapping[str, Any], path: str) -> M:
    """Return the message that an object at this path spells.

    Raises InvalidArgumentError that names every wrong field.
    """
    message, violations = kind(), Violations()
    _fill(message, given, path, violations)
    violations.raise_if_any()
    return message


def _fill(message: Message, given: Mapping[str, Any], path: str, violations: Violations) -> None:
    fields: dict[str, Any] = {}
    for known in message.DESCRIPTOR.fields:
        # A client may use either spelling of a field.
        fields[known.name] = fields[known.json_name] = known
    seen = set()
    for name, value in given.items():
        field: Any = fields.get(name)
        place = f"{path}.{name[:100]}"
        if field is None:
            violations.add(place, "is not a field")
            continue
        if field.name in seen:
            violations.add(place, "is given more than once")
        elif isinstance(value, dict) and _has_fields(field):
            inner = getattr(message, field.name)
            inner.SetInParent()
            _fill(inner, value, place, violations)
        else:
            try:
                json_format.ParseDict({name: value}, message)
            except _UNFIT:
                violations.add(place, f"must be {_expected(field)}")
        seen.add(field.name)


def _has_fields(field: FieldDescriptor) -> bool:
    """Tell whether the value of a field is an object with the fields of a message."""
    kind = field.message_type
    return kind is not None and not field.is_repeated and not kind.full_name.startswith("google.protobuf.")


def _expected(field: FieldDescriptor) -> str:
    if field.enum_type:
        return f"one of {', '.join(value.name for value in field.enum_type.values[1:])}"
    kind = f"of type {_TYPES.get(field.cpp_type, 'object')}"
    is_map = field.message_type and field.message_type.GetOptions().map_entry
    return f"a list of values {kind}" if field.is_repeated and not is_map else kind


def choices(enum: EnumDescriptor) -> Sequence[str]:
    """Return the values of an enum as tools name them, in its order: `hybrid` for RETRIEVAL_MODE_HYBRID."""
    unspecified, *others = enum.values
    prefix = unspecified.name.removesuffix("UNSPECIFIED")
    return [value.name.removeprefix(prefix).lower() for value in others]


class EnumChoice:
    """Annotation of an argument whose values are those of an enum."""

    def __init__(self, enum: EnumDescriptor) -> None:
        self._choices = choices(enum)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> Any:
        literal: Any = Literal
        return handler.generate_schema(literal[tuple(self._choices)])


class Shown:
    """Some fields of a message, under their own names; `others` renames fields."""

    def __init__(self, message: type[Message], *names: str, **others: str) -> None:
        fields: Any = message.DESCRIPTOR.fields_by_name
        self._fields = {name: fields[name] for name in names} | {
            name: fields[field] for name, field in others.items()
        }

    @property
    def properties(self) -> dict[str, dict[str, Any]]:
        """JSON schemas of the fields, by the names under which they are shown."""
        return {name: _schema(field) for name, field in self._fields.items()}

    def of(self, message: Message) -> dict[str, Any]:
        """Return the values of the fields."""
        return {name: _value(getattr(message, field.name)) for name, field in self._fields.items()}


def _schema(field: Any) -> dict[str, Any]:
    match field.message_type and field.message_type.full_name:
        case None:
            return {"type": _TYPES[field.cpp_type]}
        case "google.protobuf.Struct":
            return {"type": "object"}
        case "google.protobuf.Timestamp":
            return {"type": "string", "format": "date-time"}
    raise TypeError(f"{field.full_name} cannot be shown by a tool")


def _value(value: Any) -> Any:
    return json_format.MessageToDict(value) if isinstance(value, Message) else value
