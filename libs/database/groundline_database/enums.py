"""Stored form of the contract's enums."""

from typing import TYPE_CHECKING, Any

from groundline_runtime.reasons import enum_label

if TYPE_CHECKING:
    from google.protobuf.internal.enum_type_wrapper import _EnumTypeWrapper

__all__ = ["enum_text", "read_enum"]


def enum_text(kind: "_EnumTypeWrapper[Any]", value: int) -> str | None:
    """Return the text that is stored for a value, such as "done"; None for the unspecified one."""
    return enum_label(kind, value) if value else None


def read_enum(kind: "_EnumTypeWrapper[Any]", stored: str | None) -> Any:
    """Return the value that a stored text stands for."""
    return kind.Value(_prefix(kind) + stored.upper()) if stored else 0


def _prefix(kind: "_EnumTypeWrapper[Any]") -> str:
    return kind.Name(0).removesuffix("UNSPECIFIED")
