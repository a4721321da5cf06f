"""The OpenAI API: what is refused, what fails, and in whose words."""

import asyncio
import json
from typing import Any, get_type_hints

import httpx
import pytest
from groundline_bridge.openai.embeddings import EmbeddingsRequest
from groundline_bridge.openai.requests import ChatCompletionRequest, OpenAiRequest, ResponseRequest
from groundline_runtime.errors import (
    FieldViolation,
    InvalidArgumentError,
    ResourceExhaustedError,
    UnavailableError,
)
from groundline_tests.bridge import ASK, error_of, events_of
from openai.types import EmbeddingCreateParams
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming
from pydantic import BaseModel

type Services = Any
type Launch = Any
COMPLETIONS, RESPONSES, EMBEDDINGS = "/v1/chat/completions", "/v1/responses", "/v1/embeddings"


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"model": None}, "model"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "user", "content": 7}]}, "messages[0].content"),
        ({"messages": [{"role": "tool", "content": "12"}]}, "messages[0].role"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
            "messages[0].content",
        ),
        ({"messages": [{"role": "assistant", "content": "Hello."}]}, "messages"),
        ({"temperature": "hot"}, "temperature"),
        ({"stream": "yes"}, "stream"),
        ({"n": 2}, "n"),
        ({"tools": "all"}, "tools"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": {"type": "function", "function": {"name": "f"}}}, "tool_choice"),
        ({"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "required"}}}, "tool_choice"),
        ({"function_call": {"name": "f"}}, "function_call"),
        ({"stop": ["END"]}, "stop"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"groundline": {"filters": {}}}, "groundline.filters"),
        ({"groundline": {"options": {"rerank": {"topK": "many"}}}}, "groundline.options.rerank.topK"),
        ({"groundline": {"options": {"rerank": {"topk": 3}}}}, "groundline.options.rerank.topk"),
        ({"groundline": {"options": {"rerank": {"topK": 3, "top_k": 4}}}}, "groundline.options.rerank.top_k"),
        ({"groundline": {"options": {"rerank": {"topK": 2**31}}}}, "groundline.options.rerank.topK"),
        ({"groundline": {"options": {"rerank": {"strategy": "BEST"}}}}, "groundline.options.rerank.strategy"),
        ({"groundline": {"filter": "year"}}, "groundline.filter"),
        ({"groundline": {"asOf": "yesterday"}}, "groundline.asOf"),
        ({"groundline": {"asOf": 1772323200}}, "groundline.asOf"),
        ({"filter": {"year": 2024}}, "filter"),
        ({"temprature": 0}, "temprature"),
        ({"messages": [{"role": "user", "contents": "x"}]}, "messages[0].contents"),
        (
            {"messages": [{"role": "user", "content": [{"type": "text", "text": "x", "txt": ""}]}]},
            "messages[0].content",
        ),
        ({"stream_options": {"include_use": True}}, "stream_options.include_use"),
        ({"max_tokens": 2**31}, "max_tokens"),
        ({"max_tokens": 2**63}, "max_tokens"),
        ({"max_completion_tokens": -(2**40)}, "max_completion_tokens"),
        ({"temperature": 1e300}, "temperature"),
        ({"temperature": 10**300}, "temperature"),
    ],
)
async def test_a_wrong_field_is_named_before_anything_is_asked(
    client: httpx.AsyncClient, services: Services, change: dict[str, Any], param: str
) -> None:
    error = await error_of(await client.post(COMPLETIONS, json=ASK | change), 400)
    assert (error["type"], error["code"], error["param"]) == (
        "invalid_request_error",
        "invalid_request",
        param,
    )
    assert services.requests == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"messages": []}, "messages: must have 1 or more entries, has 0"),
        ({"temperature": 5}, "temperature: must be at most 2"),
        ({"temperature": "hot"}, "temperature: must be a number"),
        ({"max_tokens": 0}, "max_tokens: must be at least 1"),
        ({"max_tokens": 2**31}, "max_tokens: must be at most 32768"),
        ({"max_tokens": 1.5}, "max_tokens: must be a whole number"),
        ({"stream": "often"}, "stream: must be true or false"),
        ({"model": 7}, "model: must be a text"),
    ],
)
async def test_a_wrong_value_is_told_in_plain_words(
    client: httpx.AsyncClient, change: dict[str, Any], message: str
) -> None:
    error = await error_of(await client.post(COMPLETIONS, json=ASK | change), 400)
    assert error["message"] == message


async def test_every_wrong_field_is_named(client: httpx.AsyncClient) -> None:
    error = await error_of(await client.post(COMPLETIONS, json=ASK | {"n": 2, "temperature": "hot"}), 400)
    assert [each["param"] for each in error["violations"]] == ["temperature", "n"]


