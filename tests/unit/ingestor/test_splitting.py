"""Chunks are exact cuts of the text, whatever it holds and however it is cut."""

import re
from collections.abc import Sequence
from itertools import pairwise

import pytest
from groundline.v1 import collection_pb2
from groundline_extraction.formats import MARKDOWN, PLAIN
from groundline_extraction.headings import read_headings
from groundline_extraction.texts import ExtractedText, Heading
from groundline_indexing.splitting import CODE_CHARACTERS, MAX_CHARACTERS_PER_TOKEN, DocumentSplitter
from groundline_indexing.texts import Section
from hypothesis import given, settings
from hypothesis import strategies as st

PYTHON = "text/x-python"
STRATEGIES = [value for value in collection_pb2.ChunkingStrategy.values() if value]
UNITS = [value for value in collection_pb2.ChunkSizeUnit.values() if value]

type Strategy = collection_pb2.ChunkingStrategy.ValueType
type Unit = collection_pb2.ChunkSizeUnit.ValueType


def count_words(texts: Sequence[str]) -> list[int]:
    return [len(re.findall(r"\w+|[^\w\s]", text)) for text in texts]


def split(
    text: str,
    mime_type: str = PLAIN,
    strategy: Strategy = collection_pb2.CHUNKING_STRATEGY_RECURSIVE,
    size: int = 2000,
    overlap: int = 0,
    unit: Unit = collection_pb2.CHUNK_SIZE_UNIT_CHARACTERS,
) -> Sequence[Section]:
    found = read_headings(text) if mime_type == MARKDOWN else ()
    headings = tuple(Heading(*heading) for heading in found)
    chunking = collection_pb2.ChunkingSettings(
        strategy=strategy, chunk_size=size, chunk_overlap=overlap, unit=unit, parent_size=3 * size
    )
    return DocumentSplitter(count_words).split(ExtractedText(text, mime_type, headings), chunking, "english")


def texts(sections: Sequence[Section]) -> list[str]:
    return [section.text for section in sections]


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


