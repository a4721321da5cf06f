"""A suite that answers by a language model.

A model that contradicts its sources is taken back and corrected, at every door. Whoever goes away stops the
whole chain: gateway, coordinator, generator and the model's provider.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from groundline.v1 import coordinator_service_pb2, coordinator_service_pb2_grpc
from groundline_client import corrected, from_json
from groundline_client.models import AnswerCorrection
from groundline_runtime.channels import open_channel
from groundline_runtime.context import Caller, acting_as
from groundline_tests.generator.providers import HOLD, OpenAIWire, ProviderServer, Reply, Request
from groundline_tests.suite import Stack, running_stack

DOCUMENT: Final = """# Manual of the DN-4

The hatch screws of the DN-4 take a torque of 1.8 Nm. The battery of the DN-4 lasts 40 hours.
"""
QUESTION: Final = "What torque do the hatch screws of the DN-4 take, and how long does the battery last?"
TORQUE: Final = "The hatch screws of the DN-4 take a torque of 1.8 Nm [1]."
BATTERY: Final = "The battery of the DN-4 lasts 40 hours [1]."
INVENTED: Final = "They are made of titanium in a factory near Oslo [1]."
WRITTEN: Final = f"{TORQUE.replace('1.8', '2.8')} {INVENTED} {BATTERY}"
ANSWER: Final = f"{TORQUE} {INVENTED} {BATTERY}"
WIRE: Final = OpenAIWire()
ASKED: Final = {"query": "How long does the battery of the DN-4 last?"}
PARTIAL: Final = "The answer begins, and"


def respond(request: Request) -> Reply:
    """Answer wrongly, word by word, and correct it when asked to."""
    if "You correct sentences" in json.dumps(request.body):
        return WIRE.answer(json.dumps({"sentences": [{"sentence": 1, "text": TORQUE}]}))
    return WIRE.answer(*(f"{word} " for word in WRITTEN.split(" ")))


@pytest.fixture(scope="module")
async def provider() -> AsyncIterator[ProviderServer]:
    async with ProviderServer() as server:
        server.respond = respond
        yield server


@pytest.fixture(scope="module")
async def stack(provider: ProviderServer, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stack]:
    folder: Path = tmp_path_factory.mktemp("hosted")
    manual = folder / "manual.md"
    manual.write_text(DOCUMENT)
    environment = {
        "GROUNDLINE_GENERATOR_PROVIDER": "openai",
        "GROUNDLINE_GENERATOR_MODEL": "scripted",
        "GROUNDLINE_GENERATOR_PROVIDER_BASE_URL": WIRE.base_url(provider),
    }
    async with running_stack(folder / "data", **environment) as running:
        ingested = await running.command("ingest", str(manual), "--collection", "manuals")
        assert ingested.code == 0, ingested.err
        yield running


def quick(**fields: Any) -> dict[str, Any]:
    """Return a request whose question nothing but the answer asks the model about."""
    options = {"effort": "EFFORT_QUICK", **fields.pop("options", {})}
    return {"query": QUESTION, "collectionIds": ["manuals"], "options": options, **fields}


async def events(client: httpx.AsyncClient, request: dict[str, Any], after: str = "") -> list[dict[str, Any]]:
    headers = {"last-event-id": after} if after else {}
    async with client.stream("POST", "/api/chat", json=request, headers=headers) as response:
        return [
            json.loads(line.removeprefix("data: "))
            async for line in response.aiter_lines()
            if line.startswith("data: ")
        ]


def read(told: list[dict[str, Any]]) -> str:
    """Return the text of a client that applies what it is told."""
    text = ""
    for event in told:
        text += event.get("delta", {}).get("text", "")
        if "correction" in event:
            text = corrected(text, from_json(AnswerCorrection, event["correction"]))
    return text


async def test_who_applies_corrections_and_who_reads_the_end_have_the_same(
    client: httpx.AsyncClient,
) -> None:
    told = await events(client, quick())
    completed = told[-1]["completed"]
    assert read(told) == completed["correctedAnswer"] == ANSWER
    taken_back, put_in = [event["correction"] for event in told if "correction" in event]
    assert (taken_back["text"], taken_back["issue"]["reason"]) == ("", "NUMBER_NOT_SUPPORTED")
    assert put_in["issue"]["reason"] == "SENTENCE_CORRECTED"
    (place,) = [index for index, event in enumerate(told) if "unsupported" in event]
    mark = told[place]["unsupported"]
    assert read(told[:place])[mark["startOffset"] : mark["endOffset"]] == INVENTED
    cited = [ANSWER[each["startOffset"] : each["endOffset"]] for each in completed["citations"]]
    assert cited == [sentence.removesuffix(" [1].") for sentence in (TORQUE, INVENTED, BATTERY)]


async def test_the_corrected_text_is_stored_and_replayed(client: httpx.AsyncClient) -> None:
    request = quick(requestId="corrected-1")
    told = await events(client, request)
    thread = (await client.get(f"/api/threads/{told[0]['started']['threadId']}")).json()
    assert thread["messages"][-1]["content"] == ANSWER
    again = await events(client, request)
    assert [event["delta"]["text"] for event in again if "delta" in event] == [ANSWER]


async def test_a_stream_that_broke_off_anywhere_goes_on_to_the_same_text(client: httpx.AsyncClient) -> None:
    request = quick(requestId="corrected-2")
    told = await events(client, request)
    for arrived in range(1, len(told)):
        rest = await events(client, request, after=told[arrived - 1]["eventId"])
        assert read([*told[:arrived], *rest]) == ANSWER, arrived


async def test_an_answer_that_comes_at_once_is_corrected(client: httpx.AsyncClient) -> None:
    answer = (await client.post("/api/answer", json=quick())).json()
    assert (answer["answer"], answer["completed"]["correctedAnswer"]) == (ANSWER, "")


async def test_text_that_must_stay_is_right_when_it_comes(client: httpx.AsyncClient) -> None:
    told = await events(client, quick(options={"appendOnly": True}))
    assert "".join(event["delta"]["text"] for event in told if "delta" in event) == ANSWER
    assert not any("correction" in event for event in told)
    assert told[-1]["completed"]["correctedAnswer"] == ""


async def test_the_openai_api_sends_only_what_stays(client: httpx.AsyncClient) -> None:
    asked = {
        "model": "manuals",
        "messages": [{"role": "user", "content": QUESTION}],
        "stream": True,
        "groundline": {"options": {"effort": "EFFORT_QUICK"}},
    }
    text = ""
    async with client.stream("POST", "/v1/chat/completions", json=asked) as response:
        async for line in response.aiter_lines():
            if line.startswith("data: {"):
                (choice,) = json.loads(line.removeprefix("data: "))["choices"]
                text += choice["delta"].get("content", "")
    assert text == ANSWER


async def test_the_command_prints_only_what_stays(stack: Stack) -> None:
    asked = await stack.command("ask", QUESTION, "--collection", "manuals", "--effort", "quick")
    assert asked.out.startswith(ANSWER)
    assert '"2.8 Nm"' in asked.err


@pytest.fixture
def holding(provider: ProviderServer) -> Iterator[ProviderServer]:
    """The model says a few words and then nothing more, for as long as it is listened to."""
    provider.abandoned.clear()
    provider.holding.clear()
    provider.respond = lambda _request: Reply([WIRE.text(PARTIAL), HOLD])
    yield provider
    provider.respond = respond


async def stored(client: httpx.AsyncClient, thread_id: str) -> list[dict[str, Any]]:
    """Question and answer, once they are there: who has gone away is not waited for."""
    messages: list[dict[str, Any]] = []
    while len(messages) < 2:
        messages = (await client.get(f"/api/threads/{thread_id}")).json().get("messages", [])
    return messages


def assert_is_kept(messages: list[dict[str, Any]]) -> None:
    asked, partial = messages
    assert asked["content"] == ASKED["query"]
    assert partial["finishReason"] == "FINISH_REASON_CANCELLED"
    assert partial["content"] == PARTIAL
    assert partial["sources"]


async def test_closing_the_connection_reaches_the_provider(stack: Stack, holding: ProviderServer) -> None:
    kinds = []
    async with stack.client() as client, asyncio.timeout(30):
        async with client.stream("POST", "/api/chat", json=ASKED) as response:
            async for line in response.aiter_lines():
                if not line.startswith("data: "):
                    continue
                event = json.loads(line.removeprefix("data: "))
                kinds.append(next(key for key in event if key not in ("sequence", "eventId")))
                if "started" in event:
                    thread_id = event["started"]["threadId"]
                if "delta" in event:
                    break
            assert not holding.abandoned.is_set()
        await holding.abandoned.wait()
        assert kinds == ["started", "status", "sources", "status", "delta"]
        assert_is_kept(await stored(client, thread_id))


async def test_giving_up_an_answer_reaches_the_provider(stack: Stack, holding: ProviderServer) -> None:
    async with stack.client() as client, asyncio.timeout(30):
        asked = asyncio.create_task(client.post("/api/answer", json=ASKED))
        await holding.holding.wait()
        asked.cancel()
        await holding.abandoned.wait()


async def test_cancelling_the_call_reaches_the_provider(stack: Stack, holding: ProviderServer) -> None:
    service = "groundline.v1.CoordinatorService"
    async with open_channel(stack.ready["services"]["coordinator"], service=service) as channel:
        stub: coordinator_service_pb2_grpc.CoordinatorServiceAsyncStub = (
            coordinator_service_pb2_grpc.CoordinatorServiceStub(channel)
        )
        with acting_as(Caller(("user:local",))):
            call = stub.Chat(coordinator_service_pb2.ChatRequest(query=ASKED["query"]))
            async with asyncio.timeout(30):
                async for event in call:
                    if event.HasField("started"):
                        thread_id = event.started.thread_id
                    if event.HasField("delta"):
                        break
                call.cancel()
                await holding.abandoned.wait()
    async with stack.client() as client, asyncio.timeout(30):
        assert_is_kept(await stored(client, thread_id))
