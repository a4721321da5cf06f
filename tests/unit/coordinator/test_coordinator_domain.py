import pytest
from groundline_coordinator.domain import HistoryMessage, merged, recent_history, shortened
from hypothesis import given
from hypothesis import strategies as st


@given(st.text(), st.integers(1, 50))
def test_a_shortened_text_keeps_its_limit(text: str, limit: int) -> None:
    assert len(shortened(text, limit)) <= limit


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        ("  short ", 10, "short"),
        ("cut at a word", 9, "cut at a…"),
        ("cut at words", 9, "cut at…"),
        ("unbreakable", 5, "unbr…"),
        ("exactly ten", 11, "exactly ten"),
    ],
)
def test_text_is_cut_at_a_word(text: str, limit: int, expected: str) -> None:
    assert shortened(text, limit) == expected


def test_given_options_win_within_objects_too() -> None:
    assert merged({"a": 1, "b": {"c": 1, "d": 2}}, {"b": {"c": 0}, "e": 3}) == {
        "a": 1,
        "b": {"c": 0, "d": 2},
        "e": 3,
    }


def test_history_is_bounded_by_count_and_characters() -> None:
    messages = [HistoryMessage("user", "x" * size) for size in (1, 2, 3, 4)]
    assert recent_history(messages, max_messages=3, max_characters=100) == messages[1:]
    assert recent_history(messages, max_messages=9, max_characters=7) == messages[2:]
    assert recent_history(messages, max_messages=9, max_characters=3) == []
