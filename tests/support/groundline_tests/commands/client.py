"""A program that has the server of forked commands run `groundline`, as if it were that command itself.

python -I -S client.py SOCKET ARGUMENT…; it loads little, for a page of the documentation runs it often.
"""

import json
import os
import socket
import sys
from collections.abc import Mapping, Sequence

EXIT_CODE_BYTES = 8


def ask(
    server: str, arguments: Sequence[str], environment: Mapping[str, str], files: Sequence[int]
) -> socket.socket:
    """Have the server run `groundline ARGUMENTS…` in this folder, with these files as its input, output and
    errors; return the socket that its exit code comes through, or nothing if it is killed."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(server)
    socket.send_fds(connection, [b"+"], files)
    connection.sendall(json.dumps([arguments, dict(environment), os.getcwd()]).encode())
    connection.shutdown(socket.SHUT_WR)
    return connection


def main() -> None:
    server, *arguments = sys.argv[1:]
    code = ask(server, arguments, os.environ, (0, 1, 2)).recv(EXIT_CODE_BYTES)
    sys.exit(int(code or 1))


if __name__ == "__main__":
    main()
