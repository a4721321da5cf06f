"""The `groundline` command as a process of its own for each call, forked from one that has loaded it: loading
takes half a second of processor time, most of what a short command takes."""

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import traceback
from asyncio import get_running_loop
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final

# numpy is left out: it starts threads, which a fork ends.
LOADED: Final = (
    "groundline_runtime",  # before whatever imports grpc
    "groundline_cli.__main__",
    "groundline_cli.commands.manage",
    "groundline_cli.commands.ingest",
    "groundline_cli.commands.search",
    "groundline_client",
    "groundline_database",
)
EXIT_CODE_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class Finished:
    """A command that has ended."""

    code: int
    out: str
    err: str


async def run_forked(arguments: Sequence[str], environment: Mapping[str, str]) -> Finished:
    """Run `groundline ARGUMENTS…` with this environment, and without input."""
    with ExitStack() as resources:
        request, out, err = (resources.enter_context(TemporaryFile()) for _ in range(3))
        request.write(json.dumps([arguments, dict(environment)]).encode())
        request.seek(0)
        ending, ended = map(resources.enter_context, socket.socketpair())
        socket.send_fds(_server(), [b"+"], [one.fileno() for one in (request, out, err, ended)])
        ended.close()
        ending.setblocking(False)
        code = await get_running_loop().sock_recv(ending, EXIT_CODE_BYTES)
        printed = [os.pread(one.fileno(), os.fstat(one.fileno()).st_size, 0).decode() for one in (out, err)]
    assert code, f"groundline {arguments} was killed:\n{printed[1]}"
    return Finished(int(code), *printed)


@cache
def _server() -> socket.socket:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    # Settings of the test that comes first are none of the others' business.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GROUNDLINE_")}
    environment["PYTHONPATH"] = str(Path(__file__).parents[2])
    with theirs:
        process = subprocess.Popen([sys.executable, "-m", __name__], stdin=theirs.fileno(), env=environment)
    atexit.register(process.wait)
    atexit.register(ours.close)
    return ours


def serve() -> None:
    """Fork the command for each request until the other side closes the socket."""
    for module in LOADED:
        import_module(module)
    requests = socket.socket(fileno=os.dup(0))
    # Nobody waits for them: each tells its exit code itself.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        message, descriptors, _, _ = socket.recv_fds(requests, 1, 4)
        if not message:
            return
        if os.fork() == 0:
            requests.close()
            _become(*descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _become(request: int, out: int, err: int, ended: int) -> None:
    """Run the command in this child, as its interpreter would, and end."""
    from groundline_cli.__main__ import main

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with os.fdopen(request) as file:
        arguments, environment = json.load(file)
    with open(os.devnull) as nothing:
        for descriptor, standard in ((nothing.fileno(), 0), (out, 1), (err, 2)):
            os.dup2(descriptor, standard)
    os.environ.update(environment)
    sys.argv = ["groundline", *arguments]
    code: object = 1
    try:
        main()
    except SystemExit as end:
        code = end.code
    except BaseException:  # as the interpreter would
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os.write(ended, str(code).encode())
    os._exit(0)


if __name__ == "__main__":
    serve()
