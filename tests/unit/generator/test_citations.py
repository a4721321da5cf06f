import pytest
from groundline.v1 import chat_pb2
from groundline_generator.domain.citations import MarkerFilter, cite, validate
from groundline_tests.generator.messages import numbered
from hypothesis import given
from hypothesis import strategies as st

PASSAGES = {
    1: numbered(1, "Paris is the capital of France. It lies on the Seine.", chunk_id="10"),
    2: numbered(2, "Berlin is the capital of Germany.", chunk_id="20"),
}


def filtered(*pieces: str) -> str:
    markers = MarkerFilter(frozenset(PASSAGES))
    return "".join(markers.feed(piece) for piece in pieces) + markers.finish()


@given(st.lists(st.integers(1, 6)), st.text(alphabet="a [1]29`\n,;【】０１", max_size=80))
def test_however_a_stream_is_cut_the_same_text_comes_out(cuts: list[int], text: str) -> None:
    pieces, rest = [], text
    for cut in cuts:
        pieces.append(rest[:cut])
        rest = rest[cut:]
    assert filtered(*pieces, rest) == filtered(text)


def test_unknown_markers_are_removed_and_remembered() -> None:
    markers = MarkerFilter(frozenset(PASSAGES))
    assert markers.feed("True [1]. False [9]. ") + markers.finish() == "True [1]. False."
    assert markers.unknown == {9}


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ("True [1, 2].", "True [1][2]."),
        ("True [1,9; 2].", "True [1][2]."),
        ("True [8, 9].", "True."),
        ("True 【1】 and [２].", "True [1] and [2]."),
        ("True [1][1, 1].", "True [1][1]."),
        ("In [0, 1] it holds [1].", "In [0, 1] it holds [1]."),
        ("A list [a, 1] or [2020-01] or [1", "A list [a, 1] or [2020-01] or [1"),
    ],
)
def test_every_way_to_mark_sources_becomes_one(written: str, sent: str) -> None:
    assert filtered(written) == sent
    assert filtered(*written) == sent


def test_no_piece_ends_within_a_marker() -> None:
    markers = MarkerFilter(frozenset(PASSAGES))
    assert [markers.feed(piece) for piece in ("Yes [", "1", "] no")] == ["Yes", "", " [1] no"]


@pytest.mark.parametrize("text", ["`a[7]` [1]", "```\na[7]\n``` [1]"])
def test_brackets_in_code_are_not_markers(text: str) -> None:
    assert filtered(text) == text
    assert [c.source_number for c in cite(text, PASSAGES)] == [1]


def test_a_stray_backtick_ends_with_its_line() -> None:
    assert filtered("a ` b\nc [9]") == "a ` b\nc"


def test_citations_span_their_sentence_without_the_marker() -> None:
    answer = "Paris is the capital of France. [1] Berlin is that of Germany [2] [1]. Rome [1], not Bonn [2]."
    found = cite(answer, PASSAGES)
    assert [(c.source_number, answer[c.start_offset : c.end_offset], c.chunk_id) for c in found] == [
        (1, "Paris is the capital of France.", "10"),
        (2, "Berlin is that of Germany", "20"),
        (1, "Berlin is that of Germany", "10"),
        (1, "Rome", "10"),
        (2, ", not Bonn", "20"),
    ]
    assert found[0].supporting_text == "Paris is the capital of France."


def test_a_refusal_is_not_grounded() -> None:
    validation = validate("Capital?", "I cannot answer.", PASSAGES, chat_pb2.FINISH_REASON_NO_ANSWER)
    assert not validation.grounded
    assert [issue.reason for issue in validation.issues] == ["NO_SUPPORTING_PASSAGE"]
    empty = validate("Capital?", "I cannot answer.", {}, chat_pb2.FINISH_REASON_NO_ANSWER)
    assert [issue.reason for issue in empty.issues] == ["NO_PASSAGES"]


def test_an_empty_answer_is_an_issue() -> None:
    validation = validate("Capital?", " ", PASSAGES, chat_pb2.FINISH_REASON_STOP)
    assert [issue.reason for issue in validation.issues] == ["EMPTY_ANSWER"]


def test_sentences_without_source_or_support_are_named() -> None:
    answer = "Paris is the capital of France. [1] Rome was founded by twins. Whales sing songs. [2]"
    validation = validate("What is the capital of France?", answer, PASSAGES, chat_pb2.FINISH_REASON_STOP)
    assert not validation.grounded
    assert validation.cited_share == pytest.approx(2 / 3)
    assert validation.supported_share == pytest.approx(1 / 3)
    assert [issue.reason for issue in validation.issues] == ["UNCITED_SENTENCE", "UNSUPPORTED_SENTENCE"]


def test_a_quotation_is_grounded() -> None:
    validation = validate(
        "What is the capital of France?",
        "Paris is the capital of France. [1]",
        PASSAGES,
        chat_pb2.FINISH_REASON_STOP,
    )
    assert validation.grounded
    assert validation.cited_share == validation.supported_share == validation.query_relevance == 1
    assert validation.confidence == 1
    assert not validation.issues


def test_an_answer_about_something_else_is_an_issue() -> None:
    answer = "Berlin is the capital of Germany. [2]"
    validation = validate("How high is the tower of Pisa?", answer, PASSAGES, chat_pb2.FINISH_REASON_STOP)
    assert [issue.reason for issue in validation.issues] == ["LOW_RELEVANCE"]
    assert validation.grounded
    assert validation.confidence == 0


@pytest.mark.parametrize(
    ("ending", "reason"),
    [
        (chat_pb2.FINISH_REASON_MAX_TOKENS, "ANSWER_CUT_OFF"),
        (chat_pb2.FINISH_REASON_SAFETY, "ANSWER_WITHHELD"),
    ],
)
def test_an_answer_that_did_not_come_to_its_end_is_an_issue(
    ending: chat_pb2.FinishReason.ValueType, reason: str
) -> None:
    for answer in ("Paris is the capital of France. [1]", ""):
        validation = validate("What is the capital of France?", answer, PASSAGES, ending)
        assert validation.issues[0].reason == reason