@pytest.mark.parametrize(
    ("path", "body", "params"),
    [
        (COMPLETIONS, '{"model": "a", "model": "b", "messages": []}', ["model"]),
        (COMPLETIONS, '{"messages": [{"role": "user", "role": "system"}]}', ["messages[0].role"]),
        (COMPLETIONS, '{"groundline": {"filter": {"year": 1, "year": 2}}}', ["groundline.filter.year"]),
        (COMPLETIONS, '{"user": {"a": 1, "a": 2}}', ["user.a"]),
        (COMPLETIONS, '{"temperature": NaN, "top_p": Infinity}', ["temperature", "top_p"]),
        (
            COMPLETIONS,
            '{"groundline": {"filter": {"year": {"$gte": 1e999}}}}',
            ["groundline.filter.year.$gte"],
        ),
        (COMPLETIONS, '{"max_tokens": 1%s}' % ("0" * 5000), ["max_tokens"]),
        (COMPLETIONS, '{"user": "\\ud800"}', ["user"]),
        (COMPLETIONS, '{"\\ud800": 1}', ["?"]),
        (RESPONSES, '{"input": "a", "input": "b"}', ["input"]),
        (RESPONSES, '{"max_output_tokens": -1e999}', ["max_output_tokens"]),
        (EMBEDDINGS, '{"input": "a", "input": "b"}', ["input"]),
        (EMBEDDINGS, '{"input": ["a", 1e999]}', ["input[1]"]),
    ],
)
async def test_what_a_reader_of_json_would_drop_or_bend_is_refused_by_name(
    client: httpx.AsyncClient, services: Services, path: str, body: str, params: list[str]
) -> None:
    error = await error_of(await client.post(path, content=body), 400)
    assert (error["type"], error["code"], error["param"]) == (
        "invalid_request_error",
        "invalid_request",
        params[0],
    )
    assert [each["param"] for each in error.get("violations", [error])] == params
    assert services.requests == []


async def test_levels_of_nesting_are_bounded(client: httpx.AsyncClient) -> None:
    for levels in (31, 100_000):
        await error_of(
            await client.post(COMPLETIONS, content='{"user": %s' % ("[" * levels + "]" * levels + "}")), 400
        )


PUBLISHED: dict[type[BaseModel], Any] = {
    ChatCompletionRequest: CompletionCreateParamsNonStreaming,
    ResponseRequest: ResponseCreateParamsNonStreaming,
    EmbeddingsRequest: EmbeddingCreateParams,
}


@pytest.mark.parametrize("kind", PUBLISHED, ids=lambda kind: kind.__name__)
def test_every_published_parameter_is_used_refused_or_ignored(kind: type[OpenAiRequest]) -> None:
    published = set(get_type_hints(PUBLISHED[kind]))
    assert published - {"stream"} <= kind.model_fields.keys() | kind.ignored
    assert kind.ignored <= published
    assert not kind.ignored & kind.model_fields.keys()


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"model"', b"\xff", b"\xef\xbb\xbf{}", b"[" * 100_000])
async def test_a_body_that_is_no_request_is_refused(client: httpx.AsyncClient, body: bytes) -> None:
    await error_of(await client.post(COMPLETIONS, content=body), 400)


async def test_a_body_beyond_its_limit_is_refused(launch: Launch, services: Services) -> None:
    async with launch(max_request_bytes=2048) as client:
        error = await error_of(await client.post(COMPLETIONS, json=ASK | {"user": "x" * 2048}), 400)
    assert error["code"] == "body_too_large"
    assert services.requests == []


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/completions", "/v2/models", "/v1/models/"])
async def test_there_is_nothing_at_another_address(client: httpx.AsyncClient, path: str) -> None:
    assert (await error_of(await client.get(path), 404))["code"] == "route_not_found"


@pytest.mark.parametrize(
    ("reason", "violations"),
    [
        ("COLLECTION_NOT_FOUND", []),
        ("INVALID_REQUEST", [FieldViolation("collection_ids[0]", "is not an id")]),
    ],
)
async def test_a_collection_that_does_not_exist_is_an_unknown_model(
    client: httpx.AsyncClient, services: Services, reason: str, violations: list[FieldViolation]
) -> None:
    services.error = InvalidArgumentError(violations, reason=reason)
    for stream in (False, True):
        services.texts = () if stream else ("text",)
        error = await error_of(await client.post(COMPLETIONS, json=ASK | {"stream": stream}), 404)
        assert (error["code"], error["param"]) == ("model_not_found", "model")


async def test_a_refusal_is_told_in_the_clients_words(client: httpx.AsyncClient, services: Services) -> None:
    services.error = InvalidArgumentError(
        [
            FieldViolation("options.generation.max_output_tokens", "at most 100"),
            FieldViolation("chat_history[3].content", "too long"),
            FieldViolation("filter.year", "no such operator"),
            FieldViolation("as_of", "is in the future"),
        ]
    )
    error = await error_of(await client.post(COMPLETIONS, json=ASK), 400)
    assert [each["param"] for each in error["violations"]] == [
        "max_tokens",
        "messages",
        "groundline.filter.year",
        "groundline.asOf",
    ]


