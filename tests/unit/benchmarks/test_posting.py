"""The client of an overload: what it makes of answers, and of gateways that are gone."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from groundline_benchmarks.chaos.posting import JsonPoster
from groundline_cli.stack.ports import reserved_port

_WHOLE = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nContent-Length: 4\r\n\r\n{ok}"


class Gateway:
    """Local server that answers each request by the next of some answers, each in one or more pieces."""

    def __init__(self, answers: Sequence[Sequence[bytes]]) -> None:
        self._answers = iter(answers)
        self.requests: list[bytes] = []
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                self.requests.append(head + await reader.readexactly(int(head.split(b"length: ")[1])))
                pieces = next(self._answers, ())
                if not pieces:
                    return
                for piece in pieces:
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0)
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()


@asynccontextmanager
async def a_gateway(*answers: Sequence[bytes]) -> AsyncIterator[tuple[str, Gateway]]:
    gateway = Gateway(answers)
    server = await asyncio.start_server(gateway.serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", gateway


def poster(*gateways: str) -> JsonPoster:
    return JsonPoster(gateways, "/api/search", "secret", timeout_seconds=10)


async def test_a_gateway_that_goes_away_without_an_answer_fails_the_request_once() -> None:
    async with a_gateway() as (address, gateway), poster(address) as client:
        with pytest.raises(ConnectionResetError):
            await client.post({"query": "x"})
        assert len(gateway.requests) == 1


async def test_an_answer_without_a_length_is_an_error() -> None:
    chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"
    async with a_gateway([chunked]) as (address, _), poster(address) as client:
        with pytest.raises(ConnectionResetError):
            await client.post({"query": "x"})


async def test_where_nothing_listens_the_next_gateway_is_asked() -> None:
    with reserved_port() as port:
        gone = f"http://127.0.0.1:{port}"
        async with a_gateway([_WHOLE], [_WHOLE]) as (address, _), poster(gone, address) as client:
            assert [await client.post({}) for _ in range(2)] == [(200, "{ok}")] * 2
        async with poster(gone) as client:
            with pytest.raises(ConnectionRefusedError):
                await client.post({})


async def test_answers_in_pieces_are_read_whole_over_one_connection() -> None:
    refused = b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 0\r\n\r\n"
    answers = ([_WHOLE[:9], _WHOLE[9:-6], _WHOLE[-6:]], [refused], [_WHOLE])
    async with a_gateway(*answers) as (address, gateway), poster(address) as client:
        found = [await client.post({"query": str(number)}) for number in range(3)]
    assert found == [(200, "{ok}"), (429, ""), (200, "{ok}")]
    assert gateway.connections == 1
    head, _, body = gateway.requests[2].partition(b"\r\n\r\n")
    assert b"POST /api/search HTTP/1.1" in head
    assert b"x-api-key: secret" in head
    assert body == b'{"query": "2"}'


async def test_a_connection_that_the_gateway_ends_is_not_used_again() -> None:
    last = _WHOLE.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n")
    async with a_gateway([last], [_WHOLE]) as (address, gateway), poster(address) as client:
        assert [await client.post({}) for _ in range(2)] == [(200, "{ok}")] * 2
    assert gateway.connections == 2
