"""Gemini, through google-genai: with an API key, or on Vertex AI."""

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any, Final

import httpx2
import structlog
from google import genai
from google.auth.credentials import Credentials
from google.genai import errors, types
from groundline.v1 import chat_pb2, error_pb2
from groundline_runtime.errors import GroundlineError
from groundline_runtime.tokens import estimated_tokens
from pydantic import SecretStr

from groundline_generator.adapters.failures import (
    access_denied,
    cut_off,
    http_failure,
    not_reachable,
    retry_after,
    timed_out,
    translated,
    unreadable,
)
from groundline_generator.adapters.prefix_caches import LIFE_SECONDS, PrefixCaches
from groundline_generator.domain.calls import ModelCall, ModelFinished

_CONNECT_SECONDS: Final = 5.0
_SAFETY: Final = {
    types.FinishReason.SAFETY,
    types.FinishReason.RECITATION,
    types.FinishReason.BLOCKLIST,
    types.FinishReason.PROHIBITED_CONTENT,
    types.FinishReason.SPII,
    types.FinishReason.MODEL_ARMOR,
    types.FinishReason.ESCALATION,
}

_log = structlog.get_logger(__name__)


# Closing the SDK's stream leaves the HTTP response open until it is collected, so it is kept here to be
# closed.
_opened: ContextVar[list[httpx2.Response] | None] = ContextVar("gemini_responses", default=None)


async def _keep(response: httpx2.Response) -> None:
    opened = _opened.get()
    if opened is not None:
        opened.append(response)


class GeminiModel:
    """A ChatModel. Prefixes of at least `cache_min_tokens` (estimated) get an explicit cache."""

    def __init__(
        self,
        *,
        api_key: SecretStr | None,
        vertex_project: str | None,
        vertex_location: str | None,
        base_url: str | None,
        silence_seconds: float,
        cache_min_tokens: int,
        credentials: Credentials | None = None,
    ) -> None:
        """Connect to the API with a key, or to Vertex AI, by default with the machine's own credentials."""
        on_vertex = vertex_project is not None
        self.provider = "gcp.vertex_ai" if on_vertex else "gcp.gemini"
        self._cache_min_tokens = cache_min_tokens
        self._caches = PrefixCaches(self._make_cache, self._delete_cache)
        self._http = httpx2.AsyncClient(
            timeout=httpx2.Timeout(silence_seconds, connect=_CONNECT_SECONDS),
            follow_redirects=True,
            event_hooks={"response": [_keep]},
        )
        self._client = genai.Client(
            vertexai=on_vertex,
            api_key=None if on_vertex or api_key is None else api_key.get_secret_value(),
            credentials=credentials,
            project=vertex_project,
            # Without a location and with a base URL of its own the SDK would forget the project.
            location=(vertex_location or "global") if on_vertex else None,
            http_options=types.HttpOptions(
                base_url=base_url,
                httpx_async_client=self._http,
                timeout=int(silence_seconds * 1000),
                retry_options=types.HttpRetryOptions(attempts=1),
            ),
        )

    async def aclose(self) -> None:
        await self._caches.aclose()
        await self._client.aio.aclose()
        self._client.close()
        await self._http.aclose()

    @asynccontextmanager
    async def cache(self, model: str, system: str, prefix: str) -> AsyncIterator[str | None]:
        """Have the provider cache a prefix, for this block and those that follow soon; see PrefixCaches."""
        if estimated_tokens(system) + estimated_tokens(prefix) < self._cache_min_tokens:
            yield None
            return
        async with self._caches.use(model, system, prefix) as name:
            yield name

    async def _make_cache(self, model: str, system: str, prefix: str) -> str | None:
        """Create a cache; return None on a failure, which costs only the saving."""
        try:
            with translated(_meaning, model):
                created = await self._client.aio.caches.create(
                    model=model,
                    config=types.CreateCachedContentConfig(
                        system_instruction=system or None,
                        contents=[
                            _content(chat_pb2.ChatMessage(role=chat_pb2.ChatMessage.USER, content=prefix))
                        ],
                        ttl=f"{LIFE_SECONDS}s",
                    ),
                )
                return created.name
        except GroundlineError as error:
            _log.warning("context_cache_not_made", model=model, reason=error.reason)
            return None

    async def _delete_cache(self, model: str, name: str) -> None:
        try:
            with translated(_meaning, model):
                await self._client.aio.caches.delete(name=name)
        except GroundlineError as error:
            # The cache ends by itself after its time to live.
            _log.warning("context_cache_not_deleted", model=model, reason=error.reason)

    async def stream(self, call: ModelCall) -> AsyncGenerator[str | ModelFinished]:
        """Stream the answer; see ChatModel."""
        finish: chat_pb2.FinishReason.ValueType | None = None
        issues: tuple[chat_pb2.ValidationIssue, ...] = ()
        usage = chat_pb2.Usage()
        model = ""
        opened: list[httpx2.Response] = []
        _opened.set(opened)
        with translated(_meaning, call.model):
            responses: Any = await self._client.aio.models.generate_content_stream(
                model=call.model, contents=_contents(call), config=_config(call)
            )
            try:
                async for response in responses:
                    model = response.model_version or model
                    usage = _usage(response) or usage
                    if (feedback := response.prompt_feedback) and feedback.block_reason:
                        finish = chat_pb2.FINISH_REASON_SAFETY
                        issues = (_withheld(str(feedback.block_reason.value)),)
                    for candidate in (response.candidates or ())[:1]:
                        for text in _texts(candidate):
                            yield text
                        if (reason := candidate.finish_reason) and finish is None:
                            finish = _finish(reason)
                            if finish == chat_pb2.FINISH_REASON_SAFETY:
                                issues = (_withheld(str(reason.value)),)
            finally:
                await responses.aclose()
                for http_response in opened:
                    await http_response.aclose()
        if finish is None:
            raise cut_off()
        yield ModelFinished(finish, usage, issues, model=model)


