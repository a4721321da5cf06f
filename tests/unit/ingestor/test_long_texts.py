"""Texts that are worked on segment by segment: nothing is lost, doubled or misplaced at the borders."""

import codecs
import io
import json
from collections import deque
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest
from groundline.v1 import error_pb2
from groundline_extraction.documents import FileContent, GivenDocument, IngestionError
from groundline_extraction.extractor import DocumentExtractor
from groundline_extraction.readers.common import ReaderLimits
from groundline_extraction.sandbox import Sandbox
from groundline_extraction.segments import HeadedCutter, known_headings
from groundline_extraction.spooling import Spool
from groundline_extraction.texts import Heading, TextSegment
from groundline_indexing.collections import StoredCollection
from groundline_indexing.preparation import Preparation, identify
from groundline_indexing.splitting import DocumentSplitter
from groundline_indexing.texts import PreparedChunk
from groundline_tests.embedding import FakeEmbedder
from groundline_tests.ingestor.messages import stored_collection

NOW = datetime(2026, 1, 1, tzinfo=UTC)
STRATEGIES = ["RECURSIVE", "SECTIONS", "WORDS", "SENTENCES", "PARENT_CHILD"]
PLAIN = "\n\n".join(
    " ".join(f"Sentence {number}.{part} says something of its own." for part in range(number % 9 + 1))
    for number in range(120)
)
MARKDOWN = "\n\n".join(
    f"{'#' * (1 + chapter % 3)} Chapter {chapter}\n\n{PLAIN[chapter * 300 : chapter * 300 + 900]}\n\n"
    f"```python\n# no heading {chapter}\n\nx = {chapter}\n```"
    for chapter in range(30)
)


@pytest.fixture
def extractor() -> Iterator[DocumentExtractor]:
    with Sandbox(ReaderLimits()) as sandbox:
        # What holds for a million characters holds for some thousand.
        yield DocumentExtractor(sandbox, max_whole_bytes=1000, segment_characters=3001)


def collection(**chunking: object) -> StoredCollection:
    return stored_collection(chunking=chunking)


def in_file(content: str | bytes, **fields: str) -> GivenDocument:
    data = content if isinstance(content, bytes) else content.encode()
    given = FileContent(io.BytesIO(data), len(data), isinstance(content, str))
    return GivenDocument(given, **{"uri": "text.txt", **fields})  # type: ignore[arg-type]


def read(extractor: DocumentExtractor, given: GivenDocument) -> list[TextSegment]:
    return list(extractor.read(given).segments)


def chunks_of(
    extractor: DocumentExtractor, given: GivenDocument, into: StoredCollection, max_chunks: int = 400_000
) -> tuple[Spool[TextSegment], list[list[PreparedChunk]]]:
    splitter = DocumentSplitter(FakeEmbedder().count_tokens)
    preparation = Preparation(extractor, lambda collection: splitter, max_chunks=max_chunks)
    handed_in = identify(given, into)
    segments, version = preparation.read(handed_in.given, handed_in.version)
    with closing(segments):
        return segments, [list(part.chunks) for part in preparation.chunk(segments, version, into)]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (("größer " * 9 + PLAIN).encode() + b"\xff" + PLAIN.encode(), "INVALID_ENCODING"),
        (("größer " * 9 + PLAIN).encode() + "ö".encode()[:1], "INVALID_ENCODING"),
        (PLAIN.encode() + b"\x00" + PLAIN.encode(), "INVALID_TEXT"),
        (b" \n" * 5000, "EMPTY_TEXT"),
        (json.dumps([{"a": n} for n in range(500)]).encode() + b"}", "INVALID_JSON"),
        (b"%PDF-1.7" + bytes(5000), "DOCUMENT_TOO_LARGE"),
    ],
)
def test_what_is_no_text_fails_anywhere(extractor: DocumentExtractor, content: bytes, reason: str) -> None:
    uri = "data.json" if content.startswith(b"[") else "text"
    with pytest.raises(IngestionError) as raised:
        read(extractor, in_file(content, uri=uri))
    assert error_pb2.ErrorReason.Name(raised.value.failure.reason) == reason
    if content.startswith(PLAIN.encode()):
        assert str(len(PLAIN)) in raised.value.failure.message


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
def test_characters_cut_by_a_part_are_read_whole(extractor: DocumentExtractor, encoding: str) -> None:
    text = "Größe und Gewähr – nicht mehr.\r\n".replace("–", "-") * 2000
    given = in_file(text.encode(encoding), mime_type="text/plain; charset=latin-1" if "1" in encoding else "")
    if encoding in ("utf-8-sig", "utf-8"):
        given = in_file(codecs.BOM_UTF8 * (encoding == "utf-8-sig") + text.encode())
    assert "".join(segment.text for segment in read(extractor, given)) == text


