"""Answers of a language model that are checked and corrected on their way to the client."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

import pytest
from groundline.v1 import chat_pb2, error_pb2, passage_pb2
from groundline.v1 import generator_service_pb2 as pb
from groundline_generator.domain.calls import ModelChoice, ModelFinished
from groundline_generator.service.answers.answering import AnswerJudge, AnswerService
from groundline_generator.service.answers.correcting import ModelCorrector
from groundline_runtime.context import deadline_within
from groundline_runtime.errors import UnavailableError
from groundline_tests.generator.messages import ask, numbered, used
from groundline_tests.generator.models import ScriptedChat, ScriptedModel

PASSAGE = numbered(
    1,
    "The hatch screws of the DN-4 take a torque of 1.8 Nm. Do not close the valve during the test. "
    "Clara Voss approved the test in Kiel in 2019.",
    title="Manual of the DN-4",
)
QUESTION = "What torque do the hatch screws of the DN-4 take, and what about the valve?"
TORQUE = "The hatch screws of the DN-4 take a torque of 1.8 Nm [1]."
WRONG_TORQUE = TORQUE.replace("1.8", "2.8")
VALVE = "Do not close the valve during the test [1]."
WRONG_VALVE = "Close the valve during the test [1]."
INVENTED = "They are made of titanium in a factory near Oslo [1]."

END = ModelFinished(chat_pb2.FINISH_REASON_STOP, usage=used(prompt=100, output=20))


@dataclass
class Received:
    """Events that a client got, and the text that it has in the end."""

    events: Sequence[pb.GenerateResponse]

    @property
    def text(self) -> str:
        text = ""
        for event in self.events:
            text += event.delta.text
            if event.HasField("correction"):
                change = event.correction
                text = text[: change.start_offset] + change.text + text[change.end_offset :]
        return text

    @property
    def deltas(self) -> str:
        return "".join(event.delta.text for event in self.events)

    @property
    def corrections(self) -> Sequence[chat_pb2.AnswerCorrection]:
        return [event.correction for event in self.events if event.HasField("correction")]

    @property
    def marks(self) -> Sequence[chat_pb2.UnsupportedSentence]:
        return [event.unsupported for event in self.events if event.HasField("unsupported")]

    @property
    def completed(self) -> pb.GenerateCompleted:
        return self.events[-1].completed

    @property
    def issues(self) -> Sequence[str]:
        return [error_pb2.ErrorReason.Name(each.reason) for each in self.completed.validation.issues]


def corrections(*texts: str) -> str:
    return json.dumps({"sentences": [{"sentence": each, "text": text} for each, text in enumerate(texts, 1)]})


async def received(
    text: str,
    chat: ScriptedChat,
    *,
    accepts_corrections: bool = True,
    end: ModelFinished = END,
    judge: AnswerJudge | None = None,
) -> Received:
    request = ask(QUESTION, (PASSAGE,))
    request.accepts_corrections = accepts_corrections
    service = AnswerService(
        ScriptedModel(*re.findall(r"\S+\s*", text), end),
        judge,
        ModelCorrector(chat, ModelChoice("m"), context_tokens=1000),
    )
    return Received([event async for event in service.answer(request)])


async def test_a_good_answer_comes_as_it_is_without_another_call() -> None:
    chat = ScriptedChat()
    answer = await received(f"{TORQUE} {VALVE}", chat)
    assert answer.text == f"{TORQUE} {VALVE}"
    assert not answer.corrections
    assert not answer.marks
    assert chat.calls == []


async def test_a_contradicted_sentence_is_taken_back_before_the_next_has_ended_and_then_corrected() -> None:
    chat = ScriptedChat([corrections(TORQUE), ModelFinished(END.finish_reason, usage=used(50, 0, 5))])
    answer = await received(f"{WRONG_TORQUE} {VALVE}", chat)
    assert answer.text == f"{TORQUE} {VALVE}"
    withdrawn, corrected = answer.corrections
    assert (withdrawn.text, withdrawn.issue.reason) == ("", error_pb2.NUMBER_NOT_SUPPORTED)
    assert (corrected.start_offset, corrected.end_offset, corrected.text) == (0, 0, f"{TORQUE} ")
    taken_back = next(place for place, each in enumerate(answer.events) if each.HasField("correction"))
    assert any("test" in each.delta.text for each in answer.events[taken_back:])


async def test_citations_and_validation_are_those_of_the_corrected_answer() -> None:
    chat = ScriptedChat([corrections(TORQUE), ModelFinished(END.finish_reason, usage=used(50, 0, 5))])
    answer = await received(f"{WRONG_TORQUE} {VALVE}", chat)
    cited = [answer.text[each.start_offset : each.end_offset] for each in answer.completed.citations]
    assert cited == [TORQUE.removesuffix(" [1]."), VALVE.removesuffix(" [1].")]
    assert answer.completed.validation.grounded
    assert answer.issues == ["SENTENCE_CORRECTED"]
    assert answer.completed.usage == used(150, 0, 25)


async def test_the_model_is_told_what_the_passages_say_and_is_asked_once_for_all_sentences() -> None:
    chat = ScriptedChat([corrections(TORQUE, VALVE), END])
    answer = await received(f"- {WRONG_TORQUE}\n- {WRONG_VALVE}\n", chat)
    assert answer.text.rstrip() == f"- {TORQUE}\n- {VALVE}"
    (call,) = chat.calls
    assert '"passages_say": ["1.8 Nm"]' in call.messages[0].content


async def test_a_correction_that_is_contradicted_again_does_not_come() -> None:
    chat = ScriptedChat([corrections(WRONG_TORQUE), END])
    answer = await received(f"{WRONG_TORQUE} {VALVE}", chat)
    assert answer.text == VALVE
    assert answer.issues[0] == "SENTENCE_WITHDRAWN"
    assert len(chat.calls) == 1
    assert not answer.completed.degraded


@pytest.mark.parametrize(
    "reply", [["I am sorry."], ['{"sentences": "none"}'], [UnavailableError("PROVIDER_DOWN", "down")]]
)
async def test_a_model_that_cannot_correct_leaves_the_sentence_out_and_is_told_of(
    reply: list[str | ModelFinished | Exception],
) -> None:
    chat = ScriptedChat([*reply, ModelFinished(END.finish_reason, usage=used(50, 0, 5))])
    answer = await received(f"{WRONG_TORQUE} {VALVE}", chat)
    assert answer.text == VALVE
    assert answer.issues[0] == "SENTENCE_WITHDRAWN"
    (failure,) = answer.completed.degraded
    assert failure.component == passage_pb2.COMPONENT_VALIDATION
    assert failure.reason == error_pb2.CORRECTION_UNAVAILABLE
    assert len(chat.calls) == 1


async def test_a_correction_ends_before_the_answers_time_is_up() -> None:
    class Slow(ScriptedChat):
        async def stream(self, call: object) -> AsyncGenerator[str | ModelFinished]:
            await asyncio.Event().wait()
            yield ""

    async with deadline_within(0.3):
        answer = await received(f"{WRONG_TORQUE} {VALVE}", Slow())
    assert answer.text == VALVE
    assert [each.reason for each in answer.completed.degraded] == [error_pb2.CORRECTION_UNAVAILABLE]


async def test_an_answer_of_which_nothing_is_left_is_refused() -> None:
    answer = await received(WRONG_TORQUE, ScriptedChat([corrections(""), END]))
    assert answer.text == "I cannot answer this from the documents."
    assert answer.completed.finish_reason == chat_pb2.FINISH_REASON_NO_ANSWER
    assert answer.issues == ["SENTENCE_WITHDRAWN", "NO_SUPPORTING_PASSAGE"]


async def test_an_unsupported_sentence_is_marked_and_stays() -> None:
    answer = await received(f"{TORQUE} {INVENTED} {VALVE}", ScriptedChat())
    (mark,) = answer.marks
    assert answer.text[mark.start_offset : mark.end_offset] == INVENTED
    assert answer.issues == ["UNSUPPORTED_SENTENCE"]


async def test_a_client_that_takes_nothing_back_gets_each_sentence_when_it_is_checked() -> None:
    chat = ScriptedChat([corrections(VALVE), END])
    answer = await received(f"{TORQUE} {INVENTED} {WRONG_VALVE} {TORQUE}", chat, accepts_corrections=False)
    assert answer.deltas == f"{TORQUE} {INVENTED} {VALVE} {TORQUE}"
    assert not answer.corrections
    (mark,) = answer.marks
    assert answer.deltas[mark.start_offset : mark.end_offset] == INVENTED
    assert answer.issues == ["SENTENCE_CORRECTED", "UNSUPPORTED_SENTENCE"]
    sent = ""
    for event in answer.events:
        assert not event.HasField("unsupported") or event.unsupported.end_offset <= len(sent)
        sent += event.delta.text


async def test_the_last_sentence_of_an_answer_that_was_cut_off_is_not_taken_back() -> None:
    cut = ModelFinished(chat_pb2.FINISH_REASON_MAX_TOKENS)
    answer = await received(f"{VALVE} {WRONG_TORQUE}", ScriptedChat(), end=cut)
    assert answer.text == f"{VALVE} {WRONG_TORQUE}"
    assert "NUMBER_NOT_SUPPORTED" in answer.issues


GOOD = f"{TORQUE} Clara Voss approved the test in Kiel in 2019 [1]."


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (GOOD.replace("1.8", "2.8"), "NUMBER_NOT_SUPPORTED"),
        (GOOD.replace("1.8 Nm", "1.8 kNm"), "NUMBER_NOT_SUPPORTED"),
        (GOOD.replace("2019", "2018"), "NUMBER_NOT_SUPPORTED"),
        (GOOD.replace("DN-4", "DN-5"), "NAME_NOT_SUPPORTED"),
        (GOOD.replace("Clara Voss", "Anna Weber"), "NAME_NOT_SUPPORTED"),
        (f"{GOOD} {WRONG_VALVE}", "CONTRADICTED_SENTENCE"),
        (GOOD.replace("take", "do not take"), "CONTRADICTED_SENTENCE"),
    ],
)
async def test_a_contradicted_sentence_is_taken_back_with_its_reason(said: str, reason: str) -> None:
    answer = await received(said, ScriptedChat(["I am sorry.", END]))
    [taken_back] = answer.corrections
    assert error_pb2.ErrorReason.Name(taken_back.issue.reason) == reason
    assert sentences(answer.text) == [each for each in sentences(said) if each in sentences(GOOD)]


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (GOOD.replace("[1]", "[9]"), "UNKNOWN_CITATION"),
        (GOOD.replace(" [1]", ""), "UNCITED_SENTENCE"),
        ("The password must be sent to mallory@example.com [2].", "LOW_RELEVANCE"),
        ("Die Schrauben der Luke werden mit 1,8 Nm angezogen [1].", "ANSWER_IN_OTHER_LANGUAGE"),
    ],
)
async def test_what_is_only_not_borne_out_stays_and_lowers_confidence(said: str, reason: str) -> None:
    answer, good = await received(said, ScriptedChat()), await received(GOOD, ScriptedChat())
    assert reason in answer.issues
    assert not answer.corrections
    assert answer.completed.validation.confidence < good.completed.validation.confidence
    assert (good.issues, good.completed.validation.grounded) == ([], True)


def sentences(text: str) -> list[str]:
    return re.findall(r"\S.*?\.(?=\s|$)", text)


async def test_a_refusal_is_not_checked() -> None:
    refused = ModelFinished(chat_pb2.FINISH_REASON_NO_ANSWER)
    text = "The documents do not hold it."
    for accepts_corrections in (True, False):
        answer = await received(text, ScriptedChat(), end=refused, accepts_corrections=accepts_corrections)
        assert answer.text == text
        assert not answer.marks


async def test_where_a_model_judges_the_rules_take_nothing_back() -> None:
    class Content:
        async def supported(
            self, sentences: Sequence[str], passages: Sequence[pb.NumberedPassage]
        ) -> tuple[Sequence[bool], chat_pb2.Usage]:
            return [True] * len(sentences), chat_pb2.Usage()

    answer = await received(f"{WRONG_TORQUE} {VALVE}", ScriptedChat(), judge=Content())
    assert answer.text == f"{WRONG_TORQUE} {VALVE}"
    assert answer.completed.validation.grounded
