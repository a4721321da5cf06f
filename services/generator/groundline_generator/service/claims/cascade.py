"""Judges of claims one behind the other: rules, a small model, a language model."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from groundline.v1 import chat_pb2, error_pb2, passage_pb2, verification_pb2
from groundline.v1 import generator_service_pb2 as pb
from groundline_runtime.charges import usage_of
from groundline_runtime.errors import GroundlineError

from groundline_generator.domain.calls import NO_MODEL, ModelChoice
from groundline_generator.domain.checking.readings import ClaimReader, verdict_read, windows
from groundline_generator.domain.checking.verdicts import verdict_on
from groundline_generator.metrics import JUDGED_CLAIMS
from groundline_generator.service.concurrency import computed
from groundline_generator.service.fallback import model_or
from groundline_generator.service.judging import ModelJudge

_SURE: Final = 0.84
"""Probability from which a claim that the rules support is passed on to nobody: its words stand in a passage
in their order. Of 90 such claims of nine labelled sets 87 were right. What the rules refute or do not find is
right too seldom."""

_JUDGE_SHARE: Final = 0.6
"""Share of the time left after which the rules' verdicts stand in the language model's place."""

_READER_SHARE: Final = 0.3
"""The same of the small model; a language model may still have to be asked."""

_READER: Final = "reader"
"""Name of the small model in responses."""


class _Work:
    """Claims under judgement, with their verdicts so far and the last stage that each was passed on to."""

    def __init__(self, request: pb.JudgeClaimsRequest, verdicts: Sequence[pb.ClaimVerdict]) -> None:
        self.passages = request.passages
        self.claims = request.claims
        self.response = pb.JudgeClaimsResponse(verdicts=verdicts, model=NO_MODEL.default)
        self.open: Sequence[int] = [
            place
            for place, each in enumerate(verdicts if request.passages else ())
            if each.verdict != verification_pb2.VERDICT_SUPPORTED or each.probability < _SURE
        ]
        """Places of claims that are left open."""
        self._stages = ["rules"] * len(verdicts)

    @property
    def verdicts(self) -> Sequence[pb.ClaimVerdict]:
        return self.response.verdicts

    def pass_on(self, stage: str) -> None:
        for place in self.open:
            self._stages[place] = stage

    def settle(self, found: Sequence[pb.ClaimVerdict | None], model: str) -> None:
        """Put in the verdicts on what was open; what has none stays open."""
        still_open = []
        for place, verdict in zip(self.open, found, strict=True):
            if verdict is None or verdict.verdict == verification_pb2.VERDICT_UNSPECIFIED:
                still_open.append(place)
                continue
            self.verdicts[place].CopyFrom(verdict)
            self.response.model = model
        self.open = still_open

    def failed(self, why: str) -> None:
        self.response.degraded.add(
            component=passage_pb2.COMPONENT_VALIDATION,
            reason=error_pb2.JUDGE_UNAVAILABLE,
            message=f"claims were compared by rules alone: {why}",
        )

    def count(self) -> None:
        for stage, claims in Counter(self._stages).items():
            JUDGED_CLAIMS.add(claims, {"stage": stage})


@dataclass(frozen=True, slots=True)
class ClaimCascade:
    """A judge of claims: rules, a small model for what these leave open, and a language model for what that
    leaves open. Either model may be missing.

    What nobody decides keeps the rules' verdict; if that is because a model failed, was late or was not
    believed, `degraded` says so.
    """

    models: ModelChoice = NO_MODEL
    """Models that answer, of which a request may name one."""
    reader: ClaimReader | None = None
    judge: ModelJudge | None = None

    async def judge_claims(self, request: pb.JudgeClaimsRequest) -> pb.JudgeClaimsResponse:
        """Judge the claims of a request. Raises FailedPreconditionError for an unknown model."""
        model = self.models.of(request.model)
        work = await self._begun(request)
        if work.open and self.judge is not None:
            await self._judge(self.judge, work, model)
        work.count()
        return work.response

    async def supported(
        self, sentences: Sequence[str], passages: Sequence[pb.NumberedPassage]
    ) -> tuple[Sequence[bool], chat_pb2.Usage]:
        """Tell of each sentence of an answer whether its passages support it, and what that cost.

        Raises GroundlineError if the language model fails.
        """
        claims = [pb.Claim(text=each) for each in sentences]
        work = await self._begun(pb.JudgeClaimsRequest(claims=claims, passages=passages))
        verdicts = [each.verdict == verification_pb2.VERDICT_SUPPORTED for each in work.verdicts]
        usage = chat_pb2.Usage()
        if work.open and self.judge is not None:
            work.pass_on("model")
            found, usage = await self.judge.supported([sentences[place] for place in work.open], passages)
            for place, verdict in zip(work.open, found, strict=True):
                verdicts[place] = verdict
        work.count()
        return verdicts, usage

    async def _begun(self, request: pb.JudgeClaimsRequest) -> _Work:
        """Compare claims by the rules, and have the small model read what these leave open."""

        def by_rules() -> Sequence[pb.ClaimVerdict]:
            return [verdict_on(claim, request.passages) for claim in request.claims]

        work = _Work(request, await computed(by_rules, request.passages))
        if work.open and self.reader is not None:
            work.pass_on("reader")
            reading = asyncio.to_thread(_read, self.reader, work)
            found = await model_or(_nothing(work), reading, _READER_SHARE)
            if found is not None:
                work.settle(found, _READER)
        return work

    async def _judge(self, judge: ModelJudge, work: _Work, model: str) -> None:
        """Ask the language model, and take over the verdicts that can be believed."""
        work.pass_on("model")
        asked = pb.JudgeClaimsRequest(
            claims=[work.claims[place] for place in work.open],
            passages=work.passages,
            # A judge of its own knows nothing of the models that answer.
            model=model if judge.models is self.models else "",
        )
        judged = await model_or(_nothing(work), judge.judge(asked), _JUDGE_SHARE)
        if judged is None:
            return
        work.response.usage.CopyFrom(judged.usage)
        work.settle(judged.verdicts, judged.model)
        if work.open:
            work.failed("what the model quotes does not bear out its verdict")


def _nothing(work: _Work) -> Callable[[GroundlineError], Awaitable[None]]:
    """Return what is done where a model fails: the rules' verdicts stand."""

    async def declared(error: GroundlineError) -> None:
        work.failed(error.reason)
        work.response.usage.CopyFrom(usage_of(error))

    return declared


def _read(reader: ClaimReader, work: _Work) -> Sequence[pb.ClaimVerdict | None]:
    """Return the small model's verdicts on what is open; None where it is not sure."""
    near = [windows(work.claims[place], work.passages) for place in work.open]
    pairs = [
        (work.claims[place].text, window.text)
        for place, several in zip(work.open, near, strict=True)
        for window in several
    ]
    readings = iter(reader(pairs))
    return [
        verdict_read(work.verdicts[place], [(window, next(readings)) for window in several])
        for place, several in zip(work.open, near, strict=True)
    ]
