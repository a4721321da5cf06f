"""Whether any passage is worth a model's money."""

import asyncio

from groundline_generator.domain import Question
from groundline_generator.extraction import extract

__all__ = ["reaches"]


async def reaches(question: Question, threshold: float) -> bool:
    """Whether some passage has at least this relevance to the question, 0 to 1.

    A passage's relevance is the larger of its cosine similarity, where that is known, and the weighted share
    of the question's terms around its best sentence.
    """
    if any(p.similarity is not None and p.similarity >= threshold for p in question.passages):
        return True
    if not question.passages:
        return False
    # Milliseconds: in a thread, so that other streams go on meanwhile.
    best = await asyncio.to_thread(
        extract, question.query, question.passages, min_relevance=threshold, max_sentences=1
    )
    return best.relevance >= threshold
