"""Every call of a hosted model passes here: the quota, retries before the first token, a span, the
metrics."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass

from groundline_runtime.context import remaining_seconds
from groundline_runtime.errors import (
    GroundlineError,
    InternalError,
    ResourceExhaustedError,
    UnavailableError,
)
from opentelemetry import metrics, trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.util.types import AttributeValue
from pydantic import BaseModel, ValidationError
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception
from tenacity.wait import wait_exponential_jitter

from groundline_generator.domain import Delta, FinishReason, ModelCall, ModelFinished, Usage
from groundline_generator.limits import Limiter
from groundline_generator.ports import ChatModel
from groundline_generator.tokens import estimated_tokens

__all__ = ["GuardedModel", "structured"]

_tracer = trace.get_tracer("groundline_generator")
_meter = metrics.get_meter("groundline_generator")
_duration = _meter.create_histogram(
    "gen_ai.client.operation.duration", unit="s", description="Duration of a model call"
)
_first_chunk = _meter.create_histogram(
    "gen_ai.client.operation.time_to_first_chunk", unit="s", description="Time to a model's first text"
)
_tokens = _meter.create_histogram(
    "gen_ai.client.token.usage", unit="{token}", description="Tokens of a model call"
)

_RETRYABLE = (UnavailableError, ResourceExhaustedError)
_INITIAL_WAIT_SECONDS = 0.25
_MAX_WAIT_SECONDS = 10.0
_USUAL_OUTPUT_TOKENS = 500
"""What a call is held to write when it sets no limit, until its usage is known."""


class GuardedModel:
    """A ChatModel around another."""

    def __init__(
        self,
        model: ChatModel,
        limiter: Limiter,
        *,
        max_attempts: int,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._model = model
        self._limiter = limiter
        self._max_attempts = max_attempts
        self._sleep = sleep

    @property
    def provider(self) -> str:
        return self._model.provider

    def cache(self, model: str, system: str, prefix: str) -> AbstractAsyncContextManager[str | None]:
        return self._model.cache(model, system, prefix)

    async def stream(self, call: ModelCall) -> AsyncGenerator[Delta | ModelFinished]:
        """See ChatModel. Retried until the first event, within the request's deadline."""
        span = _tracer.start_span(
            f"chat {call.model}", kind=SpanKind.CLIENT, attributes=_attributes(self.provider, call)
        )
        observation = _Observation(self.provider, call, span)
        try:
            with trace.use_span(span, record_exception=False, set_status_on_exception=False):
                first, rest = await self._begun(call)
            async with aclosing(rest):
                observation.observe(first)
                yield first
                if isinstance(first, ModelFinished):
                    return
                async for event in rest:
                    observation.observe(event)
                    yield event
                    if isinstance(event, ModelFinished):
                        return
                raise UnavailableError("PROVIDER_STREAM_CUT", "the model's answer was cut off")
        except GroundlineError as error:
            observation.failed(error.reason)
            raise
        finally:
            observation.end()

    async def _begun(
        self, call: ModelCall
    ) -> tuple[Delta | ModelFinished, AsyncGenerator[Delta | ModelFinished]]:
        async for attempt in AsyncRetrying(
            stop=self._gives_up,
            wait=_wait,
            sleep=self._sleep,
            retry=retry_if_exception(_worth_retrying),
            reraise=True,
        ):
            with attempt:
                return await self._attempt(call)
        raise AssertionError("tenacity returns or raises")

    def _gives_up(self, retry_state: RetryCallState) -> bool:
        """After the last attempt, or where the deadline would pass before the next."""
        left = remaining_seconds()
        late = left is not None and retry_state.upcoming_sleep >= left
        return late or retry_state.attempt_number >= self._max_attempts

    async def _attempt(
        self, call: ModelCall
    ) -> tuple[Delta | ModelFinished, AsyncGenerator[Delta | ModelFinished]]:
        guess = _guessed_tokens(call)
        reservation = await self._limiter.reserve(guess)
        events = self._model.stream(call)

        async def settling() -> AsyncGenerator[Delta | ModelFinished]:
            async with aclosing(events):
                async for event in events:
                    if isinstance(event, ModelFinished) and event.usage != Usage():
                        reservation.settle(event.usage.prompt_tokens + event.usage.output_tokens)
                    yield event

        settled = settling()
        try:
            return await anext(settled), settled
        except StopAsyncIteration:
            raise UnavailableError("PROVIDER_STREAM_CUT", "the model answered nothing") from None
        except GroundlineError:
            # What failed before its first token is hardly charged for.
            reservation.settle(0)
            raise


