"""Guards of every call of a hosted model: quota, pauses of the provider, retries before the first token,
telemetry."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Final

from groundline.v1 import chat_pb2
from groundline_runtime.errors import GroundlineError, ResourceExhaustedError, UnavailableError
from groundline_runtime.tokens import estimated_tokens
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception
from tenacity.wait import wait_exponential_jitter

from groundline_generator.domain.calls import ModelCall, ModelFinished
from groundline_generator.ports import ChatModel
from groundline_generator.service.breaker import Breaker, Patience
from groundline_generator.service.quota import Limiter, QuotaExhaustedError, Reservation
from groundline_generator.service.telemetry import observed

_RETRYABLE: Final = (UnavailableError, ResourceExhaustedError)
_INITIAL_WAIT_SECONDS: Final = 0.25
_MAX_WAIT_SECONDS: Final = 10.0
_PICTURE_TOKENS: Final = 1500
"""Tokens that a picture is taken to have; providers count between some 250 and 2000."""
_USUAL_OUTPUT_TOKENS: Final = 500
"""Output tokens reserved for a call that sets no limit, until its usage is known."""


class GuardedModel:
    """A ChatModel around another. `max_wait_seconds` is the maximum total time that a call waits for a pause
    of the provider to end and between its attempts; the request's deadline may allow less."""

    def __init__(
        self,
        model: ChatModel,
        limiter: Limiter,
        breaker: Breaker,
        *,
        max_attempts: int,
        max_wait_seconds: float,
        cost_of: Callable[[str, chat_pb2.Usage], float | None] = lambda model, usage: None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Take the model and its guards. `cost_of` returns the price of a call in US dollars, or None."""
        self._model = model
        self._limiter = limiter
        self._breaker = breaker
        self._max_attempts = max_attempts
        self._max_wait_seconds = max_wait_seconds
        self._cost_of = cost_of
        self._sleep = sleep

    @property
    def provider(self) -> str:
        return self._model.provider

    def cache(self, model: str, system: str, prefix: str) -> AbstractAsyncContextManager[str | None]:
        return self._model.cache(model, system, prefix)

    async def stream(self, call: ModelCall) -> AsyncGenerator[str | ModelFinished]:
        """Stream the answer; see ChatModel. Retried until the first event, within the request's deadline."""
        patience = Patience(self._max_wait_seconds, self._sleep, call.on_wait)
        async with (
            self._limiter.place(patience.tell),
            aclosing(self._observed(call, patience)) as events,
        ):
            async for event in events:
                yield event

    async def _observed(self, call: ModelCall, patience: Patience) -> AsyncGenerator[str | ModelFinished]:
        with observed(self.provider, call) as observation:
            with observation.current():
                first, rest = await self._begun(call, patience)
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

    async def _begun(
        self, call: ModelCall, patience: Patience
    ) -> tuple[str | ModelFinished, AsyncGenerator[str | ModelFinished]]:
        async def tell(retry_state: RetryCallState) -> None:
            error = retry_state.outcome.exception() if retry_state.outcome else None
            if isinstance(error, GroundlineError):
                await patience.tell(error.reason, retry_state.upcoming_sleep)

        def gives_up(retry_state: RetryCallState) -> bool:
            """Tell whether this was the last attempt, or the next would come too late."""
            late = retry_state.upcoming_sleep >= patience.seconds
            return late or retry_state.attempt_number >= self._max_attempts

        async for attempt in AsyncRetrying(
            stop=gives_up,
            wait=_wait,
            before_sleep=tell,
            sleep=patience.wait,
            retry=retry_if_exception(_worth_retrying),
            reraise=True,
        ):
            with attempt:
                return await self._attempt(call, patience)
        raise AssertionError("tenacity returns or raises")

    async def _attempt(
        self, call: ModelCall, patience: Patience
    ) -> tuple[str | ModelFinished, AsyncGenerator[str | ModelFinished]]:
        async with self._breaker.passage(patience):
            reservation = await self._limiter.reserve(_guessed_tokens(call), patience.tell)
            settled = self._settled(call, reservation)
            try:
                return await anext(settled), settled
            except StopAsyncIteration:
                raise UnavailableError("PROVIDER_STREAM_CUT", "the model answered nothing") from None
            except GroundlineError:
                # A call that failed before its first token is hardly charged for.
                reservation.settle(0)
                raise

    async def _settled(
        self, call: ModelCall, reservation: Reservation
    ) -> AsyncGenerator[str | ModelFinished]:
        async with aclosing(self._model.stream(call)) as events:
            async for event in events:
                if isinstance(event, ModelFinished) and event.usage != chat_pb2.Usage():
                    reservation.settle(event.usage.prompt_tokens + event.usage.output_tokens)
                    # Loads the price list at first.
                    cost = await asyncio.to_thread(self._cost_of, call.model, event.usage)
                    if cost is not None:
                        event.usage.cost_usd = cost
                yield event


def _guessed_tokens(call: ModelCall) -> int:
    text = sum(estimated_tokens(message.content) for message in call.messages)
    text += estimated_tokens(call.system) + estimated_tokens(call.prefix)
    text += _PICTURE_TOKENS if call.picture else 0
    return text + (call.max_output_tokens or _USUAL_OUTPUT_TOKENS)


def _worth_retrying(error: BaseException) -> bool:
    """Tell whether a retry may help; not if our own limiter gave up, as it has queued the call as long as
    allowed."""
    return isinstance(error, _RETRYABLE) and not isinstance(error, QuotaExhaustedError)


_backoff = wait_exponential_jitter(
    initial=_INITIAL_WAIT_SECONDS, max=_MAX_WAIT_SECONDS, jitter=_INITIAL_WAIT_SECONDS
)


def _wait(retry_state: RetryCallState) -> float:
    """Return the provider's Retry-After if it names one; else an exponential delay with jitter."""
    error = retry_state.outcome.exception() if retry_state.outcome else None
    asked = error.retry_after_seconds if isinstance(error, GroundlineError) else None
    seconds = _backoff(retry_state)
    return seconds if asked is None else asked + min(seconds, _INITIAL_WAIT_SECONDS)
