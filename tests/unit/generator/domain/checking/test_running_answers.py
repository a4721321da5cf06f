"""Answers that are checked while they are written."""

import random
from collections.abc import Iterable, Iterator, Sequence

import pytest
from groundline.v1 import chat_pb2, error_pb2
from groundline_generator.domain.checking.running import Change, RunningAnswer, moved
from groundline_generator.domain.markers import MarkerFilter
from groundline_tests.generator.messages import numbered

PASSAGES = {
    1: numbered(
        1,
        "The hatch screws of the DN-4 take a torque of 1.8 Nm. Do not close the valve during the test. "
        "Clara Voss approved the test in Kiel in 2019.",
        title="Manual of the DN-4",
    ),
    2: numbered(2, "The battery of the DN-4 lasts 40 hours. It weighs 12 kg.", title="Manual of the DN-4"),
}
TORQUE = "The hatch screws of the DN-4 take a torque of 1.8 Nm [1]."
WRONG_TORQUE = TORQUE.replace("1.8", "2.8")
BATTERY = "The battery of the DN-4 lasts 40 hours. [2]"
WRONG_BATTERY = BATTERY.replace("40", "60")
VALVE = "Do not close the valve during the test [1]."
WRONG_VALVE = "Close the valve during the test [1]."
INVENTED = "They are made of titanium in a factory near Oslo [1]."


def said(*texts: str) -> tuple[RunningAnswer, str, list[Change]]:
    """Return an answer that is complete, the text of a client that applied each change, and the changes."""
    answer, client, changes = RunningAnswer(PASSAGES), "", list[Change]()
    for text in as_sent(texts):
        client += text
        if answer.append(text):
            client = applied(client, found := answer.check())
            changes.extend(found)
    client = applied(client, found := answer.check(is_complete=True))
    return answer, client, [*changes, *found]


def as_sent(texts: Iterable[str]) -> Iterator[str]:
    """Yield the texts as they are sent: none ends within a marker."""
    markers = MarkerFilter(frozenset(PASSAGES))
    yield from map(markers.feed, texts)
    yield markers.finish()


def applied(text: str, changes: Sequence[Change]) -> str:
    for each in changes:
        if isinstance(each, chat_pb2.AnswerCorrection):
            text = f"{text[: each.start_offset]}{each.text}{text[each.end_offset :]}"
    return text


def reasons(changes: Sequence[Change]) -> list[str]:
    return [error_pb2.ErrorReason.Name(each.issue.reason) for each in changes]


def test_what_its_passages_bear_out_stays_without_a_word() -> None:
    _, text, changes = said(f"{TORQUE} {BATTERY}\n\n- {VALVE}")
    assert text == f"{TORQUE} {BATTERY}\n\n- {VALVE}"
    assert changes == []


def test_a_sentence_is_checked_when_the_next_has_begun() -> None:
    answer = RunningAnswer(PASSAGES)
    assert not answer.append("The hatch screws of the DN-4 take a torque of 2.")
    answer.append("8 Nm")
    assert answer.check() == []
    answer.append(" [1]. ")
    assert answer.check() == []
    assert answer.append("The")
    assert reasons(answer.check()) == ["NUMBER_NOT_SUPPORTED"]
    assert answer.text == "The"


def test_a_sentence_that_is_not_borne_out_is_marked_where_it_stands() -> None:
    _, text, (mark,) = said(f"{TORQUE} {INVENTED} {BATTERY}")
    assert isinstance(mark, chat_pb2.UnsupportedSentence)
    assert text[mark.start_offset : mark.end_offset] == INVENTED
    assert reasons([mark]) == ["UNSUPPORTED_SENTENCE"]


def test_a_number_that_no_passage_has_in_its_place_is_marked_only() -> None:
    sentence = "The battery of the DN-4 lasts 40 hours and 250 cycles [2]."
    _, text, changes = said(sentence)
    assert text == sentence
    assert reasons(changes) == ["NUMBER_NOT_SUPPORTED"]


