"""Pages of lists."""

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Page"]


@dataclass(frozen=True)
class Page[T]:
    """Entries of a list, and whether more follow."""

    entries: Sequence[T]
    more: bool

    @classmethod
    def of(cls, found: Sequence[T], size: int) -> "Page[T]":
        """A page of `size` out of `size + 1` entries that were asked for."""
        return cls(found[:size], len(found) > size)
