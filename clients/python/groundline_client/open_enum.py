"""Enums that a later release of the gateway may add values to."""

from enum import StrEnum
from typing import Self

__all__ = ["OpenEnum"]


class OpenEnum(StrEnum):
    """A closed set of names, as this release knows it; any other name is kept as it came, and equals none of
    them."""

    @classmethod
    def _missing_(cls, value: object) -> Self:
        member = str.__new__(cls, value)
        member._name_ = member._value_ = str(value)
        return member
