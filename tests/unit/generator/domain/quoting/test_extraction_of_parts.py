from functools import partial

import pytest
from groundline_generator.domain.quoting.extraction import extract
from groundline_tests.generator.messages import numbered

answers = partial(extract, min_relevance=0.4, max_sentences=3)

CAFE = numbered(1, "The café has 38 seats. It closes at 5 pm. A slice of cake costs 3 euros.", title="Café")
MUSEUM = numbered(2, "The museum opens at 10 am. Bags are put into lockers.", title="Museum")
MUSEUM_DE = numbered(3, "Das Museum öffnet um 10 Uhr. Taschen kommen in Schließfächer.", title="Museum")
CAFE_DE = numbered(4, "Das Café hat 38 Plätze. Es schließt um 17 Uhr.", title="Museumscafé")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("How many seats does the café have and when does the museum open?", {1: "38", 2: "10 am"}),
        ("When does the museum open? What does a slice of cake cost?", {1: "3 euros", 2: "10 am"}),
    ],
)
def test_each_part_of_a_question_is_answered_from_its_own_passage(
    query: str, expected: dict[int, str]
) -> None:
    answer = answers(query, [CAFE, MUSEUM])
    for number, words in expected.items():
        assert any(each.number == number and words in each.text for each in answer.extracts)
    assert answer.untold == ()
    assert len(answer.extracts) <= 4


def test_german_parts_are_answered_each() -> None:
    answer = answers("Wann öffnet das Museum und wie viele Plätze hat das Café?", [CAFE_DE, MUSEUM_DE])
    text = " ".join(each.text for each in answer.extracts)
    assert "10 Uhr" in text
    assert "38 Plätze" in text


def test_a_part_that_no_passage_answers_is_named() -> None:
    answer = answers("When does the museum open and who painted the ceiling in Lisbon?", [CAFE, MUSEUM])
    assert any("10 am" in each.text for each in answer.extracts)
    assert answer.untold == ("who painted the ceiling in Lisbon?",)


def test_a_question_none_of_whose_parts_is_answered_is_refused() -> None:
    answer = answers("Who painted the ceiling in Lisbon and when was it cleaned in Porto?", [CAFE, MUSEUM])
    assert answer.extracts == ()
    assert answer.untold == ()


def test_an_answer_is_as_sure_as_its_least_sure_part() -> None:
    first, second = "How many seats does the café have?", "when does the museum open?"
    both = answers(f"{first} And {second}", [CAFE, MUSEUM])
    parts = [answers(each, [CAFE, MUSEUM], max_sentences=2) for each in (first, second)]
    assert both.relevance == min(each.relevance for each in parts)
    assert both.likelihood == min(each.likelihood for each in parts)


@pytest.mark.parametrize("query", ["Who painted the ceiling in Lisbon?", "When does the museum open?"])
def test_a_question_that_is_asked_twice_is_one(query: str) -> None:
    once, twice = (answers(asked, [CAFE, MUSEUM]) for asked in (query, f"{query} {query}"))
    assert (twice.extracts, twice.untold) == (once.extracts, ())
