"""Readers in processes of their own, bounded in memory and time.

A file that makes its reader run wild, or breaks a native library, costs that process and fails that
document, not the service. The processes are confined (see `isolation`), get no environment, hence no secrets,
and answer in JSON, which cannot carry code. A process is kept for the next file of the same client, and never
reads another's: one that a file has taken over would see what is read after it. Starting one takes some .2
seconds. Files go there on disk and texts come back in pieces, so that neither has to fit into memory here.
"""

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal, Self

import structlog
from groundline_runtime.turns import ClientTurns

from groundline_extraction.formats import ReaderName
from groundline_extraction.readers.common import (
    NO_HINTS,
    Hints,
    Read,
    ReaderLimits,
    ReadError,
    joined,
    read_answer,
)
from groundline_extraction.spooling import open_spool_file

FILES_PER_PROCESS: Final = 200
"""Files after which a process is replaced: libraries keep some memory of every file."""

IDLE_SECONDS: Final = 300.0
"""Time without a file after which a process is ended, in seconds. Another is started within some .3 s."""

WAITED_PER_COMPUTED: Final = 5.0
"""Factor by which a process may be waited for longer than it may compute: on a crowded machine it gets a part
of a processor, and the fault is not the file's."""

_WORKER: Final = "groundline_extraction.readers.worker"

_log = structlog.get_logger(__name__)


type Drawer = Literal["images.drawing", "pdf.drawing"]
type AnyReader = ReaderName | Drawer | Literal["web.feed", "web.page", "web.sitemap"]


class Sandbox:
    """Reader of files in confined processes, at most `processes` at a time, of one client all but one of
    these; used from threads. Close it when done."""

    def __init__(
        self,
        limits: ReaderLimits,
        *,
        processes: int = 3,
        spool_directory: Path | None = None,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        """Take the limits. `spool_directory`: directory of the files for the processes. `idle_seconds`: time
        without a file after which a process is ended."""
        self._limits = limits
        self._spool_directory = spool_directory
        self._turns = ClientTurns(processes)
        self._processes = processes
        self._idle_seconds = idle_seconds
        self._idle: list[_Process] = []
        self._ending: threading.Timer | None = None
        self._reading = 0
        """Number of processes that read, or are being started."""
        self._lock = threading.Lock()
        self._closed = False
        self._is_logged = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, reader: AnyReader, data: bytes, hints: Hints = NO_HINTS, *, client: str = "") -> Read:
        """Read a file, blocking until it is done; `client` is charged for it. Raises ReadError, also with
        READER_TIMEOUT and READER_CRASHED."""
        return joined(self.pieces(reader, [data], hints, client=client))

    def pieces(
        self, reader: AnyReader, parts: Iterable[bytes], hints: Hints = NO_HINTS, *, client: str = ""
    ) -> Generator[Read]:
        """Yield the text of a file that comes in parts, piece by piece; a process is held from the first to
        the last of them. Raises as `read` does, and OSError if the disk is full."""
        with self._turns.blocking(client):
            process = self._take(client)
            try:
                yield from process.pieces(reader, parts, hints)
            finally:
                self._put_back(process)

    def close(self) -> None:
        """End the processes; a second call does nothing."""
        with self._lock:
            self._closed = True
            if self._ending is not None:
                self._ending.cancel()
            idle, self._idle = self._idle, []
        for process in idle:
            process.end()

    def _take(self, client: str) -> "_Process":
        """Return a process that has read nothing but files of the client."""
        with self._lock:
            if self._closed:
                raise RuntimeError("the sandbox is closed")
            own = [process for process in self._idle if process.client == client]
            # The one that has been idle for longest makes room.
            chosen = own[-1:] or self._idle[: max(0, len(self._idle) + self._reading + 1 - self._processes)]
            self._idle = [process for process in self._idle if process not in chosen]
            self._reading += 1
        if own and own[-1].is_usable:
            return own[-1]
        for process in chosen:
            process.end()
        try:
            return _Process(client, self._limits, self._spool_directory, self._log_isolation)
        except BaseException:
            with self._lock:
                self._reading -= 1
            raise

    def _log_isolation(self, isolation: Mapping[str, str]) -> None:
        """Log once what is in force: all processes are alike."""
        with self._lock:
            is_first, self._is_logged = not self._is_logged, True
        if is_first:
            is_lacking = any(said.startswith("not restricted") for said in isolation.values())
            (_log.warning if is_lacking else _log.info)("readers_confined", **isolation)

    def _put_back(self, process: "_Process") -> None:
        with self._lock:
            self._reading -= 1
            if not self._closed and process.is_usable:
                process.idle_since = time.monotonic()
                self._idle.append(process)
                self._end_later()
                return
        process.end()

    def _end_later(self) -> None:
        """Have idle processes ended when the time of the first is over; the lock is held."""
        if self._ending is None:
            left = self._idle[0].idle_since + self._idle_seconds - time.monotonic()
            self._ending = threading.Timer(max(0.0, left), self._end_idle)
            self._ending.daemon = True
            self._ending.start()

    def _end_idle(self) -> None:
        with self._lock:
            self._ending = None
            before = time.monotonic() - self._idle_seconds
            over = [process for process in self._idle if process.idle_since <= before]
            self._idle = [process for process in self._idle if process not in over]
            if self._idle:
                self._end_later()
        for process in over:
            process.end()


