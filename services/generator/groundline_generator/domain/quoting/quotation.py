"""Quotations of sentences, rows of tables and code, as an answer shows them."""

import re
from itertools import zip_longest
from typing import Final

from groundline_generator.domain.markers import without_markers
from groundline_generator.domain.reading import Sentence
from groundline_generator.domain.segments import TAG, Kind, cells

_MAX_CHARACTERS: Final = 1_200
_SPACE: Final = re.compile(r"\s+")
_TEMPLATE_LINK: Final = re.compile(r"\[([^\[\]\n]{1,300})\]\(\{[%{][^()\n]{1,500}[%}]\}[^\s()]{0,500}\)")
"""A link whose address a site's generator puts in."""
_GAP: Final = re.compile(r" {2,}|\t+")


def quotation(sentence: Sentence) -> str:
    """Return a sentence on one line, a row or a cell of a table in words, or code, cut if it is long."""
    if sentence.segment.kind is Kind.CODE:
        return sentence.text.rstrip()[:_MAX_CHARACTERS]
    text = sentence.text
    if sentence.segment.kind is Kind.ROW:
        text = _in_words(sentence)
    elif sentence.segment.kind is Kind.CELL:
        text = f"{sentence.segment.columns}: {text}"
    text = _TEMPLATE_LINK.sub(r"\1", text)
    # The document's own footnote marks would read as citations.
    text = _SPACE.sub(" ", without_markers(TAG.sub(lambda tag: " " if tag["line"] else "", text))).strip()
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
    return cells(bare) if bare.startswith("|") else _GAP.split(bare)
