"""The floor behind bare gRPC: the least that a search of another process takes, and of one behind that.

Run as a module, it is such a process: its methods take a case with a query and answer with bytes, without a
message, an interceptor or a check. What it is to serve it reads from standard input; when that ends, so does
the process.
"""

import asyncio
import json
import sys
from array import array
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

import grpc
import uvloop
from groundline_runtime.grpc_settings import CONNECTION_OPTIONS
from pgvector import HalfVector

from groundline_benchmarks.measuring.running import MeasurementError
from groundline_benchmarks.retrieval.cases import CASES, ONE_HOP, TWO_HOPS, Case, Search
from groundline_benchmarks.retrieval.floor import open_floor

KEPT: Final = 8
"""Passages whose texts a search returns, the suite's default."""

MAX_GIVEN_BYTES: Final = 2**28
"""Maximum bytes of the vectors, some 8 kB for each query's."""

_SERVICE: Final = "groundline.benchmarks.Floor"
_RANK: Final = f"/{_SERVICE}/Rank"
_SEARCH: Final = f"/{_SERVICE}/Search"

type _Call = grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]
type _Method = Callable[[bytes, Any], Awaitable[bytes]]


@asynccontextmanager
async def open_hops(
    database_url: str, collection: str, vectors: Mapping[str, HalfVector]
) -> AsyncIterator[tuple[Mapping[str, Search], Mapping[str, int]]]:
    """Provide the two ways, and the ids of the processes by the names of the services that they stand for.

    ONE_HOP returns ids and scores, as the retriever does when it is not asked to rank; TWO_HOPS the texts
    too.
    """
    serve = {
        "database_url": database_url,
        "collection": collection,
        "vectors": {query: vector.to_list() for query, vector in vectors.items()},
    }
    async with (
        _process(serve) as (near, near_pid),
        _process({"behind": near}) as (far, far_pid),
        grpc.aio.insecure_channel(near) as to_near,
        grpc.aio.insecure_channel(far) as to_far,
    ):
        rank: _Call = to_near.unary_unary(_RANK)
        search: _Call = to_far.unary_unary(_SEARCH)

        async def one_hop(case: Case, query: str) -> None:
            await rank(_request(case, query))

        async def two_hops(case: Case, query: str) -> None:
            await search(_request(case, query))

        yield {ONE_HOP: one_hop, TWO_HOPS: two_hops}, {"retriever": near_pid, "coordinator": far_pid}


@asynccontextmanager
async def _process(serve: Mapping[str, object]) -> AsyncIterator[tuple[str, int]]:
    """Provide the address and the id of a process of this module."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", __name__), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(serve).encode() + b"\n")
        address = (await process.stdout.readline()).decode().strip()
        if not address:
            raise MeasurementError("a bare process beside the suite did not start")
        yield address, process.pid
    finally:
        process.stdin.close()
        await process.wait()


async def _serve(given: Mapping[str, Any], ended: Awaitable[object]) -> None:
    async with AsyncExitStack() as stack:
        methods = await (_forwarding if "behind" in given else _floor)(stack, given)
        server = grpc.aio.server(options=CONNECTION_OPTIONS)
        handlers: dict[str, Any] = {}
        for name, method in methods.items():
            handlers[name.rpartition("/")[2]] = grpc.unary_unary_rpc_method_handler(method)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, handlers),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        print(f"127.0.0.1:{port}", flush=True)
        await ended
        await server.stop(0)


async def _forwarding(stack: AsyncExitStack, given: Mapping[str, Any]) -> Mapping[str, _Method]:
    channel = await stack.enter_async_context(
        grpc.aio.insecure_channel(given["behind"], options=CONNECTION_OPTIONS)
    )
    ask: _Call = channel.unary_unary(_SEARCH)

    async def search(request: bytes, context: Any) -> bytes:
        return await ask(request)

    return {_SEARCH: search}


async def _floor(stack: AsyncExitStack, given: Mapping[str, Any]) -> Mapping[str, _Method]:
    vectors = {query: HalfVector(values) for query, values in given["vectors"].items()}
    floor = await stack.enter_async_context(open_floor(given["database_url"], given["collection"], vectors))

    async def rank(request: bytes, context: Any) -> bytes:
        scores = await floor.ranked(*_asked(request))
        return array("q", scores).tobytes() + array("d", scores.values()).tobytes()

    async def search(request: bytes, context: Any) -> bytes:
        scores = await floor.ranked(*_asked(request))
        return "\n".join(await floor.texts(list(scores)[:KEPT])).encode()

    return {_RANK: rank, _SEARCH: search}


def _request(case: Case, query: str) -> bytes:
    return f"{case.name}\n{query}".encode()


def _asked(request: bytes) -> tuple[Case, str]:
    name, _, query = request.decode().partition("\n")
    return next(case for case in CASES if case.name == name), query


async def _main() -> None:
    reader = asyncio.StreamReader(limit=MAX_GIVEN_BYTES)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    await _serve(json.loads(await reader.readline()), reader.read())


if __name__ == "__main__":
    uvloop.run(_main())
