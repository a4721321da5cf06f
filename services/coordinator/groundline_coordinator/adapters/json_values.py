"""Messages as the values that jsonb takes: proto3 JSON.

MessageToDict examines every field of every message: for the sources of an answer, this takes a twentieth of
the coordinator's time for it. Here each kind of message is examined once.
"""

import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

type _Convert = Callable[[Any], Any]

_FLOATING: Final = (FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE)


def json_values(message: Message, *, without: frozenset[str] = frozenset()) -> dict[str, Any]:
    """Return the fields that are set, by their JSON names; those named in `without` are left out.

    For messages without maps, bytes and 64-bit integers, which no stored message has.
    """
    fields = _fields_of(message.DESCRIPTOR)
    values = {}
    for descriptor, value in message.ListFields():
        if (field := descriptor.name) not in without:
            name, convert = fields[field]
            values[name] = value if convert is None else convert(value)
    return values


@cache
def _fields_of(message: Descriptor) -> Mapping[str, tuple[str, _Convert | None]]:
    """Return, by field, its JSON name and the converter of its value, None if the value is JSON already."""
    return {field.name: (field.json_name, _conversion(field)) for field in message.fields}


def _conversion(field: FieldDescriptor) -> _Convert | None:
    convert = _conversion_of_one(field)
    if not field.is_repeated:
        return convert
    return list if convert is None else lambda values: [convert(value) for value in values]


def _conversion_of_one(field: FieldDescriptor) -> _Convert | None:
    if field.message_type is not None:
        # Timestamp, Struct and similar types have JSON forms of their own.
        is_well_known = field.message_type.file.package == "google.protobuf"
        return MessageToDict if is_well_known else json_values
    if field.enum_type is not None:
        names = {value.number: value.name for value in field.enum_type.values}
        # A value of a newer release is unknown here.
        return lambda number: names.get(number, number)
    return _float if field.cpp_type in _FLOATING else None


def _float(value: float) -> float | str:
    """Convert numbers that are not finite, which JSON lacks, to text."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
