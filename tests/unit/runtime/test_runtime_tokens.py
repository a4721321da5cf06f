import pytest
from groundline_runtime.tokens import estimated_tokens


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("a", 1),
        ("four", 1),
        ("fives", 2),
        ("Größe", 2),
        ("検索", 2),
        ("検索する", 3),
        ("ab検索す", 3),
    ],
)
def test_latin_takes_a_quarter_token_a_character_and_other_scripts_two_thirds(text: str, tokens: int) -> None:
    assert estimated_tokens(text) == tokens


def test_a_text_costs_no_more_than_its_halves() -> None:
    text = "A sentence with größe and 検索. " * 50
    assert estimated_tokens(text) <= estimated_tokens(text[:700]) + estimated_tokens(text[700:])
