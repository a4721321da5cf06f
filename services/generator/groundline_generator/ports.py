"""What the service needs of the outside."""

from collections.abc import AsyncGenerator
from typing import Protocol

from groundline_generator.domain import Delta, ModelFinished, Question

__all__ = ["LanguageModel"]


class LanguageModel(Protocol):
    """Writes answers."""

    @property
    def name(self) -> str:
        """The model's name, as requests ask for it and answers show it."""
        ...

    def stream(self, question: Question) -> AsyncGenerator[Delta | ModelFinished]:
        """Answer from the passages, citing them as `[n]`: any number of deltas, then one ModelFinished.

        A delta may end anywhere, also within a marker. Closing the iterator stops the work. Raises
        GroundlineError when the provider fails.
        """
        ...
