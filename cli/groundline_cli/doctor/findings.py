"""Findings of a check."""

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """Severity of a finding. Only errors change the exit code."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"
    SKIPPED = "skipped"
    """The check could not be made from here."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report."""

    check: str
    level: Level
    message: str
    advice: str = ""
    """Advice to the operator; empty if nothing needs to be done."""
