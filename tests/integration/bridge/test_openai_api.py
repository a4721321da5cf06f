"""The OpenAI API as the bridge speaks it, before scripted services."""

import asyncio
import base64
import json
import struct
from typing import Any

import httpx
import pytest
from groundline.v1 import chat_pb2
from groundline_bridge.__main__ import wire
from groundline_bridge.settings import BridgeSettings
from groundline_runtime.errors import FailedPreconditionError, FieldViolation, InvalidArgumentError
from groundline_tests.bridge import ASK, EMBED, error_of, events_of
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response

type Services = Any
type Launch = Any
COMPLETIONS, RESPONSES, EMBEDDINGS = "/v1/chat/completions", "/v1/responses", "/v1/embeddings"
PASSAGE = "/#source=handbook/5f0c1d6e-0000-4000-8000-000000000001/4-36"


async def test_a_stream_that_pauses_is_kept_open_by_comments(launch: Launch, services: Services) -> None:
    services.hangs = True
    async with (
        launch(heartbeat_seconds=0.01) as client,
        client.stream("POST", COMPLETIONS, json=ASK | {"stream": True}) as response,
    ):
        async for line in response.aiter_lines():
            if line.startswith(":"):
                break
        else:
            raise AssertionError("no comment came")


async def test_models_are_all_collections_together_and_each(client: httpx.AsyncClient) -> None:
    models = (await client.get("/v1/models")).json()
    assert models["object"] == "list"
    assert [each["id"] for each in models["data"]] == ["groundline", "handbook", "product"]
    assert {each["object"] for each in models["data"]} == {"model"}


async def test_a_collection_called_groundline_is_another_model_than_all_of_them(
    client: httpx.AsyncClient, services: Services
) -> None:
    services.collections = ["groundline"]
    models = (await client.get("/v1/models")).json()
    assert [each["id"] for each in models["data"]] == ["groundline", "+groundline"]
    await client.post(COMPLETIONS, json=ASK | {"model": "+groundline"})
    assert services.requests[-1].collection_ids == ["groundline"]


async def test_a_set_of_collections_is_a_model(client: httpx.AsyncClient, services: Services) -> None:
    model = (await client.get("/v1/models/handbook+product")).json()
    assert (model["id"], model["created"]) == ("handbook+product", 1_760_000_000)
    await error_of(await client.get("/v1/models/handbook+payroll"), 404)
    await client.post(COMPLETIONS, json=ASK | {"model": "handbook+product"})
    assert services.requests[-1].collection_ids == ["handbook", "product"]


async def test_a_conversation_is_an_unstored_question(client: httpx.AsyncClient, services: Services) -> None:
    messages = [
        {"role": "system", "content": "Answer in one sentence."},
        {"role": "developer", "content": [{"type": "text", "text": "Be formal."}]},
        {"role": "user", "content": "Hello."},
        {"role": "assistant", "content": None},
        {"role": "assistant", "content": "Good day."},
        {
            "role": "user",
            "content": [{"type": "text", "text": "How much leave"}, {"type": "text", "text": "is there?"}],
        },
    ]
    extension = {
        "filter": {"year": 2025},
        "options": {"rerank": {"topK": 3}},
        "asOf": "2026-03-01T01:00:00+01:00",
    }
    body = ASK | {"messages": messages, "temperature": 0.5, "max_tokens": 9, "groundline": extension}
    await client.post(COMPLETIONS, json=body)
    (asked,) = services.requests
    assert asked.query == "How much leave\nis there?"
    assert [(said.role, said.content) for said in asked.chat_history] == [
        (chat_pb2.ChatMessage.USER, "Hello."),
        (chat_pb2.ChatMessage.ASSISTANT, "Good day."),
    ]
    assert asked.options.generation.system_prompt == "Answer in one sentence.\n\nBe formal."
    assert asked.options.generation.temperature == 0.5
    assert asked.options.generation.max_output_tokens == 9
    assert asked.options.rerank.top_k == 3
    assert asked.filter["year"] == 2025
    assert asked.as_of.ToJsonString() == "2026-03-01T00:00:00Z"
    assert (asked.HasField("store"), asked.store) == (True, False)
    assert asked.options.append_only


