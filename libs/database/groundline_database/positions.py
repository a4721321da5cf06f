"""Positions in the write-ahead log, as numbers of bytes: how far a reader is, told without clocks.

Standbys replay the log in order.
"""

from typing import Final

WRITTEN_POSITION: Final = "(pg_current_wal_lsn() - '0/0')::bigint"
"""SQL expression, on a primary only: everything committed before it is evaluated is at or before this
position."""

REPLAYED_POSITION: Final = "CASE WHEN pg_is_in_recovery() THEN (pg_last_wal_replay_lsn() - '0/0')::bigint END"
"""SQL expression: a standby has everything up to this position; null on a primary."""


def position_text(position: int) -> str:
    """Format a position as messages carry it (TEXT_FORMAT_POSITION)."""
    return f"{position:016x}"


def position_of(text: str) -> int:
    """Return the number of a checked text; 0, before everything, for ""."""
    return int(text, 16) if text else 0
