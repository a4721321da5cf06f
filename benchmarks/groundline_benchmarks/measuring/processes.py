"""Resources of processes, as the system counts them."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil


@dataclass(frozen=True, slots=True)
class Held:
    """Resources that a process and its children hold."""

    processes: int
    memory_mib: float
    descriptors: int
    connections: int
    threads: int


def peak_rss_mib(process: psutil.Process) -> float:
    """Return the peak memory. Linux keeps it from the program's start, unlike ru_maxrss, which begins with
    the memory that was forked; elsewhere it is the current memory."""
    try:
        status = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
    except FileNotFoundError:
        return float(process.memory_info().rss) / 2**20
    return int(status.split("VmHWM:")[1].split()[0]) / 2**10


def memory_mib(process: psutil.Process) -> float:
    """Return the memory of a process and its descendants; shared pages are counted once (PSS, on Linux)."""
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
    """Measure the processor seconds of each process within the block, with its descendants that are not named
    themselves (PostgreSQL's backends); filled at the end of the block."""
    before = _all_seconds(pids)
    taken: dict[str, float] = {}
    yield taken
    taken.update({name: seconds - before[name] for name, seconds in _all_seconds(pids).items()})


def _all_seconds(pids: Mapping[str, int]) -> dict[str, float]:
    """Return user and system time of each process, ended descendants included. The system counts in steps of
    10 ms."""
    own: dict[int, float] = {}
    children: dict[int, list[int]] = defaultdict(list)
    for process in psutil.process_iter(["ppid", "cpu_times"]):
        times = process.info["cpu_times"]
        if times is None:
            continue  # another user's, on systems that show only one's own
        own[process.pid] = times.user + times.system + times.children_user + times.children_system
        children[process.info["ppid"]].append(process.pid)
    named = frozenset(pids.values())

    def seconds(pid: int) -> float:
        return own.get(pid, 0.0) + sum(seconds(child) for child in children[pid] if child not in named)

    return {name: seconds(pid) for name, pid in pids.items()}


def all_held(pids: Mapping[str, int]) -> dict[str, Held]:
    """Return what each process holds, with its descendants that are not named themselves."""
    named = frozenset(pids.values())
    return {name: _held(psutil.Process(pid), named) for name, pid in pids.items()}


def _held(process: psutil.Process, named: frozenset[int]) -> Held:
    family = [process, *(child for child in _children(process, named))]
    processes, memory, descriptors, connections, threads = 0, 0.0, 0, 0, 0
    for one in family:
        try:
            with one.oneshot():
                # Shared pages count once for all processes that share them.
                memory += one.memory_full_info().pss / 2**20
                descriptors += one.num_fds()
                connections += len(one.net_connections("all"))
                threads += one.num_threads()
                processes += 1
        except psutil.NoSuchProcess:
            continue
    return Held(processes, memory, descriptors, connections, threads)


def _children(process: psutil.Process, named: frozenset[int]) -> list[psutil.Process]:
    """Return the descendants that are not named themselves."""
    found: list[psutil.Process] = []
    for child in process.children():
        if child.pid not in named:
            found += [child, *_children(child, named)]
    return found
