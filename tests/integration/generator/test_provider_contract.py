"""Contract of every hosted provider, reached through its real SDK at a local server of its wire format."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass

import pytest
from google.oauth2.credentials import Credentials
from groundline.v1 import chat_pb2
from groundline_generator.adapters.gemini import GeminiModel
from groundline_generator.adapters.openai import OpenAIModel
from groundline_generator.domain.calls import ModelCall, ModelFinished
from groundline_generator.ports import ChatModel
from groundline_runtime.errors import (
    FailedPreconditionError,
    GroundlineError,
    InternalError,
    ResourceExhaustedError,
    UnavailableError,
)
from groundline_tests.generator.messages import used, user
from groundline_tests.generator.providers import (
    CUT,
    HOLD,
    GeminiWire,
    OpenAIWire,
    ProviderServer,
    Reply,
    Wire,
)
from pydantic import SecretStr

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
CALL = ModelCall(
    "wanted-model", "Be brief.", (user("Hi"),), temperature=0.5, max_output_tokens=77, schema=SCHEMA
)


def openai_model(url: str, silence_seconds: float) -> OpenAIModel:
    return OpenAIModel(base_url=url, api_key=SecretStr("sesame"), silence_seconds=silence_seconds)


def gemini_model(url: str, silence_seconds: float) -> GeminiModel:
    return GeminiModel(
        api_key=SecretStr("sesame"),
        vertex_project=None,
        vertex_location=None,
        base_url=url,
        silence_seconds=silence_seconds,
        cache_min_tokens=1024,
    )


@dataclass
class Provider:
    wire: Wire
    make: Callable[[str, float], OpenAIModel | GeminiModel]
    server: ProviderServer
    silence_seconds: float = 20.0

    @asynccontextmanager
    async def model(self) -> AsyncIterator[OpenAIModel | GeminiModel]:
        async with aclosing(self.make(self.wire.base_url(self.server), self.silence_seconds)) as model:
            yield model

    async def answered(self, reply: Reply, call: ModelCall = CALL) -> tuple[str, ModelFinished]:
        self.server.replies = [reply]
        async with self.model() as model:
            return await collected(model, call)


async def collected(model: ChatModel, call: ModelCall) -> tuple[str, ModelFinished]:
    events = [event async for event in model.stream(call)]
    finished = events.pop()
    assert isinstance(finished, ModelFinished)
    return "".join(event for event in events if isinstance(event, str)), finished


@pytest.fixture(params=["openai", "gemini"])
async def provider(request: pytest.FixtureRequest) -> AsyncIterator[Provider]:
    async with ProviderServer() as server:
        if request.param == "openai":
            yield Provider(OpenAIWire(), openai_model, server)
        else:
            yield Provider(GeminiWire(), gemini_model, server)


@pytest.mark.parametrize(
    ("status", "error", "reason"),
    [
        (500, UnavailableError, "PROVIDER_UNAVAILABLE"),
        (503, UnavailableError, "PROVIDER_UNAVAILABLE"),
        (401, InternalError, "PROVIDER_ACCESS_DENIED"),
        (403, InternalError, "PROVIDER_ACCESS_DENIED"),
        (404, FailedPreconditionError, "MODEL_NOT_AVAILABLE"),
        (400, InternalError, "PROVIDER_REJECTED_REQUEST"),
    ],
)
async def test_a_failure_is_told_once_and_without_the_providers_words(
    provider: Provider, status: int, error: type[GroundlineError], reason: str
) -> None:
    with pytest.raises(error) as failure:
        await provider.answered(provider.wire.failure(status, message="key sesame of host 10.0.0.1"))
    assert failure.value.reason == reason
    assert "sesame" not in failure.value.message
    assert len(provider.server.requests) == 1  # the SDK's own retries are off


@pytest.mark.parametrize(
    ("details", "reason"),
    [
        ([{"reason": "API_KEY_INVALID"}], "PROVIDER_ACCESS_DENIED"),
        ([None, {"reason": "OTHER"}], "PROVIDER_REJECTED_REQUEST"),
        ({"reason": "API_KEY_INVALID"}, "PROVIDER_REJECTED_REQUEST"),
        (None, "PROVIDER_REJECTED_REQUEST"),
    ],
)
async def test_a_wrong_key_in_a_400_of_gemini_is_no_wrong_request(details: object, reason: str) -> None:
    refusal = {"code": 400, "message": "no", "status": "INVALID_ARGUMENT", "details": details}
    async with ProviderServer() as server:
        provider = Provider(GeminiWire(), gemini_model, server)
        with pytest.raises(InternalError) as failure:
            await provider.answered(Reply([json.dumps({"error": refusal})], 400, {}, "application/json"))
    assert failure.value.reason == reason


async def test_a_used_up_quota_says_when_to_come_back(provider: Provider) -> None:
    with pytest.raises(ResourceExhaustedError) as failure:
        await provider.answered(provider.wire.failure(429, {"retry-after": "7"}))
    assert failure.value.retry_after_seconds == 7
    assert len(provider.server.requests) == 1


@pytest.mark.parametrize("ending", [[CUT], []])
async def test_a_stream_cut_in_the_middle_is_no_answer(provider: Provider, ending: list[object]) -> None:
    provider.server.replies = [Reply([provider.wire.text("Half of"), *ending])]
    received = []
    async with provider.model() as model:
        events = model.stream(CALL)
        received.append(await anext(events))
        with pytest.raises(UnavailableError) as failure:
            await anext(events)
    assert received == ["Half of"]
    assert failure.value.reason == "PROVIDER_STREAM_CUT"


@pytest.mark.parametrize("chunk", ["data: {nonsense\n\n", 'data: {"choices": 5, "candidates": 5}\n\n'])
async def test_a_malformed_chunk_is_told_as_unreadable(provider: Provider, chunk: str) -> None:
    with pytest.raises(InternalError) as failure:
        await provider.answered(Reply([provider.wire.text("x"), chunk]))
    assert failure.value.reason == "PROVIDER_OUTPUT_UNREADABLE"


async def test_a_silent_provider_is_given_up(provider: Provider) -> None:
    provider.silence_seconds = 0.1
    with pytest.raises(UnavailableError) as failure:
        await provider.answered(Reply([HOLD]))
    assert failure.value.reason == "PROVIDER_TIMEOUT"
    await provider.server.abandoned.wait()


async def test_a_provider_that_is_away_is_unavailable(provider: Provider) -> None:
    async with ProviderServer() as gone:
        pass
    provider.server = gone
    with pytest.raises(UnavailableError) as failure:
        await provider.answered(Reply())
    assert failure.value.reason == "PROVIDER_UNAVAILABLE"


async def test_a_safety_block_is_a_finish_reason(provider: Provider) -> None:
    text, finished = await provider.answered(provider.wire.withheld())
    assert text == ""
    assert finished.finish_reason == chat_pb2.FINISH_REASON_SAFETY


async def test_cancelling_before_the_first_token_closes_the_stream(provider: Provider) -> None:
    provider.server.replies = [Reply([HOLD])]
    async with provider.model() as model:
        task = asyncio.create_task(collected(model, CALL))
        await provider.server.holding.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await provider.server.abandoned.wait()


async def test_leaving_in_the_middle_closes_the_stream(provider: Provider) -> None:
    provider.server.replies = [Reply([provider.wire.text("Some"), HOLD])]
    async with provider.model() as model:
        events = model.stream(CALL)
        assert await anext(events) == "Some"
        await provider.server.holding.wait()
        await events.aclose()
        await provider.server.abandoned.wait()


async def test_text_arrives_as_it_is_written(provider: Provider) -> None:
    text, finished = await provider.answered(provider.wire.answer("Größe", " 5", " m²"))
    assert text == "Größe 5 m²"
    assert finished == ModelFinished(chat_pb2.FINISH_REASON_STOP, used(12, 4, 5), model="served-model")


async def test_the_token_limit_is_a_finish_reason(provider: Provider) -> None:
    _, finished = await provider.answered(Reply([provider.wire.text("x"), provider.wire.cut_short()]))
    assert finished.finish_reason == chat_pb2.FINISH_REASON_MAX_TOKENS


async def test_usage_may_be_missing(provider: Provider) -> None:
    _, finished = await provider.answered(Reply([provider.wire.text("x"), provider.wire.end()]))
    assert finished.usage == used()


async def test_the_call_reaches_the_provider_whole(provider: Provider) -> None:
    await provider.answered(provider.wire.answer("{}"))
    (request,) = provider.server.requests
    body = request.body
    if isinstance(provider.wire, OpenAIWire):
        assert request.path == "/v1/chat/completions"
        assert request.headers["authorization"] == "Bearer sesame"
        assert body["messages"] == [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Hi"},
        ]
        assert (body["model"], body["temperature"], body["max_tokens"]) == ("wanted-model", 0.5, 77)
        assert body["response_format"]["json_schema"]["schema"] == SCHEMA
    else:
        assert request.path.endswith("/models/wanted-model:streamGenerateContent?alt=sse")
        assert request.headers["x-goog-api-key"] == "sesame"
        assert body["systemInstruction"]["parts"] == [{"text": "Be brief."}]
        assert body["contents"] == [{"role": "user", "parts": [{"text": "Hi"}]}]
        config = body["generationConfig"]
        assert (config["temperature"], config["maxOutputTokens"]) == (0.5, 77)
        assert config["responseMimeType"] == "application/json"
        assert config["responseJsonSchema"] == SCHEMA


async def test_the_shared_prefix_opens_the_prompt(provider: Provider) -> None:
    call = ModelCall("m", "", (user("Hi"),), prefix="<document>…</document>")
    await provider.answered(provider.wire.answer("ok"), call)
    body = str(provider.server.requests[0].body)
    assert body.index("<document>…") < body.index("Hi")


async def test_on_vertex_the_project_is_asked_with_google_credentials() -> None:
    async with ProviderServer() as server:
        server.replies = [GeminiWire().answer("Hi")]
        model = GeminiModel(
            api_key=None,
            vertex_project="p",
            vertex_location=None,
            base_url=server.url,
            silence_seconds=20,
            cache_min_tokens=1024,
            credentials=Credentials(token="ticket"),  # type: ignore[no-untyped-call]
        )
        async with aclosing(model):
            text, _ = await collected(model, CALL)
    assert text == "Hi"
    (request,) = server.requests
    assert "/projects/p/locations/global/publishers/google/models/wanted-model:" in request.path
    assert request.headers["authorization"] == "Bearer ticket"
    assert model.provider == "gcp.vertex_ai"