async def test_a_quota_says_when_to_try_again(client: httpx.AsyncClient, services: Services) -> None:
    services.error = ResourceExhaustedError("GENERATOR_QUOTA_EXHAUSTED", "full", retry_after_seconds=7)
    response = await client.post(COMPLETIONS, json=ASK)
    assert (await error_of(response, 429))["type"] == "rate_limit_error"
    assert response.headers["retry-after"] == "7"


@pytest.mark.parametrize("stream", [False, True])
async def test_what_a_lost_coordinator_has_not_begun_to_answer_is_asked_again(
    client: httpx.AsyncClient, services: Services, stream: bool
) -> None:
    services.lost = 1
    response = await client.post(COMPLETIONS, json=ASK | {"stream": stream})
    assert response.status_code == 200
    assert "27 days" in response.text
    assert len(services.requests) == 2


async def test_a_service_that_is_down_is_an_error_without_its_address(launch: Launch) -> None:
    async with launch(ingestor_target="127.0.0.1:9") as client:
        response = await client.get("/v1/models")
    error = await error_of(response, 503)
    assert (error["type"], error["message"]) == ("server_error", "the ingestor is not available")
    assert "127.0.0.1" not in response.text


async def test_a_failure_in_the_middle_is_the_last_event_of_a_completion(
    client: httpx.AsyncClient, services: Services
) -> None:
    services.error = UnavailableError("PROVIDER_UNAVAILABLE", "the model is gone")
    *_, last = await events_of(client, COMPLETIONS, ASK)
    assert json.loads(last)["error"]["message"] == "the model is gone"


async def test_an_unexpected_exception_in_the_middle_is_the_last_event_and_shows_nothing_but_its_id(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> None:
        raise RuntimeError("hunter2")

    monkeypatch.setattr("groundline_bridge.openai.completions._finish_reason", fails)
    whole = await error_of(await client.post(COMPLETIONS, json=ASK), 500)
    *_, last = await events_of(client, COMPLETIONS, ASK)
    for error in (whole, json.loads(last)["error"]):
        assert (error["type"], error["code"]) == ("server_error", "internal")
        assert error["message"].startswith("internal error; its error_id is in the service's log (error id ")


async def test_a_failure_midway_is_a_failed_response(client: httpx.AsyncClient, services: Services) -> None:
    services.error = UnavailableError("PROVIDER_UNAVAILABLE", "the model is gone")
    *_, last = await events_of(client, RESPONSES, {"model": "handbook", "input": "How much?"})
    failed = json.loads(last)
    assert failed["type"] == "response.failed"
    assert failed["response"]["error"] == {"code": "provider_unavailable", "message": "the model is gone"}


@pytest.mark.parametrize("path", [COMPLETIONS, RESPONSES])
@pytest.mark.parametrize("stream", [False, True])
async def test_whoever_leaves_cancels_the_answer(
    client: httpx.AsyncClient, services: Services, path: str, stream: bool
) -> None:
    services.hangs = True
    body = ASK if path == COMPLETIONS else {"model": "handbook", "input": "How much?"}
    asking = asyncio.create_task(client.post(path, json=body | {"stream": stream}))
    async with asyncio.timeout(30):
        await services.waiting.wait()
        asking.cancel()
        await services.cancelled.wait()


async def test_more_requests_than_may_go_on_are_told_to_wait(launch: Launch, services: Services) -> None:
    services.hangs = True
    async with launch(max_concurrent_requests=1) as client:
        first = asyncio.create_task(client.post(COMPLETIONS, json=ASK))
        await services.waiting.wait()
        response = await client.post(COMPLETIONS, json=ASK)
        first.cancel()
    await error_of(response, 503)
    assert response.headers["retry-after"] == "1"


async def test_identity_and_deadline_are_the_gateways(client: httpx.AsyncClient, services: Services) -> None:
    headers = {"x-groundline-principals": "user:bob,group:a%2Cb", "grpc-timeout": "9000m"}
    await client.post(COMPLETIONS, json=ASK, headers=headers)
    assert services.callers == [("user:bob", "group:a,b")]
    (left,) = services.deadlines
    assert left is not None
    # gRPC rounds a timeout up on the wire, one of seconds to the next hundredth.
    assert 0 < left <= 9.02


async def test_a_deadline_that_passes_ends_the_request(client: httpx.AsyncClient, services: Services) -> None:
    services.hangs = True
    response = await client.post(COMPLETIONS, json=ASK, headers={"grpc-timeout": "200m"})
    assert (await error_of(response, 504))["code"] == "deadline_exceeded"
