"""Text for the index and for the query."""

import pytest
from groundline_lexical.text import MAX_QUERY_WORDS, MAX_SUB_TOKENS, lexical_text, searched_text
from hypothesis import given
from hypothesis import strategies as st


def indexed(text: str) -> list[str]:
    return lexical_text(text, context="", title="", uri="").split()


@pytest.mark.parametrize(
    "query", ["", " \t\n", "\0", "\ud800", "'; DROP TABLE chunks; --", 'a:b AND ("', "\\"]
)
def test_any_query_can_be_stored_and_searched_for(query: str) -> None:
    assert "\0" not in searched_text(query)
    searched_text(query).encode("utf-8")


@given(st.text(), st.text(), st.text(), st.text())
def test_any_text_becomes_text_that_postgresql_stores(text: str, context: str, title: str, uri: str) -> None:
    for made in (lexical_text(text, context=context, title=title, uri=uri), searched_text(text)):
        assert "\0" not in made
        made.encode("utf-8")


def test_a_malformed_uri_is_taken_as_it_is() -> None:
    assert "[notes" in lexical_text("body", context="", title="", uri="http://[notes")


def test_a_query_is_bounded_and_names_each_word_once() -> None:
    words = searched_text(" ".join(f"word{number}" for number in range(5000))).split()
    assert len(words) == len(set(words)) <= 2 * MAX_QUERY_WORDS
    assert searched_text("Stone stone STONE") == "stone"


def test_sub_tokens_are_bounded_and_data_is_no_identifier() -> None:
    assert len(indexed("aB " * 10_000)) == 10_000 + MAX_SUB_TOKENS
    assert indexed("aB" * 60) == ["aB" * 60]


@pytest.mark.parametrize(
    ("name", "added"),
    [
        ("parseConfig", ["parse", "config"]),
        ("HTTPServerError", ["http", "server", "error"]),
        ("utf8", ["utf", "8"]),
        ("sha256Digest", ["sha", "256", "digest"]),
        ("größeHöhe", ["größe", "höhe"]),
        ("parse_config", ["parseconfig"]),
        ("__init__", []),
        ("parseConfig_file2", ["parse", "config", "file", "2", "parseconfigfile2"]),
        ("os.path.join", []),
        ("plain", []),
        ("LOUD", []),
    ],
)
def test_only_the_parts_that_a_tokenizer_does_not_give_are_added(name: str, added: list[str]) -> None:
    assert indexed(name) == [name, *added]


def test_a_name_is_found_in_its_other_spelling() -> None:
    assert "parseconfig" in searched_text("parse_config").split()
    assert "parseconfig" in searched_text("parseConfig").split()


def test_one_spelling_meets_another() -> None:
    assert searched_text("cafe\u0301 ﬁle") == "café file"


def test_title_path_and_context_are_indexed_with_the_text() -> None:
    text = lexical_text(
        "It returns early.",
        context="From the chapter on leases.",
        title="Leases",
        uri="https://docs.example/guide/leaseTable%20one?page=2",
    )
    lines = text.splitlines()
    assert lines[:4] == [
        "Leases",
        "docs.example/guide/leaseTable one",
        "From the chapter on leases.",
        "It returns early.",
    ]
    assert lines[4].split() == ["lease", "table"]


def test_what_the_context_already_says_is_not_counted_twice() -> None:
    text = lexical_text("Body.", context="Leases (guide/leases.md)", title="Leases", uri="guide/leases.md")
    assert text == "Leases (guide/leases.md)\nBody."
