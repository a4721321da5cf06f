"""Readers in processes of their own, bounded in memory and time.

A file that makes its reader run wild, or breaks a native library, costs that process and fails that
document, not the service. The processes are confined (see `isolation`), get no environment, hence no secrets,
and answer in JSON, which cannot carry code. They are kept for the next file: starting one takes about half a
second.
"""

import contextlib
import dataclasses
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, Self

import structlog

from groundline_ingestor.adapters.extraction.formats import ReaderName
from groundline_ingestor.adapters.extraction.readers.common import (
    NO_HINTS,
    Hints,
    Read,
    ReaderLimits,
    ReadError,
)
from groundline_ingestor.turns import ClientTurns

__all__ = ["Sandbox"]

FILES_PER_PROCESS: Final = 200
"""After so many a process is replaced: libraries keep some memory of every file."""

_WORKER: Final = "groundline_ingestor.adapters.extraction.worker"

_log = structlog.get_logger(__name__)


class Sandbox:
    """Reads files, at most `processes` at a time, of one client all but one of these; used from threads.
    Close it when done."""

    def __init__(self, limits: ReaderLimits, *, processes: int = 3) -> None:
        self._limits = limits
        self._turns = ClientTurns(processes)
        self._idle: list[_Process] = []
        self._lock = threading.Lock()
        self._closed = False
        self._is_logged = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(
        self,
        reader: ReaderName | Literal["page", "sitemap"],
        data: bytes,
        hints: Hints = NO_HINTS,
        *,
        client: str = "",
    ) -> Read:
        """Blocks until the file is read; `client` is whose it is. Raises ReadError, also with READER_TIMEOUT
        and READER_CRASHED."""
        with self._turns.blocking(client):
            process = self._take()
            try:
                return process.read(reader, data, hints)
            finally:
                self._put_back(process)

    def close(self) -> None:
        """End the processes. May be called again."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for process in idle:
            process.end()

    def _take(self) -> "_Process":
        with self._lock:
            if self._closed:
                raise RuntimeError("the sandbox is closed")
            while self._idle:
                process = self._idle.pop()
                if process.is_usable:
                    return process
                process.end()
        return _Process(self._limits, self._log_isolation)

    def _log_isolation(self, isolation: Mapping[str, str]) -> None:
        """Say once what is in force: all processes are alike."""
        with self._lock:
            is_first, self._is_logged = not self._is_logged, True
        if is_first:
            is_lacking = any(said.startswith("not restricted") for said in isolation.values())
            (_log.warning if is_lacking else _log.info)("readers_confined", **isolation)

    def _put_back(self, process: "_Process") -> None:
        with self._lock:
            if not self._closed and process.is_usable:
                self._idle.append(process)
                return
        process.end()


class _Process:
    def __init__(self, limits: ReaderLimits, on_confined: Callable[[Mapping[str, str]], None]) -> None:
        self._limits = limits
        self._on_confined = on_confined
        self._reads = 0
        self._popen = subprocess.Popen(
            [sys.executable, "-I", "-X", "utf8", "-m", _WORKER, json.dumps(dataclasses.asdict(limits))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # What libraries complain of may quote the document.
            stderr=subprocess.DEVNULL,
            # A process has one thread, and cannot start others.
            env={"OMP_THREAD_LIMIT": "1", "OPENBLAS_NUM_THREADS": "1", "LC_ALL": "C.UTF-8"},
            # Signals of a terminal are not for it.
            start_new_session=True,
        )

    @property
    def is_usable(self) -> bool:
        return self._reads < FILES_PER_PROCESS and self._popen.poll() is None

    def read(self, reader: str, data: bytes, hints: Hints) -> Read:
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        self._reads += 1
        late = threading.Event()

        def give_up() -> None:
            late.set()
            self._kill()

        seconds = self._limits.seconds_for(len(data))
        timer = threading.Timer(seconds, give_up)
        timer.daemon = True
        timer.start()
        try:
            header = {"reader": reader, "size": len(data), "hints": dataclasses.asdict(hints)}
            self._popen.stdin.write(json.dumps(header).encode() + b"\n" + data)
            self._popen.stdin.flush()
            line = self._popen.stdout.readline()
            if self._reads == 1 and line.endswith(b"\n"):
                self._on_confined(json.loads(line))
                line = self._popen.stdout.readline()
        except BrokenPipeError:
            line = b""
        finally:
            timer.cancel()
        if not line.endswith(b"\n"):
            self._kill()
            self._popen.wait()
            if late.is_set():
                raise ReadError("READER_TIMEOUT", f"reading it took more than {seconds:g} seconds")
            raise ReadError("READER_CRASHED", "reading it ended the process that did")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise ReadError(*answer["error"])
        return Read(**answer["read"])

    def end(self) -> None:
        self._kill()
        self._popen.wait()
        for stream in (self._popen.stdin, self._popen.stdout):
            if stream is not None:
                # Bytes that the process did not want any more.
                with contextlib.suppress(BrokenPipeError):
                    stream.close()

    def _kill(self) -> None:
        """Once it was waited for, its id may be another's, which Popen knows."""
        self._popen.kill()
