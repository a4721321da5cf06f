import pytest
from groundline_language.concepts import alike, is_grammatical, is_known, is_known_whole, related, translated
from groundline_language.terms import content_terms


def test_an_unknown_word_means_no_other() -> None:
    assert related("xylophon", "english", "german") == frozenset()
    assert translated("Xylophone?", "english") == ""
    assert translated("¿Cuántas vacaciones?", None) == ""


def test_words_of_one_thing_are_related_within_and_across_languages() -> None:
    assert "leav" in related("vacat", "english", "english")
    assert "urlaub" in related("vacat", "english", "german")
    assert "vacat" not in related("vacat", "english", "english")


def test_words_of_one_line_of_the_vocabulary_are_alike_but_for_those_that_only_join_others() -> None:
    assert "skript" in alike("drehbuch", "german")
    assert alike("troop", "english") == {"soldier"}
    assert alike("nothing", "english") == frozenset()
    assert alike("drehbuch", None) == frozenset()


def test_common_words_are_related_across_languages_only() -> None:
    assert related("soldat", "german", "english") == {"soldier", "troop"}
    assert "rechnung" in related("invoic", "english", "german")
    assert "soldat" in related("troop", "english", "german")
    assert related("troop", "english", "english") == frozenset()
    assert translated("Troops?", "english") == "soldat"


def test_a_german_compound_means_what_its_parts_mean() -> None:
    assert {"vacat", "day"} <= related("urlaubstag", "german", "english")
    assert {"war", "ship"} <= related("kriegsschiff", "german", "english")


def test_an_english_compound_of_two_known_words_means_what_they_mean_in_german() -> None:
    assert {"reg", "wald"} <= related("rainforest", "english", "german")
    assert related("rainforest", "english", "english") == frozenset()


@pytest.mark.parametrize("word", ["ausgewählt", "auszuwählen", "gespielt"])
def test_forms_of_german_verbs_that_begin_in_another_way_are_known(word: str) -> None:
    (term,) = content_terms(word, "german")
    assert related(term, "german", "english")


def test_a_word_that_the_other_language_has_no_term_for_is_grammatical() -> None:
    assert is_grammatical("without", "english", "german")
    assert is_grammatical("darub", "german", "english")
    assert not is_grammatical("invoic", "english", "german")
    assert not is_grammatical("xylophon", "english", "german")
    assert not is_grammatical("without", "english", "french")


@pytest.mark.parametrize(
    ("query", "language", "words"),
    [
        ("How much vacation in Kiel?", "english", {"urlaub", "Kiel"}),
        ("Wie lange gilt die Garantie für den X2?", "german", {"guarantee", "X2"}),
    ],
)
def test_a_question_is_translated_word_by_word(query: str, language: str, words: set[str]) -> None:
    assert words <= set(translated(query, language).split())


@pytest.mark.parametrize(("word", "known"), [("Rechnung", True), ("Hafermilch", True), ("Peyton", False)])
def test_a_compound_of_a_known_word_is_known(word: str, known: bool) -> None:
    assert is_known(word, "german") == known


@pytest.mark.parametrize(
    ("term", "known"), [("burg", True), ("hafenstadt", True), ("hamburg", False), ("burghaus", True)]
)
def test_a_part_of_a_word_does_not_make_it_known(term: str, known: bool) -> None:
    assert is_known_whole(term, "german") == known
