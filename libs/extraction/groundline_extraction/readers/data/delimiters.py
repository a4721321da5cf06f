"""Detection of delimiters in tables of text."""

import csv
import re
from collections import Counter
from itertools import islice
from typing import Final

DELIMITERS: Final = ",;\t|"
_STATED: Final = re.compile(r"(\"?)sep=([^\"\r\n])\1(?:\r\n?|\n|$)", re.IGNORECASE)
_LOOKED_AT_ROWS: Final = 50
_CSV_FIELD_CHARACTERS: Final = 16 * 1024**2

csv.field_size_limit(_CSV_FIELD_CHARACTERS)


def delimiter_of(text: str, candidates: str = DELIMITERS) -> str | None:
    """Return the delimiter that gives all of the first rows as many columns; None if none does.

    The last line may be cut off.
    """
    for delimiter in candidates:
        widths = _widths(text, delimiter)
        if sum(widths.values()) >= 2 and len(widths) == 1 and min(widths) >= 2:
            return delimiter
    return None


def stated_delimiter(line: str) -> str | None:
    """Return the delimiter that a first line `sep=;` states, which Excel writes and does not show."""
    found = _STATED.fullmatch(line)
    return found[2] if found else None


def best_delimiter(text: str) -> str:
    """Return the delimiter that gives most of the first rows as many columns, the more columns the better."""

    def agreement(delimiter: str) -> tuple[float, int]:
        widths = _widths(text, delimiter)
        width, rows = max(widths.items(), key=lambda found: (found[0] > 1, found[1]), default=(0, 0))
        return (rows / sum(widths.values()) if width > 1 else 0.0, width)

    return max(DELIMITERS, key=agreement)


def _widths(text: str, delimiter: str) -> Counter[int]:
    lines = text[:65_536].splitlines(keepends=True)
    if len(text) > 65_536:
        lines.pop()
    try:
        rows = list(islice(csv.reader(lines, delimiter=delimiter), _LOOKED_AT_ROWS))
    except csv.Error:
        return Counter()
    return Counter(len(row) for row in rows if row)
