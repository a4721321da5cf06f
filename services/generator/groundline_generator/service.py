"""Answers questions: streams what the model writes with its citations checked, then the completion."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

from groundline_runtime.errors import GroundlineError, InternalError
from opentelemetry import trace

from groundline_generator.citations import MarkerFilter, cite, validate
from groundline_generator.coalescing import Pace, coalesced
from groundline_generator.domain import (
    Citation,
    Completed,
    Delta,
    FinishReason,
    Issue,
    ModelFinished,
    Question,
    Usage,
    Validation,
)
from groundline_generator.judging import FaithfulnessJudge
from groundline_generator.ports import AnswerModel

__all__ = ["AnswerService"]

_MAX_WAITING_CHARACTERS = 16_384
"""Text of an answer that may wait for a slow peer."""

_DELTAS_PER_SECOND = 2_500
_LONGEST_GAP_SECONDS = 0.02
"""25 streams of a hundred tokens a second are sent as they come; more are joined, down to fifty deltas a
second each."""

_tracer = trace.get_tracer("groundline_generator")


class AnswerService:
    """The use case of Generate. Answers are checked by `judge` where there is one, else by their terms."""

    def __init__(self, model: AnswerModel, judge: FaithfulnessJudge | None = None) -> None:
        self._model = model
        self._judge = judge
        self._pace = Pace(_DELTAS_PER_SECOND, _LONGEST_GAP_SECONDS)

    async def answer(self, question: Question) -> AsyncGenerator[Delta | Completed]:
        """Any number of deltas, then one Completed. Markers of unknown passages are taken out on the way.

        Deltas that wait for a slow reader become one; the model waits once 16,384 characters do. Raises
        FailedPreconditionError for a model or template that is not here, and whatever the model raises.
        """
        name = self._model.check(question)
        async with aclosing(
            coalesced(
                self._answer(question, name), self._pace, max_waiting_characters=_MAX_WAITING_CHARACTERS
            )
        ) as events:
            async for event in events:
                yield event

    async def _answer(self, question: Question, name: str) -> AsyncGenerator[Delta | Completed]:
        served = replace(question, passages=tuple(self._model.served(question)))
        numbers = frozenset(passage.number for passage in served.passages)
        markers = MarkerFilter(numbers)
        span = _tracer.start_span("answer", attributes={"groundline.passages": len(served.passages)})
        answer: list[str] = []
        finished: ModelFinished | None = None
        # All of this runs in the one task of `coalesced`, so the span may stay current across yields.
        current = trace.use_span(
            span, end_on_exit=True, record_exception=False, set_status_on_exception=False
        )
        with current:
            async with aclosing(self._model.stream(served)) as events:
                async for event in events:
                    if isinstance(event, ModelFinished):
                        finished = event
                    elif text := markers.feed(event.text):
                        answer.append(text)
                        yield Delta(text)
            if finished is None:
                raise InternalError(
                    "MODEL_STREAM_INCOMPLETE", "the model's answer ended without a finish reason"
                )
            if rest := markers.finish():
                answer.append(rest)
                yield Delta(rest)
            issues = [*finished.issues, *_omitted(question, numbers), *_unknown(markers.unknown)]
            yield await self._completed(served, "".join(answer), finished, issues, name)

    async def _completed(
        self, question: Question, answer: str, finished: ModelFinished, issues: list[Issue], name: str
    ) -> Completed:
        passages = {passage.number: passage for passage in question.passages}
        refused = finished.finish_reason is FinishReason.NO_ANSWER
        verdicts: list[bool] | None = None
        usage = finished.usage
        if self._judge is not None and not refused and answer.strip():
            verdicts, paid = await self._judged(self._judge, question, answer, issues)
            usage = usage + paid

        def checked() -> tuple[tuple[Citation, ...], Validation]:
            citations = () if refused else tuple(cite(answer, passages))
            return citations, validate(
                question.query, answer, passages, finished.finish_reason, issues, verdicts
            )

        # Milliseconds for a long answer: in a thread, so that other streams go on meanwhile.
        citations, validation = await asyncio.to_thread(checked)
        return Completed(
            finish_reason=finished.finish_reason,
            usage=usage,
            citations=citations,
            validation=validation,
            model=finished.model or name,
            prompt_version=finished.prompt_version,
        )

    async def _judged(
        self, judge: FaithfulnessJudge, question: Question, answer: str, issues: list[Issue]
    ) -> tuple[list[bool] | None, Usage]:
        """The judge's verdicts; where it fails the terms decide, and an issue says so."""
        try:
            judged = await judge.judge(question.query, answer, question.passages)
        except GroundlineError as error:
            issues.append(Issue("JUDGE_UNAVAILABLE", f"checked by terms alone: {error.reason}"))
            return None, Usage()
        return [verdict.supported for verdict in judged.verdicts], judged.usage


def _omitted(question: Question, served: frozenset[int]) -> list[Issue]:
    left_out = [str(p.number) for p in question.passages if p.number not in served]
    if not left_out:
        return []
    return [Issue("PASSAGES_OMITTED", f"the prompt's budget had no room for: {', '.join(left_out)}")]


def _unknown(numbers: set[int]) -> list[Issue]:
    return [
        Issue("UNKNOWN_CITATION", f"[{number}] names no passage and was removed")
        for number in sorted(numbers)
    ]
