"""The memory that a process has taken."""

from pathlib import Path

import psutil

__all__ = ["peak_rss_mib"]


def peak_rss_mib(process: psutil.Process) -> float:
    """Linux keeps the most that a process has taken since its program began, unlike ru_maxrss, which begins
    with what it was forked from; elsewhere it is what it takes now."""
    try:
        status = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
    except FileNotFoundError:
        return float(process.memory_info().rss) / 2**20
    return int(status.split("VmHWM:")[1].split()[0]) / 2**10