class _Process:
    def __init__(
        self,
        client: str,
        limits: ReaderLimits,
        spool_directory: Path | None,
        on_confined: Callable[[Mapping[str, str]], None],
    ) -> None:
        self.client = client
        self._limits = limits
        self._on_confined = on_confined
        self.idle_since = 0.0
        """Time of the monotonic clock since when it waits for a file."""
        self._reads = 0
        self._is_reading = False
        self._file = open_spool_file(spool_directory)
        """File to be read; the process, which may not write, has it open as well."""
        descriptor = self._file.fileno()
        described = json.dumps(dataclasses.asdict(limits))
        self._popen = subprocess.Popen(
            [sys.executable, "-I", "-X", "utf8", "-m", _WORKER, described, str(descriptor)],
            pass_fds=[descriptor],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Complaints of libraries may quote the document.
            stderr=subprocess.DEVNULL,
            # A process has one thread, and cannot start others.
            env={"OMP_THREAD_LIMIT": "1", "OPENBLAS_NUM_THREADS": "1", "LC_ALL": "C.UTF-8"},
            # Signals of a terminal must not reach it.
            start_new_session=True,
        )

    @property
    def is_usable(self) -> bool:
        """Return whether it may read the next file. While it reads, it may not: its next answers would be
        taken for that file's."""
        return not self._is_reading and self._reads < FILES_PER_PROCESS and self._popen.poll() is None

    def pieces(self, reader: str, parts: Iterable[bytes], hints: Hints) -> Iterator[Read]:
        assert self._popen.stdin is not None
        size = self._put_down(parts)
        self._reads += 1
        self._is_reading = True
        header = {"reader": reader, "size": size, "hints": dataclasses.asdict(hints)}
        with contextlib.suppress(BrokenPipeError):  # it does not answer then
            self._popen.stdin.write(json.dumps(header).encode() + b"\n")
            self._popen.stdin.flush()
        waited, given = 0.0, 0
        if self._reads == 1:
            isolation, waited = self._answer(self._limits.seconds_for(size), waited)
            self._on_confined(isolation)
        while True:
            answer, waited = self._answer(self._limits.seconds_for(size, given), waited)
            if answer is None or "error" in answer:
                self._is_reading = False
                os.ftruncate(self._file.fileno(), 0)
            if answer is None:
                return
            if "error" in answer:
                raise ReadError(*answer["error"])
            piece = read_answer(answer["piece"])
            given += len(piece.text)
            size += sum(len(member.data) for member in piece.members)
            yield piece

    def _answer(self, seconds: float, waited: float) -> tuple[Any, float]:
        """Return the next answer, and the seconds that all were waited for: where the processor is busy with
        other things, several times the `seconds` that the process may compute. Raises ReadError."""
        assert self._popen.stdout is not None
        begun = time.monotonic()
        late = threading.Event()

        def give_up() -> None:
            late.set()
            self._kill()

        timer = threading.Timer(seconds * WAITED_PER_COMPUTED - waited, give_up)
        timer.daemon = True
        timer.start()
        try:
            line = self._popen.stdout.readline()
        finally:
            timer.cancel()
            timer.join()  # the process is then killed, or will not be: the next file must not meet it dying
        if line.endswith(b"\n") and not late.is_set():
            return json.loads(line), waited + time.monotonic() - begun
        self._kill()
        if self._popen.wait() == -signal.SIGXCPU or late.is_set():
            raise ReadError("READER_TIMEOUT", f"reading it took more than {seconds:.3g} seconds")
        raise ReadError("READER_CRASHED", "reading it ended the process that did")

    def _put_down(self, parts: Iterable[bytes]) -> int:
        """Write a file for the process, and return its size. Raises OSError if the disk is full."""
        descriptor, size = self._file.fileno(), 0
        os.ftruncate(descriptor, 0)
        for part in parts:
            rest = memoryview(part)
            while rest:
                written = os.pwrite(descriptor, rest, size)
                size += written
                rest = rest[written:]
        return size

    def end(self) -> None:
        self._kill()
        self._popen.wait()
        self._file.close()
        for stream in (self._popen.stdin, self._popen.stdout):
            if stream is not None:
                # Bytes that the process no longer wanted.
                with contextlib.suppress(BrokenPipeError):
                    stream.close()

    def _kill(self) -> None:
        """Kill the process by Popen, which knows when its id may be another's."""
        self._popen.kill()