def test_segments_are_the_text_and_end_between_sections(extractor: DocumentExtractor) -> None:
    found = read(extractor, in_file(MARKDOWN.encode(), uri="book.md"))
    assert len(found) > 5
    assert "".join(segment.text for segment in found) == MARKDOWN
    for before, segment in pairwise(found):
        assert segment.start == before.start + len(before.text)
        assert segment.headings[0].start == segment.start
    headings = [heading for segment in found for heading in segment.headings]
    assert [heading.title for heading in headings] == [f"Chapter {n}" for n in range(30)]
    assert all(MARKDOWN[heading.start] == "#" for heading in headings)


def test_a_text_of_nothing_but_code_fences_is_cut(extractor: DocumentExtractor) -> None:
    """Looking through all fences for each place took minutes a segment."""
    text = "```\n```\n\nx\n" * 150_000
    whole = DocumentExtractor(Sandbox(ReaderLimits()))
    segments = read(whole, in_file(text, uri="a.md"))
    assert "".join(segment.text for segment in segments) == text
    assert len(segments) == 2


def test_a_code_fence_stays_in_one_segment(extractor: DocumentExtractor) -> None:
    code = "\n\n".join(f"# no heading {n}" for n in range(100))
    text = f"Words before.\n\n{'word ' * 380}\n\n```\n{code}\n```\n\n{'More. ' * 500}"
    first, *others = read(extractor, in_file(text.encode(), uri="code.md"))
    assert first.text.count("```") == 0
    assert others[0].text.startswith("```")
    assert not any(segment.headings for segment in (first, *others))


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(("uri", "text"), [("t.txt", PLAIN), ("t.md", MARKDOWN)])
def test_chunks_of_a_long_text_go_on_across_the_borders(
    extractor: DocumentExtractor, strategy: str, uri: str, text: str
) -> None:
    settings = {"strategy": f"CHUNKING_STRATEGY_{strategy}", "chunkSize": 400, "chunkOverlap": 80}
    into = collection(**settings)
    segments, parts = chunks_of(extractor, in_file(text.encode(), uri=uri), into)
    assert len(segments) > 5
    chunks = [chunk for part in parts for chunk in part]
    covered = bytearray(len(text))
    for chunk in chunks:
        section = chunk.section
        assert text[section.start : section.end] == section.text
        assert len(section.text) <= 400
        covered[section.start : section.end] = b"\x01" * (section.end - section.start)
    assert not [text[at] for at, is_covered in enumerate(covered) if not is_covered and text[at].strip()]
    assert sorted(chunks, key=lambda chunk: chunk.section.start) == chunks
    assert len({(chunk.section.start, chunk.section.end) for chunk in chunks}) == len(chunks)
    if strategy in ("WORDS", "SENTENCES") and uri == "t.txt":
        # Where a chunk may end depends on nothing before it: the same as in one go.
        with Sandbox(ReaderLimits()) as sandbox:
            _, [whole] = chunks_of(DocumentExtractor(sandbox), GivenDocument(text, uri=uri), into)
        assert chunks == whole


def test_the_trail_of_headings_reaches_across_segments(extractor: DocumentExtractor) -> None:
    text = f"# Book\n\nIntroduction.\n\n## Part\n\n{PLAIN}\n\n## Next\n\n{'The end. ' * 100}"
    _, parts = chunks_of(extractor, in_file(text.encode(), uri="book.md"), collection(chunkSize=400))
    chunks = [chunk for part in parts for chunk in part]
    begin, end = text.index("## Part"), text.index("## Next")
    within = [chunk for chunk in chunks if begin < chunk.section.own_start < end]
    assert len(within) > 50
    assert {chunk.context for chunk in within} == {"book.md\nBook > Part"}
    assert chunks[-1].context == "book.md\nBook > Next"


def test_a_parent_is_whole_though_a_segment_ends_within_it(extractor: DocumentExtractor) -> None:
    into = collection(strategy="CHUNKING_STRATEGY_PARENT_CHILD", chunkSize=60, parentSize=900)
    _, parts = chunks_of(extractor, in_file(MARKDOWN.encode(), uri="book.md"), into)
    chunks = [chunk for part in parts for chunk in part]
    assert len(parts) > 5
    at = 0
    while at < len(chunks):
        parent = chunks[at : at + 1 + chunks[at].section.siblings_after]
        places = [(chunk.section.siblings_before, chunk.section.siblings_after) for chunk in parent]
        assert places == [(place, len(parent) - 1 - place) for place in range(len(parent))]
        assert len({chunk.signature for chunk in parent}) == 1
        assert parent[-1].section.end - parent[0].section.start <= 900
        at += len(parent)


