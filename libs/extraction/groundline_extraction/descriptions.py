"""Pictures within a document, and descriptions of them put into its text."""

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Final

from groundline.v1 import passage_pb2

from groundline_extraction.readers.common import LineEdges, PicturePart, encoded_bytes, read_picture
from groundline_extraction.segments import page_lines
from groundline_extraction.spooling import Spool
from groundline_extraction.texts import TextSegment

_BETWEEN: Final = "\n\n"


@dataclass(frozen=True, slots=True)
class PlacedDescription:
    """A paragraph for a picture, to stand behind `start` in the text, and the edges of the picture on its
    page, if they are known."""

    start: int
    text: str
    edges: LineEdges | None = None


def kept_pictures(directory: Path | None) -> Spool[PicturePart]:
    """Return a spool of pictures, which can be gone through again."""
    return Spool(_dumped, _loaded, directory=directory)


def with_descriptions(
    segments: Iterable[TextSegment], descriptions: Sequence[PlacedDescription]
) -> Iterator[TextSegment]:
    """Yield the segments of a text with the descriptions in it. Headings, rows and lines keep their places in
    the text; a description whose picture has edges is a line of its page."""
    ordered = sorted(descriptions, key=lambda one: one.start)
    following = iter(segments)
    segment = next(following, TextSegment(""))
    inserted = _Inserted(ordered, is_alone=not segment.text)
    start = 0
    while True:
        coming = next(following, None)
        text = inserted.text(segment, is_last=coming is None)
        pages = inserted.pages(segment.pages) if coming is None else segment.pages
        yield replace(inserted.moved(segment), text=text, start=start, pages=pages)
        if coming is None:
            return
        start, segment = start + len(text), coming


class _Inserted:
    """Blocks of descriptions between the parts of a text."""

    def __init__(self, descriptions: Sequence[PlacedDescription], *, is_alone: bool) -> None:
        """Take descriptions by their starts. `is_alone`: the document has no other text."""
        self._descriptions = descriptions
        self._blocks = [
            # A block before all text ends with the blank line with which others begin.
            one.text + _BETWEEN
            if one.start <= 0 and not is_alone
            else one.text
            if is_alone and index == 0
            else _BETWEEN + one.text
            for index, one in enumerate(descriptions)
        ]
        self._starts = [one.start for one in descriptions]
        self._lengths = list(accumulate(map(len, self._blocks), initial=0))
        self._done = 0

    def text(self, segment: TextSegment, *, is_last: bool) -> str:
        """Return the text of the next segment with the blocks that belong to it."""
        end = len(segment.text)
        until = bisect_right(self._starts, segment.start + end)
        parts, at = [], 0
        for index in range(self._done, len(self._blocks) if is_last else until):
            place = min(max(self._starts[index] - segment.start, at), end)
            parts += [segment.text[at:place], self._blocks[index]]
            at = place
        self._done = until
        return "".join([*parts, segment.text[at:]])

    def moved(self, segment: TextSegment) -> TextSegment:
        """Return a segment with its headings and rows where they stand now."""
        return replace(
            segment,
            headings=tuple(replace(one, start=self._moved(one.start)) for one in segment.headings),
            tables=tuple(
                replace(table, rows=[row._replace(start=self._moved(row.start)) for row in table.rows])
                for table in segment.tables
            ),
        )

    def pages(self, pages: Sequence[passage_pb2.PageLines]) -> tuple[passage_pb2.PageLines, ...]:
        """Return the lines of all pages where they stand now, those of the descriptions among them."""
        lines = [line._replace(start=self._moved(line.start)) for line in _lines(pages)]
        for one, block, before in zip(self._descriptions, self._blocks, self._lengths, strict=False):
            if one.edges is not None:
                ahead = len(_BETWEEN) if block.startswith(_BETWEEN) else 0
                lines.append(one.edges._replace(start=one.start + before + ahead))
        return tuple(page_lines(sorted(lines, key=lambda line: (line.page, line.start))))

    def _moved(self, place: int) -> int:
        return place + self._lengths[bisect_right(self._starts, place)]


def _lines(pages: Iterable[passage_pb2.PageLines]) -> Iterator[LineEdges]:
    """Yield the lines of pages, which are stored as differences."""
    for page in pages:
        fields = (page.starts, page.lefts, page.tops, page.rights)
        places = zip(*map(accumulate, fields), page.heights, strict=True)
        for start, left, top, right, height in places:
            yield LineEdges(page.page, start, left, top, right, top + height)


def _dumped(picture: PicturePart) -> bytes:
    return json.dumps(picture, default=encoded_bytes).encode()


def _loaded(data: bytes) -> PicturePart:
    return read_picture(json.loads(data))
