"""What reranking needs of the world outside."""

from collections.abc import Sequence
from typing import Protocol

from groundline_reranker.domain import Candidate

__all__ = ["Scorer"]


class Scorer(Protocol):
    """A model that says how relevant passages are to a query."""

    async def score(self, query: str, candidates: Sequence[Candidate], model: str | None) -> Sequence[float]:
        """One score per candidate, higher is better, comparable among those of one call.

        `model` None is the model that the reranker is set to. Raises GroundlineError when no
        scores can be had. Cancelling it stops the work.
        """