def test_a_sentence_that_its_passage_may_only_say_in_other_words_is_marked_and_not_taken_back() -> None:
    text = "We still lack a set of global accounting standards that reflects the globalization of economies."
    answer = RunningAnswer({1: numbered(1, text)})
    sentence = "The globalization of economies is not reflected in global accounting standards [1]."
    answer.append(sentence)
    assert reasons(answer.check(is_complete=True)) == ["CONTRADICTED_SENTENCE"]
    assert answer.text == sentence


@pytest.mark.parametrize(
    "uncompared",
    [
        "Here is what the manual says:",
        "The hatch screws of the DN-4 take a torque of 2.8 Nm.",
        "I cannot answer this from the documents.",
        "```\ntorque = 2.8\n``` [1]",
    ],
)
def test_what_cites_nothing_and_code_are_left_alone(uncompared: str) -> None:
    _, text, changes = said(uncompared)
    assert (text, changes) == (uncompared, [])


@pytest.mark.parametrize(
    ("written", "left"),
    [
        (f"{WRONG_TORQUE} {BATTERY} {VALVE}", f"{BATTERY} {VALVE}"),
        (f"{BATTERY} {WRONG_TORQUE} {VALVE}", f"{BATTERY} {VALVE}"),
        (f"{BATTERY} {VALVE} {WRONG_TORQUE}", f"{BATTERY} {VALVE}"),
        (f"{TORQUE} {WRONG_BATTERY} {VALVE}", f"{TORQUE} {VALVE}"),
        (f"{BATTERY} {WRONG_TORQUE} {WRONG_VALVE} {TORQUE}", f"{BATTERY} {TORQUE}"),
        (f"{BATTERY} {WRONG_TORQUE} {WRONG_VALVE}", BATTERY),
        (f"- {TORQUE}\n- {WRONG_BATTERY}\n- {VALVE}", f"- {TORQUE}\n- {VALVE}"),
        (f"1. {TORQUE}\n2. {WRONG_BATTERY}\n\n{VALVE}", f"1. {TORQUE}\n\n{VALVE}"),
        (f"- {TORQUE}\n- {WRONG_BATTERY}", f"- {TORQUE}"),
        (f"- {WRONG_BATTERY} {WRONG_VALVE}\n- {TORQUE}", f"- {TORQUE}"),
        (f"{TORQUE}\n\n{WRONG_BATTERY}\n\n{VALVE}", f"{TORQUE}\n\n{VALVE}"),
        (f"{TORQUE}\n\n**Battery**\n\n{WRONG_BATTERY}", f"{TORQUE}\n\n**Battery**"),
    ],
)
def test_a_contradicted_sentence_goes_with_its_markers_and_its_bullet(written: str, left: str) -> None:
    answer, text, changes = said(written)
    assert text == answer.text
    assert text.rstrip() == left
    assert all(isinstance(each, chat_pb2.AnswerCorrection) and not each.text for each in changes)


@pytest.mark.parametrize(
    ("written", "sentences", "whole"),
    [
        (f"{WRONG_TORQUE} {BATTERY}", [TORQUE], f"{TORQUE} {BATTERY}"),
        (f"{BATTERY} {WRONG_TORQUE}", [TORQUE], f"{BATTERY} {TORQUE}"),
        (f"- {WRONG_TORQUE}\n- {BATTERY}", [TORQUE], f"- {TORQUE}\n- {BATTERY}"),
        (f"- {BATTERY}\n- {WRONG_TORQUE}", [TORQUE], f"- {BATTERY}\n- {TORQUE}"),
        (f"{WRONG_TORQUE}\n\n{WRONG_BATTERY}", [TORQUE, BATTERY], f"{TORQUE}\n\n{BATTERY}"),
        (f"{WRONG_TORQUE} {WRONG_VALVE} {BATTERY}", [f"{TORQUE} {VALVE}"], f"{TORQUE} {VALVE} {BATTERY}"),
        (f"{WRONG_TORQUE} {VALVE} {WRONG_BATTERY}", [TORQUE, BATTERY], f"{TORQUE} {VALVE} {BATTERY}"),
        (f"{WRONG_TORQUE} {VALVE} {WRONG_BATTERY}", ["", BATTERY], f"{VALVE} {BATTERY}"),
    ],
)
def test_another_sentence_comes_in_its_place(written: str, sentences: list[str], whole: str) -> None:
    answer, text, _ = said(written)
    corrections, issues = answer.correct(sentences)
    assert applied(text, corrections) == answer.text == whole
    assert [each.reason == error_pb2.SENTENCE_CORRECTED for each in issues] == [*map(bool, sentences)]


