"""What processes take of the machine, as the system counts it."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psutil

__all__ = ["memory_mib", "peak_rss_mib", "processor_time"]


def peak_rss_mib(process: psutil.Process) -> float:
    """Linux keeps the most that a process has taken since its program began, unlike ru_maxrss, which begins
    with what it was forked from; elsewhere it is what it takes now."""
    try:
        status = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
    except FileNotFoundError:
        return float(process.memory_info().rss) / 2**20
    return int(status.split("VmHWM:")[1].split()[0]) / 2**10


def memory_mib(process: psutil.Process) -> float:
    """Of a process and all that it has started; pages that several use are counted once (PSS, on Linux)."""
    total = 0
    for one in (process, *process.children(recursive=True)):
        try:
            memory = one.memory_full_info()
        except psutil.NoSuchProcess:  # ended meanwhile
            continue
        total += getattr(memory, "pss", memory.uss)
    return total / 2**20


@contextmanager
def processor_time(pids: Mapping[str, int]) -> Iterator[dict[str, float]]:
    """Seconds of a processor that each process has taken within the block, with what it started and is not
    named itself (PostgreSQL's backends); filled at the end of the block."""
    before = _all_seconds(pids)
    taken: dict[str, float] = {}
    yield taken
    taken.update({name: seconds - before[name] for name, seconds in _all_seconds(pids).items()})


def _all_seconds(pids: Mapping[str, int]) -> dict[str, float]:
    """User and system time of each, ended descendants included. The system counts in steps of 10 ms."""
    own: dict[int, float] = {}
    children: dict[int, list[int]] = defaultdict(list)
    for process in psutil.process_iter(["ppid", "cpu_times"]):
        times = process.info["cpu_times"]
        if times is None:
            continue  # another user's, on systems that tell only one's own
        own[process.pid] = times.user + times.system + times.children_user + times.children_system
        children[process.info["ppid"]].append(process.pid)
    named = frozenset(pids.values())

    def seconds(pid: int) -> float:
        return own.get(pid, 0.0) + sum(seconds(child) for child in children[pid] if child not in named)

    return {name: seconds(pid) for name, pid in pids.items()}
