"""A gateway that is about to stop lets go of its clients and finishes what is under way."""

import asyncio
from typing import Any

import httpx
import pytest
from groundline.v1 import coordinator_service_pb2
from groundline_gateway.drain import drain, main


async def test_it_waits_for_a_request_under_way_and_closes_idle_connections(
    launch: Any, upstream: Any, unused: int
) -> None:
    admin = f"127.0.0.1:{unused}"
    finish = asyncio.Event()

    async def answer(request: Any, context: Any) -> Any:
        await finish.wait()
        return coordinator_service_pb2.AnswerResponse()

    upstream.on("Answer", answer)
    async with launch(admin_address=admin) as gateway, gateway.client() as client:
        await gateway.becomes(200)
        asked = asyncio.ensure_future(client.post("/api/answer", json={"query": "slow"}, timeout=60))
        await upstream.arrived.get()
        drained = asyncio.ensure_future(asyncio.to_thread(drain, admin, wait_seconds=0, limit_seconds=60))
        await lets_go(client)
        assert not drained.done()
        finish.set()
        assert (await asked).status_code == 200
        assert await drained == 0


async def test_it_gives_up_when_a_request_takes_too_long(launch: Any, upstream: Any, unused: int) -> None:
    async def answer(request: Any, context: Any) -> Any:
        await asyncio.Event().wait()

    upstream.on("Answer", answer)
    admin = f"127.0.0.1:{unused}"
    async with launch(admin_address=admin) as gateway, gateway.client() as client:
        await gateway.becomes(200)
        asked = asyncio.ensure_future(client.post("/api/answer", json={"query": "endless"}, timeout=60))
        await upstream.arrived.get()
        assert await asyncio.to_thread(drain, admin, wait_seconds=0, limit_seconds=0) == 1
        asked.cancel()


def test_without_a_gateway_it_says_so(unused: int, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([f"127.0.0.1:{unused}", "0", "1"])
    assert ended.value.code == 1
    assert capsys.readouterr().err.startswith("drain-gateway: 127.0.0.1:")


async def lets_go(client: httpx.AsyncClient) -> None:
    """Wait until a response asks the client to reconnect next time."""
    async with asyncio.timeout(30):
        while True:
            if (await client.get("/")).headers.get("connection") == "close":
                return
            await asyncio.sleep(0.02)
