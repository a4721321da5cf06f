"""Confinement of a process to the rights that reading a file needs, by Linux's means without privileges.

Landlock leaves it Python's own files, to read. Seccomp leaves it the system calls that computing takes: no
sockets, no other processes, no writing except to open files. Limits bound memory, CPU and open files. No
maintained library does this without a system library; the kernel's interface is stable.
"""

import ctypes
import os
import platform
import resource
import struct
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

MAX_OPEN_FILES: Final = 64

# Number of a system call on x86-64 and on ARM64; None if it has none.
_SYSTEM_CALLS: Final[Mapping[str, tuple[int | None, int | None]]] = {
    "read": (0, 63),
    "write": (1, 64),
    "readv": (19, 65),
    "writev": (20, 66),
    "pread64": (17, 67),
    "open": (2, None),
    "openat": (257, 56),
    "close": (3, 57),
    "lseek": (8, 62),
    "fcntl": (72, 25),
    "dup": (32, 23),
    "dup2": (33, None),
    "dup3": (292, 24),
    "poll": (7, None),
    "ppoll": (271, 73),
    "stat": (4, None),
    "lstat": (6, None),
    "fstat": (5, 80),
    "newfstatat": (262, 79),
    "statx": (332, 291),
    "statfs": (137, 43),
    "fstatfs": (138, 44),
    "access": (21, None),
    "faccessat": (269, 48),
    "faccessat2": (439, 439),
    "readlink": (89, None),
    "readlinkat": (267, 78),
    "getcwd": (79, 17),
    "getdents64": (217, 61),
    "fadvise64": (221, 223),
    "mmap": (9, 222),
    "mprotect": (10, 226),
    "munmap": (11, 215),
    "brk": (12, 214),
    "mremap": (25, 216),
    "madvise": (28, 233),
    "mincore": (27, 232),
    "membarrier": (324, 283),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "sigaltstack": (131, 132),
    "restart_syscall": (219, 128),
    "futex": (202, 98),
    "rseq": (334, 293),
    "set_robust_list": (273, 99),
    "set_tid_address": (218, 96),
    "arch_prctl": (158, None),
    "sched_yield": (24, 124),
    "sched_getaffinity": (204, 123),
    "getcpu": (309, 168),
    "nanosleep": (35, 101),
    "clock_nanosleep": (230, 115),
    "clock_gettime": (228, 113),
    "clock_getres": (229, 114),
    "gettimeofday": (96, 169),
    "times": (100, 153),
    "getrandom": (318, 278),
    "getpid": (39, 172),
    "gettid": (186, 178),
    "getuid": (102, 174),
    "geteuid": (107, 175),
    "getgid": (104, 176),
    "getegid": (108, 177),
    "uname": (63, 160),
    "sysinfo": (99, 179),
    "getrlimit": (97, 163),
    "getrusage": (98, 165),
    "prlimit64": (302, 261),
    "exit": (60, 93),
    "exit_group": (231, 94),
}
# Machine, its number in seccomp's data, and its column in the table.
_MACHINES: Final = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}

_PR_SET_NO_NEW_PRIVS: Final = 38
_PR_SET_SECCOMP: Final = 22
_SECCOMP_MODE_FILTER: Final = 2
_ALLOW: Final = 0x7FFF0000
_EPERM: Final = 0x00050000 | 1
_KILL_PROCESS: Final = 0x80000000
_LOAD: Final = 0x20
_EQUAL: Final = 0x15
_AT_LEAST: Final = 0x35
_RETURN: Final = 0x06
_X32_BIT: Final = 0x40000000

# The same number on every machine.
_CREATE_RULESET: Final = 444
_ADD_RULE: Final = 445
_RESTRICT_SELF: Final = 446
_WRITE_FILE: Final = 1 << 1
_READ_FILE: Final = 1 << 2
_READ_DIR: Final = 1 << 3
_TRUNCATE: Final = 1 << 14
_PATH_BENEATH: Final = 1
_NOWHERE: Final = Path("/dev/null")
_CONNECT_AND_BIND_TCP: Final = 0b11
_SCOPE_SOCKETS_AND_SIGNALS: Final = 0b11


