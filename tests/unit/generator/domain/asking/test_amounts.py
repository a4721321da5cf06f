"""Questions for an amount or a time, and sentences that tell any."""

import pytest
from groundline.v1 import generator_service_pb2 as pb
from groundline_generator.domain.quoting.extraction import extract
from groundline_tests.generator.messages import numbered

OTTER = numbered(
    1,
    "The founder of the Otter club was born into a family of bakers. People of all kinds work at the Otter "
    "club. The house of the Otter club has a large hall. A room in the house of the Otter club is asked for "
    "by letter.",
)
FAMILY = numbered(
    2,
    "## Family leave\n\nIf you look after a new child, you can take up to 16 weeks of leave. "
    "You choose the weeks with your manager. Talk to your team about it early. "
    "All parental leave is taken within the first year.\n\n"
    "## Other leave\n\nMoving house gives two days of leave.",
)
VACATION = numbered(
    3,
    "# Leave\n\nWe offer 20 days of vacation and 11 holidays every year. "
    "Your vacation rolls over from year to year, up to a bank of 27 days in each year.",
)


def quotes(query: str, passage: pb.NumberedPassage) -> list[str]:
    return [each.text for each in extract(query, [passage], min_relevance=0.4, max_sentences=3).extracts]


@pytest.mark.parametrize(
    "query",
    [
        "When was the founder of the Otter club born?",
        "How many people work at the Otter club?",
        "How large is the house of the Otter club?",
        "What does a room in the house of the Otter club cost?",
    ],
)
def test_it_is_not_answered_by_sentences_without_any(query: str) -> None:
    assert quotes(query, OTTER) == []


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        ("When does the Otter club meet?", "The Otter club meets on Fridays."),
        ("How often does the Otter club meet?", "The Otter club meets regularly."),
        ("How long is the lease of the Otter club?", "The lease of the Otter club is unlimited."),
        ("How much does the Otter club cost?", "The Otter club is free."),
        ("Wann tagt der Otterverein?", "Der Otterverein tagt nach Ostern."),
        ("Was kostet der Otterverein?", "Der Otterverein ist kostenlos."),
        ("Wie lange dauert die Pacht des Ottervereins?", "Die Pacht des Ottervereins ist eine zehnjährige."),
    ],
)
def test_words_tell_it_as_well_as_figures(query: str, answer: str) -> None:
    assert quotes(query, numbered(1, answer)) == [answer]


def test_one_that_the_section_tells_beside_its_best_sentence_is_quoted_with_it() -> None:
    assert quotes("How long is parental leave?", FAMILY) == [
        "If you look after a new child, you can take up to 16 weeks of leave.",
        "All parental leave is taken within the first year.",
    ]


def test_how_much_there_is_comes_before_what_else_is_said_of_it() -> None:
    (best, *_) = quotes("How much paid vacation do I get per year?", VACATION)
    assert best == "We offer 20 days of vacation and 11 holidays every year."