async def test_of_a_long_conversation_the_end_is_sent(client: httpx.AsyncClient, services: Services) -> None:
    said = [{"role": "user", "content": f"message {number}"} for number in range(150)]
    await client.post(COMPLETIONS, json=ASK | {"messages": said})
    (asked,) = services.requests
    assert (len(asked.chat_history), asked.chat_history[0].content) == (100, "message 49")


async def test_what_clients_always_send_is_taken(client: httpx.AsyncClient) -> None:
    always = {
        "top_p": 1,
        "presence_penalty": 0,
        "frequency_penalty": 0,
        "seed": 1,
        "user": "u",
        "stop": None,
        "logit_bias": {},
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}],
        "n": 1,
        "tool_choice": "auto",
        "response_format": {"type": "text"},
        "store": True,
        "metadata": {"chat": "1"},
        "parallel_tool_calls": True,
        "reasoning_effort": "low",
        "service_tier": "auto",
        "stream": False,
    }
    for harmless in (
        always,
        {"stop": [""], "tool_choice": "none"},
        {"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}},
    ):
        response = await client.post(COMPLETIONS, json=ASK | harmless)
        assert response.status_code == 200, response.text


async def test_an_answer_as_history_is_taken(client: httpx.AsyncClient, services: Services) -> None:
    completion = ChatCompletion.model_validate((await client.post(COMPLETIONS, json=ASK)).json())
    response = Response.model_validate(
        (await client.post(RESPONSES, json={"model": "handbook", "input": "How much?"})).json()
    )
    (choice,), (item,) = completion.choices, response.output
    said = [*ASK["messages"], choice.message.model_dump(), {"role": "user", "content": "Why?"}]
    again = await client.post(COMPLETIONS, json=ASK | {"messages": said})
    said = [item.model_dump(), {"role": "user", "content": "Why?"}]
    continued = await client.post(RESPONSES, json={"model": "handbook", "input": said})
    assert (again.status_code, continued.status_code) == (200, 200), again.text + continued.text
    assert services.requests[-1].chat_history[0].content == "27 days. [1]"


async def test_a_completion_has_text_citations_usage_and_sources(client: httpx.AsyncClient) -> None:
    reply = (await client.post(COMPLETIONS, json=ASK)).json()
    completion = ChatCompletion.model_validate(reply)
    (choice,) = completion.choices
    assert (choice.message.content, choice.finish_reason) == ("27 days. [1]", "stop")
    assert choice.message.annotations is not None
    (annotation,) = choice.message.annotations
    assert annotation.url_citation.model_dump() == {
        "start_index": 0,
        "end_index": 8,
        "title": "Leave",
        "url": f"{client.base_url}".rstrip("/") + PASSAGE,
    }
    assert completion.usage is not None
    assert (completion.usage.prompt_tokens, completion.usage.completion_tokens) == (20, 7)
    assert completion.usage.total_tokens == 27
    assert completion.model == "handbook"
    assert reply["groundline"]["sources"][0]["snippet"] == "Employees have 27 days of leave."
    assert reply["groundline"]["completed"]["validation"]["grounded"] is True


async def test_a_citation_leads_to_the_web_or_to_the_gateway(launch: Launch, services: Services) -> None:
    async def cited(client: httpx.AsyncClient, **headers: str) -> str:
        reply = (await client.post(COMPLETIONS, json=ASK, headers=headers)).json()
        return str(reply["choices"][0]["message"]["annotations"][0]["url_citation"]["url"])

    async with launch() as client:
        behind_tls = {"host": "ask.example", "x-forwarded-proto": "https"}
        assert await cited(client, **behind_tls) == f"https://ask.example{PASSAGE}"
        services.uri = "HTTPS://wiki.example/leave"
        assert await cited(client) == "HTTPS://wiki.example/leave"
        services.uri = "javascript:alert(1)"
    async with launch(public_url="https://company.example/ask/") as client:
        assert await cited(client) == f"https://company.example/ask{PASSAGE}"


@pytest.mark.parametrize("includes_usage", [False, True])
async def test_a_streamed_completion_equals_a_whole(client: httpx.AsyncClient, includes_usage: bool) -> None:
    whole = (await client.post(COMPLETIONS, json=ASK)).json()
    options = {"stream_options": {"include_usage": includes_usage}}
    *events, done = await events_of(client, COMPLETIONS, ASK | options)
    assert done == "[DONE]"
    chunks = [ChatCompletionChunk.model_validate_json(event) for event in events]
    assert {chunk.id for chunk in chunks} == {whole["id"]}
    deltas = [choice.delta for chunk in chunks for choice in chunk.choices]
    assert deltas[0].role == "assistant"
    assert "".join(delta.content or "" for delta in deltas) == whole["choices"][0]["message"]["content"]
    annotations = [each for delta in deltas for each in (delta.model_extra or {}).get("annotations", [])]
    assert annotations == whole["choices"][0]["message"]["annotations"]
    reasons = [choice.finish_reason for chunk in chunks for choice in chunk.choices if choice.finish_reason]
    assert reasons == ["stop"]
    usages = [chunk.usage for chunk in chunks if chunk.usage]
    assert [usage.total_tokens for usage in usages] == ([27] if includes_usage else [])
    (last,) = [json.loads(event) for event in events if "groundline" in json.loads(event)]
    assert last["groundline"] == whole["groundline"]


@pytest.mark.parametrize(
    ("reason", "finish_reason", "status"),
    [
        (chat_pb2.FINISH_REASON_NO_ANSWER, "stop", "completed"),
        (chat_pb2.FINISH_REASON_MAX_TOKENS, "length", "incomplete"),
        (chat_pb2.FINISH_REASON_SAFETY, "content_filter", "incomplete"),
    ],
)
async def test_how_an_answer_ended_is_told(
    client: httpx.AsyncClient, services: Services, reason: int, finish_reason: str, status: str
) -> None:
    services.completed = chat_pb2.ChatCompleted(finish_reason=reason)  # type: ignore[arg-type]
    completion = (await client.post(COMPLETIONS, json=ASK)).json()
    assert completion["choices"][0]["finish_reason"] == finish_reason
    response = (await client.post(RESPONSES, json={"model": "handbook", "input": "How?"})).json()
    assert response["status"] == status


async def test_a_response_has_text_citations_usage_and_sources(client: httpx.AsyncClient) -> None:
    body = {"model": "handbook", "input": "How much?", "instructions": "Be brief.", "metadata": {"a": "b"}}
    reply = (await client.post(RESPONSES, json=body)).json()
    response = Response.model_validate(reply)
    assert response.output_text == "27 days. [1]"
    assert (response.status, reply["store"], response.instructions) == ("completed", False, "Be brief.")
    assert reply["output"][0]["content"][0]["annotations"] == [
        {
            "type": "url_citation",
            "start_index": 0,
            "end_index": 8,
            "title": "Leave",
            "url": f"{client.base_url}".rstrip("/") + PASSAGE,
        }
    ]
    assert response.usage is not None
    assert response.usage.total_tokens == 27
    assert reply["groundline"]["sources"]


async def test_a_streamed_response_ends_with_it_whole(client: httpx.AsyncClient, services: Services) -> None:
    body = {"model": "handbook", "input": [{"role": "user", "content": "How much?"}]}
    whole = (await client.post(RESPONSES, json=body)).json()
    events = [json.loads(event) for event in await events_of(client, RESPONSES, body)]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert [event["type"] for event in events] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.annotation.added",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert events[-1]["response"] | {"created_at": 0} == whole | {"created_at": 0}
    assert services.requests[0].query == services.requests[1].query == "How much?"


@pytest.mark.parametrize("field", ["previous_response_id", "conversation"])
async def test_what_is_not_stored_cannot_be_gone_on_with(client: httpx.AsyncClient, field: str) -> None:
    body = {"model": "handbook", "input": "And then?", field: "resp_1"}
    assert (await error_of(await client.post(RESPONSES, json=body), 400))["param"] == field


async def test_a_bridge_that_drains_still_answers_but_is_not_ready(target: str) -> None:
    settings = BridgeSettings(coordinator_target=target, retriever_target=target, ingestor_target=target)
    async with (
        wire(settings) as server,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}", trust_env=False) as client,
    ):
        assert (await client.get("/readyz")).status_code == 200
        await server.drain()
        assert (await client.get("/readyz")).status_code == 503
        assert (await client.get("/livez")).status_code == 200
        assert (await client.get("/v1/models")).status_code == 200


