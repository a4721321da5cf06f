"""Ports of the reranker."""

from collections.abc import Sequence
from typing import Protocol

from groundline.v1 import passage_pb2


class Scorer(Protocol):
    """A model that says how relevant passages are to a query."""

    async def score(
        self, query: str, chunks: Sequence[passage_pb2.Chunk], model: str | None
    ) -> Sequence[float]:
        """Return one score for each chunk, higher is better, comparable among those of one call.

        `model` None is the configured model. Raises GroundlineError if no scores are available. Cancelling it
        stops the work.
        """
