"""Words of a query within a text, and the part of the text to show."""

import pytest
from groundline_lexical import matches, snippet_span


def found(text: str, *queries: str, language: str = "english") -> list[str]:
    return [text[match.start : match.end] for match in matches(text, queries, language)]


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("The lease is renewed.", ""),
        ("The lease is renewed.", "the is"),
        ("Nothing of it.", "lease"),
        ("", "lease"),
        ("Release notes", "lease"),
    ],
)
def test_no_word_is_found_that_keyword_search_would_not_find(text: str, query: str) -> None:
    assert found(text, query) == []


@pytest.mark.parametrize(
    ("text", "query", "language", "expected"),
    [
        ("Leases, RENEWED daily; a lease.", "lease renewal renew", "english", ["Leases", "RENEWED", "lease"]),
        ("Die Häuser am Haus", "Haus", "german", ["Häuser", "Haus"]),
        ("call getLeaseTime or lease_time()", "lease", "english", ["getLeaseTime", "lease_time"]),
        ("utf8 und utf-8", "utf8", "simple", ["utf8", "utf", "8"]),
        ("ｆｕｌｌ width", "full", "english", ["ｆｕｌｌ"]),
        ("Renew\u00adal now", "renewal", "english", ["Renew\u00adal"]),
        ("e\u0301tude", "étude", "simple", ["e\u0301tude"]),
        ("東京都庁は新宿にある", "東京都の新宿", "simple", ["東京都", "新宿"]),
        ("車は車庫", "車", "simple", ["車", "車"]),
        ("説明book説明", "book", "simple", ["book"]),
    ],
)
def test_words_match_as_in_keyword_search(text: str, query: str, language: str, expected: list[str]) -> None:
    assert found(text, query, language=language) == expected


def test_words_of_every_query_are_found_in_their_order() -> None:
    assert found("alpha beta gamma", "gamma", "alpha") == ["alpha", "gamma"]


def test_matches_are_bounded() -> None:
    assert len(matches("lease " * 1000, ["lease"], "english")) == 200


def shown(text: str, query: str, limit: int = 100) -> str:
    start, end = snippet_span(text, matches(text, [query], "english"), limit)
    assert 0 <= start <= end <= len(text)
    assert end - start <= limit
    return text[start:end]


def test_a_short_text_is_shown_whole() -> None:
    assert shown("  A lease.\n", "lease") == "A lease."
    assert shown(" \n ", "lease") == ""


def test_without_a_match_the_beginning_is_shown_up_to_a_word() -> None:
    assert shown("word " * 100, "lease") == ("word " * 20).strip()
    assert shown("x" * 500, "lease") == "x" * 100


def test_the_part_with_most_of_the_words_is_shown_from_its_sentence_on() -> None:
    text = (
        "A lease first. " + "Filler words stand here. " * 20 + "A lease is a renewal. " + "More of it. " * 20
    )
    assert shown(text, "lease renewal").startswith("A lease is a renewal.")


def test_the_end_of_a_text_is_shown_in_full_length() -> None:
    text = "Filler words stand here. " * 20 + "The lease"
    found = shown(text, "lease")
    assert found.endswith("The lease")
    assert found.startswith("stand here. Filler")
