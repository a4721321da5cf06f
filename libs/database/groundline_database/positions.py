"""Positions in what was written to the database: how far a reader is, told without clocks.

They are those of the write-ahead log, as numbers of bytes; standbys replay it in order.
"""

from typing import Final

__all__ = ["REPLAYED_POSITION", "WRITTEN_POSITION", "position_of", "position_text"]

WRITTEN_POSITION: Final = "(pg_current_wal_lsn() - '0/0')::bigint"
"""SQL, on a primary only: what was committed before this was asked is at or before it."""

REPLAYED_POSITION: Final = "CASE WHEN pg_is_in_recovery() THEN (pg_last_wal_replay_lsn() - '0/0')::bigint END"
"""SQL: up to here a standby has everything; null on a server that is none."""


def position_text(position: int) -> str:
    """As messages carry it (TEXT_FORMAT_POSITION)."""
    return f"{position:016x}"


def position_of(text: str) -> int:
    """The number of a checked text; 0, before everything, for an empty one."""
    return int(text, 16) if text else 0
