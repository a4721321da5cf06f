"""Text for a terminal."""

import json
import re
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import Enum
from typing import Final

import click

_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"
_ELLIPSIS: Final = "\N{HORIZONTAL ELLIPSIS}"
# Characters that reorder what is around them can make a line read as something else (CVE-2021-42574).
_REORDERING: Final = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def printable(text: str) -> str:
    """Return `text` without characters that could control the terminal; of all controls only line feeds and
    tabs stay."""
    return "".join(map(_printable, text))


def one_line(text: str) -> str:
    """Return `text` printable and on one line: a name with a line feed must not look like two."""
    return printable(re.sub(r"\s+", " ", text))


def summary(text: str, *, length: int) -> str:
    """Return the beginning of `text` on one line, cut at a word and marked with an ellipsis."""
    words = one_line(text).strip()
    if len(words) <= length:
        return words
    return words[:length].rsplit(" ", 1)[0] + _ELLIPSIS


def shown_enum(value: Enum) -> str:
    """Return a value in lower case, with spaces."""
    return value.name.lower().replace("_", " ")


def shown_time(time: datetime | None) -> str:
    """Format a time in UTC to the second, as RFC 3339; "" for None."""
    return "" if time is None else time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@contextmanager
def logging_from(level: int) -> Iterator[None]:
    """Keep log lines below `level`, one of `logging`, out of the terminal, and let them in again after."""
    import structlog

    before = structlog.get_config()["wrapper_class"]
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(level))
    try:
        yield
    finally:
        structlog.configure(wrapper_class=before)


def print_json(value: object) -> None:
    """Print one line of JSON. ASCII only, so that it holds nothing that could control the terminal."""
    click.echo(json.dumps(value))


def print_columns(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table: numbers to the right, everything else to the left. Without rows nothing is printed."""
    if not rows:
        return
    right = [isinstance(cell, int | float) for cell in rows[0]]
    lines = [list(headings), *([_cell(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for number, line in enumerate(lines):
        cells = zip(line, widths, right, strict=True)
        text = "  ".join(cell.rjust(width) if r else cell.ljust(width) for cell, width, r in cells).rstrip()
        click.echo(click.style(text, bold=True) if number == 0 else text)


def _cell(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, float) else one_line(str(value)).strip()


def _printable(character: str) -> str:
    if character in "\n\t":
        return character
    # Cc: controls, also the C1 set, which terminals take for escape sequences. Cs: half of a surrogate pair,
    # which no encoding writes.
    if character in _REORDERING or unicodedata.category(character) in ("Cc", "Cs"):
        return _REPLACEMENT
    return character