@pytest.mark.parametrize("nonsense", ["a<b<", "a*", "{[("])
def test_source_code_that_is_nonsense_is_cut(nonsense: str) -> None:
    """Parsed at once, some of it took minutes and gigabytes."""
    text = nonsense * (3 * CODE_CHARACTERS // len(nonsense))
    assert "".join(texts(split(text, "text/x-c++"))) == text


@pytest.mark.parametrize("mime_type", [PLAIN, MARKDOWN, PYTHON])
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("unit", UNITS)
@given(text=TEXTS, size=st.integers(50, 120), share=st.floats(0, 0.49))
@settings(max_examples=25, deadline=None)
def test_every_chunk_is_the_text_at_its_offsets(
    unit: Unit, strategy: Strategy, mime_type: str, text: str, size: int, share: float
) -> None:
    if unit == collection_pb2.CHUNK_SIZE_UNIT_TOKENS:
        size //= 5
    sections = split(text, mime_type, strategy, size, int(size * share), unit)
    for section in sections:
        assert text[section.start : section.end] == section.text
        assert section.text.strip()
        length = (
            len(section.text)
            if unit == collection_pb2.CHUNK_SIZE_UNIT_CHARACTERS
            else count_words([section.text])[0]
        )
        assert length <= size
    starts = [section.start for section in sections]
    assert starts == sorted(starts)
    covered = {place for section in sections for place in range(section.start, section.end)}
    lost = "".join(character for place, character in enumerate(text) if place not in covered)
    assert not lost.strip(), "only white space may fall between chunks"


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_text_of_white_space_has_no_chunks(strategy: Strategy) -> None:
    assert not split(" \n\t\r\n \x1c", strategy=strategy)


@pytest.mark.parametrize(
    "strategy",
    [
        collection_pb2.CHUNKING_STRATEGY_RECURSIVE,
        collection_pb2.CHUNKING_STRATEGY_WORDS,
        collection_pb2.CHUNKING_STRATEGY_SENTENCES,
    ],
)
def test_neighbouring_chunks_overlap(strategy: Strategy) -> None:
    text = " ".join(f"Word {number}." for number in range(200))
    first, second, *_ = split(text, strategy=strategy, size=200, overlap=50)
    assert second.start < first.end
    assert first.end - second.start <= 50


def test_markdown_is_cut_at_headings() -> None:
    text = "# One\n\n" + "first words. " * 12 + "\n\n# Two\n\n" + "second words. " * 12
    sections = split(text, MARKDOWN, size=200)
    assert [section.text.split("\n")[0] for section in sections] == ["# One", "# Two"]


@pytest.mark.parametrize("unit", UNITS)
def test_chunks_overlap_across_a_heading_as_far_as_there_is_room(unit: Unit) -> None:
    words = unit == collection_pb2.CHUNK_SIZE_UNIT_TOKENS
    size, overlap = (60, 12) if words else (300, 60)
    parts = [f"# Part {number}\n\n" + "It is said here. " * 10 for number in range(4)]
    sections = split("\n\n".join(parts), MARKDOWN, size=size, overlap=overlap, unit=unit)
    assert len(sections) == 4
    for before, after in pairwise(sections):
        repeated = after.text[: after.lead].strip()
        assert repeated.startswith("It is said here.")
        assert before.text.endswith(repeated)
        assert after.text[after.lead :].startswith("# Part")
    full = split("\n\n".join(parts), MARKDOWN, size=len(parts[0].strip()), overlap=60)
    assert [section.lead for section in full] == [0, 0, 0, 0]


def test_small_chunks_know_how_many_of_their_parent_come_before_and_after() -> None:
    long = "Some more words here. " * 20
    text = f"# One\n\nShort.\n\n# Two\n\n{long}"
    sections = split(text, MARKDOWN, collection_pb2.CHUNKING_STRATEGY_PARENT_CHILD, size=80, overlap=20)
    assert sections[0] == Section("# One\n\nShort.", 0, 13)
    firsts = [at for at, one in enumerate(sections) if not one.siblings_before]
    parents = [sections[at : at + 1 + sections[at].siblings_after] for at in firsts]
    assert sum(map(len, parents)) == len(sections)
    for parent in parents:
        assert [one.siblings_before for one in parent] == list(range(len(parent)))
        assert [one.siblings_after for one in parent] == list(reversed(range(len(parent))))
        assert parent[-1].end - parent[0].start <= 240
    assert len(parents) >= 3
    assert all(before[-1].end <= after[0].start for before, after in pairwise(parents))


def test_sections_end_at_headings_however_short_they_are() -> None:
    text = "Before.\n\n# One\n\nShort.\n\n## Two\n\nShort too.\n\n# Three\n\nEnd."
    assert texts(split(text, MARKDOWN, collection_pb2.CHUNKING_STRATEGY_SECTIONS)) == [
        "Before.",
        "# One\n\nShort.",
        "## Two\n\nShort too.",
        "# Three\n\nEnd.",
    ]


@pytest.mark.parametrize("heading", ["# Manual", "Manual\n==="])
def test_a_heading_without_text_stays_with_the_section_below_it(heading: str) -> None:
    text = f"{heading}\n\n## Valve\n\nText."
    assert texts(split(text, MARKDOWN, collection_pb2.CHUNKING_STRATEGY_SECTIONS)) == [text]


def test_a_long_section_is_cut_with_overlap() -> None:
    text = "# One\n\n" + "Some more words here. " * 40 + "\n\n# Two\n\nEnd."
    *parts, last = split(text, MARKDOWN, collection_pb2.CHUNKING_STRATEGY_SECTIONS, 300, 60)
    assert len(parts) >= 3
    assert all(after.start < before.end for before, after in pairwise(parts[1:]))
    assert last.text == "# Two\n\nEnd."


def test_words_slide_as_a_window() -> None:
    text = "one two three four five six seven eight nine ten"
    sections = split(
        text,
        strategy=collection_pb2.CHUNKING_STRATEGY_WORDS,
        size=4,
        overlap=1,
        unit=collection_pb2.CHUNK_SIZE_UNIT_TOKENS,
    )
    assert texts(sections) == ["one two three four", "four five six seven", "seven eight nine ten"]


def test_sentences_stay_whole() -> None:
    text = "Dr. Ward opened the valve. It held! Did it? Yes.\n\nA new paragraph begins here."
    sections = split(text, strategy=collection_pb2.CHUNKING_STRATEGY_SENTENCES, size=50)
    assert texts(sections) == [
        "Dr. Ward opened the valve. It held! Did it? Yes.",
        "A new paragraph begins here.",
    ]


def test_a_sentence_that_is_too_long_is_cut_and_the_others_stay_whole() -> None:
    text = "Short one. " + "very " * 30 + "long. Short two."
    first, *middle, last = texts(split(text, strategy=collection_pb2.CHUNKING_STRATEGY_SENTENCES, size=60))
    assert first == "Short one."
    assert len(middle) >= 3
    assert last == "Short two."


@pytest.mark.parametrize(
    "strategy", [collection_pb2.CHUNKING_STRATEGY_RECURSIVE, collection_pb2.CHUNKING_STRATEGY_SENTENCES]
)
def test_code_is_cut_between_its_definitions(strategy: Strategy) -> None:
    functions = [f"def f{number}(x):\n    y = x + {number}\n\n    return y" for number in range(3)]
    assert texts(split("\n\n".join(functions), PYTHON, strategy, size=60)) == functions


@pytest.mark.parametrize(
    ("mime_type", "text"),
    [
        ("text/x-c", "int a(void) {\n  return 1;\n}"),
        ("text/x-c++", "class A {\n  int b;\n};"),
        ("text/x-go", "func a() int {\n  return 1\n}"),
        ("text/x-java", "class A {\n  int b;\n}"),
        ("text/x-javascript", "function a() {\n  return 1\n}"),
        ("text/x-rust", "fn a() -> i32 {\n    1\n}"),
        ("text/x-tsx", "const a = () => <p>b</p>"),
        ("text/x-typescript", "const a: number = 1"),
    ],
)
def test_grammars_of_the_common_languages_are_there(mime_type: str, text: str) -> None:
    both = f"{text}\n\n{text}"
    assert texts(split(both, mime_type, size=max(50, len(text)))) in ([text, text], [both])


@pytest.mark.parametrize("mime_type", ["text/plain", "text/markdown"])
@pytest.mark.parametrize("blank", ["\n", " ", " " * 99 + "\n"])
def test_long_runs_of_white_space_separate_chunks_and_cost_nothing(mime_type: str, blank: str) -> None:
    gap = blank * (500_000 // len(blank))
    text = f"One.{gap}Two.{gap}Three."
    sections = split(text, mime_type, overlap=200)
    assert [section.text for section in sections] == ["One.", "Two.", "Three."]
    assert all(text[section.start : section.end] == section.text for section in sections)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_run_without_spaces_is_bounded_in_characters_whatever_it_is_in_tokens(strategy: Strategy) -> None:
    text = f"Before. {'x' * 300_000} After."
    sections = split(text, strategy=strategy, size=100, unit=collection_pb2.CHUNK_SIZE_UNIT_TOKENS)
    assert max(len(section.text) for section in sections) <= 100 * MAX_CHARACTERS_PER_TOKEN
    assert "".join(section.text for section in sections).count("x") == 300_000
    assert all(text[section.start : section.end] == section.text for section in sections)
