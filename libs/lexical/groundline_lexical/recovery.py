"""Detection of a server's unclean stops, which some backends' indexes do not survive."""

from typing import Final

LAST_RECOVERY: Final = "CASE WHEN NOT pg_is_in_recovery() THEN pg_stat_get_bgwriter_stat_reset_time() END"
"""SQL expression of the time when the server last recovered from an unclean stop, or was created; null on a
standby.

PostgreSQL discards its statistics when it recovers, be it from a crash of one of its processes, from a power
failure or as a restored copy, and keeps them in a clean restart. pg_stat_reset_shared('bgwriter') looks like
a recovery: a rebuild too many, never one too few.
"""
