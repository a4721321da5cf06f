"""A provider for any OpenAI-compatible chat endpoint, through the openai SDK."""

import json
from base64 import b64encode
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx2
import openai
from groundline.v1 import chat_pb2
from groundline_runtime.errors import GroundlineError
from pydantic import SecretStr

from groundline_generator.adapters.failures import (
    cut_off,
    http_failure,
    not_reachable,
    retry_after,
    timed_out,
    translated,
    unreadable,
)
from groundline_generator.domain.calls import ModelCall, ModelFinished
from groundline_generator.domain.prompting import role_name

_FINISH_REASONS: Final = {
    "stop": chat_pb2.FINISH_REASON_STOP,
    "length": chat_pb2.FINISH_REASON_MAX_TOKENS,
    "content_filter": chat_pb2.FINISH_REASON_SAFETY,
}
_CONNECT_SECONDS: Final = 5.0


class OpenAIModel:
    """A ChatModel. Servers may leave out usage, and refuse schemas that they do not know."""

    provider = "openai"

    def __init__(self, *, base_url: str | None, api_key: SecretStr | None, silence_seconds: float) -> None:
        self._client = openai.AsyncOpenAI(
            # Local servers need no key, but the SDK does, and would look for one in the environment.
            api_key=api_key.get_secret_value() if api_key else "none",
            base_url=base_url or "https://api.openai.com/v1",
            max_retries=0,
            timeout=httpx2.Timeout(silence_seconds, connect=_CONNECT_SECONDS),
        )
        # Parameters that the server has refused, by model; they are not sent again.
        self._refused: dict[str, frozenset[str]] = {}

    async def aclose(self) -> None:
        await self._client.close()

    @asynccontextmanager
    async def cache(self, model: str, system: str, prefix: str) -> AsyncIterator[str | None]:
        """Do nothing: these servers cache the beginnings of prompts by themselves."""
        yield None

    async def stream(self, call: ModelCall) -> AsyncGenerator[str | ModelFinished]:
        """Stream the answer; see ChatModel."""
        finish: chat_pb2.FinishReason.ValueType | None = None
        usage = chat_pb2.Usage()
        model = ""
        with translated(_meaning, call.model):
            chunks = await self._opened(call)
            try:
                async for chunk in chunks:
                    model = chunk.get("model") or model
                    usage = _usage(chunk.get("usage")) or usage
                    for choice in chunk.get("choices") or ():
                        delta = choice.get("delta") or {}
                        if text := delta.get("content") or delta.get("refusal"):
                            yield text
                        if delta.get("refusal"):
                            finish = chat_pb2.FINISH_REASON_SAFETY
                        if (reason := choice.get("finish_reason")) and finish is None:
                            finish = _FINISH_REASONS.get(reason, chat_pb2.FINISH_REASON_STOP)
            finally:
                await chunks.close()
        if finish is None:
            raise cut_off()
        yield ModelFinished(finish, usage, model=model)

    async def _opened(self, call: ModelCall) -> "openai.AsyncStream[dict[str, Any]]":
        """Start the stream; once more without a parameter that the server refuses by name with a 400.

        Chunks come as plain JSON: the SDK's models of them would take half of a stream's time.
        """
        while True:
            refused = self._refused.get(call.model, frozenset())
            try:
                opened: openai.AsyncStream[dict[str, Any]] = await self._client.post(
                    "/chat/completions",
                    body=_parameters(call, refused),
                    cast_to=object,
                    stream=True,
                    stream_cls=openai.AsyncStream[Any],
                )
                return opened
            except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
                if not (named := _named_parameters(error, call) - refused):
                    raise
                self._refused[call.model] = refused | named


def _parameters(call: ModelCall, refused: frozenset[str]) -> dict[str, Any]:
    system = call.system
    if call.schema and "response_format" in refused:
        schema = json.dumps(call.schema, ensure_ascii=False)
        system += f"\n\nReply with one JSON object and nothing else. Its JSON schema:\n{schema}"
    messages: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
    messages += [{"role": role_name(message), "content": message.content} for message in call.messages]
    if call.prefix:
        opening = next(message for message in messages if message["role"] == "user")
        opening["content"] = f"{call.prefix}\n\n{opening['content']}"
    if call.picture:
        data = f"data:image/jpeg;base64,{b64encode(call.picture).decode()}"
        shown = {"type": "image_url", "image_url": {"url": data}}
        messages[-1]["content"] = [{"type": "text", "text": messages[-1]["content"]}, shown]
    parameters: dict[str, Any] = {"model": call.model, "messages": messages, "stream": True}
    if "stream_options" not in refused:
        parameters["stream_options"] = {"include_usage": True}
    if call.temperature is not None and "temperature" not in refused:
        parameters["temperature"] = call.temperature
    if call.max_output_tokens is not None:
        # The newer name is refused by servers that know only the older one, and the other way round.
        name = "max_completion_tokens" if "max_tokens" in refused else "max_tokens"
        parameters[name] = call.max_output_tokens
    if call.schema and "response_format" not in refused:
        parameters["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": call.schema, "strict": True},
        }
    return parameters


def _named_parameters(error: openai.APIStatusError, call: ModelCall) -> frozenset[str]:
    sent = {"stream_options", "temperature", "max_tokens"} | ({"response_format"} if call.schema else set())
    text = f"{error.param or ''} {error.message}"
    named = {name for name in sent if name in text}
    if call.schema and "json_schema" in text:
        named.add("response_format")
    return frozenset(named)


def _usage(usage: dict[str, Any] | None) -> chat_pb2.Usage | None:
    if usage is None:
        return None
    details = usage.get("prompt_tokens_details") or {}
    return chat_pb2.Usage(
        prompt_tokens=usage.get("prompt_tokens") or 0,
        cached_tokens=details.get("cached_tokens") or 0,
        output_tokens=usage.get("completion_tokens") or 0,
    )


def _meaning(error: BaseException, model: str) -> GroundlineError | None:
    match error:
        case openai.APITimeoutError() | httpx2.TimeoutException():
            return timed_out()
        case openai.APIStatusError():
            seconds = retry_after(error.response.headers)
            return http_failure(error.status_code, model=model, retry_after_seconds=seconds)
        case httpx2.RemoteProtocolError() | httpx2.ReadError():
            return cut_off()
        case openai.APIConnectionError():
            was_cut = isinstance(error.__cause__, httpx2.RemoteProtocolError | httpx2.ReadError)
            return cut_off() if was_cut else not_reachable()
        case httpx2.HTTPError():
            return not_reachable()
        case openai.APIError():
            # An error that the server sends within its stream.
            return http_failure(_status_in_stream(error), model=model)
        case AttributeError() | TypeError() | ValueError():
            return unreadable()
    return None


def _status_in_stream(error: openai.APIError) -> int:
    code = str(error.code or error.type or "")
    if code.isdecimal():
        return int(code)
    return 429 if "rate_limit" in code or "quota" in code else 500
