"""Passages as a model reads them."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from groundline.v1 import passage_pb2

MAX_DOCUMENT_CHARACTERS: Final = 8000
"""Maximum characters of a passage; models read some hundred to a few thousand tokens, and would cut more."""


def document(chunk: passage_pb2.Chunk) -> str:
    """Return the passage behind its context, or else its document's title."""
    placed = chunk.context or chunk.title
    return (f"{placed}\n\n{chunk.text}" if placed else chunk.text)[:MAX_DOCUMENT_CHARACTERS]


async def in_batches(
    chunks: Sequence[passage_pb2.Chunk],
    size: int,
    score: Callable[[Sequence[passage_pb2.Chunk]], Awaitable[Sequence[float]]],
) -> Sequence[float]:
    """Score all batches at once; the first failure ends the others and is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_awaited(score(batch))) for batch in itertools.batched(chunks, size)]
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [score for task in tasks for score in task.result()]


async def _awaited(scores: Awaitable[Sequence[float]]) -> Sequence[float]:
    return await scores
