from functools import partial

import pytest
from groundline_generator.domain.quoting.extraction import extract
from groundline_tests.generator.messages import numbered

answers = partial(extract, min_relevance=0.4, max_sentences=3)

OPENING = numbered(
    1,
    "Carla Brandes eröffnete den Radweg am Hafen Altona im Mai. Er ist vier Kilometer lang. "
    "Die DSGVO gilt auch für die Zählstelle am Radweg.",
    title="Radweg",
)


@pytest.mark.parametrize(
    "query",
    [
        "Wann eröffnete Carla Brandes den Radweg?",
        "Wann eröffnete Carla Brandis den Radweg?",
        "Gilt die DSGVO-Regel für die Zählstelle am Radweg?",
        "Wann eröffnete Frau Architektin Carla Brandes den Radweg?",
    ],
)
def test_a_german_question_about_names_that_are_there_is_answered(query: str) -> None:
    assert answers(query, [OPENING]).extracts


@pytest.mark.parametrize(
    "query",
    ["Wann eröffnete Sven Petersson den Radweg?", "Gilt die TVÖD-Regel für die Zählstelle am Radweg?"],
)
def test_a_german_question_about_other_names_is_refused(query: str) -> None:
    assert not answers(query, [OPENING]).extracts


def test_a_similarity_counts_less_if_its_model_may_not_know_german() -> None:
    def relevance(similarity: float, *, crosses: bool) -> float:
        passage = numbered(1, OPENING.text, similarity=similarity, similarity_crosses_languages=crosses)
        return answers("Wer eröffnete den Radweg am Hafen?", [passage]).relevance

    unknown, known = (relevance(0.9, crosses=each) - relevance(0.1, crosses=each) for each in (False, True))
    assert 0 < unknown < known