async def test_stopping_lets_what_is_under_way_end(target: str, services: Services) -> None:
    services.hangs = True
    settings = BridgeSettings(coordinator_target=target, retriever_target=target, ingestor_target=target)
    async with (
        wire(settings) as server,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}", trust_env=False) as client,
        asyncio.timeout(30),
    ):
        asking = asyncio.create_task(client.post(COMPLETIONS, json=ASK))
        await services.waiting.wait()
        stopping = asyncio.create_task(server.stop(20))
        while True:
            try:
                await client.get("/livez")
            except httpx.ConnectError:
                break
        assert not asking.done()
        await server.stop(0)
        await stopping
        await services.cancelled.wait()
        await error_of(await asking, 503)


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"model": ""}, "model"),
        ({"input": [[1, 2, 3]]}, "input"),
        ({"input": [1, 2, 3]}, "input"),
        ({"input": None}, "input"),
        ({"encoding_format": "int8"}, "encoding_format"),
        ({"dimensions": 0}, "dimensions"),
        ({"dimensions": 2**31}, "dimensions"),
        ({"dimension": 2}, "dimension"),
    ],
)
async def test_a_wrong_field_of_an_embedding_is_named(
    client: httpx.AsyncClient, services: Services, change: dict[str, Any], param: str
) -> None:
    error = await error_of(await client.post(EMBEDDINGS, json=EMBED | change), 400)
    assert error["param"] == param
    assert services.requests == []


