"""Questions for what is not so, and sentences that say it."""

from functools import partial

import pytest
from groundline_generator.domain.asking.negations import (
    asks_what_is_not,
    contraries,
    denies,
    denying_words,
    light_words,
    places,
)
from groundline_generator.domain.forms import verb_forms
from groundline_generator.domain.quoting.extraction import extract
from groundline_tests.generator.messages import numbered

answers = partial(extract, min_relevance=0.38, max_sentences=3)

MANY = 50_000
"""Repetitions of a word; what takes the square of them does not end within the time that a test has."""


@pytest.mark.parametrize(
    ("query", "is_asked"),
    [
        ("What must not go into the yellow bin?", True),
        ("What is not to go there, and who may look?", True),
        ("What does not float?", True),
        ("You may come. It is not far.", False),
        ("not " * MANY, False),
        ("may " * MANY, False),
        ("may " * MANY + "not", True),
        ("not. may. " * MANY, False),
        ("what " + "a " * MANY + "not", True),
        ("n't" * MANY, False),
        ("!" * MANY + "what", False),
        ("what" + " " * MANY + "if not", False),
    ],
    ids=lambda value: value[:24] if isinstance(value, str) else None,
)
def test_a_question_of_any_length_is_told_from_one_for_what_is_so(query: str, is_asked: bool) -> None:
    assert asks_what_is_not(query) is is_asked


def test_words_that_deny_are_found_in_texts_of_any_length() -> None:
    assert denying_words("not " * MANY).split() == ["not"] * MANY
    assert denies("x" * MANY + "n't")
    assert not denies("n " * MANY)


PUMP = numbered(
    1,
    "The pump moves rainwater and pool water. It is unsuitable for salt water and sewage.",
    title="Garden pump GP 40",
)
BIN = numbered(
    2,
    "In die Biotonne gehören Obst und Gemüse. Knochen gehören nicht hinein. Sie wird montags geleert.",
    title="Müll",
)
LEAFLET = numbered(
    3,
    "The cover includes theft. The cover does not extend to tyres. Tuesday calls are answered by Mia Lund. "
    "The offer was declined by the tenants. Der Vorschlag der Mieter wurde von Paul Beck abgelehnt.",
    title="Leaflet",
)


@pytest.mark.parametrize(
    ("query", "said", "never"),
    [
        # Beside what is so stands what is not, of the same thing, in fewer words of the question.
        ("Was gehört nicht in die Biotonne?", "Knochen", "Obst"),
        ("Was gehört in die Biotonne?", "Obst", ""),
        ("What does the cover not extend to?", "tyres", "theft"),
        # A prefix denies as well as a "not" does.
        ("What is the pump GP 40 not suitable for?", "salt water", ""),
        ("What is the pump GP 40 suitable for?", "rainwater", ""),
        # So do verbs.
        ("Who rejected the offer?", "declined by the tenants", ""),
        ("Can you tell me which tyres the cover doesn't extend to?", "does not extend to tyres", "theft"),
    ],
)
def test_what_is_not_so_is_told_by_the_sentence_beside_what_is(query: str, said: str, never: str) -> None:
    quoted = " ".join(each.text for each in answers(query, [PUMP, BIN, LEAFLET]).extracts)
    assert said in quoted
    assert not never or never not in quoted


@pytest.mark.parametrize(
    ("words", "wanted", "found"),
    [
        ("unsuit weather", "suitabl pump", "suitabl"),
        ("ungeeignet", "geeignet", "geeignet"),
        ("under unit", "der it", ""),
        ("suitabl", "unsuit", ""),
    ],
)
def test_contraries_are_known_by_their_prefix(words: str, wanted: str, found: str) -> None:
    assert contraries(words.split(), wanted.split()) == frozenset(found.split())


KITA = numbered(
    4,
    "Die Kinder haben Hausschuhe. Nicht mitgebracht werden sollen Nüsse. Kinder werden um 7 Uhr gebracht.",
    title="Kita",
)
POST = numbered(5, "Loose cells must not be sent. Letters weigh 20 grams.", title="Post")


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("Was soll man nicht in die Kita mitbringen?", "Nüsse"),
        ("What can I not send by post?", "Loose cells"),
    ],
)
def test_what_must_not_be_done_is_said_by_a_participle(query: str, said: str) -> None:
    assert said in answers(query, [POST, KITA, BIN]).extracts[0].text


@pytest.mark.parametrize(
    ("term", "words", "language", "found"),
    [
        ("mitbring", "mitgebracht gebracht mitbracht", "german", "mitgebracht"),
        ("gebohrt", "bohr bohne", "german", "bohr"),
        ("verbiet", "verboten verbot verbietet", "german", "verbot"),
        ("setz", "gesetz gesetzt", "german", "gesetzt"),
        ("gegess", "ess", "german", "ess"),
        ("ge" + "x" * 50 + "t", "x" * 50, "german", ""),
        ("wear", "worn wore weary", "english", "worn wore"),
        ("sent", "send sand", "english", "send"),
        ("wear", "worn", "french", ""),
    ],
)
def test_forms_of_verbs_that_no_ending_tells(term: str, words: str, language: str, found: str) -> None:
    assert verb_forms(term, words.split(), language) == frozenset(found.split())


CARS = numbered(
    6,
    "Smoking is forbidden in all cars. Roof boxes may be fitted, bicycle racks may not. "
    "The warranty covers all parts, excluding the battery.",
    title="Lowick Car Share",
)
LOCKERS = numbered(
    7,
    "You may bring a laptop to your desk. Pens and scissors must stay outside. Cameras are out of bounds.",
    title="Reading room",
)
HALL = numbered(
    8,
    "Kaugummi ist in der Halle unerwünscht. Die Sauna kann von allen genutzt werden. "
    "Für Hunde gilt ein Verbot. Auf den Balkonen ist das Grillen verboten. "
    "Kinderwagen können im Hausflur stehen.",
    title="Hausordnung",
)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("What must not be taken to my desk in the reading room?", "Pens and scissors"),
        ("Which part does the warranty exclude?", "excluding the battery"),
        ("Wer darf nicht hinein? Für welche Tiere gilt ein Verbot?", "Für Hunde"),
        # A question that names only the subject of a document is answered by what it forbids.
        ("What is forbidden with Lowick Car Share?", "Smoking"),
    ],
)
def test_what_is_not_allowed_is_said_in_many_words(query: str, said: str) -> None:
    assert said in " ".join(each.text for each in answers(query, [CARS, LOCKERS, HALL]).extracts)


@pytest.mark.parametrize(
    "query",
    [
        # The document forbids something, but nothing of these.
        "On which roads are the cars of Lowick Car Share banned?",
        "Which songs must not be sung in the reading room?",
        # Beside what is so in one place stands what is not so in another.
        "Was darf nicht im Hausflur abgestellt werden?",
    ],
)
def test_another_prohibition_of_the_same_document_is_no_answer(query: str) -> None:
    assert not answers(query, [CARS, LOCKERS, HALL]).extracts


def test_places_and_verbs_that_say_little_are_found_in_texts_of_any_length() -> None:
    assert places("Smoking in the hall is fine. Im kleinen Saal nicht.") == "in the hall is Im kleinen Saal"
    assert places("in the " * MANY)
    assert not places("in " + "a" * MANY)
    assert light_words("Where do I take it?").split() == ["do", "take"]
