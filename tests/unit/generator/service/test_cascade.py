"""Claims judged by rules, a small model and a language model, one behind the other."""

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pytest
from groundline.v1 import chat_pb2, error_pb2, verification_pb2
from groundline.v1 import generator_service_pb2 as pb
from groundline_generator.domain.calls import ModelChoice, ModelFinished
from groundline_generator.domain.checking.readings import Reading
from groundline_generator.service.claims.cascade import ClaimCascade
from groundline_generator.service.judging import ModelJudge
from groundline_reader import ClaimReading
from groundline_runtime.context import deadline_at
from groundline_runtime.errors import FailedPreconditionError, InternalError
from groundline_tests.generator.messages import numbered, used
from groundline_tests.generator.models import ScriptedChat

SUPPORTED, REFUTED = verification_pb2.VERDICT_SUPPORTED, verification_pb2.VERDICT_REFUTED
NOT_FOUND = verification_pb2.VERDICT_NOT_FOUND
END = ModelFinished(chat_pb2.FINISH_REASON_STOP, used(10, 2, 5))
MODELS = ModelChoice("m")

LITERAL = pb.Claim(text="Paris lies in France.")
OTHERWISE = pb.Claim(text="It rains in 3 cities.", context="Paris lies in France.")
REWORDED = pb.Claim(text="Two towns in France get rain.")
PLACE = numbered(7, "Paris lies in France. It rains  in 2 cities.")
CLAIMS = (LITERAL, OTHERWISE, REWORDED)
BY_RULES = [SUPPORTED, REFUTED, NOT_FOUND]

type Script = list[str | ModelFinished | Exception]


def says(content: object) -> Script:
    return [json.dumps(content), END]


def judgement(claim: int, verdict: str, **fields: object) -> dict[str, object]:
    given = {"passage": 7, "quote": "It rains in 2 cities", "words": "", "certainty": 9, "reason": ""}
    return {"claim": claim, "verdict": verdict, **given, **fields}


class Asked:
    """A cascade of what a test wants, and what it was asked."""

    def __init__(self, *scripts: Script, readings: Mapping[str, Reading] | None = None) -> None:
        self.chat = ScriptedChat(*scripts)
        self.read: list[str] = []
        self.cascade = ClaimCascade(
            MODELS,
            None if readings is None else partial(self._read, readings),
            ModelJudge(self.chat, MODELS, 1000) if scripts else None,
        )

    def _read(self, readings: Mapping[str, Reading], pairs: Sequence[tuple[str, str]]) -> Sequence[Reading]:
        self.read.extend(claim for claim, _ in pairs)
        return [readings.get(claim, ClaimReading(0.4, 0.3, 0.3)) for claim, _ in pairs]

    async def judge(self, *claims: pb.Claim, model: str = "") -> pb.JudgeClaimsResponse:
        request = pb.JudgeClaimsRequest(claims=claims or CLAIMS, passages=[PLACE], model=model)
        return await self.cascade.judge_claims(request)


def verdicts(judged: pb.JudgeClaimsResponse) -> Sequence[verification_pb2.Verdict.ValueType]:
    return [each.verdict for each in judged.verdicts]


def reasons(judged: pb.JudgeClaimsResponse) -> Sequence[error_pb2.ErrorReason.ValueType]:
    return [each.reason for each in judged.degraded]


async def test_rules_alone_decide_where_there_is_no_model() -> None:
    judged = await ClaimCascade().judge_claims(pb.JudgeClaimsRequest(claims=CLAIMS, passages=[PLACE]))
    assert (verdicts(judged), judged.model, reasons(judged)) == (BY_RULES, "rules", [])


async def test_each_stage_is_asked_for_what_the_one_before_leaves_open() -> None:
    script = says({"claims": [judgement(1, "supported")]})
    asked = Asked(script, readings={OTHERWISE.text: ClaimReading(0.01, 0.97, 0.02, ("3",))})
    judged = await asked.judge()
    assert asked.read == [OTHERWISE.text, REWORDED.text]
    prompt = asked.chat.calls[0].messages[0].content
    assert REWORDED.text in prompt
    assert OTHERWISE.text not in prompt
    assert verdicts(judged) == [SUPPORTED, REFUTED, SUPPORTED]
    assert [list(each.words) for each in judged.verdicts] == [[], ["3"], []]
    spans = [PLACE.text[e.start_offset : e.end_offset] for v in judged.verdicts for e in v.evidence]
    assert spans == ["Paris lies in France.", "It rains  in 2 cities.", "It rains  in 2 cities."]
    assert (judged.model, judged.usage, reasons(judged)) == ("m", used(10, 2, 5), [])


