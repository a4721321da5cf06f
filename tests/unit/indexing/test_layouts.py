"""Layouts of texts over what is stored of them."""

from groundline_indexing.revisions.layouts import Layout, StoredSegments
from hypothesis import given
from hypothesis import strategies as st

SEGMENTS = st.lists(st.sampled_from(["ä.\n", "b\n", "cc\n", "ddd\n", "", "e"]), max_size=40)


def written(layout: Layout, stored: str, base: str) -> str:
    return "".join(
        stored[source : source + length] if source >= 0 else base[-1 - source : -1 - source + length]
        for source, length in zip(layout.sources, layout.lengths, strict=True)
    )


@given(st.lists(SEGMENTS, min_size=1, max_size=5))
def test_a_layout_gives_its_text_alone_and_with_another_as_its_base(revisions: list[list[str]]) -> None:
    segments, stored = StoredSegments(), ""
    bases: list[tuple[Layout, str]] = []
    for revision in revisions:
        numbers, new = segments.find(revision)
        stored += "".join(new)
        assert segments.end == len(stored)
        layout = segments.layout(numbers)
        assert written(layout, stored, "") == "".join(revision)
        for base, text in bases:
            differences = segments.differences(numbers, base)
            assert written(differences, stored, text) == "".join(revision)
        bases.append((layout, "".join(revision)))


def test_a_change_takes_three_stretches_and_nothing_that_is_stored_is_stored_again() -> None:
    lines = [f"Line {number}.\n" for number in range(1000)]
    segments = StoredSegments()
    segments.put(lines, 0)
    changed = [*lines[:500], "Another.\n", *lines[501:]]
    numbers, new = segments.find(changed)
    assert new == ["Another.\n"]
    end = len("".join(lines))
    differences = segments.differences(numbers, Layout.of([([0], [end])]))
    at = len("".join(lines[:500]))
    assert differences.sources.tolist() == [-1, end, -1 - at - len(lines[500])]
    assert segments.find(changed) == (numbers, [])


def test_what_is_no_longer_stored_is_not_taken_from_a_base() -> None:
    segments = StoredSegments()
    # The base had a line between these two, which is not stored any more.
    segments.put(["One line.\n"], 0)
    segments.put(["Another.\n"], 30)
    numbers, new = segments.find(["One line.\n", "The middle.\n", "Another.\n"])
    assert new == ["The middle.\n"]
    differences = segments.differences(numbers, Layout.of([([0], [39])]))
    assert differences.sources.tolist() == [-1, 39, -31]


def test_rows_have_some_hundred_stretches_and_say_where_they_begin() -> None:
    layout = Layout()
    for number in range(600):
        layout.add(number * 10, 3)
    rows = list(layout.rows())
    assert [start for start, _, _ in rows] == [0, 768, 1536]
    assert [source for _, sources, _ in rows for source in sources] == list(layout.sources)