class _Filter(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def confine(readable: Iterable[Path], *, memory_bytes: int) -> Mapping[str, str]:
    """Confine this process for good; it must have one thread. Returns what is in force, by its subject.

    `readable`: paths that it may read besides Python's own files. If the kernel lacks something, the value
    says `not restricted` and why; nothing is raised.
    """
    _set_limits(memory_bytes)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        privileges = f"not restricted: {_last_error()}"
    else:
        privileges = "none can be gained"
    return {
        "privileges": privileges,
        "files": _restrict_files(libc, [*_python_files(), *readable]),
        "system_calls": _restrict_system_calls(libc),
        "resources": f"memory {memory_bytes}, files written 0, files open {MAX_OPEN_FILES}",
    }


def cpu_seconds() -> float:
    """Return the seconds that this process has computed for."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def limit_cpu_seconds(seconds: float) -> None:
    """End this process when it has computed for `seconds` in all, rounded up."""
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, resource.RLIM_INFINITY))


def _set_limits(memory_bytes: int) -> None:
    for kind, limit in (
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, MAX_OPEN_FILES),
    ):
        _, hard = resource.getrlimit(kind)
        if hard != resource.RLIM_INFINITY:
            limit = min(limit, hard)
        resource.setrlimit(kind, (limit, limit))


def _python_files() -> list[Path]:
    """Return the paths of modules, shared libraries and time zones, and of what opening them takes."""
    return [
        *map(Path, filter(None, sys.path)),
        *(Path(prefix) / lib for prefix in {sys.prefix, sys.base_prefix} for lib in ("lib", "lib64")),
        *map(Path, ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/share/zoneinfo")),
        *map(Path, ("/etc/ld.so.cache", "/etc/localtime", "/etc/mime.types", "/dev/urandom")),
        _NOWHERE,
    ]


def _restrict_files(libc: ctypes.CDLL, readable: Sequence[Path]) -> str:
    version = libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint(1))
    if version < 1:
        return f"not restricted: no Landlock ({_last_error()})"
    rights = 13 if version < 2 else 14 if version < 3 else 15 if version < 5 else 16
    attributes = struct.pack(
        "QQQ",
        (1 << rights) - 1,
        _CONNECT_AND_BIND_TCP if version >= 4 else 0,
        _SCOPE_SOCKETS_AND_SIGNALS if version >= 6 else 0,
    )
    size = 8 if version < 4 else 16 if version < 6 else 24
    ruleset = libc.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(size), ctypes.c_uint(0))
    if ruleset < 0:
        return f"not restricted: {_last_error()}"
    try:
        for path in readable:
            if not path.exists():
                continue
            opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
            try:
                allowed = _READ_FILE | _READ_DIR if path.is_dir() else _READ_FILE
                if path == _NOWHERE:  # tesseract writes its diagnostics there
                    allowed |= _WRITE_FILE | (_TRUNCATE if version >= 3 else 0)
                rule = struct.pack("=Qi", allowed, opened)
                if libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, rule, ctypes.c_uint(0)) != 0:
                    return f"not restricted: {_last_error()}"
            finally:
                os.close(opened)
        if libc.syscall(_RESTRICT_SELF, ruleset, ctypes.c_uint(0)) != 0:
            return f"not restricted: {_last_error()}"
    finally:
        os.close(ruleset)
    return f"Python's own, to read (Landlock {version})"


def _restrict_system_calls(libc: ctypes.CDLL) -> str:
    machine = platform.machine()
    if machine not in _MACHINES:
        return f"not restricted: none known for {machine[:50]}"
    program = _program(*_MACHINES[machine])
    described = _Filter(len(program) // 8, program)
    if libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(described), 0, 0) != 0:
        return f"not restricted: {_last_error()}"
    return "those of computing (seccomp)"


def _program(architecture: int, column: int) -> bytes:
    """Return the filter that allows the listed system calls and refuses all others with EPERM."""
    numbers = {name: row[column] for name, row in _SYSTEM_CALLS.items() if row[column] is not None}
    own_limits = numbers.pop("prlimit64")
    assert own_limits is not None, "is on every machine"
    steps = [
        (_LOAD, 0, 0, 4),
        (_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL_PROCESS),
        (_LOAD, 0, 0, 0),
        (_AT_LEAST, 0, 1, _X32_BIT),
        (_RETURN, 0, 0, _EPERM),
        # Limits of others, which have a process id that is not 0, are theirs.
        (_EQUAL, 0, 4, own_limits),
        (_LOAD, 0, 0, 16),
        (_EQUAL, 0, 1, 0),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _EPERM),
    ]
    for left, number in zip(range(len(numbers), 0, -1), numbers.values(), strict=True):
        assert number is not None, "was left out"
        steps.append((_EQUAL, left, 0, number))
    steps += [(_RETURN, 0, 0, _EPERM), (_RETURN, 0, 0, _ALLOW)]
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def _last_error() -> str:
    return os.strerror(ctypes.get_errno())
