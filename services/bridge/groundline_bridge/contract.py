"""Arguments and results of tools from the contract's messages: JSON schemas, and the values that fit them."""

from collections.abc import Sequence
from typing import Any, Final, Literal

from google.protobuf import json_format
from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message
from pydantic import GetCoreSchemaHandler

__all__ = ["EnumChoice", "Shown", "choices"]

_TYPES: Final = {
    FieldDescriptor.CPPTYPE_STRING: "string",
    FieldDescriptor.CPPTYPE_BOOL: "boolean",
    FieldDescriptor.CPPTYPE_INT32: "integer",
    FieldDescriptor.CPPTYPE_FLOAT: "number",
}


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
