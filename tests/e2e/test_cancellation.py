"""Whoever goes away stops the whole chain: gateway, coordinator, generator and the model's provider."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, Final

import httpx
import pytest
from groundline.v1 import coordinator_service_pb2, coordinator_service_pb2_grpc
from groundline_runtime.channels import open_channel
from groundline_runtime.context import Caller, acting_as
from groundline_tests.generator.providers import HOLD, OpenAIWire, ProviderServer, Reply
from groundline_tests.suite import EXAMPLES, Stack, running_stack

ASKED: Final = json.loads((EXAMPLES / "questions.json").read_text())["questions"][0]
QUESTION: Final = {"query": ASKED["question"]}
WIRE: Final = OpenAIWire()
PARTIAL: Final = "The answer begins, and"


@pytest.fixture(scope="module")
async def provider() -> AsyncIterator[ProviderServer]:
    """A model that says a few words and then nothing more, for as long as it is listened to."""
    async with ProviderServer() as server:
        server.replies = [Reply([WIRE.text(PARTIAL), HOLD])]
        yield server


@pytest.fixture(scope="module")
async def hosted(provider: ProviderServer, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stack]:
    """A suite that answers by that model."""
    environment = {
        "GROUNDLINE_GENERATOR_PROVIDER": "openai",
        "GROUNDLINE_GENERATOR_MODEL": "scripted",
        "GROUNDLINE_GENERATOR_PROVIDER_BASE_URL": WIRE.base_url(provider),
    }
    async with running_stack(tmp_path_factory.mktemp("cancellation") / "data", **environment) as stack:
        ingested = await stack.command("ingest", str(EXAMPLES / ASKED["uri"]), "--collection", "examples")
        assert ingested.code == 0, ingested.err
        yield stack


@pytest.fixture(autouse=True)
def listening(provider: ProviderServer) -> None:
    provider.abandoned.clear()
    provider.holding.clear()


async def stored(client: httpx.AsyncClient, thread_id: str) -> list[dict[str, Any]]:
    """Question and answer, once they are there: who has gone away is not waited for."""
    messages: list[dict[str, Any]] = []
    while len(messages) < 2:
        messages = (await client.get(f"/api/threads/{thread_id}")).json().get("messages", [])
    return messages


def assert_is_kept(messages: list[dict[str, Any]]) -> None:
    asked, partial = messages
    assert asked["content"] == QUESTION["query"]
    assert partial["finishReason"] == "FINISH_REASON_CANCELLED"
    assert partial["content"] == PARTIAL
    assert partial["sources"]


async def test_closing_the_connection_reaches_the_provider(hosted: Stack, provider: ProviderServer) -> None:
    kinds = []
    async with hosted.client() as client, asyncio.timeout(30):
        async with client.stream("POST", "/api/chat", json=QUESTION) as response:
            async for line in response.aiter_lines():
                if not line.startswith("data: "):
                    continue
                event = json.loads(line.removeprefix("data: "))
                kinds.append(next(key for key in event if key not in ("sequence", "eventId")))
                if "started" in event:
                    thread_id = event["started"]["threadId"]
                if "delta" in event:
                    break
            assert not provider.abandoned.is_set()
        await provider.abandoned.wait()
        assert kinds == ["started", "status", "sources", "status", "delta"]
        assert_is_kept(await stored(client, thread_id))


async def test_giving_up_an_answer_reaches_the_provider(hosted: Stack, provider: ProviderServer) -> None:
    async with hosted.client() as client, asyncio.timeout(30):
        asked = asyncio.create_task(client.post("/api/answer", json=QUESTION))
        await provider.holding.wait()
        asked.cancel()
        await provider.abandoned.wait()


async def test_cancelling_the_call_reaches_the_provider(hosted: Stack, provider: ProviderServer) -> None:
    service = "groundline.v1.CoordinatorService"
    async with open_channel(hosted.ready["services"]["coordinator"], service=service) as channel:
        stub: coordinator_service_pb2_grpc.CoordinatorServiceAsyncStub = (
            coordinator_service_pb2_grpc.CoordinatorServiceStub(channel)
        )
        with acting_as(Caller(("user:local",))):
            call = stub.Chat(coordinator_service_pb2.ChatRequest(**QUESTION))
            async with asyncio.timeout(30):
                async for event in call:
                    if event.HasField("started"):
                        thread_id = event.started.thread_id
                    if event.HasField("delta"):
                        break
                call.cancel()
                await provider.abandoned.wait()
    async with hosted.client() as client, asyncio.timeout(30):
        assert_is_kept(await stored(client, thread_id))
