"""Answers to questions: the model's text as a stream with checked citations, then the completion."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Final, Protocol

from groundline.v1 import chat_pb2, error_pb2, options_pb2
from groundline.v1 import generator_service_pb2 as pb
from groundline_contracts import limits_of
from groundline_runtime.charges import total, usage_of
from groundline_runtime.coalescing import Emit, Pace, coalesced
from groundline_runtime.context import span
from groundline_runtime.errors import GroundlineError, InternalError
from opentelemetry import trace

from groundline_generator.domain.calls import ModelFinished
from groundline_generator.domain.checking.citations import CitedAnswer
from groundline_generator.domain.checking.running import Change
from groundline_generator.domain.checking.validation import validate
from groundline_generator.domain.markers import MarkerFilter
from groundline_generator.ports import AnswerModel
from groundline_generator.service.answers.correcting import ModelCorrector
from groundline_generator.service.answers.writing import AnswerWriter, CheckedWriter
from groundline_generator.service.concurrency import computed

_MAX_WAITING_CHARACTERS: Final = 16_384
"""Maximum characters of an answer that wait for a slow reader."""

_MAX_NAME: Final = limits_of(options_pb2.GenerationOptions, "model").max_length
"""Maximum characters of a model's name as its provider reports it; stored answers are indexed with it."""

_DELTAS_PER_SECOND: Final = 2_500
_MAXIMUM_GAP_SECONDS: Final = 0.02
"""Maximum time between two deltas under load, in seconds. Up to 25 streams of a hundred tokens a second are
sent as they come; with more, tokens are joined, down to fifty deltas a second each."""

type _Event = pb.GenerateCompleted | chat_pb2.ModelWait | Change

_tracer = trace.get_tracer("groundline_generator")


class AnswerJudge(Protocol):
    """A judge of which sentences of an answer its passages support."""

    async def supported(
        self, sentences: Sequence[str], passages: Sequence[pb.NumberedPassage]
    ) -> tuple[Sequence[bool], chat_pb2.Usage]: ...


