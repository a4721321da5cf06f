"""Metadata as JSON values."""

from typing import Any, Final

from google.protobuf.struct_pb2 import Struct, Value

__all__ = ["MAX_EXACT", "plain_values"]

MAX_EXACT: Final = 2**53
"""Whole numbers up to here are exact in the doubles that a Struct holds."""


def plain_values(struct: Struct) -> dict[str, Any]:
    """A Struct as JSON values, whole numbers as ints: so they are shown, and compared by filters."""
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