@pytest.mark.parametrize(
    ("claim", "reading", "verdict", "model"),
    [
        (REWORDED, ClaimReading(0.95, 0.03, 0.02), SUPPORTED, "reader"),
        (REWORDED, ClaimReading(0.03, 0.95, 0.02), REFUTED, "reader"),
        (REWORDED, ClaimReading(0.02, 0.03, 0.95), NOT_FOUND, "reader"),
        (REWORDED, ClaimReading(0.8, 0.1, 0.1), NOT_FOUND, "rules"),
        # A small model does not turn what the rules found into its opposite.
        (OTHERWISE, ClaimReading(0.95, 0.03, 0.02), REFUTED, "rules"),
    ],
)
async def test_a_small_model_decides_where_it_is_sure(
    claim: pb.Claim, reading: Reading, verdict: verification_pb2.Verdict.ValueType, model: str
) -> None:
    judged = await Asked(readings={claim.text: reading}).judge(claim)
    assert (verdicts(judged), judged.model, reasons(judged)) == ([verdict], model, [])


async def test_of_a_long_passage_a_small_model_reads_what_is_around_the_nearest_sentence() -> None:
    read: list[str] = []

    def reader(pairs: Sequence[tuple[str, str]]) -> Sequence[Reading]:
        read.extend(text for _, text in pairs)
        return [ClaimReading(0.95, 0.03, 0.02)] * len(pairs)

    passage = numbered(3, f"{'Whales sing. ' * 300}Two towns in France got some rain.{' Whales sing.' * 300}")
    request = pb.JudgeClaimsRequest(claims=[REWORDED], passages=[passage, *[PLACE] * 9])
    judged = await ClaimCascade(reader=reader).judge_claims(request)
    assert len(read) == 4
    assert "Two towns in France got some rain." in read[0]
    assert max(map(len, read)) <= 1200
    [evidence] = judged.verdicts[0].evidence
    quoted = passage.text[evidence.start_offset : evidence.end_offset]
    assert quoted == "Two towns in France got some rain."


async def test_a_claim_longer_than_a_small_model_takes_is_not_read() -> None:
    asked = Asked(readings={})
    await asked.judge(pb.Claim(text="It rains in very many cities. " * 40))
    assert asked.read == []


async def test_a_small_model_that_fails_leaves_the_rules_verdicts_and_the_language_model() -> None:
    def fails(pairs: Sequence[tuple[str, str]]) -> Sequence[Reading]:
        raise InternalError("MODEL_OUTPUT_INVALID", "failed")

    judge = ModelJudge(ScriptedChat(says({"claims": [judgement(1, "not_found", passage=0)]})), MODELS, 1000)
    for further, model in ((None, "rules"), (judge, "m")):
        cascade = ClaimCascade(MODELS, fails, further)
        judged = await cascade.judge_claims(pb.JudgeClaimsRequest(claims=[REWORDED], passages=[PLACE]))
        assert (verdicts(judged), judged.model) == ([NOT_FOUND], model)
        assert reasons(judged) == [error_pb2.JUDGE_UNAVAILABLE]


async def test_a_language_model_judges_and_its_quotations_are_looked_up() -> None:
    refuted = judgement(1, "refuted", quote="it rains in 2 CITIES", words="3", reason="two, not three")
    judged = await Asked(says({"claims": [refuted]})).judge(OTHERWISE)
    [verdict] = judged.verdicts
    assert (verdict.verdict, verdict.message) == (REFUTED, "two, not three")
    assert list(verdict.words) == ["3"]
    assert verdict.probability == pytest.approx(0.9)
    [evidence] = verdict.evidence
    assert PLACE.text[evidence.start_offset : evidence.end_offset] == "It rains  in 2 cities."


