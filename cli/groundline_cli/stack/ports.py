"""Loopback TCP ports that stay ours between choosing them and a child's binding them."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from groundline_cli.stack.errors import PortTakenError

LOOPBACK: Final = "127.0.0.1"


@contextmanager
def reserved_port(port: int = 0) -> Iterator[int]:
    """Hold a TCP port of the loopback interface (0: a free one) for one child to listen on.

    The socket here is bound but never listens, so it receives no connection. Its options decide who may
    bind beside it. A port that the kernel chose admits SO_REUSEADDR, which every server sets (the kernel
    hands such a port out to nobody else). A port asked for by number must be refused to a second suite,
    so it admits SO_REUSEPORT of the same user alone, which Envoy's listeners set. Raises PortTakenError.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as holder:
        # Connections of an earlier run in TIME_WAIT would refuse a plain bind for a minute; a listener
        # of someone else is refused in spite of this option.
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            holder.bind((LOOPBACK, port))
        except OSError as error:
            raise PortTakenError(f"port {port} on {LOOPBACK} cannot be used: {error.strerror}") from error
        if port != 0:
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        yield holder.getsockname()[1]