def _contents(call: ModelCall) -> list[types.Content]:
    has_prefix = call.prefix and not call.cached
    opening = (
        [chat_pb2.ChatMessage(role=chat_pb2.ChatMessage.USER, content=call.prefix)] if has_prefix else []
    )
    contents = [_content(message) for message in (*opening, *call.messages)]
    if call.picture:
        shown = types.Part(inline_data=types.Blob(data=call.picture, mime_type="image/jpeg"))
        contents[-1].parts = [*(contents[-1].parts or ()), shown]
    return contents


def _content(message: chat_pb2.ChatMessage) -> types.Content:
    role = "model" if message.role == chat_pb2.ChatMessage.ASSISTANT else "user"
    return types.Content(role=role, parts=[types.Part(text=message.content)])


def _config(call: ModelCall) -> types.GenerateContentConfig:
    return types.GenerateContentConfig(
        system_instruction=None if call.cached else call.system or None,
        cached_content=call.cached,
        temperature=call.temperature,
        max_output_tokens=call.max_output_tokens,
        response_mime_type="application/json" if call.schema else None,
        response_json_schema=dict(call.schema) if call.schema else None,
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
        automatic_continuation=False,
    )


def _texts(candidate: types.Candidate) -> list[str]:
    parts = (candidate.content.parts if candidate.content else None) or ()
    return [part.text for part in parts if part.text and not part.thought]


def _finish(reason: types.FinishReason) -> chat_pb2.FinishReason.ValueType:
    if reason in (types.FinishReason.MAX_TOKENS, types.FinishReason.CONTINUATION):
        return chat_pb2.FINISH_REASON_MAX_TOKENS
    return chat_pb2.FINISH_REASON_SAFETY if reason in _SAFETY else chat_pb2.FINISH_REASON_STOP


def _withheld(reason: str) -> chat_pb2.ValidationIssue:
    return chat_pb2.ValidationIssue(
        reason=error_pb2.WITHHELD_FOR_SAFETY, message=f"the provider withheld the answer: {reason}"
    )


def _usage(response: types.GenerateContentResponse) -> chat_pb2.Usage | None:
    usage = response.usage_metadata
    if usage is None:
        return None
    return chat_pb2.Usage(
        prompt_tokens=usage.prompt_token_count or 0,
        cached_tokens=usage.cached_content_token_count or 0,
        # Thinking is billed like the answer.
        output_tokens=(usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0),
    )


def _meaning(error: BaseException, model: str) -> GroundlineError | None:
    match error:
        case errors.APIError() if _refuses_key(error):
            return access_denied()
        case errors.APIError():
            status: Any = error.code
            code = status if isinstance(status, int) else 500
            return http_failure(code, model=model, retry_after_seconds=_asked_delay(error))
        case httpx2.TimeoutException():
            return timed_out()
        case httpx2.RemoteProtocolError() | httpx2.ReadError():
            return cut_off()
        case httpx2.HTTPError():
            return not_reachable()
        case errors.UnknownApiResponseError() | AttributeError() | TypeError() | ValueError():
            return unreadable()
    return None


def _refuses_key(error: errors.APIError) -> bool:
    """Tell whether the key is wrong, which Google answers with 400 and an ErrorInfo."""
    return any(detail.get("reason") == "API_KEY_INVALID" for detail in _details(error))


def _details(error: errors.APIError) -> Iterator[dict[str, Any]]:
    """Yield the error's details that are objects."""
    reply: Any = error.details
    body = reply.get("error") if isinstance(reply, dict) else None
    details = body.get("details") if isinstance(body, dict) else None
    for detail in details if isinstance(details, list) else ():
        if isinstance(detail, dict):
            yield detail


def _asked_delay(error: errors.APIError) -> float | None:
    """Return the delay from the header, or from the RetryInfo among the error's details."""
    headers = getattr(error.response, "headers", None) or {}
    if (seconds := retry_after(headers)) is not None:
        return seconds
    for detail in _details(error):
        delay = detail.get("retryDelay", "")
        if isinstance(delay, str) and delay.endswith("s"):
            try:
                return max(0.0, float(delay[:-1]))
            except ValueError:
                return None
    return None
