"""Questions in one language, and passages in another."""

from collections.abc import Sequence
from functools import partial

import pytest
from groundline.v1 import generator_service_pb2 as pb
from groundline_generator.domain.quoting.extraction import extract
from groundline_tests.generator.messages import numbered

answers = partial(extract, min_relevance=0.4, max_sentences=3)


def quotes(query: str, passages: Sequence[pb.NumberedPassage]) -> list[str]:
    return [each.text for each in answers(query, passages).extracts]


KIEL = numbered(
    1,
    "# Urlaub am Standort Kiel\n\n"
    + "Vollzeitbeschäftigte haben Anspruch auf 30 Arbeitstage Erholungsurlaub im Jahr. "
    + "Der Antrag wird bei der Teamleitung gestellt und von ihr entschieden.",
    title="Urlaub am Standort Kiel",
)
GALWAY = numbered(
    2,
    "# Leave\n\nThe staff in Galway has 27 days of annual leave. Colleagues in Kiel have their own page.",
    title="Leave in Galway",
)


@pytest.mark.parametrize(
    "query", ["How many vacation days do staff in Oslo get?", "How many chairs are in Kiel?"]
)
def test_a_question_that_the_other_language_does_not_answer_is_refused(query: str) -> None:
    assert quotes(query, [KIEL, GALWAY]) == []


def test_a_text_in_the_other_language_answers() -> None:
    (best, *_) = quotes("How many vacation days do staff in Kiel get?", [GALWAY, KIEL])
    assert best.startswith("Vollzeitbeschäftigte haben Anspruch auf 30 Arbeitstage")
    (best, *_) = quotes("Wie viele Urlaubstage hat man in Galway?", [KIEL, GALWAY])
    assert best == "The staff in Galway has 27 days of annual leave."


def test_a_similarity_counts_between_languages_where_the_model_knows_both() -> None:
    def relevance(similarity: float, *, crosses: bool) -> float:
        passage = numbered(1, KIEL.text, similarity=similarity, similarity_crosses_languages=crosses)
        return answers("Who decides about time off in Kiel?", [passage]).relevance

    assert relevance(0.9, crosses=False) == relevance(0.1, crosses=False)
    assert relevance(0.1, crosses=True) < 0.4 < relevance(0.9, crosses=True)


@pytest.mark.parametrize(("places", "is_answered"), [("Kiel, Germany", True), ("Bergen, Norway", False)])
def test_one_of_several_names_is_enough_in_another_language(places: str, is_answered: bool) -> None:
    assert bool(quotes(f"How many vacation days do staff in {places} get?", [KIEL])) is is_answered


@pytest.mark.parametrize(
    ("subject", "is_answered"), [("Deutschland", True), ("Soldaten", True), ("Norwegen", False)]
)
def test_a_subject_is_known_by_what_the_other_language_calls_it(subject: str, is_answered: bool) -> None:
    text = "The army of Germany was rebuilt. Half of its soldiers came from the west of the country."
    assert (
        bool(quotes(f"Wie viele Wachen der Armee kamen aus {subject}?", [numbered(1, text)])) is is_answered
    )


def test_a_name_is_not_known_by_a_part_of_it() -> None:
    text = "The army of Germany was rebuilt. Half of its soldiers came from the west, where a castle stands."
    assert quotes("Wie viele Wachen der Armee kamen aus Norwegen?", [numbered(1, text)]) == []
    assert quotes("Wie viele Wachen der Armee kamen aus Hamburg?", [numbered(1, text)]) == []


def test_words_that_two_languages_share_are_the_same_word_in_both() -> None:
    text = (
        "Insulin ist ein Hormon der Wirbeltiere. Banting isolierte es als Erster. Heute ist das anders. "
        "Die Produktion ist in der Zelle von Glukose abhängig."
    )
    quoted = quotes("What does the production of insulin in a cell depend on?", [numbered(1, text)])
    assert "Die Produktion ist in der Zelle von Glukose abhängig." in quoted


@pytest.mark.parametrize(
    ("query", "text", "answer"),
    [
        (
            "Which suppliers are selected by the purchasing department?",
            "Sie gelten ein Jahr. Lieferanten werden von der Abteilung Beschaffung ausgewählt.",
            "Lieferanten werden von der Abteilung Beschaffung ausgewählt.",
        ),
        (
            "What is the deadline for submitting travel expenses?",
            "Wir danken. Reisekosten sind innerhalb einer Frist von 30 Tagen einzureichen.",
            "Reisekosten sind innerhalb einer Frist von 30 Tagen einzureichen.",
        ),
        (
            "Wie wird der Notausgang während der Bauarbeiten gekennzeichnet?",
            "The yard is closed. During roadworks the emergency exit has a green label. Ask the janitor.",
            "During roadworks the emergency exit has a green label.",
        ),
    ],
)
def test_compounds_and_verb_forms_are_known_in_the_other_language(query: str, text: str, answer: str) -> None:
    assert answer in quotes(query, [numbered(1, text)])


def test_a_known_compound_is_no_word_of_the_other_language_that_it_begins_with() -> None:
    probe = numbered(1, "The older pH probe is no longer made. Its successor fits all models.", title="Parts")
    leave = numbered(2, "Leave is earned during the probation period of six months.", title="Leave")
    assert quotes("Wie lange ist die Probezeit?", [probe, leave]) == [leave.text]


def test_a_word_that_only_joins_others_does_not_count_against_an_answer() -> None:
    text = "Ein Zelt ist ohne Werkzeug aufzubauen. Danke."

    def relevance(query: str) -> float:
        return answers(query, [numbered(1, text)]).relevance

    assert relevance("Is a tent built without tools?") == relevance("Is a tent built despite tools?")
    assert relevance("Is a tent built without tools?") > relevance("Is a tent built quickly tools?")


def test_beside_a_sentence_in_the_question_s_language_none_in_another_is_quoted() -> None:
    leave = numbered(
        2, "Full-time employees have 27 working days of paid annual leave in a year.", title="Leave"
    )
    quoted = quotes("Wie viele Urlaubstage haben Vollzeitbeschäftigte in Kiel?", [KIEL, leave])
    assert quoted[0].startswith("Vollzeitbeschäftigte haben Anspruch auf 30 Arbeitstage")
    assert not any(each.startswith("Full-time") for each in quoted)
