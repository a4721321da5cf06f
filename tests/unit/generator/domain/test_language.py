import pytest
from groundline_language import guess_language
from groundline_language.terms import content_terms


@pytest.mark.parametrize("text", ["", "12345", "Kubernetes PostgreSQL", "今日は雨です"])
def test_a_text_without_function_words_has_no_language(text: str) -> None:
    assert guess_language(text) is None


def test_an_address_is_of_no_language() -> None:
    links = (
        "- [Holiday List](https://github.com/a/b.md)\n- [Leave](http://b.com/les)\nwww.example.com de@b.com"
    )
    assert guess_language(links) is None
    assert guess_language(f"{links} and what it is") == "english"


def test_an_unknown_language_is_not_stemmed() -> None:
    assert content_terms("Les maisons bleues", None) == ["les", "maisons", "bleues"]


def test_inflections_share_a_stem() -> None:
    assert content_terms("running runs", "english") == ["run", "run"]
    assert content_terms("Häuser Haus", "german") == ["haus", "haus"]


def test_identifiers_yield_their_parts() -> None:
    assert {"max", "retri", "count"} <= set(content_terms("maxRetryCount", "english"))
    assert {"max", "retri", "count"} <= set(content_terms("max_retry_count", "english"))


def test_decimals_and_designations_are_terms() -> None:
    assert content_terms("2.4 Nm, DN-4", None) == ["2.4", "nm", "dn-4", "dn"]


def test_composed_and_decomposed_letters_are_equal() -> None:
    assert content_terms("Cafe\u0301", None) == content_terms("Caf\u00e9", None)


def test_text_without_spaces_is_read_in_pairs() -> None:
    assert content_terms("東京都", None) == ["東京", "京都"]


def test_shortened_verbs_of_english_are_no_terms() -> None:
    assert content_terms("Where can't I take my dog?", "english") == ["take", "dog"]
    assert content_terms("They won’t say what we've paid", "english") == ["say", "paid"]
