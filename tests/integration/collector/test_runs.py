"""Runs over a real port: turns, parts, bounds, and servers that answer without end."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
import pytest
from groundline.v1 import collector_service_pb2 as pb
from groundline.v1 import error_pb2, source_pb2
from groundline.v1.collector_service_pb2_grpc import CollectorServiceStub
from groundline_runtime.errors import GroundlineError
from groundline_runtime.status import from_rpc_error
from groundline_tests.ingestor.replica import collector
from groundline_tests.listening import listening
from groundline_tests.runtime import refusal

MAX_BYTES = 3 * 1024**2


@asynccontextmanager
async def stub(**settings: Any) -> AsyncIterator[Any]:
    async with collector(**settings) as target, grpc.aio.insecure_channel(target) as channel:
        yield CollectorServiceStub(channel)


def start(max_document_bytes: int = MAX_BYTES, **kind: Any) -> pb.CollectRequest:
    source = source_pb2.DocumentSource(name="handbook", collection_id="docs", **kind)
    described = pb.CollectStart(source=source, private_addresses=True, max_document_bytes=max_document_bytes)
    return pb.CollectRequest(start=described)


async def failure(call: Any) -> GroundlineError:
    """Read the call to its end and return the error that it ends with."""
    try:
        while await call.read() is not grpc.aio.EOF:
            pass
    except grpc.aio.AioRpcError as error:
        return from_rpc_error(error)
    pytest.fail("the call did not fail")


async def test_documents_come_in_parts_where_they_are_wanted_and_too_large_ones_fail(tmp_path: Path) -> None:
    content = bytes(range(256)) * 10_000
    (tmp_path / "a.bin").write_bytes(content)
    (tmp_path / "b.bin").write_bytes(b"not wanted")
    (tmp_path / "c.bin").write_bytes(bytes(MAX_BYTES + 1))
    async with stub(source_directories=(tmp_path,)) as service:
        call = service.Collect()
        await call.write(start(directory=source_pb2.DirectorySource(path=str(tmp_path))))
        changes = (await call.read()).changes.changes
        assert [one.WhichOneof("kind") for one in changes] == ["found", "found", "found", "reached"]
        await call.write(pb.CollectRequest(wanted=pb.WantedDocuments(positions=[0, 2])))
        parts = [(await call.read()).part]
        while not parts[-1].is_last:
            parts.append((await call.read()).part)
        assert parts[0].document.uri == "a.bin"
        assert b"".join(one.content for one in parts) == content
        assert max(len(one.content) for one in parts) == 1024**2
        while not (part := (await call.read()).part).is_last:
            pass
        assert part.failure.reason == error_pb2.DOCUMENT_TOO_LARGE
        assert await call.read() is grpc.aio.EOF


async def test_another_turn_than_the_one_that_is_due_is_refused(tmp_path: Path) -> None:
    directory = source_pb2.DirectorySource(path=str(tmp_path))
    async with stub(source_directories=(tmp_path,)) as service:
        for turns in (
            [pb.CollectRequest(wanted=pb.WantedDocuments())],
            [pb.CollectRequest()],
            [start()],
            [start(directory=directory), start(directory=directory)],
            [start(directory=directory), pb.CollectRequest(wanted=pb.WantedDocuments(positions=[0]))],
        ):
            call = service.Collect()
            for turn in turns:
                await call.write(turn)
            assert (await failure(call)).code.name == "INVALID_ARGUMENT"


async def test_a_source_that_names_what_is_not_there_is_refused(tmp_path: Path) -> None:
    async with stub() as service:
        source = source_pb2.DocumentSource(
            name="handbook",
            collection_id="docs",
            git=source_pb2.GitSource(url="https://git.test/a.git", password_secret="token"),
        )
        error = await refusal(service.CheckSource(pb.CheckSourceRequest(source=source)))
        assert error.reason == "SOURCE_NOT_AVAILABLE"


@pytest.fixture
async def endless() -> AsyncIterator[str]:
    """URL of a server that answers a byte now and then, and never ends."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\n\r\n")
        with suppress(ConnectionError):
            while True:
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.05)
        writer.close()

    async with listening(answer) as port:
        yield f"http://127.0.0.1:{port}/"


def threads() -> int:
    return sum(one.name.startswith("collect") for one in threading.enumerate())


async def test_runs_are_bounded_and_a_cancelled_one_gives_place_and_thread_back(endless: str) -> None:
    async with stub(max_runs=1) as service:
        feed = source_pb2.FeedSource(url=endless)
        first = service.Collect()
        await first.write(start(feed=feed))
        async with asyncio.timeout(20):
            while not threads():  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.02)
        second = service.Collect()
        await second.write(start(feed=feed))
        assert (await failure(second)).reason == "OVERLOADED"
        first.cancel()
        async with asyncio.timeout(20):
            while threads():  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.02)
        third = service.Collect()
        await third.write(start(feed=source_pb2.FeedSource(url="http://127.0.0.1:1/")))
        assert (await failure(third)).reason == "SOURCE_UNREACHABLE"
