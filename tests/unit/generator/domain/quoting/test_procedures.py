"""A question of what to do is answered by the steps under the heading that names it."""

from collections.abc import Sequence
from functools import partial

import pytest
from groundline.v1 import generator_service_pb2 as pb
from groundline_generator.domain.quoting.extraction import Extract, extract
from groundline_tests.generator.messages import numbered

answers = partial(extract, min_relevance=0.3, max_sentences=3)

ALERTS = numbered(
    1,
    "# Alerts\n\nIf the consumers are gone, the database has failed over or is full. Tell the database team.",
    title="Runbook: alerts",
)
FAILOVER = numbered(
    2,
    "## What happens\n\nFailing over takes a minute.\n\n"
    "## Failing over by hand\n\n"
    "The database does not do it alone.\n\n"
    "1. Fence the old primary. Without it, do not go on.\n"
    "2. Promote the replica:\n\n```\ndbctl promote --zone b\n```\n\n"
    "3. Watch the lag until it is\n   below a second.\n\n"
    "It is done.\n\n"
    "## Rolling back\n\n1. Stop the writers.\n2. Load the backup.\n",
    title="Runbook: the database",
)
URLAUB = numbered(
    3,
    "## Urlaub beantragen\n\n1. Öffne die Zeiterfassung.\n2. Trage die Tage ein.\n3. Warte auf die Zusage.\n",
    title="Handbuch",
)
PASSAGES = [ALERTS, FAILOVER, URLAUB]
QUESTION = "How do I fail over the database?"


def quoted(query: str, passages: Sequence[pb.NumberedPassage] = PASSAGES) -> Sequence[str]:
    return [each.text for each in answers(query, passages).extracts]


@pytest.mark.parametrize(
    "query", ["How do I sell the database?", "How do I install a DN-7?", "How do I bake bread?"]
)
def test_steps_for_something_else_do_not_answer(query: str) -> None:
    assert not any("primary" in each or "writers" in each for each in quoted(query))


def test_steps_of_the_thing_that_is_named_do_not_answer_what_else_is_asked_of_it() -> None:
    text = "## First use\n\n1. Charge the battery.\n2. Hold the magnet to the lid.\n"
    extraction = answers("How do I replace the battery of a DN-4?", [numbered(1, text, title="DN-4: manual")])
    assert all(each.step == 0 for each in extraction.extracts)


def test_steps_of_another_model_do_not_answer() -> None:
    steps = "## Changing the battery\n\n1. Open the {name}.\n2. Take it out.\n"
    passages = [
        numbered(number, steps.format(name=name), title=f"{name}: manual")
        for number, name in enumerate(("DN-6", "DN-4"), start=1)
    ]
    extracts = answers("How do I change the battery of a DN-4?", passages).extracts
    assert [(each.number, each.text) for each in extracts] == [(2, "Open the DN-4."), (2, "Take it out.")]


@pytest.mark.parametrize("query", ["How long does it take to fail over the database?", "Who has the lag?"])
def test_a_question_that_asks_no_steps_gets_single_sentences(query: str) -> None:
    assert all(each.step == 0 for each in answers(query, PASSAGES).extracts)


def test_all_steps_come_in_their_order_with_the_code_between_them_from_one_passage() -> None:
    assert answers(QUESTION, PASSAGES).extracts == (
        Extract(2, "Fence the old primary.", False, 1),
        Extract(2, "Without it, do not go on.", False, 1),
        Extract(2, "Promote the replica:", False, 2),
        Extract(2, "dbctl promote --zone b", True, 2),
        Extract(2, "Watch the lag until it is below a second.", False, 3),
    )


def test_a_question_in_german_gets_the_steps_of_a_german_text() -> None:
    assert quoted("Wie kann ich Urlaub beantragen?") == [
        "Öffne die Zeiterfassung.",
        "Trage die Tage ein.",
        "Warte auf die Zusage.",
    ]


def test_the_steps_under_the_heading_that_says_most_of_the_question_are_taken() -> None:
    assert quoted("How do I roll the database back?") == ["Stop the writers.", "Load the backup."]


def test_a_long_procedure_is_cut_after_twelve_sentences() -> None:
    steps = "\n".join(f"{number}. Turn screw {number}." for number in range(1, 20))
    passage = numbered(1, f"## Opening the cover\n\n{steps}\n", title="Manual")
    assert quoted("How do I open the cover?", [passage]) == [f"Turn screw {n}." for n in range(1, 13)]


def test_where_one_sentence_is_wanted_no_steps_are_quoted() -> None:
    assert len(extract(QUESTION, PASSAGES, min_relevance=0.3, max_sentences=1).extracts) == 1


def test_steps_of_another_passage_than_the_best_sentence_have_no_lead() -> None:
    first = numbered(1, "The database failed over by hand. We fail over databases by hand.", title="Database")
    extraction = answers(QUESTION, [first, FAILOVER])
    assert extraction.extracts[0].step == 1
    assert extraction.likelihood <= answers(QUESTION, [FAILOVER]).likelihood
