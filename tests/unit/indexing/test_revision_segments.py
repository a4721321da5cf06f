"""Cutting of texts into segments that revisions share."""

from itertools import batched

from groundline_indexing.revisions.segments import MAX_CHARACTERS, SegmentCutter, text_hash
from hypothesis import given
from hypothesis import strategies as st

LINES = [
    f"Section {number}: the pump {number % 7} takes {number * 37 % 101} litres.\n" for number in range(2000)
]


def cut(*parts: str, lines: int = 1) -> list[str]:
    cutter = SegmentCutter(lines)
    return [*(segment for part in parts for segment in cutter.feed(part)), *cutter.end()]


@given(st.lists(st.text(alphabet="ab. \nä", max_size=400), max_size=20))
def test_segments_are_the_text_however_it_comes(parts: list[str]) -> None:
    whole = "".join(parts)
    assert "".join(cut(*parts)) == whole
    if len(whole) <= MAX_CHARACTERS:
        assert cut(*parts) == cut(whole)


def test_segments_are_lines_and_neither_small_nor_large() -> None:
    assert cut("".join(LINES)) == LINES
    # Short lines go with a longer one.
    assert cut("".join(f"\n{line}" for line in LINES)) == [f"\n{line}" for line in LINES]
    assert 4 * 50 <= len("".join(LINES)) / len(cut("".join(LINES), lines=8)) <= 16 * 50
    assert len(cut("".join(f"{number}\n" for number in range(8000)))) > 300
    # Nor of a text without lines and sentences.
    assert max(map(len, cut("x" * 100_000))) <= MAX_CHARACTERS + 2000


def test_a_change_leaves_most_segments_as_they_are() -> None:
    before = set(cut("".join(LINES)))
    for at in (0, 1000, 1999):
        after = cut("".join([*LINES[:at], "Something else is said here.\n", *LINES[at + 1 :]]))
        assert len(set(after) - before) <= 3
    one_line = "".join(LINES).replace("\n", " ")
    inserted = one_line[:40_000] + " Something else. " + one_line[40_000:]
    assert len(set(cut(inserted)) - set(cut(one_line))) <= 3


def test_the_hash_of_a_text_does_not_tell_its_parts() -> None:
    text = "".join(LINES)
    assert text_hash([text]) == text_hash("".join(part) for part in batched(text, 777))
    assert text_hash([text]) != text_hash([text[1:]])
