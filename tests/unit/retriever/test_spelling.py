"""Misspelled words of a query, and the words of passages that they stand for."""

import pytest
from groundline_retriever.wording.spelling import Suspect, corrected, distance_within, suspects

PASSAGE = "A replica that lost its lease stops serving reads. The broker certificate is renewed from Galway."


def found(query: str, *texts: str, language: str = "english") -> list[tuple[str, str]]:
    return [(each.given, each.used) for each in suspects(query, texts or (PASSAGE,), {language})]


@pytest.mark.parametrize(
    "query",
    [
        "",
        "lease of a replica",
        # Inflected, so that keyword search finds it.
        "renewing leases and certificates",
        # Stop words, also of other languages, and one that would become one.
        "wann welche",
        "where would they have been",
        "a form",
        # Short, a name with figures, an identifier, another script.
        "los lease2 lease_tme 複製された証明書",
        # No word of the passages is near enough, or the near one has another first letter.
        "quarterly balance",
        "release",
        # A short word with two wrong letters.
        "laeze",
        "laessx",
        # More wrong words than a typing error explains.
        "leasse replicca brokker certificatte",
    ],
)
def test_a_word_is_left_as_it_is(query: str) -> None:
    assert found(query) == []


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("the leaes", [("leaes", "lease")]),
        ("Brokr Certifcate", [("Brokr", "Broker"), ("Certifcate", "Certificate")]),
        ("repplica", [("repplica", "replica")]),
        ("certficat", [("certficat", "certificate")]),
        ("gallway GALLWAY", [("gallway", "galway")]),
        ("GALLWAY", [("GALLWAY", "GALWAY")]),
    ],
)
def test_a_wrong_word_is_the_nearest_of_the_passages(query: str, expected: list[tuple[str, str]]) -> None:
    assert found(query) == expected


def test_of_words_equally_near_the_most_frequent_is_taken() -> None:
    assert found("grast", "grant grast", "x") == []
    assert found("grabt", "graft graft grant") == [("grabt", "graft")]
    assert found("leter", "later later letter") == [("leter", "letter")], "one with the same letters before"


def test_a_word_that_only_questions_have_is_no_mistake() -> None:
    assert found("what am I not supposed to keep", "A fuse is supplied to keep.") == []
    assert found("Wessen Garten?", "Der Garten liegt im Westen.", language="german") == []


def test_an_infinitive_is_no_mistake_beside_the_same_with_a_particle() -> None:
    texts = "Es ist verboten, Hunde mitzubringen.", "Bitte Hunde mitbringen."
    for query, text in (("mitbringen", texts[0]), ("mitzubringen", texts[1])):
        assert found(query, text, language="german") == []
    assert found("mitzubrimgen", texts[0], language="german") == [("mitzubrimgen", "mitzubringen")]


def test_without_passages_nothing_is_corrected() -> None:
    assert suspects("leaes", [], {"english"}) == []


def test_the_language_tells_which_words_are_inflected_and_which_are_stopped() -> None:
    text = "Die Häuser stehen weit von hier"
    assert found("Haus wiet", text, language="german") == [("wiet", "weit")]
    assert found("Hasuer", text, language="german") == []


def test_words_are_replaced_whole_and_wherever_they_are() -> None:
    used = [Suspect("Leaes", "Lease")]
    assert corrected("Leaes, leaes_time (leaes) of releaes", used) == "Lease, leaes_time (Lease) of releaes"


@pytest.mark.parametrize(
    ("one", "other", "limit", "expected"),
    [
        ("lease", "lease", 0, 0),
        ("lease", "leaes", 1, 1),
        ("lease", "lese", 1, 1),
        ("lease", "leasse", 1, 1),
        ("lease", "leape", 1, 1),
        ("lease", "laees", 1, None),
        ("lease", "laees", 2, 2),
        ("lease", "releases", 2, None),
        ("", "ab", 2, 2),
    ],
)
def test_mistakes_are_counted_up_to_a_limit(one: str, other: str, limit: int, expected: int | None) -> None:
    assert distance_within(one, other, limit) == expected
    assert distance_within(other, one, limit) == expected


def test_another_ending_is_no_mistake() -> None:
    text = "Urlaub wird im System beantragt"
    assert found("beantragen", text, language="german") == []
    assert found("beantraft", text, language="german") == [("beantraft", "beantragt")]
