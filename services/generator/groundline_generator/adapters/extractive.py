"""The provider without a model: quotes the sentences that answer, each with its source."""

import asyncio
import re
import threading
from collections.abc import AsyncGenerator, Sequence

from groundline_generator.domain import Delta, FinishReason, Issue, ModelFinished, Question
from groundline_generator.extraction import Extract, Extraction, extract

__all__ = ["REFUSAL", "ExtractiveModel"]

REFUSAL = "I cannot answer this from the documents."

_TOKEN = re.compile(r"\w+|[^\w\s]")


class ExtractiveModel:
    """A LanguageModel; tokens are words and punctuation marks."""

    name = "extractive"

    def __init__(self, *, min_relevance: float, max_sentences: int) -> None:
        self._min_relevance = min_relevance
        self._max_sentences = max_sentences

    async def stream(self, question: Question) -> AsyncGenerator[Delta | ModelFinished]:
        """Answer sentence by sentence; see LanguageModel."""
        issues = _unused(question)
        extraction = await self._extract(question)
        if not extraction.extracts:
            yield Delta(REFUSAL)
            yield ModelFinished(FinishReason.NO_ANSWER, issues=issues)
            return
        limit = question.options.max_output_tokens
        quoted, complete = _within(extraction.extracts, limit)
        for previous, piece in zip((None, *quoted), quoted, strict=False):
            yield Delta(_separator(previous, piece) + _quoted(piece))
        yield ModelFinished(FinishReason.STOP if complete else FinishReason.MAX_TOKENS, issues=issues)

    async def _extract(self, question: Question) -> Extraction:
        """Extract in a thread, which ends soon after this is cancelled."""
        cancelled = threading.Event()

        def checkpoint() -> None:
            if cancelled.is_set():
                raise _CancelledError

        threshold = question.options.min_relevance
        try:
            return await asyncio.to_thread(
                extract,
                question.query,
                question.passages,
                min_relevance=self._min_relevance if threshold is None else threshold,
                max_sentences=self._max_sentences,
                checkpoint=checkpoint,
            )
        finally:
            cancelled.set()


class _CancelledError(Exception):
    """Ends the thread; nobody waits for it any more."""


def _within(extracts: Sequence[Extract], limit: int | None) -> tuple[list[Extract], bool]:
    """The first extracts that fit into `limit` tokens, and whether all did; a first one too long is cut."""
    if limit is None:
        return list(extracts), True
    fitting: list[Extract] = []
    for piece in extracts:
        ends = [token.end() for token in _TOKEN.finditer(piece.text)]
        if len(ends) > limit:
            if not fitting:
                fitting.append(Extract(piece.number, piece.text[: ends[limit - 1]], piece.is_code))
            return fitting, False
        fitting.append(piece)
        limit -= len(ends)
    return fitting, True


def _separator(previous: Extract | None, piece: Extract) -> str:
    if previous is None:
        return ""
    return "\n\n" if previous.is_code or piece.is_code else " "


def _quoted(piece: Extract) -> str:
    text = f"```\n{piece.text}\n```" if piece.is_code else piece.text
    return f"{text} [{piece.number}]"


def _unused(question: Question) -> tuple[Issue, ...]:
    """What speaks to a language model and finds none; said in the answer, since it changes nothing here."""
    names = [
        name
        for name, value in (
            ("system_prompt", question.options.system_prompt),
            ("additional_context", question.additional_context),
        )
        if value
    ]
    if not names:
        return ()
    return (
        Issue(
            "INPUT_NOT_USED", f"the extractive provider calls no language model; not used: {', '.join(names)}"
        ),
    )
