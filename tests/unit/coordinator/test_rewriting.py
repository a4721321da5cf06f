"""Which questions are rewritten, and what the workflow makes of a rewriting."""

import pytest
from groundline.v1 import chat_pb2, options_pb2
from groundline_coordinator.domain.rewriting import (
    further_searches,
    is_complex,
    is_follow_up,
    wants_rewriting,
)
from groundline_tests.coordinator.fakes import rewrite

QUICK, BALANCED, THOROUGH = (
    options_pb2.EFFORT_QUICK,
    options_pb2.EFFORT_BALANCED,
    options_pb2.EFFORT_THOROUGH,
)
HISTORY = (
    chat_pb2.ChatMessage(role=chat_pb2.ChatMessage.USER, content="How long is parental leave in Kiel?"),
    chat_pb2.ChatMessage(role=chat_pb2.ChatMessage.ASSISTANT, content="A year."),
)


@pytest.mark.parametrize(
    "query",
    [
        "And in Hamburg?",
        "What about the contractors of the Hamburg office?",
        "Why?",
        "Who approves it when the manager is away?",
        "Where do they file the form for the office?",
        "Und wie ist es im Büro in Hamburg geregelt?",
        "Wer genehmigt das bei längerer Abwesenheit?",
        "Gilt dies auch für Werkstudenten im Sommer?",
        "¿Y en Hamburgo?",
    ],
)
def test_a_question_that_leans_on_the_conversation_is_a_follow_up(query: str) -> None:
    assert is_follow_up(query, HISTORY)
    assert not is_follow_up(query, ())


@pytest.mark.parametrize(
    "query",
    [
        "How many days of annual leave does an employee have?",
        "Wie viele Urlaubstage hat ein Angestellter im Jahr?",
        "Which port does the gateway listen on by default?",
    ],
)
def test_a_question_that_stands_alone_is_none(query: str) -> None:
    assert not is_follow_up(query, HISTORY)
    assert not is_complex(query)
    assert not wants_rewriting(BALANCED, query, HISTORY)
    assert not wants_rewriting(options_pb2.EFFORT_UNSPECIFIED, query, HISTORY)


@pytest.mark.parametrize(
    "query",
    [
        "Who approves leave? And who pays for travel?",
        "Compare the DN4 and the DN6.",
        "What is the difference between the DN4 and the DN6?",
        "Is the DN6 heavier than the DN4?",
        "DN4 vs DN6 battery life",
        "What is the DN4 and how is it cleaned?",
        "Was ist der Unterschied zwischen DN4 und DN6?",
        "Wer genehmigt Urlaub und wie wird er beantragt?",
        "Was kostet ein Platz, und ab wie vielen Leuten gilt der Rabatt?",
    ],
)
def test_comparisons_and_several_questions_are_complex(query: str) -> None:
    assert is_complex(query)
    assert wants_rewriting(BALANCED, query, ())
    assert wants_rewriting(THOROUGH, query, ())
    assert not wants_rewriting(QUICK, query, ())


@pytest.mark.parametrize("effort", [QUICK, BALANCED, THOROUGH])
def test_a_follow_up_is_rewritten_with_any_effort(effort: options_pb2.Effort.ValueType) -> None:
    assert wants_rewriting(effort, "And in Kiel?", HISTORY)


@pytest.mark.parametrize(
    ("effort", "parts", "searches"),
    [(QUICK, 2, 0), (BALANCED, 0, 0), (BALANCED, 2, 1), (THOROUGH, 0, 2), (THOROUGH, 2, 2)],
)
def test_effort_and_the_parts_of_a_question_decide_how_often_more_is_searched_for(
    effort: options_pb2.Effort.ValueType, parts: int, searches: int
) -> None:
    asked = rewrite("What is alpha?", *(f"part {number}" for number in range(parts)))
    assert further_searches(effort, asked) == searches
