"""RTF by striprtf: its text, and its tables."""

import re
from itertools import groupby
from typing import Final

from striprtf.striprtf import rtf_to_text

from groundline_extraction.readers.building import MarkdownBuilder
from groundline_extraction.readers.common import Hints, Read, ReaderLimits, clean, parsing
from groundline_extraction.readers.grids import GridRow
from groundline_extraction.readers.office.revisions import without_deletions

_CODE_PAGE: Final = re.compile(rb"\\ansicpg(\d{3,5})")
_TITLE: Final = re.compile(r"\{\\title ([^{}\\]*)\}")


def read(data: bytes, hints: Hints, limits: ReaderLimits) -> Read:
    """Read text and tables. Raises ReadError with CORRUPT_DOCUMENT."""
    found = _CODE_PAGE.search(data[:5000])
    encoding = f"cp{found[1].decode()}" if found else "cp1252"
    source = without_deletions(data.decode("latin-1"))
    with parsing("sound RTF"):
        text = clean(rtf_to_text(source, encoding=encoding, errors="replace"))  # type: ignore[no-untyped-call]
    builder = MarkdownBuilder(limits)
    for is_row, lines in groupby(text.splitlines(), key=lambda line: line.rstrip().endswith("|")):
        if is_row:
            builder.table([GridRow(line.rstrip().removesuffix("|").split("|")) for line in lines])
            continue
        for line in lines:
            builder.paragraph(line.strip())
    title = _TITLE.search(source[:10_000])
    return builder.read(title=title[1] if title else "")
