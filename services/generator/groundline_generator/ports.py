"""What the service needs of the outside."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from groundline_generator.domain import Delta, ModelCall, ModelFinished, Passage, Question

__all__ = ["AnswerModel", "ChatModel"]


class AnswerModel(Protocol):
    """Writes answers from passages."""

    def check(self, question: Question) -> str:
        """Name of the model that will answer.

        Raises FailedPreconditionError where the question asks for a model or a template that is not here.
        """
        ...

    def served(self, question: Question) -> Sequence[Passage]:
        """The question's passages that the model will see, best first."""
        ...

    def stream(self, question: Question) -> AsyncGenerator[Delta | ModelFinished]:
        """Answer from the passages, citing them as `[n]`: any number of deltas, then one ModelFinished.

        A delta may end anywhere, also within a marker. Closing the iterator stops the work. Raises
        GroundlineError when the provider fails.
        """
        ...


class ChatModel(Protocol):
    """A language model behind a provider's interface."""

    @property
    def provider(self) -> str:
        """Its name in telemetry: `gen_ai.provider.name` of the OpenTelemetry conventions."""
        ...

    def stream(self, call: ModelCall) -> AsyncGenerator[Delta | ModelFinished]:
        """Any number of deltas, then one ModelFinished. Closing the iterator closes the provider's stream.

        Raises ResourceExhaustedError (the provider's quota), UnavailableError (it is out of reach, failed, or
        ended its stream early), FailedPreconditionError (it knows no such model, or refuses our key) and
        InternalError (it refuses the request or answers what cannot be read).
        """
        ...

    def cache(self, model: str, system: str, prefix: str) -> AbstractAsyncContextManager[str | None]:
        """Have the provider keep the beginning of several prompts; the name to call it by.

        None where the provider does that by itself, or not at all, or the prefix is too short.
        """
        ...
