"""Chunks are exact cuts of the text, whatever it holds."""

import pytest
from groundline_ingestor.adapters.extraction import MARKDOWN, PLAIN
from groundline_ingestor.adapters.splitting import RecursiveSplitter
from groundline_ingestor.domain import Chunking
from hypothesis import given, settings
from hypothesis import strategies as st

# What breaks offsets: several bytes a character, line ends of two, marks that combine, joined emoji.
LINE_ENDS = ["\r\n", "\r", "\n\n", "\u2028", "\x1c"]
CHARACTERS = [
    "é",
    "e\u0301",
    "😀",
    "\U0001f469\u200d\U0001f469",
    "\U0001f1e9\U0001f1ea",
    "𝔘",
    "東京",
    "\u00a0",
    "\ufeff",
]
STRUCTURE = ["# ", "## ", "```\n", "- ", "> ", "|", "word ", "sentence. ", "\t", " "]
AWKWARD = st.sampled_from([*LINE_ENDS, *CHARACTERS, *STRUCTURE])
TEXTS = st.lists(st.one_of(AWKWARD, st.text(max_size=20)), max_size=60).map("".join)


@pytest.mark.parametrize("mime_type", [PLAIN, MARKDOWN])
@given(text=TEXTS, size=st.integers(50, 120), share=st.floats(0, 0.49))
@settings(max_examples=120, deadline=None)
def test_every_chunk_is_the_text_at_its_offsets(mime_type: str, text: str, size: int, share: float) -> None:
    chunking = Chunking(chunk_size=size, chunk_overlap=int(size * share))
    sections = RecursiveSplitter().split(text, mime_type, chunking)
    for section in sections:
        assert text[section.start : section.end] == section.text
        assert section.text.strip()
        assert len(section.text) <= size
    starts = [section.start for section in sections]
    assert starts == sorted(starts)
    covered = {place for section in sections for place in range(section.start, section.end)}
    lost = "".join(character for place, character in enumerate(text) if place not in covered)
    assert not lost.strip(), "only white space may fall between chunks"


def test_a_text_of_white_space_has_no_chunks() -> None:
    assert not RecursiveSplitter().split(" \n\t\r\n \x1c", PLAIN, Chunking())


def test_neighbouring_chunks_overlap() -> None:
    text = " ".join(f"word{number}" for number in range(200))
    first, second, *_ = RecursiveSplitter().split(text, PLAIN, Chunking(chunk_size=200, chunk_overlap=50))
    assert second.start < first.end
    assert first.end - second.start <= 50


def test_markdown_is_cut_at_headings() -> None:
    text = "# One\n\n" + "first words. " * 12 + "\n\n# Two\n\n" + "second words. " * 12
    sections = RecursiveSplitter().split(text, MARKDOWN, Chunking(chunk_size=200, chunk_overlap=0))
    assert [section.text.split("\n")[0] for section in sections] == ["# One", "# Two"]
