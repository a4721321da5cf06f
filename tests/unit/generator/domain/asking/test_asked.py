"""Words that name the kind of answer."""

import pytest
from groundline_generator.domain.asking.asked import asking_words
from groundline_generator.domain.quoting.extraction import extract
from groundline_tests.generator.messages import numbered


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("What kind of lock does the shed have?", "What kind"),
        ("In what year was the mill that is called Old Ned built?", "what year called"),
        ("Was war der Name der Mühle, und in welchem Jahr wurde sie gebaut?", "Name der welchem Jahr"),
        ("Wie lautet die Adresse, und wo findet der Kurs im Mai statt?", "lautet findet statt"),
        ("Wie viele Tage im Jahr ist die Mühle offen?", ""),
        ("Who found the key?", ""),
        ("Wer fand den Schlüssel?", ""),
    ],
)
def test_they_are_known_by_how_they_ask(query: str, words: str) -> None:
    assert asking_words(query) == words


@pytest.mark.parametrize(
    ("asking", "telling", "text"),
    [
        (
            "In what year was the mill built?",
            "In what style was the mill built?",
            "The mill was built in 1840.",
        ),
        ("Wie lautet der Preis der Karte?", "Wie steigt der Preis der Karte?", "Preis der Karte: 4 Euro."),
    ],
)
def test_a_sentence_that_answers_need_not_repeat_them(asking: str, telling: str, text: str) -> None:
    def relevance(query: str) -> float:
        return extract(query, [numbered(1, text)], min_relevance=0.2, max_sentences=1).relevance

    assert relevance(asking) > relevance(telling)
