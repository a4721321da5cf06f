"""Services that are down, not ready or late."""

import asyncio
from typing import Any

import httpx
import pytest


def reason(response: httpx.Response) -> str:
    return str(response.json()["details"][0]["reason"])


@pytest.mark.parametrize("path", ["/api/answer", "/api/chat"])
async def test_a_service_that_is_down_is_said_at_once(
    upstream: Any, launch: Any, unused: int, path: str
) -> None:
    async with launch(coordinator_address=f"127.0.0.1:{unused}") as gateway, gateway.client() as client:
        response = await client.post(path, json={"query": "x"})
        health = await gateway.becomes(503)
        others = await client.get("/api/collections")

    assert response.status_code == 503
    assert response.headers["content-type"] == "application/json"
    assert response.json()["code"] == 14
    assert reason(response) == "SERVICE_UNAVAILABLE"
    assert "127.0.0.1" not in response.text
    assert health == {"status": "NOT_SERVING"}
    assert others.status_code == 200


async def test_a_name_that_does_not_resolve_is_a_service_that_is_down(upstream: Any, launch: Any) -> None:
    async with launch(coordinator_address="nowhere.invalid:50051") as gateway, gateway.client() as client:
        response = await client.post("/api/answer", json={"query": "x"})

    assert response.status_code == 503
    assert reason(response) == "SERVICE_UNAVAILABLE"


@pytest.mark.parametrize("service", ["Coordinator", "Retriever", "Reranker", "Generator", "Ingestor"])
async def test_health_follows_every_service(upstream: Any, gateway: Any, service: str) -> None:
    await gateway.becomes(200)

    await upstream.set_health(service, serving=False)
    assert await gateway.becomes(503) == {"status": "NOT_SERVING"}

    await upstream.set_health(service, serving=True)
    assert await gateway.becomes(200) == {"status": "SERVING"}


async def test_a_late_service_is_cancelled_and_the_client_told(upstream: Any, launch: Any) -> None:
    async def late(_request: Any, _context: Any) -> Any:
        await asyncio.Event().wait()

    upstream.on("Answer", late)
    async with launch(answer_timeout_seconds=0.3) as gateway, gateway.client() as client:
        await gateway.becomes(200)
        response = await client.post("/api/answer", json={"query": "x"})

    assert response.status_code == 504
    assert response.json()["code"] == 4
    (call,) = upstream.calls
    async with asyncio.timeout(10):
        await call.ended.wait()
