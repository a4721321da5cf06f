"""Questions for what is not so, and sentences that say it."""

import pytest
from groundline_generator.domain.asking.negations import asks_what_is_not, denies, denying_words

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
