"""Values are read from whatever stands in a document."""

import math

import pytest
from groundline_generator.domain.checking.values import values
from hypothesis import given
from hypothesis import strategies as st

FIGURES = st.text(alphabet="0129.,:/-–% €$hm²٣ ", max_size=40)
DATED = st.lists(
    st.sampled_from(["3", "31.", "2024", "-", "/", "to", "of", "am", "MÄRZ", "aprıl", "JUNİ", "Auguſt"]),
    max_size=9,
)


@given(FIGURES | DATED.map(" ".join) | DATED.map("".join))
def test_any_figures_are_read_where_they_stand(text: str) -> None:
    for each in values(text):
        assert 0 <= each.start < each.end <= len(text)
        assert not math.isnan(each.low + each.high)


@pytest.mark.parametrize("text", ["127.0.0.1:8080", "10:30,5", "1,5:30"])
def test_figures_that_no_clock_shows_are_not_hours(text: str) -> None:
    assert values(f"The gateway answers at {text} here.") == ()


def test_hours_are_read() -> None:
    (opens,) = values("It opens at 8:30 h.")
    assert (opens.kind, opens.low) == ("clock", 510.0)