@pytest.mark.parametrize(
    "sentence", ["", WRONG_TORQUE, INVENTED, TORQUE.replace("[1]", ""), TORQUE.replace("[1]", "[7]")]
)
def test_a_sentence_that_is_no_better_does_not_come(sentence: str) -> None:
    answer, text, _ = said(f"{WRONG_TORQUE} {BATTERY}")
    corrections, (issue,) = answer.correct([sentence])
    assert (corrections, text) == ([], BATTERY)
    assert issue.reason == error_pb2.SENTENCE_WITHDRAWN
    assert '"2.8 Nm"' in issue.message


def test_an_answer_of_which_nothing_is_left_becomes_a_refusal() -> None:
    answer, text, _ = said(WRONG_TORQUE)
    assert text == ""
    refused = answer.refuse("What torque?")
    assert refused is not None
    assert answer.text == refused.text == "I cannot answer this from the documents."
    assert said(BATTERY)[0].refuse("What torque?") is None


def test_a_mark_moves_with_the_text_before_it() -> None:
    answer, text, changes = said(f"{WRONG_TORQUE} {INVENTED}")
    (mark,) = (each for each in changes if isinstance(each, chat_pb2.UnsupportedSentence))
    assert text[mark.start_offset : mark.end_offset] == INVENTED
    corrections, _ = answer.correct([TORQUE])
    there = moved(mark, corrections)
    assert answer.text[there.start_offset : there.end_offset] == INVENTED


def test_it_makes_no_difference_how_the_text_is_cut() -> None:
    written = (
        f"# Manual\n\n{WRONG_TORQUE} {BATTERY} {INVENTED}\n\n- {VALVE}\n- {WRONG_BATTERY}\n\n"
        f"```\nx = 1\n\ny = 2\n```\n\n| torque | 1.8 Nm [1] |\n\n{WRONG_VALVE} {TORQUE}"
    )
    _, whole, _ = said(written)
    assert not any(wrong in whole for wrong in ("2.8", "60", " Close"))
    chance = random.Random(27)
    for _ in range(50):
        cuts = sorted(chance.sample(range(1, len(written)), 40))
        pieces = [written[start:end] for start, end in zip([0, *cuts], [*cuts, len(written)], strict=True)]
        answer, text, _ = said(*pieces)
        assert text == answer.text == whole


def test_text_before_the_end_of_the_last_settled_sentence_never_changes() -> None:
    written = f"{BATTERY} {WRONG_TORQUE} {WRONG_VALVE}\n- {WRONG_BATTERY} {TORQUE}\n- {WRONG_VALVE}"
    answer, sent = RunningAnswer(PASSAGES), ""
    for text in as_sent(written):
        if answer.append(text):
            answer.check()
            assert answer.text.startswith(sent)
            sent = answer.text[: answer.settled]
    answer.check(is_complete=True)
    assert answer.text.startswith(sent)
    assert sent == BATTERY.removesuffix(" [2]")
    answer.correct([f"{TORQUE} {VALVE}", BATTERY, VALVE])
    assert answer.text == f"{BATTERY} {TORQUE} {VALVE}\n- {BATTERY} {TORQUE}\n- {VALVE}"
