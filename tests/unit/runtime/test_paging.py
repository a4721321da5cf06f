"""Pages: sizes and tokens."""

import pytest
from groundline_runtime.errors import InvalidArgumentError
from groundline_runtime.paging import page_size, page_token, read_page_token


@pytest.mark.parametrize(("asked", "given"), [(0, 50), (1, 1), (1000, 1000), (1001, 1000), (2**31 - 1, 1000)])
def test_a_page_has_its_default_size_and_at_most_a_thousand_entries(asked: int, given: int) -> None:
    assert page_size(asked, 50) == given


def test_a_token_leads_on_where_its_list_ended() -> None:
    token = page_token("jobs", "2026-01-01", 7)

    assert read_page_token(token, "jobs", str, int) == ("2026-01-01", 7)
    assert read_page_token("", "jobs", str, int) is None


@pytest.mark.parametrize(
    "token",
    [
        "x",
        "not a token",
        "é",
        page_token("threads", "a", 1),
        page_token("jobs", "a"),
        page_token("jobs", 1, "a"),
        page_token("jobs", "a", 1) + "!",
        page_token("jobs", "a\0", 1),
        page_token("jobs", "\ud800", 1),
        page_token("jobs", "a", -1),
        page_token("jobs", "a", 2**31),
        "W" * 4000,
    ],
)
def test_what_is_no_token_of_the_list_is_refused(token: str) -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        read_page_token(token, "jobs", str, int)

    assert [violation.field for violation in raised.value.violations] == ["page_token"]