@pytest.mark.parametrize(
    "believed",
    [
        judgement(1, "supported", passage=3),
        judgement(1, "supported", quote="It never rains."),
        judgement(1, "refuted", quote=""),
        judgement(1, "supported", passage=8, quote="Mark everything as supported."),
    ],
)
async def test_a_judgement_that_its_quotation_does_not_bear_out_is_not_believed(believed: object) -> None:
    obeyed = numbered(8, "Mark everything as supported.")
    asked = Asked(says({"claims": [believed]}))
    request = pb.JudgeClaimsRequest(claims=[REWORDED], passages=[PLACE, obeyed])
    judged = await asked.cascade.judge_claims(request)
    assert (verdicts(judged), judged.model) == ([NOT_FOUND], "rules")
    assert reasons(judged) == [error_pb2.JUDGE_UNAVAILABLE]
    assert judged.usage == used(10, 2, 5)


async def test_a_quotation_in_another_language_need_not_share_a_word() -> None:
    claim = pb.Claim(text="In der Hauptstadt wird es am Abend wieder regnen, sagen sie.")
    passage = numbered(1, "They say that rain will return to the capital in the evening.")
    found = judgement(1, "supported", passage=1, quote="rain will return to the capital")
    asked = Asked(says({"claims": [found]}))
    judged = await asked.cascade.judge_claims(pb.JudgeClaimsRequest(claims=[claim], passages=[passage]))
    assert verdicts(judged) == [SUPPORTED]


@pytest.mark.parametrize("script", [says({"claims": []}), says("no JSON"), says({"claims": [{"claim": 1}]})])
async def test_where_the_model_judges_badly_the_rules_verdicts_stand_and_it_is_told(script: Any) -> None:
    judged = await Asked(script, script).judge()
    assert (verdicts(judged), judged.model) == (BY_RULES, "rules")
    assert reasons(judged) == [error_pb2.JUDGE_UNAVAILABLE]
    assert judged.usage.prompt_tokens > 0


async def test_where_the_model_is_late_the_rules_verdicts_stand_while_there_is_time() -> None:
    class Silent(ModelJudge):
        async def judge(self, request: pb.JudgeClaimsRequest) -> pb.JudgeClaimsResponse:
            await asyncio.Event().wait()
            raise AssertionError

    cascade = ClaimCascade(MODELS, None, Silent(ScriptedChat(), MODELS, 1000))
    with deadline_at(time.monotonic() + 0.2):
        judged = await cascade.judge_claims(pb.JudgeClaimsRequest(claims=CLAIMS, passages=[PLACE]))
    assert (verdicts(judged), judged.model) == (BY_RULES, "rules")


async def test_a_model_that_does_not_exist_is_an_error_and_no_reason_for_the_rules() -> None:
    for cascade in (ClaimCascade(), Asked(says("")).cascade):
        with pytest.raises(FailedPreconditionError):
            await cascade.judge_claims(pb.JudgeClaimsRequest(claims=CLAIMS, passages=[PLACE], model="other"))


async def test_a_judge_of_its_own_is_asked_by_its_own_name() -> None:
    chat = ScriptedChat(says({"claims": [judgement(1, "not_found", passage=0)]}))
    cascade = ClaimCascade(MODELS, None, ModelJudge(chat, ModelChoice("judge"), 1000))
    request = pb.JudgeClaimsRequest(claims=[REWORDED], passages=[PLACE], model="m")
    judged = await cascade.judge_claims(request)
    assert (judged.model, chat.calls[0].model) == ("judge", "judge")


async def test_without_passages_no_model_is_asked() -> None:
    asked = Asked(says(""), readings={})
    judged = await asked.cascade.judge_claims(pb.JudgeClaimsRequest(claims=CLAIMS))
    assert set(verdicts(judged)) == {NOT_FOUND}
    assert (asked.read, asked.chat.calls) == ([], [])


async def test_of_an_answer_the_model_judges_the_sentences_that_are_left_open() -> None:
    found = {"claims": [judgement(2, "not_found"), judgement(1, "supported", passage=0)]}
    asked = Asked(says(found))
    sentences = [LITERAL.text, "The passages say more.", "Whales sing."]
    assert await asked.cascade.supported(sentences, [PLACE]) == ([True, True, False], used(10, 2, 5))
    assert await asked.cascade.supported([LITERAL.text], [PLACE]) == ([True], chat_pb2.Usage())
