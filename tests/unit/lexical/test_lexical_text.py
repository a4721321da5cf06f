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


@given(st.text())
def test_any_text_becomes_words_in_lower_case_with_a_space_between(text: str) -> None:
    for made in (lexical_text(text, context="", title="", uri=""), searched_text(text)):
        assert made == " ".join(made.split())
        assert made == made.lower()
        assert all(word[0].isalnum() for word in made.split())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a/b.py", ["a", "b", "py"]),
        ("ada@mail.example.org", ["ada", "mail", "example", "org"]),
        ("Don't; stop—now!", ["don", "t", "stop", "now"]),
        ("Donau\u00addampf\u200dschiff", ["donaudampfschiff"]),
        ("❤\ufe0f 1\ufe0f", ["1"]),
        ("\u0301 alone", ["alone"]),
        ("İstanbul", ["istanbul"]),
        ("செம்மொழி தமிழ்", ["செம்மொழி", "தமிழ்"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
    ],
)
def test_words_are_letters_and_digits_with_their_marks(text: str, words: list[str]) -> None:
    assert indexed(text) == words


def test_a_malformed_uri_is_taken_as_it_is() -> None:
    assert lexical_text("body", context="", title="", uri="http://[notes") == "http notes body"


def test_a_query_is_bounded_and_names_each_word_once() -> None:
    words = searched_text(" ".join(f"word{number}" for number in range(5000))).split()
    assert len(words) == len(set(words)) <= 2 * MAX_QUERY_WORDS
    assert searched_text("Stone stone STONE") == "stone"


def test_sub_tokens_are_bounded_and_data_is_no_identifier() -> None:
    assert len(indexed("aB " * 10_000)) == 10_000 + MAX_SUB_TOKENS
    assert indexed("aB" * 60) == ["ab" * 60]


@pytest.mark.parametrize(
    ("name", "words", "added"),
    [
        ("parseConfig", ["parseconfig"], ["parse", "config"]),
        ("HTTPServerError", ["httpservererror"], ["http", "server", "error"]),
        ("utf8", ["utf8"], ["utf", "8"]),
        ("sha256Digest", ["sha256digest"], ["sha", "256", "digest"]),
        ("größeHöhe", ["größehöhe"], ["größe", "höhe"]),
        ("parse_config", ["parse", "config"], ["parseconfig"]),
        ("__init__", ["init"], []),
        ("parseConfig_file2", ["parseconfig", "file2"], ["parse", "config", "file", "2", "parseconfigfile2"]),
        ("os.path.join", ["os", "path", "join"], []),
        ("plain", ["plain"], []),
        ("LOUD", ["loud"], []),
    ],
)
def test_the_parts_of_a_name_are_added_that_are_no_words_yet(
    name: str, words: list[str], added: list[str]
) -> None:
    assert indexed(name) == [*words, *added]


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
    assert text == (
        "leases leases docs example guide leasetable one "
        "from the chapter on leases it returns early lease table"
    )


def test_a_title_counts_twice_and_a_path_once_with_what_the_context_has_of_them() -> None:
    text = lexical_text("Body.", context="Leases (guide/leases.md)", title="Leases", uri="guide/leases.md")
    assert text == "leases leases guide leases md body"


def test_text_without_spaces_is_indexed_by_its_characters_and_their_pairs() -> None:
    assert indexed("天安门") == ["天安门", "天", "安", "门", "天安", "安门"]
    assert indexed("データを検索") == [
        "データを検索",
        *"データを検索",
        "デー", "ータ", "タを", "を検", "検索",
    ]  # fmt: skip
    assert indexed("문장을") == ["문장을", "문", "장", "을", "문장", "장을"]


def test_it_is_searched_for_by_pairs_and_by_a_character_that_stands_alone() -> None:
    assert searched_text("天安门 猫") == "天安门 猫 天安 安门"
    assert searched_text("ﾃﾞｰﾀ") == "データ デー ータ"


def test_letters_and_figures_beside_it_are_words_of_their_own() -> None:
    assert indexed("iPhone手机16G_版")[2:9] == ["iphone", "i", "phone", "16g", "16", "g", "手"]
    assert {"iphone", "手机"} <= set(searched_text("买iPhone手机").split())
