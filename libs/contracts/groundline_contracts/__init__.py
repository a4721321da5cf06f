"""The contract's options, for code that keeps to its limits or needs its defaults."""

import json
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from groundline.v1 import limits_pb2

__all__ = ["default_of", "limits_of"]


def limits_of(message: type[Message], field: str) -> limits_pb2.Limits:
    """Return the limits that the contract states for a field."""
    limits: limits_pb2.Limits = _field(message, field).GetOptions().Extensions[limits_pb2.limits]
    return limits


def default_of(message: type[Message], field: str) -> Any:
    """Return the default that the contract states for a field, as a value of the field.

    Look it up once, while modules are imported. Raises ValueError if the contract states none.
    """
    descriptor = _field(message, field)
    default: str = descriptor.GetOptions().Extensions[limits_pb2.default]
    if not default:
        raise ValueError(f"{descriptor.full_name} has no default")
    if descriptor.enum_type is not None:
        return descriptor.enum_type.values_by_name[default].number
    if descriptor.type == FieldDescriptor.TYPE_STRING:
        return default
    return type(descriptor.default_value)(json.loads(default))


def _field(message: type[Message], name: str) -> Any:
    return message.DESCRIPTOR.fields_by_name[name]
