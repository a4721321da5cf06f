"""What reranking needs of the world outside."""

from collections.abc import Sequence
from typing import Protocol

from groundline.v1 import passage_pb2

__all__ = ["Scorer"]


class Scorer(Protocol):
    """A model that says how relevant passages are to a query."""

    async def score(
        self, query: str, chunks: Sequence[passage_pb2.Chunk], model: str | None
    ) -> Sequence[float]:
        """One score for each chunk, higher is better, comparable among those of one call.

        `model` None is the model that the reranker is set to. Raises GroundlineError when no
        scores can be had. Cancelling it stops the work.
        """
