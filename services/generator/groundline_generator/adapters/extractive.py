"""The provider without a model: quotes the sentences that answer, each with its source."""

import asyncio
import re
import threading
from collections.abc import AsyncGenerator, Sequence

from groundline_runtime.errors import FailedPreconditionError

from groundline_generator.domain import Delta, FinishReason, Issue, ModelFinished, Passage, Question
from groundline_generator.extraction import Extract, Extraction, extract
from groundline_generator.refusals import refusal

__all__ = ["ExtractiveModel"]

_TOKEN = re.compile(r"\w+|[^\w\s]")


_NAME = "extractive"


class ExtractiveModel:
    """An AnswerModel; tokens are words and punctuation marks."""

    def __init__(self, *, min_relevance: float, max_sentences: int) -> None:
        self._min_relevance = min_relevance
        self._max_sentences = max_sentences

    def check(self, question: Question) -> str:
        wanted = question.options.model
        if wanted is not None and wanted != _NAME:
            raise FailedPreconditionError(
                "MODEL_NOT_AVAILABLE",
                f"model '{wanted}' is not available; available: {_NAME}",
                metadata={"model": wanted, "available": _NAME},
            )
        return _NAME

    def served(self, question: Question) -> Sequence[Passage]:
        return question.passages

    async def stream(self, question: Question) -> AsyncGenerator[Delta | ModelFinished]:
        """Answer sentence by sentence; see AnswerModel."""
        issues = _unused(question)
        extraction = await self._extract(question)
        if not extraction.extracts:
            yield Delta(refusal(question.query))
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
            ("prompt_template", question.options.prompt_template),
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
