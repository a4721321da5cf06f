"""Server that forks programs of the suite from a process that has imported what they all need, so that they
share its memory and start within a fraction of the time.

`python -m groundline_cli.stack.fork_server`, on Linux; standard input is the socket over which forks.py asks.
It never reads a program's settings, which would stay in the memory of those it forks later: each child
reads its own from the file that came with the request.
"""

import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
from contextlib import suppress
from ctypes import CDLL
from typing import Final

FAILED: Final = -1
"""Answer to a request, in place of a process id, if no process can be made."""

# Modules that several services import at start. numpy is left out: it starts threads, which a fork ends.
_SHARED: Final = (
    "groundline_runtime",  # before whatever imports grpc
    "groundline_runtime.serving.server",
    "groundline_runtime.channels",
    "groundline_validation",
    "groundline_filters",
    "groundline_database",
)
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_NAME: Final = 15
_REQUEST_DESCRIPTORS: Final = 2  # of the log, and of the file with the program


def main() -> None:
    """Fork a program for each request until the other side closes the socket, and tell which has ended."""
    for module in _SHARED:
        importlib.import_module(module)
    # Collecting writes to each object, which would copy its page.
    gc.collect()
    gc.disable()
    gc.freeze()
    requests = socket.socket(fileno=0)
    ended, wakes = socket.socketpair()
    for end in (ended, wakes):
        end.setblocking(False)
    signal.set_wakeup_fd(wakes.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        readable, _, _ = select.select([requests, ended], [], [])
        if ended in readable:
            with suppress(BlockingIOError):
                ended.recv(4096)
            _tell_ended(requests)
        if requests in readable:
            message, descriptors, _, _ = socket.recv_fds(requests, 1, _REQUEST_DESCRIPTORS)
            if not message:
                return
            pid = _fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                requests.detach()
                ended.close()
                wakes.close()
                _become(*descriptors)
                return
            for descriptor in descriptors:
                os.close(descriptor)
            requests.send(f"{pid}".encode())


def _fork() -> int:
    try:
        return os.fork()
    except OSError:
        return FAILED


def _tell_ended(requests: socket.socket) -> None:
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            requests.send(f"{pid} {os.waitstatus_to_exitcode(status)}".encode())


def _become(log: int, program: int) -> None:
    """Run a program in this child, as its interpreter would."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    for descriptor, standard in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(descriptor, standard)
    for descriptor in (nothing, log):
        os.close(descriptor)
    with os.fdopen(program, encoding="utf-8") as file:
        described = json.load(file)
    library = CDLL(None)
    library.prctl(_PR_SET_NAME, described["name"].encode())
    library.prctl(_PR_SET_PDEATHSIG, described["orphan_signal"])
    if os.getppid() != described["server"]:
        return  # it has died before the signal was set
    os.environ.update(described["environment"])
    module, *sys.argv[1:] = described["arguments"]
    gc.enable()
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
