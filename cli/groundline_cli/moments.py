"""Times that options of commands name."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

_UNITS: Final = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}


def moment_of(value: str, *, ago: bool = False) -> datetime | None:
    """Return the time that a date names, or a span such as 12h from now on, or before now; None for something
    else."""
    try:
        if match := re.fullmatch(r"([1-9]\d{0,5})([mhd])", value):
            span = int(match[1]) * _UNITS[match[2]]
            return datetime.now(UTC) - span if ago else datetime.now(UTC) + span
        found = datetime.fromisoformat(value)
    except (ValueError, OverflowError):
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
