"""Layouts of texts: of which stretches of stored text, or of another layout's, a text consists."""

import hashlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from groundline_indexing.revisions.numbers import DIGEST_BYTES, SegmentNumbers

STRETCHES_A_ROW: Final = 256
"""Maximum stretches of a row: what is read for an excerpt, and again for each stretch of a base."""


class Layout:
    """Stretches of a text in its order. A source from 0 on is a place of stored text, one below 0 stands for
    the offset -1 - source in the base layout's text."""

    def __init__(self) -> None:
        self.sources = array("q")
        self.lengths = array("i")

    @classmethod
    def of(cls, rows: Iterable[tuple[Sequence[int], Sequence[int]]]) -> Self:
        """Take sources and lengths of a layout's rows."""
        layout = cls()
        for sources, lengths in rows:
            layout.sources.extend(sources)
            layout.lengths.extend(lengths)
        return layout

    def add(self, source: int, length: int) -> None:
        """Add a stretch, to the one before it if it goes on there."""
        if self.sources:
            last, size = self.sources[-1], self.lengths[-1]
            if source == (last + size if last >= 0 else last - size):
                self.lengths[-1] += length
                return
        self.sources.append(source)
        self.lengths.append(length)

    def rows(self) -> Iterator[tuple[int, Sequence[int], Sequence[int]]]:
        """Yield some stretches at a time: the first one's offset, sources and lengths."""
        start = 0
        for at in range(0, len(self.sources), STRETCHES_A_ROW):
            lengths = self.lengths[at : at + STRETCHES_A_ROW]
            yield start, self.sources[at : at + STRETCHES_A_ROW].tolist(), lengths.tolist()
            start += sum(lengths)


class StoredSegments:
    """Segments of the texts that are stored of a document's revisions: the place of each, by its content."""

    def __init__(self) -> None:
        self._numbers = SegmentNumbers()
        self._places = array("q")
        self._sizes = array("i")
        self.end = 0
        """Place behind all."""

    def put(self, segments: Sequence[str], place: int) -> None:
        """Take segments that are stored one behind the other from a place on, behind those before."""
        self._put(segments, _digests(segments), place)

    def find(self, segments: Sequence[str]) -> tuple[list[int], list[str]]:
        """Return the numbers of segments, and those that were not stored: their places are behind all."""
        digests = _digests(segments)
        known = self._numbers.find(digests) if segments else {}
        new: dict[bytes, str] = {}
        for digest, segment in zip(digests, segments, strict=True):
            if digest not in known:
                new.setdefault(digest, segment)
        first = len(self._places)
        known.update((digest, first + place) for place, digest in enumerate(new))
        if new:
            self._put(list(new.values()), list(new), self.end)
        return [known[digest] for digest in digests], list(new.values())

    def layout(self, numbers: Iterable[int]) -> Layout:
        """Return the layout of a text by places alone."""
        layout = Layout()
        for number in numbers:
            layout.add(self._places[number], self._sizes[number])
        return layout

    def differences(self, numbers: Iterable[int], base: Layout) -> Layout:
        """Return the layout of a text by offsets in a base and by places of what the base does not have."""
        order, offsets = self._segments_of(base)
        at = np.full(len(self._places), -1, np.int32)
        at[order[::-1]] = np.arange(len(order), dtype=np.int32)[::-1]
        offsets_of = array("q", offsets.tobytes())
        first_of, in_order = array("i", at.tobytes()), array("i", order.astype(np.int32).tobytes())
        layout, last = Layout(), -1
        for number in numbers:
            # A segment that is there repeatedly: rather where the text goes on.
            goes_on = last + 1 < len(in_order) and in_order[last + 1] == number
            found = last + 1 if goes_on else first_of[number]
            if found >= 0:
                layout.add(-1 - offsets_of[found], self._sizes[number])
                last = found
            else:
                layout.add(self._places[number], self._sizes[number])
        return layout

    def _segments_of(self, layout: Layout) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the segments that a layout by places has, by their numbers, and their offsets in its text;
        without those whose text is not stored any more."""
        places = np.array(self._places, np.int64)
        ends = places + np.array(self._sizes, np.int32)
        sources, lengths = np.array(layout.sources, np.int64), np.array(layout.lengths, np.int64)
        first = np.searchsorted(places, sources)
        counts = np.maximum(np.searchsorted(ends, sources + lengths, "right") - first, 0)
        numbers = np.repeat(first - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
        return numbers, places[numbers] + np.repeat(np.cumsum(lengths) - lengths - sources, counts)

    def _put(self, segments: Sequence[str], digests: Sequence[bytes], place: int) -> None:
        first = len(self._places)
        for segment in segments:
            self._places.append(place)
            self._sizes.append(len(segment))
            place += len(segment)
        self.end = max(self.end, place)
        self._numbers.put(digests, range(first, len(self._places)))


def _digests(segments: Iterable[str]) -> list[bytes]:
    return [hashlib.blake2b(each.encode(), digest_size=DIGEST_BYTES).digest() for each in segments]
