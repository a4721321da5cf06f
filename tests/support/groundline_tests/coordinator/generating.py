"""A fake of the generator that the coordinator calls."""

import asyncio
import re
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from groundline.v1 import chat_pb2, generator_service_pb2, passage_pb2, verification_pb2


def rewrite(
    standalone_query: str, *sub_queries: str, **fields: Any
) -> generator_service_pb2.RewriteQueryResponse:
    return generator_service_pb2.RewriteQueryResponse(
        standalone_query=standalone_query, sub_queries=sub_queries, **fields
    )


def judged(
    verdict: verification_pb2.Verdict.ValueType, *evidence: tuple[int, int, int], **fields: Any
) -> generator_service_pb2.JudgeClaimsResponse:
    """Make the verdict on a claim; evidence is a passage's number with start and end."""
    return generator_service_pb2.JudgeClaimsResponse(
        verdicts=[
            generator_service_pb2.ClaimVerdict(
                verdict=verdict,
                probability=0.75,
                evidence=[
                    generator_service_pb2.PassageEvidence(
                        passage_number=number, start_offset=start, end_offset=end
                    )
                    for number, start, end in evidence
                ],
            )
        ],
        model="fake",
        usage=chat_pb2.Usage(prompt_tokens=3, output_tokens=2),
        **fields,
    )


class Step:
    """A fake step, whose next calls can be made to fail, or hang until cancelled."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.hangs = False
        self.cancelled = False
        self.reached = asyncio.Event()

    async def _pass(self) -> None:
        self.reached.set()
        if self.error is not None:
            raise self.error
        if self.hangs:
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                self.cancelled = True
                raise


class FakeGenerator(Step):
    """A Generator that says its `pieces`, some of which may mark or correct the text; it fails or hangs after
    them. Without passages it refuses. Before its pieces come its `waits`.

    A question becomes what `rewrites` says, else stays as it is. A claim ends with a full stop, and gets its
    verdict of `verdicts`, else is not found. Passages lack what `lacking` says in turn, then suffice.
    """

    def __init__(self, *pieces: str | chat_pb2.UnsupportedSentence | chat_pb2.AnswerCorrection) -> None:
        super().__init__()
        self.pieces = pieces
        self.waits: list[chat_pb2.ModelWait] = []
        self.issues: list[chat_pb2.ValidationIssue] = []
        self.degraded: list[passage_pb2.Degradation] = []
        self.usage = chat_pb2.Usage(prompt_tokens=10, output_tokens=5)
        self.calls: list[generator_service_pb2.GenerateRequest] = []
        self.said = 0
        self.read_to_the_end = False
        self.rewrites: dict[str, generator_service_pb2.RewriteQueryResponse | Exception] = {}
        self.rewrite_calls: list[generator_service_pb2.RewriteQueryRequest] = []
        self.lacking: list[generator_service_pb2.JudgeSufficiencyResponse | Exception] = []
        self.reading_calls: list[generator_service_pb2.JudgeSufficiencyRequest] = []
        self.verdicts: dict[str, generator_service_pb2.JudgeClaimsResponse | Exception] = {}
        self.judge_calls: list[generator_service_pb2.JudgeClaimsRequest] = []

    async def generate(
        self, request: generator_service_pb2.GenerateRequest
    ) -> AsyncGenerator[generator_service_pb2.GenerateResponse]:
        self.calls.append(request)
        for wait in self.waits:
            yield generator_service_pb2.GenerateResponse(waiting=wait)
        for piece in self.pieces if request.passages else ("I cannot answer.",):
            yield _response(piece)
            self.said += 1
        await self._pass()
        has_passages = bool(request.passages)
        yield generator_service_pb2.GenerateResponse(
            completed=generator_service_pb2.GenerateCompleted(
                finish_reason=chat_pb2.FINISH_REASON_STOP
                if has_passages
                else chat_pb2.FINISH_REASON_NO_ANSWER,
                usage=self.usage,
                validation=chat_pb2.Validation(grounded=has_passages, issues=self.issues),
                model="fake",
                degraded=self.degraded,
            )
        )
        self.read_to_the_end = True

    async def rewrite(
        self, request: generator_service_pb2.RewriteQueryRequest
    ) -> generator_service_pb2.RewriteQueryResponse:
        self.rewrite_calls.append(request)
        found = self.rewrites.get(request.query, rewrite(request.query))
        if isinstance(found, Exception):
            raise found
        return found

    async def judge_sufficiency(
        self, request: generator_service_pb2.JudgeSufficiencyRequest
    ) -> generator_service_pb2.JudgeSufficiencyResponse:
        self.reading_calls.append(request)
        found = self.lacking.pop(0) if self.lacking else generator_service_pb2.JudgeSufficiencyResponse()
        if isinstance(found, Exception):
            raise found
        return found

    async def split_claims(
        self, request: generator_service_pb2.SplitClaimsRequest
    ) -> generator_service_pb2.SplitClaimsResponse:
        return generator_service_pb2.SplitClaimsResponse(
            claims=[
                generator_service_pb2.Claim(
                    text=found.group(), start_offset=found.start(), end_offset=found.end()
                )
                for found in re.finditer(r"[^ .][^.]*\.", request.text)
            ]
        )

    async def judge_claims(
        self, request: generator_service_pb2.JudgeClaimsRequest
    ) -> generator_service_pb2.JudgeClaimsResponse:
        self.judge_calls.append(request)
        await self._pass()
        found = self.verdicts.get(request.claims[0].text, judged(verification_pb2.VERDICT_NOT_FOUND))
        if isinstance(found, Exception):
            raise found
        return found

    async def models(self) -> Sequence[str]:
        return ("fake",)


def _response(
    piece: str | chat_pb2.UnsupportedSentence | chat_pb2.AnswerCorrection,
) -> generator_service_pb2.GenerateResponse:
    match piece:
        case chat_pb2.UnsupportedSentence():
            return generator_service_pb2.GenerateResponse(unsupported=piece)
        case chat_pb2.AnswerCorrection():
            return generator_service_pb2.GenerateResponse(correction=piece)
        case str():
            delta = generator_service_pb2.GenerateDelta(text=piece)
            return generator_service_pb2.GenerateResponse(delta=delta)
