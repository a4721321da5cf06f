"""A reserved port is refused to strangers and given to the child it was reserved for."""

import asyncio
import socket
from collections.abc import Iterator

import grpc
import pytest
from groundline_cli.stack.errors import PortTakenError
from groundline_cli.stack.ports import LOOPBACK, reserved_port


@pytest.fixture
def stranger() -> Iterator[socket.socket]:
    """A listener as other programs open it."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((LOOPBACK, 0))
        listener.listen()
        yield listener


def test_a_port_with_a_listener_is_refused_by_number(stranger: socket.socket) -> None:
    port = stranger.getsockname()[1]
    with pytest.raises(PortTakenError, match=f"port {port} on 127.0.0.1 cannot be used"), reserved_port(port):
        pass


def test_a_port_asked_for_by_number_is_refused_to_a_second_reservation() -> None:
    with reserved_port() as free:
        pass
    with reserved_port(free), pytest.raises(PortTakenError), reserved_port(free):
        pass


def test_a_port_shared_by_so_reuseport_listeners_is_refused() -> None:
    with socket.socket() as envoy:
        envoy.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        envoy.bind((LOOPBACK, 0))
        envoy.listen()
        with pytest.raises(PortTakenError), reserved_port(envoy.getsockname()[1]):
            pass


def test_a_port_is_free_again_after_its_reservation() -> None:
    with reserved_port() as port:
        pass
    with reserved_port(port) as again:
        assert again == port


def test_connections_in_time_wait_do_not_refuse_a_port() -> None:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((LOOPBACK, 0))
        listener.listen()
        port = listener.getsockname()[1]
        with socket.create_connection((LOOPBACK, port)):
            accepted, _ = listener.accept()
            accepted.close()
    with reserved_port(port) as again:
        assert again == port


def test_free_ports_reserved_together_are_distinct() -> None:
    with reserved_port() as first, reserved_port() as second:
        assert first != second


@pytest.mark.parametrize("so_reuseport", [0, 1])
async def test_a_grpc_server_listens_on_a_reserved_free_port(so_reuseport: int) -> None:
    with reserved_port() as port:
        server = grpc.aio.server(options=[("grpc.so_reuseport", so_reuseport)])
        assert server.add_insecure_port(f"{LOOPBACK}:{port}") == port
        await server.start()
        try:
            _, writer = await asyncio.open_connection(LOOPBACK, port)
            writer.close()
            await writer.wait_closed()
        finally:
            await server.stop(None)


async def test_a_second_grpc_server_is_refused_a_port_that_the_first_serves() -> None:
    with reserved_port() as port:
        first = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        first.add_insecure_port(f"{LOOPBACK}:{port}")
        await first.start()
        try:
            second = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
            with pytest.raises(RuntimeError):
                second.add_insecure_port(f"{LOOPBACK}:{port}")
        finally:
            await first.stop(None)


@pytest.mark.parametrize("by_number", [False, True])
def test_two_sockets_with_so_reuseport_listen_on_a_reserved_port(by_number: bool) -> None:
    """As Envoy opens one for each of its worker threads."""
    with reserved_port() as free:
        pass
    with reserved_port(free if by_number else 0) as port, socket.socket() as one, socket.socket() as two:
        for listener in (one, two):
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            listener.bind((LOOPBACK, port))
            listener.listen()
        socket.create_connection((LOOPBACK, port)).close()
