"""Reasons of errors, as the contract numbers them."""

from groundline.v1 import error_pb2

__all__ = ["reason_value"]


def reason_value(reason: str) -> error_pb2.ErrorReason.ValueType:
    """Return the contract's value for a GroundlineError's reason; INTERNAL for one that this release does not
    know."""
    try:
        return error_pb2.ErrorReason.Value(reason)
    except ValueError:
        return error_pb2.INTERNAL