def test_a_blank_segment_has_no_chunks(extractor: DocumentExtractor) -> None:
    text = f"One.{' ' * 20_000}Two."
    _, parts = chunks_of(extractor, in_file(text.encode()), collection())
    assert [[chunk.section.text for chunk in part] for part in parts] == [["One."], ["Two."]]


def test_too_many_chunks_end_the_work_where_they_show(extractor: DocumentExtractor) -> None:
    with pytest.raises(IngestionError) as raised:
        chunks_of(extractor, in_file(PLAIN.encode()), collection(chunkSize=100), max_chunks=50)
    assert raised.value.failure.reason == error_pb2.TOO_MANY_CHUNKS


def test_cuts_do_not_depend_on_how_the_text_comes() -> None:
    """A re-index reads what an ingestion has cut, or in parts of an earlier release."""

    def cut(size: int) -> list[TextSegment]:
        headings = known_headings(deque([Heading(1, "One", 10), Heading(2, "Two", 20_000)]))
        cutter = HeadedCutter(is_markdown=True, read_headings=headings, characters=3000)
        found = [
            segment
            for start in range(0, len(MARKDOWN), size)
            for segment in cutter.feed(MARKDOWN[start : start + size])
        ]
        return [*found, *cutter.end()]

    assert cut(7) == cut(3000) == cut(10**6)
    assert [heading.title for segment in cut(7) for heading in segment.headings] == ["One", "Two"]


def test_a_spool_gives_back_what_it_was_given_as_often_as_asked(tmp_path: Path) -> None:
    with Spool(str.encode, bytes.decode, directory=tmp_path) as spool:
        assert (list(spool), len(spool)) == ([], 0)
        spool.append("one")
        assert list(spool) == ["one"]
        for value in ("", "three", "vier"):
            spool.append(value)
        assert list(zip(spool, spool, strict=True)) == [(v, v) for v in ("one", "", "three", "vier")]
        assert len(spool) == 4
        assert not list(tmp_path.iterdir()), "a killed process leaves nothing behind"


def test_chunks_know_the_page_they_begin_on_across_segments(extractor: DocumentExtractor) -> None:
    text = "\n\n\f\n\n".join(f"Page {number}.\n\n" + "Some words. " * 40 for number in range(1, 31))
    _, parts = chunks_of(extractor, in_file(text), collection(chunkSize=400, chunkOverlap=0))
    chunks = [chunk for part in parts for chunk in part]
    assert len(parts) > 3
    begins = [c.section.start + len(c.section.text) - len(c.section.text.lstrip()) for c in chunks]
    assert [chunk.page for chunk in chunks] == [1 + text.count("\f", 0, begin) for begin in begins]
    ends = [c.section.start + len(c.section.text.rstrip()) for c in chunks]
    assert [chunk.last_page for chunk in chunks] == [1 + text.count("\f", 0, end) for end in ends]
    assert {chunk.page for chunk in chunks} == set(range(1, 31))


def test_chunks_of_a_text_without_pages_are_on_none(extractor: DocumentExtractor) -> None:
    _, parts = chunks_of(extractor, in_file(PLAIN), collection())
    assert {chunk.page for part in parts for chunk in part} == {0}


def test_what_a_table_is_cut_into_repeats_its_head(extractor: DocumentExtractor) -> None:
    _repeats_its_head(extractor, rows=60)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_table_over_segments_repeats_its_head_in_each(extractor: DocumentExtractor, strategy: str) -> None:
    settings = {"strategy": f"CHUNKING_STRATEGY_{strategy}"}
    assert _repeats_its_head(extractor, rows=700, **settings) > 4


def _repeats_its_head(extractor: DocumentExtractor, rows: int, **settings: object) -> int:
    """Return the number of parts that are chunked on their own."""
    table = "".join(f"| Valve {number} | {number} mm |\n" for number in range(rows))
    text = f"# Widths\n\nBefore it.\n\n| Name | Width |\n|---|---|\n{table}\nBehind it.\n\n{PLAIN}"
    into = collection(chunkSize=300, chunkOverlap=0, **settings)
    _, parts = chunks_of(extractor, in_file(text, uri="a.md"), into)
    chunks = [chunk for part in parts for chunk in part]
    begin, end = text.index("|---"), text.index("\nBehind it.")
    within = [chunk for chunk in chunks if begin < chunk.section.start < end]
    assert len(within) > 3
    assert all(chunk.context.endswith("\n| Name | Width |") for chunk in within)
    assert all("| Name | Width |" not in chunk.context for chunk in chunks if chunk not in within)
    return len(parts)
