"""Segments of texts, cut by their content, so that revisions share those that did not change."""

import hashlib
import re
import zlib
from collections.abc import Iterable, Iterator
from typing import Final

MAX_CHARACTERS: Final = 8192
_SHORT: Final = 32
"""Characters below which a line or sentence ends few segments, so that most go with a longer one."""
_SHORT_ENDS: Final = 8
"""Share of short ones that end a segment, as its reciprocal."""

# The rest of a line, or of a sentence within it; of one without an end a piece.
_UNIT: Final = re.compile(r"[^\n]{0,2000}?(?:\n|[.!?;] |\Z)|[^\n]{1,2000}")


class SegmentCutter:
    """Cutter of a text that comes in parts into segments of a line or sentence, by what these say: a change
    leaves the cuts before and soon behind it where they were.

    Source: content-defined chunking, as in LBFS (Muthitacharoen et al., SOSP 2001), with sentences in place
    of windows.
    """

    def __init__(self, lines: int = 1) -> None:
        """Take the number of lines or sentences that a segment has on average."""
        self._lines = lines
        self._held: list[str] = []
        self._size = 0
        self._tail = ""

    def feed(self, text: str) -> Iterator[str]:
        """Yield the segments that are complete with this part."""
        # The last line may go on in the next part.
        end = text.rfind("\n") + 1
        whole, self._tail = (self._tail + text[:end], text[end:]) if end else ("", self._tail + text)
        yield from self._cut(whole)
        if len(self._tail) > MAX_CHARACTERS:
            whole, self._tail = self._tail, ""
            yield from self._cut(whole)

    def end(self) -> Iterator[str]:
        """Yield the segments that are left."""
        yield from self._cut(self._tail)
        if self._held:
            yield "".join(self._held)

    def _cut(self, text: str) -> Iterator[str]:
        for unit in filter(None, _UNIT.findall(text)):
            self._held.append(unit)
            self._size += len(unit)
            ends = self._lines * (_SHORT_ENDS if len(unit) < _SHORT else 1)
            if ends == 1 or self._size >= MAX_CHARACTERS or zlib.crc32(unit.encode()) % ends == 0:
                yield "".join(self._held)
                self._held, self._size = [], 0


def text_hash(texts: Iterable[str]) -> bytes:
    """Return the SHA-256 of a document's extracted text, which comes in parts."""
    digest = hashlib.sha256()
    for text in texts:
        digest.update(text.encode())
    return digest.digest()
