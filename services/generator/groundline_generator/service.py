"""Answers questions: streams what the model writes with its citations checked, then the completion."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from groundline_runtime.errors import FailedPreconditionError, InternalError
from opentelemetry import trace

from groundline_generator.citations import MarkerFilter, cite, validate
from groundline_generator.domain import Completed, Delta, FinishReason, Issue, ModelFinished, Question
from groundline_generator.ports import LanguageModel

__all__ = ["AnswerService"]

_tracer = trace.get_tracer("groundline_generator")


class AnswerService:
    """The use case of Generate."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model

    def check(self, question: Question) -> None:
        """Raise FailedPreconditionError when the question asks for a model that is not here."""
        wanted = question.options.model
        if wanted is not None and wanted != self._model.name:
            raise FailedPreconditionError(
                "MODEL_NOT_AVAILABLE",
                f"model '{wanted}' is not available; available: {self._model.name}",
                metadata={"model": wanted, "available": self._model.name},
            )

    async def answer(self, question: Question) -> AsyncGenerator[Delta | Completed]:
        """Any number of deltas, then one Completed. Markers of unknown passages are taken out on the way.

        Raises FailedPreconditionError (see `check`) and whatever the model raises.
        """
        self.check(question)
        passages = {passage.number: passage for passage in question.passages}
        markers = MarkerFilter(frozenset(passages))
        span = _tracer.start_span("answer", attributes={"groundline.passages": len(passages)})
        answer: list[str] = []
        finished: ModelFinished | None = None
        try:
            async with aclosing(self._model.stream(question)) as events:
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
            completed = self._completed(question, "".join(answer), finished, markers.unknown)
            span.set_attributes(
                {
                    "gen_ai.response.model": completed.model,
                    "gen_ai.response.finish_reasons": [completed.finish_reason.value],
                    "gen_ai.usage.input_tokens": completed.usage.prompt_tokens,
                    "gen_ai.usage.output_tokens": completed.usage.output_tokens,
                }
            )
            yield completed
        finally:
            span.end()

    def _completed(
        self, question: Question, answer: str, finished: ModelFinished, unknown: set[int]
    ) -> Completed:
        passages = {passage.number: passage for passage in question.passages}
        issues = [
            *finished.issues,
            *(
                Issue("UNKNOWN_CITATION", f"[{number}] names no passage and was removed")
                for number in sorted(unknown)
            ),
        ]
        refused = finished.finish_reason is FinishReason.NO_ANSWER
        return Completed(
            finish_reason=finished.finish_reason,
            usage=finished.usage,
            citations=() if refused else tuple(cite(answer, passages)),
            validation=validate(question.query, answer, passages, finished.finish_reason, issues),
            model=self._model.name,
        )
