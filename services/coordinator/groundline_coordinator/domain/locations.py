"""Where the supporting texts of citations are in their documents, and on which pages."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

from groundline.v1 import chat_pb2, passage_pb2, retriever_service_pb2

_UNITS: Final = 2000
"""Parts of a page in which PageLines count."""
_WHOLE: Final = 2**31


class Location(NamedTuple):
    """A citation whose supporting text is on a page, and where that is in its document's extracted text."""

    citation: chat_pb2.Citation
    chunks: Sequence[passage_pb2.Chunk]
    """Chunks that it is in."""
    start: int
    end: int


def locate(citations: Iterable[chat_pb2.Citation], passages: Sequence[passage_pb2.Passage]) -> list[Location]:
    """Add to citations the pages that their supporting texts begin on, and return where these are, as far as
    they are found in documents with pages."""
    locations = []
    for citation in citations:
        if 0 < citation.source_number <= len(passages):
            chunks = _joined(passages[citation.source_number - 1])
            found = next(filter(None, (_location(citation, run) for run in chunks)), None)
            if found is not None:
                locations.append(found)
    return locations


def add_boxes(locations: Iterable[Location], lines: Iterable[retriever_service_pb2.DocumentLines]) -> None:
    """Add to citations the boxes of the lines that their supporting texts stand in."""
    pages: dict[str, list[passage_pb2.PageLines]] = {}
    for each in lines:
        pages.setdefault(each.document_id, []).append(each.page)
    for citation, chunks, start, end in locations:
        found = sorted(pages.get(chunks[0].document_id, ()), key=lambda page: page.page)
        for page, following in pairwise([*found, None]):
            if page is not None:
                page_end = following.starts[0] if following else _WHOLE
                citation.boxes.extend(_boxes(page, page_end, start, end))


def _joined(passage: passage_pb2.Passage) -> list[list[passage_pb2.Chunk]]:
    """Return the chunk of a passage and those next to it, in runs without a gap; the chunk's own first."""
    ordered = sorted((passage.chunk, *passage.adjacent_chunks), key=lambda each: each.start_offset)
    runs = [[ordered[0]]]
    for above, chunk in pairwise(ordered):
        if chunk.start_offset == above.end_offset:
            runs[-1].append(chunk)
        else:
            runs.append([chunk])
    return sorted(runs, key=lambda run: passage.chunk not in run)


def _location(citation: chat_pb2.Citation, run: Sequence[passage_pb2.Chunk]) -> Location | None:
    words = citation.supporting_text.removeprefix("…").removesuffix("…").split()
    first = run[0].metadata.fields.get("page")
    if first is None or not first.number_value or not words:
        return None
    text = "".join(chunk.text for chunk in run)
    # Sentences are shown with single spaces.
    found = re.search(r"\s+".join(map(re.escape, words)), text)
    if found is None:
        return None
    citation.page = int(first.number_value) + text[: found.start()].lstrip().count("\f")
    start, end = (run[0].start_offset + place for place in found.span())
    within = [chunk for chunk in run if chunk.start_offset < end and chunk.end_offset > start]
    return Location(citation, within, start, end)


def _boxes(page: passage_pb2.PageLines, page_end: int, start: int, end: int) -> Iterator[chat_pb2.Box]:
    """Yield the boxes of the lines of a page that a text from `start` to `end` touches."""
    edges = zip(
        *(accumulate(each) for each in (page.lefts, page.tops, page.rights)), page.heights, strict=True
    )
    begins = [*accumulate(page.starts), page_end]
    for (begin, following), (left, top, right, height) in zip(pairwise(begins), edges, strict=True):
        if begin < end and following > start:
            yield chat_pb2.Box(
                page=page.page,
                left=left / _UNITS,
                top=top / _UNITS,
                right=right / _UNITS,
                bottom=(top + height) / _UNITS,
            )
