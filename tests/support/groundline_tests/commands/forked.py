"""The `groundline` command as a process of its own for each call, forked from one that has loaded it: loading
takes half a second of processor time, most of what a short command takes."""

import atexit
import json
import os
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from asyncio import get_running_loop
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Final

from groundline_tests.commands import client

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


@dataclass(frozen=True, slots=True)
class Finished:
    """A command that has ended."""

    code: int
    out: str
    err: str


async def run_forked(arguments: Sequence[str], environment: Mapping[str, str]) -> Finished:
    """Run `groundline ARGUMENTS…` with this environment, and without input."""
    with ExitStack() as resources:
        files = [resources.enter_context(tempfile.TemporaryFile()).fileno() for _ in range(3)]
        with client.ask(_server(), arguments, {**_without_settings(), **environment}, files) as ending:
            ending.setblocking(False)
            code = await get_running_loop().sock_recv(ending, client.EXIT_CODE_BYTES)
        printed = [os.pread(file, os.fstat(file).st_size, 0).decode() for file in files[1:]]
    assert code, f"groundline {arguments} was killed:\n{printed[1]}"
    return Finished(int(code), *printed)


def write_command(path: Path) -> None:
    """Write an executable file that is run as `groundline` is, by a shell or another program."""
    client_program = shlex.join([sys.executable, "-I", "-S", client.__file__, _server()])
    path.write_text(f'#!/bin/sh\nexec {client_program} "$@"\n')
    path.chmod(0o755)


def _without_settings() -> dict[str, str]:
    """Return the environment without settings of the test that comes first, which are none of the others'
    business."""
    return {name: value for name, value in os.environ.items() if not name.startswith("GROUNDLINE_")}


@cache
def _server() -> str:
    """Start the server; return the path of its socket."""
    folder = tempfile.mkdtemp(prefix="commands-")
    address = f"{folder}/socket"
    support = {"PYTHONPATH": str(Path(__file__).parents[2])}
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        number = listener.fileno()
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(number)],
            stdin=subprocess.PIPE,
            pass_fds=[number],
            env=_without_settings() | support,
        )
    atexit.register(shutil.rmtree, folder)
    atexit.register(process.communicate)
    return address


def serve() -> None:
    """Fork the command for each request until nobody holds the other end of the standard input."""
    for module in LOADED:
        import_module(module)
    # Nobody waits for them: each tells its exit code itself.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    number = int(sys.argv[1])
    with socket.socket(fileno=number) as listener:
        while True:
            ready, _, _ = select.select([number, 0], [], [])
            if 0 in ready:
                return
            connection, _ = listener.accept()
            with connection:
                if os.fork() == 0:
                    listener.close()
                    _become(connection)


def _become(connection: socket.socket) -> None:
    """Run the command that is asked for in this child, as its interpreter would, and end."""
    from groundline_cli.__main__ import main

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _, files, _, _ = socket.recv_fds(connection, 1, 3)
    with connection.makefile("rb") as request:
        arguments, environment, folder = json.load(request)
    for standard, file in enumerate(files):
        os.dup2(file, standard)
        os.close(file)
    os.chdir(folder)
    os.environ.clear()
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
    connection.sendall(str(code).encode())
    os._exit(0)


if __name__ == "__main__":
    serve()
