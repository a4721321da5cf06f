import pytest
from groundline.v1 import chat_pb2, error_pb2
from groundline_generator.domain.checking.citations import CitedAnswer
from groundline_generator.domain.checking.validation import validate
from groundline_tests.generator.messages import numbered

PASSAGES = {
    1: numbered(1, "Paris is the capital of France. It lies on the Seine.", chunk_id="10"),
    2: numbered(2, "Berlin is the capital of Germany.", chunk_id="20"),
}


def test_a_refusal_is_not_grounded() -> None:
    validation = validate(
        "Capital?", CitedAnswer("I cannot answer.", PASSAGES), chat_pb2.FINISH_REASON_NO_ANSWER
    )
    assert not validation.grounded
    assert [issue.reason for issue in validation.issues] == [error_pb2.NO_SUPPORTING_PASSAGE]
    empty = validate("Capital?", CitedAnswer("I cannot answer.", {}), chat_pb2.FINISH_REASON_NO_ANSWER)
    assert [issue.reason for issue in empty.issues] == [error_pb2.NO_PASSAGES]


def test_an_empty_answer_is_an_issue() -> None:
    validation = validate("Capital?", CitedAnswer(" ", PASSAGES), chat_pb2.FINISH_REASON_STOP)
    assert [issue.reason for issue in validation.issues] == [error_pb2.EMPTY_ANSWER]


def test_sentences_without_source_or_support_are_named() -> None:
    answer = "Paris is the capital of France. [1] Rome was founded by twins. Whales sing songs. [2]"
    validation = validate(
        "What is the capital of France?", CitedAnswer(answer, PASSAGES), chat_pb2.FINISH_REASON_STOP
    )
    assert not validation.grounded
    assert validation.cited_share == pytest.approx(2 / 3)
    assert validation.supported_share == pytest.approx(1 / 3)
    assert [issue.reason for issue in validation.issues] == [
        error_pb2.UNCITED_SENTENCE,
        error_pb2.UNSUPPORTED_SENTENCE,
    ]


def test_a_quotation_is_grounded() -> None:
    validation = validate(
        "What is the capital of France?",
        CitedAnswer("Paris is the capital of France. [1]", PASSAGES),
        chat_pb2.FINISH_REASON_STOP,
    )
    assert validation.grounded
    assert validation.cited_share == validation.supported_share == validation.query_relevance == 1
    assert validation.confidence == 1
    assert not validation.issues


def test_quotations_of_two_passages_are_two_claims_though_the_second_begins_in_lower_case() -> None:
    rows = {
        number: numbered(
            number, f"| | DN-{model} |\n|---|---|\n| weight | {weight} kg |", title=f"DN-{model}"
        )
        for number, model, weight in ((1, 4, 14), (2, 6, 31))
    }
    answer = CitedAnswer("weight – DN-4: 14 kg. [1] weight – DN-6: 31 kg. [2] [1]", rows)
    assert [(claim.text.strip(), claim.numbers) for claim in answer.claims] == [
        ("weight – DN-4: 14 kg.", (1,)),
        ("weight – DN-6: 31 kg.", (2, 1)),
    ]
    assert validate("Is the DN-4 or the DN-6 heavier?", answer, chat_pb2.FINISH_REASON_STOP).grounded


def test_an_answer_about_something_else_is_an_issue() -> None:
    answer = "Berlin is the capital of Germany. [2]"
    validation = validate(
        "How high is the tower of Pisa?", CitedAnswer(answer, PASSAGES), chat_pb2.FINISH_REASON_STOP
    )
    assert [issue.reason for issue in validation.issues] == [error_pb2.LOW_RELEVANCE]
    assert validation.grounded
    assert validation.confidence == 0


@pytest.mark.parametrize(
    ("ending", "reason"),
    [
        (chat_pb2.FINISH_REASON_MAX_TOKENS, error_pb2.ANSWER_CUT_OFF),
        (chat_pb2.FINISH_REASON_SAFETY, error_pb2.ANSWER_WITHHELD),
    ],
)
def test_an_answer_cut_off_is_an_issue(ending: chat_pb2.FinishReason.ValueType, reason: int) -> None:
    for answer in ("Paris is the capital of France. [1]", ""):
        validation = validate("What is the capital of France?", CitedAnswer(answer, PASSAGES), ending)
        assert validation.issues[0].reason == reason
