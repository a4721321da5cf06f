"""Questions that rules make of sentences."""

import pytest
from groundline_cli.evaluation.making.drafting import draft, drafts


@pytest.mark.parametrize(
    "sentence",
    [
        "Ask your team lead if nothing else helps you here.",
        "Wait 5 days.",
        "It has to be sent back within 30 days of the trip.",
        "The limits of the hotels in 5 cities",
        "word " * 50 + "and 30 days.",
    ],
)
def test_a_sentence_that_names_nothing_or_cannot_stand_alone_has_no_question(sentence: str) -> None:
    assert draft("d", sentence) is None


@pytest.mark.parametrize(
    ("sentence", "question", "answer"),
    [
        (
            "Full-time employees have 27 working days of paid annual leave, besides public holidays.",
            "How many working days of paid annual leave do full-time employees have?",
            "27 working days",
        ),
        ("The guarantee is 36 months, or 24 for small ones.", "What is the guarantee?", "36 months"),
        (
            "Der Zuschuss für eine Brille beträgt 180 Euro im Jahr.",
            "Wie hoch ist der Zuschuss für eine Brille?",
            "180 Euro",
        ),
        (
            "Carried over days have to be taken by 31 March of the year.",
            "What is missing here: “Carried over days have to be taken by … of the year.”",
            "31 March",
        ),
        (
            "If the lamp is red then order KL-4110-PH from us.",
            "What is missing here: “If the lamp is red then order … from us.”",
            "KL-4110-PH",
        ),
        (
            "Die Übertragung muss bis zum 30. Juni beantragt werden.",
            "Was fehlt hier: „Die Übertragung muss bis zum … beantragt werden.“",
            "30. Juni",
        ),
        (
            "Questions about this are answered by Mary Jane Smith in person.",
            "What is missing here: “Questions about this are answered by … in person.”",
            "Mary Jane Smith",
        ),
    ],
)
def test_a_question_asks_for_what_the_sentence_names(sentence: str, question: str, answer: str) -> None:
    found = draft("d", sentence)
    assert found is not None
    assert (found.question, found.answer, found.sentence) == (question, answer, sentence)


def test_documents_take_turns_and_tables_headings_and_code_are_left_out() -> None:
    prose = "- The first limit is 10 EUR a day for all. The second limit is 20 EUR a day for all."
    hidden = (
        "# A heading of 30 EUR a day for all.\n| a table | 40 EUR a day |\n    code of 50 EUR a day for us."
    )
    found = list(drafts([("a", f"{hidden}\n{prose}"), ("b", "The third limit is 30 EUR a day for all.")]))
    assert [(one.uri, one.answer) for one in found] == [("a", "10 EUR"), ("b", "30 EUR"), ("a", "20 EUR")]
    assert len({one.draft_id for one in found}) == 3
