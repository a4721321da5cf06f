"""What a check says of an installation."""

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Finding", "Level"]


class Level(StrEnum):
    """How well it is. Only errors change the exit code."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"
    SKIPPED = "skipped"
    """Could not be looked at from here."""


@dataclass(frozen=True)
class Finding:
    """One line of the report."""

    check: str
    level: Level
    message: str
    advice: str = ""
    """What to do; empty where there is nothing to be done."""
