"""An answer on its way to the client: checked sentence by sentence, corrected in place or before it is
sent."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from groundline.v1 import chat_pb2, error_pb2, passage_pb2
from groundline.v1 import generator_service_pb2 as pb
from groundline_runtime.charges import usage_of
from groundline_runtime.coalescing import Emit
from groundline_runtime.errors import GroundlineError

from groundline_generator.domain.checking.running import Change, RunningAnswer, moved
from groundline_generator.service.answers.correcting import ModelCorrector
from groundline_generator.service.concurrency import computed
from groundline_generator.service.fallback import model_or

_CORRECTING_SHARE: Final = 0.7
"""Share of the time left that a correction may take; the answer still has to be validated and stored."""


class AnswerWriter:
    """A writer that sends each text as it comes."""

    def __init__(self, emit: Emit[Change]) -> None:
        self._emit = emit
        self._pieces: list[str] = []
        self.issues: Sequence[chat_pb2.ValidationIssue] = ()
        self.degraded: Sequence[passage_pb2.Degradation] = ()
        self.usage = chat_pb2.Usage()

    @property
    def text(self) -> str:
        """The answer as the client has it."""
        return "".join(self._pieces)

    async def write(self, text: str) -> None:
        if text:
            self._pieces.append(text)
            await self._emit(text)

    async def end(self, reason: chat_pb2.FinishReason.ValueType) -> chat_pb2.FinishReason.ValueType:
        """Send what is left; return why the answer ended."""
        return reason


class CheckedWriter(AnswerWriter):
    """A writer that checks each sentence as it ends.

    If the request accepts corrections, texts are sent as they come, and what turns out wrong is taken back.
    Otherwise nothing is sent that may still change.
    """

    def __init__(
        self,
        request: pb.GenerateRequest,
        passages: Mapping[int, pb.NumberedPassage],
        corrector: ModelCorrector,
        emit: Emit[Change],
    ) -> None:
        super().__init__(emit)
        self._request = request
        self._served = tuple(passages.values())
        self._corrector = corrector
        self._answer = RunningAnswer(passages)
        self._sent = 0
        self._marks: list[chat_pb2.UnsupportedSentence] = []
        """Marks of sentences that are not sent yet."""

    @property
    def text(self) -> str:
        return self._answer.text

    async def write(self, text: str) -> None:
        if not text:
            return
        has_ended = self._answer.append(text)
        if self._request.accepts_corrections:
            await self._emit(text)
        if has_ended:
            await self._tell(await computed(self._answer.check, self._served))
            await self._send_up_to(self._answer.settled)

    async def end(self, reason: chat_pb2.FinishReason.ValueType) -> chat_pb2.FinishReason.ValueType:
        if reason != chat_pb2.FINISH_REASON_NO_ANSWER:
            # The last sentence of an answer that was cut off says less than its end would.
            is_complete = reason == chat_pb2.FINISH_REASON_STOP
            check = partial(self._answer.check, is_complete=is_complete)
            await self._tell(await computed(check, self._served))
            if self._answer.contradictions:
                reason = await self._correct(reason)
        await self._send_up_to(len(self.text))
        return reason

    async def _correct(self, reason: chat_pb2.FinishReason.ValueType) -> chat_pb2.FinishReason.ValueType:
        async def by_nothing(error: GroundlineError) -> tuple[Sequence[str], chat_pb2.Usage]:
            message = f"contradicted sentences were taken back, not corrected: {error.reason}"
            failure = passage_pb2.Degradation(
                component=passage_pb2.COMPONENT_VALIDATION,
                reason=error_pb2.CORRECTION_UNAVAILABLE,
                message=message,
            )
            self.degraded = [failure]
            return (), usage_of(error)

        asked = self._corrector.corrected(self._request, self._answer.contradictions, self._served)
        sentences, self.usage = await model_or(by_nothing, asked, _CORRECTING_SHARE)
        corrections, self.issues = await computed(partial(self._answer.correct, sentences), self._served)
        await self._tell(corrections)
        refused = self._answer.refuse(self._request.query)
        if refused is None:
            return reason
        await self._tell([refused])
        return chat_pb2.FINISH_REASON_NO_ANSWER

    async def _tell(self, changes: Sequence[Change]) -> None:
        for change in changes:
            if self._request.accepts_corrections:
                await self._emit(change)
            elif isinstance(change, chat_pb2.UnsupportedSentence):
                self._marks.append(change)
            else:
                self._marks = [moved(mark, [change]) for mark in self._marks]

    async def _send_up_to(self, settled: int) -> None:
        """Send the text that will not change any more, and its marks, if the client takes nothing back."""
        if self._request.accepts_corrections:
            return
        if settled > self._sent:
            await self._emit(self.text[self._sent : settled])
            self._sent = settled
        while self._marks and self._marks[0].end_offset <= self._sent:
            await self._emit(self._marks.pop(0))
