"""Ports of the generator."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from groundline.v1 import generator_service_pb2 as pb

from groundline_generator.domain.calls import ModelCall, ModelFinished, OnWait


class AnswerModel(Protocol):
    """A writer of answers from passages."""

    def check(self, request: pb.GenerateRequest) -> str:
        """Return the name of the model that will answer.

        Raises FailedPreconditionError if the request asks for an unknown model or template.
        """
        ...

    def served(self, request: pb.GenerateRequest) -> Sequence[pb.NumberedPassage]:
        """Return the request's passages that the model will see, best first."""
        ...

    def stream(
        self, request: pb.GenerateRequest, served: Sequence[pb.NumberedPassage], on_wait: OnWait
    ) -> AsyncGenerator[str | ModelFinished]:
        """Answer from the served passages, citing them as `[n]`: any number of texts, then one ModelFinished.

        `on_wait` is called before a wait for the model. A text may end anywhere, also within a marker.
        Closing the iterator stops the work. Raises GroundlineError when the provider fails.
        """
        ...


class ChatModel(Protocol):
    """A language model behind a provider's interface."""

    @property
    def provider(self) -> str:
        """Name in telemetry: `gen_ai.provider.name` of the OpenTelemetry conventions."""
        ...

    def stream(self, call: ModelCall) -> AsyncGenerator[str | ModelFinished]:
        """Yield any number of texts, then one ModelFinished. Closing the iterator closes the provider's
        stream.

        Raises ResourceExhaustedError (the provider's quota), UnavailableError (it is out of reach, failed, or
        ended its stream early), FailedPreconditionError (it lacks the model) and InternalError (it refuses
        our key or the request, or its answer cannot be read).
        """
        ...

    def cache(self, model: str, system: str, prefix: str) -> AbstractAsyncContextManager[str | None]:
        """Have the provider cache the beginning of several prompts; yield the cache's name.

        None if the provider does that by itself, or not at all, or the prefix is too short.
        """
        ...
