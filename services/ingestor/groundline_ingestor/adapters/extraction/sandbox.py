"""Readers in processes of their own, bounded in memory and time.

A file that makes its reader run wild, or breaks a native library, costs that process and fails that
document, not the service. The processes get no environment, hence no secrets, and answer in JSON, which
cannot carry code. They are kept for the next file: starting one takes about half a second.
"""

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
from typing import Final, Literal, Self

from groundline_ingestor.adapters.extraction.readers.common import Limits, Read, ReadError

__all__ = ["FormatName", "Sandbox"]

type FormatName = Literal["pdf", "docx", "html", "image", "links"]

FILES_PER_PROCESS: Final = 200
"""After so many a process is replaced: libraries keep some memory of every file."""

_WORKER: Final = "groundline_ingestor.adapters.extraction.worker"


class Sandbox:
    """Reads files, at most `processes` at a time; used from threads. Close it when done."""

    def __init__(self, limits: Limits, *, processes: int = 2) -> None:
        self._limits = limits
        self._turns = threading.BoundedSemaphore(processes)
        self._idle: list[_Process] = []
        self._lock = threading.Lock()
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, format_name: FormatName, data: bytes) -> Read:
        """Blocks until the file is read. Raises ReadError, also with READER_TIMEOUT and READER_CRASHED."""
        with self._turns:
            process = self._take()
            try:
                return process.read(format_name, data)
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
        return _Process(self._limits)

    def _put_back(self, process: "_Process") -> None:
        with self._lock:
            if not self._closed and process.is_usable:
                self._idle.append(process)
                return
        process.end()


class _Process:
    def __init__(self, limits: Limits) -> None:
        self._seconds = limits.seconds
        self._reads = 0
        self._popen = subprocess.Popen(
            [sys.executable, "-I", "-X", "utf8", "-m", _WORKER, json.dumps(dataclasses.asdict(limits))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # What libraries complain of may quote the document.
            stderr=subprocess.DEVNULL,
            # OCR takes one core, as other readers do.
            env={"OMP_THREAD_LIMIT": "1", "LC_ALL": "C.UTF-8"},
            # tesseract, which the process starts, ends with it.
            start_new_session=True,
        )

    @property
    def is_usable(self) -> bool:
        return self._reads < FILES_PER_PROCESS and self._popen.poll() is None

    def read(self, format_name: FormatName, data: bytes) -> Read:
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        self._reads += 1
        late = threading.Event()

        def give_up() -> None:
            late.set()
            self._kill()

        timer = threading.Timer(self._seconds, give_up)
        timer.daemon = True
        timer.start()
        try:
            header = json.dumps({"format": format_name, "size": len(data)}).encode()
            self._popen.stdin.write(header + b"\n" + data)
            self._popen.stdin.flush()
            line = self._popen.stdout.readline()
        except BrokenPipeError:
            line = b""
        finally:
            timer.cancel()
        if not line.endswith(b"\n"):
            self._kill()
            self._popen.wait()
            if late.is_set():
                raise ReadError("READER_TIMEOUT", f"reading it took more than {self._seconds:g} seconds")
            raise ReadError("READER_CRASHED", "reading it ended the process that did")
        answer = json.loads(line)
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
        """With what it started; once it was waited for, its id may be another's."""
        if self._popen.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._popen.pid, signal.SIGKILL)
