"""Words and terms: inflections meet, stop words do not count, and each language has its own rules."""

import pytest
from groundline_lexical import (
    MAXIMUM_SEARCHED_TERMS,
    STEMMED,
    TERMS,
    searched_terms,
    searched_words,
    stored_terms,
    stored_words,
)


def test_inflections_meet_and_stop_words_do_not_count() -> None:
    assert stored_words("the policies of travelling", "english") == stored_words("policy travel", "english")
    assert searched_words("What are the policies?", "english") == stored_words("policy", "english")


def test_a_query_of_stop_words_is_empty() -> None:
    assert searched_words("what is the", "english") == ""
    assert searched_words("Was ist das für ein?", "german") == ""


@pytest.mark.parametrize(
    ("language", "words", "expected"),
    [
        ("german", "die mühle an dem fluss", "muhl fluss"),
        ("french", "le moulin dans la ville", "moulin vill"),
        ("russian", "мельница и река", "мельниц рек"),
    ],
)
def test_each_language_has_stop_words_of_its_own(language: str, words: str, expected: str) -> None:
    assert stored_words(words, language) == expected


@pytest.mark.parametrize("language", sorted(STEMMED))
def test_no_language_fails_for_want_of_a_list(language: str) -> None:
    assert stored_words("groundline", language)


@pytest.mark.parametrize("language", ["simple", "polish", "klingon"])
def test_without_a_stemmer_words_stay(language: str) -> None:
    assert stored_words("the policies", language) == "the policies"


def test_identifiers_are_found_by_their_parts() -> None:
    assert "config" in searched_words("parseConfig", "english").split()


def test_terms_of_a_text_are_counted() -> None:
    counts = stored_terms("the lease of the leader leases a reader", "english")
    [lease] = searched_terms("leases", "english")
    assert counts[lease] == 2
    assert sum(counts.values()) == 4
    assert all(0 <= term < TERMS for term in counts)


def test_a_query_has_each_term_once_and_a_bounded_number_of_them() -> None:
    assert len(searched_terms("policy, policies and the policy", "english")) == 1
    assert searched_terms("what is the", "english") == []
    assert len(searched_terms(" ".join(f"word{number}" for number in range(500)), "simple")) == (
        MAXIMUM_SEARCHED_TERMS
    )
