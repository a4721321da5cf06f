"""Values of the contract's enums by their names, and their names as labels."""

from typing import TYPE_CHECKING, Any

from groundline.v1 import error_pb2

if TYPE_CHECKING:
    from google.protobuf.internal.enum_type_wrapper import _EnumTypeWrapper


def enum_label(kind: "_EnumTypeWrapper[Any]", value: int) -> str:
    """Return the name of a value without its enum's, such as `no_answer`."""
    return kind.Name(value).removeprefix(kind.Name(0).removesuffix("UNSPECIFIED")).lower()


def reason_value(reason: str) -> error_pb2.ErrorReason.ValueType:
    """Return the contract's value for a GroundlineError's reason; INTERNAL for one that this release does not
    know."""
    try:
        return error_pb2.ErrorReason.Value(reason)
    except ValueError:
        return error_pb2.INTERNAL
