import pytest
from groundline_generator.domain.markers import MarkerFilter, cites
from hypothesis import given
from hypothesis import strategies as st

PASSAGES = frozenset({1, 2})


def filtered(*pieces: str) -> str:
    markers = MarkerFilter(PASSAGES)
    return "".join(markers.feed(piece) for piece in pieces) + markers.finish()


@given(st.lists(st.integers(1, 6)), st.text(alphabet="a [1]29`\n,;【】０１!<img", max_size=80))
def test_however_a_stream_is_cut_the_same_text_comes_out(cuts: list[int], text: str) -> None:
    pieces, rest = [], text
    for cut in cuts:
        pieces.append(rest[:cut])
        rest = rest[cut:]
    assert filtered(*pieces, rest) == filtered(text)


def test_unknown_markers_are_removed_and_remembered() -> None:
    markers = MarkerFilter(PASSAGES)
    assert markers.feed("True [1]. False [9]. ") + markers.finish() == "True [1]. False."
    assert markers.unknown == {9}


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ("True [1, 2].", "True [1][2]."),
        ("True [1,9; 2].", "True [1][2]."),
        ("True [8, 9].", "True."),
        ("True 【1】 and [２].", "True [1] and [2]."),
        ("True [1][1, 1].", "True [1][1]."),
        ("In [0, 1] it holds [1].", "In [0, 1] it holds [1]."),
        ("A list [a, 1] or [2020-01] or [1", "A list [a, 1] or [2020-01] or [1"),
    ],
)
def test_every_way_to_mark_sources_becomes_one(written: str, sent: str) -> None:
    assert filtered(written) == sent
    assert filtered(*written) == sent


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ("![logo](https://a.example/?q=key) [1]", "! [logo](https://a.example/?q=key) [1]"),
        ("So ![][a]\n[a]: https://a.example", "So ! [][a]\n[a]: https://a.example"),
        ("A stray ` and ![x](//a.example)", "A stray ` and ! [x](//a.example)"),
        ('<IMG src="//a.example"> and <svg/onload=x>', '< IMG src="//a.example"> and < svg/onload=x>'),
        ("So it is![1] List<Image2> holds", "So it is! [1] List<Image2> holds"),
    ],
)
def test_nothing_is_an_image_that_a_front_end_would_fetch(written: str, sent: str) -> None:
    assert filtered(written) == sent
    assert filtered(*written) == sent


def test_no_piece_ends_within_a_marker() -> None:
    markers = MarkerFilter(PASSAGES)
    assert [markers.feed(piece) for piece in ("Yes [", "1", "] no")] == ["Yes", "", " [1] no"]


@pytest.mark.parametrize("text", ["`a[7]` [1]", "```\na[7]\n``` [1]"])
def test_brackets_in_code_are_not_markers(text: str) -> None:
    assert filtered(text) == text
    assert cites(text, PASSAGES)


def test_a_stray_backtick_ends_with_its_line() -> None:
    assert filtered("a ` b\nc [9]") == "a ` b\nc"