class AnswerService:
    """Use case of Generate. A finished answer is checked by `judge` if given, else by rules; with a
    `corrector` the rules also check each sentence as it ends."""

    def __init__(
        self, model: AnswerModel, judge: AnswerJudge | None = None, corrector: ModelCorrector | None = None
    ) -> None:
        self._model = model
        self._judge = judge
        self._corrector = corrector
        self._pace = Pace(_DELTAS_PER_SECOND, _MAXIMUM_GAP_SECONDS)

    async def answer(self, request: pb.GenerateRequest) -> AsyncGenerator[pb.GenerateResponse]:
        """Yield notices of waits for the model, any number of deltas, with marks and corrections of their
        sentences, then one completion. Markers of unknown passages are removed.

        Deltas that wait for a slow reader become one; the model waits once 16,384 characters do. Raises
        FailedPreconditionError for an unknown model or template, and whatever the model raises.
        """
        name = self._model.check(request)
        async with aclosing(
            coalesced(
                partial(self._answer, request, name),
                max_waiting_characters=_MAX_WAITING_CHARACTERS,
                pace=self._pace,
            )
        ) as events:
            async for event in events:
                yield _response(event)

    async def _answer(self, request: pb.GenerateRequest, name: str, emit: Emit[_Event]) -> None:
        served = {passage.number: passage for passage in self._model.served(request)}
        markers = MarkerFilter(frozenset(served))
        writer = self._writer(request, served, emit)
        finished: ModelFinished | None = None
        with span(
            _tracer,
            "answer",
            attributes={"groundline.passages": len(served)},
            record_exception=False,
            set_status_on_exception=False,
        ):
            async with aclosing(self._model.stream(request, tuple(served.values()), emit)) as events:
                async for event in events:
                    if isinstance(event, str):
                        await writer.write(markers.feed(event))
                    else:
                        finished = event
            if finished is None:
                raise InternalError(
                    "MODEL_STREAM_INCOMPLETE", "the model's answer ended without a finish reason"
                )
            await writer.write(markers.finish())
            reason = await writer.end(finished.finish_reason)
            finished = replace(finished, finish_reason=reason, usage=total((finished.usage, writer.usage)))
            unknown = _unknown(markers.unknown)
            issues = [*finished.issues, *_omitted(request, served), *unknown, *writer.issues]
            completed = await self._completed(request, served, writer.text, finished, issues, name)
            completed.degraded.extend(writer.degraded)
            await emit(completed)

    def _writer(
        self, request: pb.GenerateRequest, served: dict[int, pb.NumberedPassage], emit: Emit[Change]
    ) -> AnswerWriter:
        # A judge reads better than the rules, which would take back what it supports.
        if self._corrector is None or self._judge is not None:
            return AnswerWriter(emit)
        return CheckedWriter(request, served, self._corrector, emit)

    async def _completed(
        self,
        request: pb.GenerateRequest,
        served: dict[int, pb.NumberedPassage],
        answer: str,
        finished: ModelFinished,
        issues: list[chat_pb2.ValidationIssue],
        name: str,
    ) -> pb.GenerateCompleted:
        refused = finished.finish_reason == chat_pb2.FINISH_REASON_NO_ANSWER
        verdicts: Sequence[bool] | None = None
        usage = finished.usage
        if self._judge is not None and not refused and answer.strip():
            verdicts, paid = await self._judged(self._judge, answer, tuple(served.values()), issues)
            usage = total((usage, paid))

        def checked() -> tuple[Sequence[chat_pb2.Citation], chat_pb2.Validation]:
            cited = CitedAnswer(answer, served)
            return (
                () if refused else cited.citations(),
                validate(request.query, cited, finished.finish_reason, issues, verdicts, finished.likelihood),
            )

        citations, validation = await computed(checked, tuple(served.values()))
        return pb.GenerateCompleted(
            finish_reason=finished.finish_reason,
            usage=usage,
            citations=citations,
            validation=validation,
            model=(finished.model or name)[:_MAX_NAME],
            prompt_version=finished.prompt_version,
        )

    async def _judged(
        self,
        judge: AnswerJudge,
        answer: str,
        served: Sequence[pb.NumberedPassage],
        issues: list[chat_pb2.ValidationIssue],
    ) -> tuple[Sequence[bool] | None, chat_pb2.Usage]:
        """Return the judge's verdicts; if it fails, None, and an issue says so."""
        sentences = [answer[claim.start : claim.end] for claim in CitedAnswer(answer, {}).claims]
        try:
            return await judge.supported(sentences, served)
        except GroundlineError as error:
            message = f"checked by terms alone: {error.reason}"
            issues.append(chat_pb2.ValidationIssue(reason=error_pb2.JUDGE_UNAVAILABLE, message=message))
            return None, usage_of(error)


def _response(event: _Event | str) -> pb.GenerateResponse:
    match event:
        case str():
            return pb.GenerateResponse(delta=pb.GenerateDelta(text=event))
        case chat_pb2.ModelWait():
            return pb.GenerateResponse(waiting=event)
        case chat_pb2.UnsupportedSentence():
            return pb.GenerateResponse(unsupported=event)
        case chat_pb2.AnswerCorrection():
            return pb.GenerateResponse(correction=event)
        case pb.GenerateCompleted():
            return pb.GenerateResponse(completed=event)


def _omitted(
    request: pb.GenerateRequest, served: dict[int, pb.NumberedPassage]
) -> list[chat_pb2.ValidationIssue]:
    left_out = [str(passage.number) for passage in request.passages if passage.number not in served]
    if not left_out:
        return []
    message = f"the prompt's budget had no room for: {', '.join(left_out)}"
    return [chat_pb2.ValidationIssue(reason=error_pb2.PASSAGES_OMITTED, message=message)]


def _unknown(numbers: set[int]) -> list[chat_pb2.ValidationIssue]:
    return [
        chat_pb2.ValidationIssue(
            reason=error_pb2.UNKNOWN_CITATION, message=f"[{number}] names no passage and was removed"
        )
        for number in sorted(numbers)
    ]