async def structured[T: BaseModel](model: ChatModel, call: ModelCall, answer: type[T]) -> tuple[T, Usage]:
    """Call for one JSON object of the given class. Raises InternalError where what comes is none."""
    pieces: list[str] = []
    usage = Usage()
    finish = FinishReason.STOP
    async with aclosing(model.stream(call)) as events:
        async for event in events:
            if isinstance(event, Delta):
                pieces.append(event.text)
            else:
                usage, finish = event.usage, event.finish_reason
    text = "".join(pieces)
    try:
        return answer.model_validate_json(_json_object(text)), usage
    except ValidationError:
        why = {
            FinishReason.MAX_TOKENS: "its limit on tokens was too low",
            FinishReason.SAFETY: "the provider withheld it for safety",
        }.get(finish, "it is not of the form asked for")
        raise InternalError("MODEL_OUTPUT_INVALID", f"the model's output cannot be used: {why}") from None


def _json_object(text: str) -> str:
    """What stands between the first and the last brace; models like to wrap JSON in prose or a fence."""
    start, end = text.find("{"), text.rfind("}")
    return text[start : end + 1] if 0 <= start < end else text


def _guessed_tokens(call: ModelCall) -> int:
    text = sum(estimated_tokens(message.content) for message in call.messages)
    text += estimated_tokens(call.system) + estimated_tokens(call.prefix)
    return text + (call.max_output_tokens or _USUAL_OUTPUT_TOKENS)


def _worth_retrying(error: BaseException) -> bool:
    """Not where our own limiter gave up: it has queued the call for as long as it may."""
    return isinstance(error, _RETRYABLE) and error.reason != "GENERATOR_QUOTA_EXHAUSTED"


_backoff = wait_exponential_jitter(
    initial=_INITIAL_WAIT_SECONDS, max=_MAX_WAIT_SECONDS, jitter=_INITIAL_WAIT_SECONDS
)


def _wait(retry_state: RetryCallState) -> float:
    """The provider's Retry-After where it names one, and never less; else exponential, with jitter."""
    error = retry_state.outcome.exception() if retry_state.outcome else None
    asked = error.retry_after_seconds if isinstance(error, GroundlineError) else None
    seconds = _backoff(retry_state)
    if asked is None:
        return seconds
    return asked + min(seconds, _INITIAL_WAIT_SECONDS)


def _attributes(provider: str, call: ModelCall) -> dict[str, AttributeValue]:
    attributes: dict[str, AttributeValue] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": provider,
        "gen_ai.request.model": call.model,
        "gen_ai.request.stream": True,
        "gen_ai.output.type": "json" if call.schema else "text",
    }
    if call.temperature is not None:
        attributes["gen_ai.request.temperature"] = call.temperature
    if call.max_output_tokens is not None:
        attributes["gen_ai.request.max_tokens"] = call.max_output_tokens
    return attributes


@dataclass(slots=True)
class _Observation:
    """Writes down what a call did; never what it said."""

    provider: str
    call: ModelCall
    span: Span
    started: float = 0.0
    chunks: int = 0
    error: str = ""
    response_model: str = ""

    def __post_init__(self) -> None:
        self.started = time.perf_counter()

    def observe(self, event: Delta | ModelFinished) -> None:
        if isinstance(event, Delta):
            self.chunks += 1
            if self.chunks == 1:
                seconds = time.perf_counter() - self.started
                self.span.set_attribute("gen_ai.response.time_to_first_chunk", seconds)
                _first_chunk.record(seconds, self._labels())
            return
        self.response_model = event.model or self.call.model
        self.span.set_attributes(
            {
                "gen_ai.response.model": self.response_model,
                "gen_ai.response.finish_reasons": [event.finish_reason.value],
                "gen_ai.usage.input_tokens": event.usage.prompt_tokens,
                "gen_ai.usage.output_tokens": event.usage.output_tokens,
                "gen_ai.usage.cache_read.input_tokens": event.usage.cached_tokens,
            }
        )
        for kind, count in (("input", event.usage.prompt_tokens), ("output", event.usage.output_tokens)):
            if count:
                _tokens.record(count, {**self._labels(), "gen_ai.token.type": kind})

    def failed(self, reason: str) -> None:
        self.error = reason
        self.span.set_attribute("error.type", reason)
        self.span.set_status(Status(StatusCode.ERROR, reason))

    def end(self) -> None:
        labels = self._labels()
        if self.error:
            labels["error.type"] = self.error
        _duration.record(time.perf_counter() - self.started, labels)
        self.span.end()

    def _labels(self) -> dict[str, AttributeValue]:
        return {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": self.provider,
            "gen_ai.request.model": self.call.model,
        }