async def test_what_a_service_refuses_of_an_embedding_is_named_in_words_of_openai(
    client: httpx.AsyncClient, services: Services
) -> None:
    services.error = InvalidArgumentError([FieldViolation("texts[1]", "must not be empty")])
    assert (await error_of(await client.post(EMBEDDINGS, json=EMBED), 400))["param"] == "input"


async def test_an_absent_embedding_model_is_a_404(client: httpx.AsyncClient, services: Services) -> None:
    services.error = FailedPreconditionError("EMBEDDING_MODEL_MISMATCH", "other is not running")
    error = await error_of(await client.post(EMBEDDINGS, json=EMBED), 404)
    assert (error["code"], error["param"]) == ("model_not_found", "model")


async def test_embeddings_are_numbers_or_bytes(client: httpx.AsyncClient, services: Services) -> None:
    floats = (await client.post(EMBEDDINGS, json=EMBED)).json()
    packed = (await client.post(EMBEDDINGS, json=EMBED | {"encoding_format": "base64"})).json()
    assert [each["index"] for each in floats["data"]] == [0, 1]
    assert floats["data"][0]["embedding"] == pytest.approx([0.6, 0.8])
    raw = base64.b64decode(packed["data"][0]["embedding"])
    assert struct.unpack("<2f", raw) == pytest.approx((0.6, 0.8))
    assert floats["usage"] == {"prompt_tokens": 3, "total_tokens": 3}
    assert services.requests[0].texts == ["leave", "tower"]


async def test_one_text_is_a_list_of_one(client: httpx.AsyncClient, services: Services) -> None:
    found = (await client.post(EMBEDDINGS, json=EMBED | {"input": "leave", "dimensions": 2})).json()
    assert len(found["data"]) == 1
    (asked,) = services.requests
    assert (asked.texts, asked.model, asked.dimensions) == (["leave"], "minilm", 2)
