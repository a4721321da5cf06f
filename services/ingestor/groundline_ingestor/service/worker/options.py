"""Options of a process with workers."""

from dataclasses import dataclass
from pathlib import Path

__all__ = ["WorkerOptions"]


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """Options of a process; see its settings."""

    workers: int = 2
    crawls: int = 2
    lease_seconds: float = 30.0
    max_attempts: int = 5
    poll_seconds: float = 10.0
    """Time between two looks for work without a notification, in seconds, such as the items of a lost
    worker."""
    spool_directory: Path | None = None
    retry_seconds: float = 2.0
    reindex_grace_seconds: float = 60.0
    payload_seconds: float = 7 * 86400.0
    cache_seconds: float = 30 * 86400.0
