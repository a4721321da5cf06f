"""Quotations of sentences, rows of tables and code, as an answer shows them."""

import re
from itertools import zip_longest
from typing import Final

from groundline_generator.domain.markers import without_markers
from groundline_generator.domain.reading import Sentence
from groundline_generator.domain.segments import Kind

_MAX_CHARACTERS: Final = 1_200
_SPACE: Final = re.compile(r"\s+")
_GAP: Final = re.compile(r" {2,}|\t+")
_BAR: Final = re.compile(r"(?<!\\)\|")


def quotation(sentence: Sentence) -> str:
    """Return a sentence on one line, a row of a table in words, or code as it stands, cut if it is long."""
    if sentence.segment.kind is Kind.CODE:
        return sentence.text.rstrip()[:_MAX_CHARACTERS]
    text = _in_words(sentence) if sentence.segment.kind is Kind.ROW else sentence.text
    # The document's own footnote marks would read as citations.
    text = _SPACE.sub(" ", without_markers(text)).strip()
    if len(text) > _MAX_CHARACTERS:
        text = text[:_MAX_CHARACTERS].rsplit(" ", 1)[0] + " …"
    return text


def _in_words(row: Sentence) -> str:
    """Return what a row is about, then its other cells, each behind the name of its column."""
    subject, *values = _cells(row.text)
    _, *columns = _cells(row.segment.columns) if row.segment.columns else ("",)
    if len(columns) > len(values):
        columns = []
    named = (
        f"{column}: {value}" if column else value
        for column, value in zip_longest(columns, values, fillvalue="")
        if value
    )
    text = " – ".join(each for each in (subject, "; ".join(named)) if each)
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _cells(line: str) -> list[str]:
    bare = line.strip()
    if not bare.startswith("|"):
        return _GAP.split(bare)
    return [cell.strip().replace("\\|", "|") for cell in _BAR.split(bare.removeprefix("|").removesuffix("|"))]
