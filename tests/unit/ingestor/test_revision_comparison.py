"""Comparison of a cited text with another revision of its document."""

import pytest
from groundline.v1 import document_pb2
from groundline_ingestor.domain.documents import TextPart
from groundline_ingestor.domain.revisions import compare_part, compare_texts
from groundline_ingestor.service.revisions import found_part
from hypothesis import given
from hypothesis import strategies as st

SAME, MOVED, CHANGED, GONE = (
    document_pb2.TEXT_FATE_SAME,
    document_pb2.TEXT_FATE_MOVED,
    document_pb2.TEXT_FATE_CHANGED,
    document_pb2.TEXT_FATE_GONE,
)
EQUAL, DELETED, INSERTED = (
    document_pb2.TEXT_CHANGE_EQUAL,
    document_pb2.TEXT_CHANGE_DELETED,
    document_pb2.TEXT_CHANGE_INSERTED,
)

BEFORE = "The hatch.\nClose the four screws crosswise with 1.8 Nm.\nThen switch on the device.\n"
CITED = "Close the four screws crosswise with 1.8 Nm."
START = BEFORE.index(CITED)


@pytest.mark.parametrize(
    ("after", "fate", "became"),
    [
        (BEFORE, SAME, CITED),
        (f"A new chapter.\n{BEFORE}", MOVED, CITED),
        (f"{CITED}\n{'x' * 500}\n{CITED}", MOVED, CITED),
        (BEFORE.replace("1.8", "2.4"), CHANGED, "Close the four screws crosswise with 2.4 Nm."),
        (
            f"Preface.\n{BEFORE.replace('four screws', 'six bolts')}",
            CHANGED,
            "Close the six bolts crosswise with 1.8 Nm.",
        ),
        ("The hatch.\nThen switch on the device.\n", GONE, ""),
        ("The device is closed with a clamp, and the torque of the lid is none.", GONE, ""),
        ("", GONE, ""),
    ],
)
def test_a_cited_text_is_found_again(after: str, fate: int, became: str) -> None:
    found = compare_part(CITED, START, after)
    assert found.fate == fate
    assert after[found.start : found.end] == became


def test_a_line_among_others_like_it_is_found_where_it_stood() -> None:
    def lines(state: str) -> str:
        return "".join(
            f"Line {n}: the valve of unit {n} is {state} {n % 7}, station {n}.\n" for n in range(4000)
        )

    before, after = lines("set to"), lines("turned to")
    # Elsewhere more of its words stand as they were.
    after = after[:-40_000] + before[-40_000:]
    start = before.index("of unit 2000")
    cited = before[start : before.index("Line 2003")]
    found = compare_part(cited, start, after)
    assert found.fate == CHANGED
    assert after[found.start : found.end].strip().startswith("of unit 2000 is turned to")


def test_of_equal_texts_the_nearest_is_the_cited_one() -> None:
    after = f"{CITED}\nThe hatch of the DN-6.\n{CITED}\n"
    assert compare_part(CITED, len(after), after).start == after.rindex(CITED)


@pytest.mark.parametrize(
    ("after", "fate", "start"),
    [
        ("y" * 2000, GONE, 0),
        ("y" * 900 + CITED + "y" * 1100, SAME, 900),
        ("y" * 950 + CITED + "y" * 1100, MOVED, 950),
        ("y" * 700 + CITED + "y" * 1900 + CITED, MOVED, 700),
        (CITED + "y" * 1700 + CITED + "y" * 500, MOVED, 1700 + len(CITED)),
        ("y" * 2500 + CITED, MOVED, 2500),
        ("y" * 889 + f" {CITED.replace('1.8', '2.4')} " + "y" * 1100, CHANGED, 890),
        ("y" * 889 + f" {CITED.replace('1.8', '2.4')} " + "y" * 1100 + CITED, CHANGED, 890),
    ],
)
async def test_a_cited_text_is_found_in_one_too_large_to_hold(after: str, fate: int, start: int) -> None:
    assert await found_in(after, 900) == (fate, start)


async def test_a_cited_text_is_found_at_the_beginning_of_one_that_could_be_held() -> None:
    assert await found_in(CITED + "y" * 230, 250) == (MOVED, 0)


async def found_in(after: str, start: int) -> tuple[int, int]:
    async def read(begin: int, limit: int) -> TextPart:
        assert limit == 300
        return TextPart(after[begin : begin + limit], len(after))

    found = await found_part(CITED, start, read, held=300)
    return found.fate, found.start


def test_a_change_is_told_in_words() -> None:
    found = compare_part(CITED, START, BEFORE.replace("1.8", "2.4"))
    assert [each for each in found.stretches if each[0] != EQUAL] == [
        (DELETED, "1"),
        (INSERTED, "2"),
        (DELETED, "8"),
        (INSERTED, "4"),
    ]


def test_long_stretches_that_did_not_change_are_cut_in_their_middle() -> None:
    long = "".join(f"Line {number}.\n" for number in range(500))
    found = compare_texts(f"{long}old\n", f"{long}new\n")
    assert found.fate == CHANGED
    [(change, text), *others] = found.stretches
    assert (change, len(text)) == (EQUAL, 601)
    assert "…" in text
    assert others[:2] == [(DELETED, "old"), (INSERTED, "new")]
    assert compare_texts(long, long).fate == SAME


TEXTS = st.text(alphabet="ab \n.", max_size=60)


@given(TEXTS, TEXTS)
def test_the_stretches_give_both_texts_again(first: str, second: str) -> None:
    found = compare_texts(first, second)
    assert "".join(text for change, text in found.stretches if change != INSERTED) == first
    assert "".join(text for change, text in found.stretches if change != DELETED) == second
    for (one, _), (next_one, _) in zip(found.stretches, found.stretches[1:], strict=False):
        assert one != next_one


@given(TEXTS, TEXTS, st.integers(0, 60))
def test_what_a_part_became_is_within_the_other_text(part: str, other: str, start: int) -> None:
    found = compare_part(part, start, other)
    assert 0 <= found.start <= found.end <= max(len(other), start + len(part) if not part else 0)
    assert "".join(text for change, text in found.stretches if change != INSERTED) == part
    if found.fate != GONE:
        assert (
            "".join(text for change, text in found.stretches if change != DELETED)
            == other[found.start : found.end]
        )
