"""Cutting by semantic-text-splitter, which releases the GIL while it works."""

from collections.abc import Sequence

from semantic_text_splitter import MarkdownSplitter, TextSplitter

from groundline_ingestor.adapters.extraction import MARKDOWN
from groundline_ingestor.domain import Chunking, Section

__all__ = ["RecursiveSplitter"]


class RecursiveSplitter:
    """The recursive strategy, in characters: cuts at the largest boundary that fits."""

    def split(self, text: str, mime_type: str, chunking: Chunking) -> Sequence[Section]:
        """Sections of at most `chunk_size` code points, trimmed of white space, in order; none is blank."""
        kind = MarkdownSplitter if mime_type == MARKDOWN else TextSplitter
        splitter = kind(chunking.chunk_size, chunking.chunk_overlap)
        return [
            Section(cut, start, start + len(cut))
            for start, cut in splitter.chunk_indices(text)
            if cut.strip()
        ]
