"""Scores of a document's reading."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Final

import numpy as np

from groundline_benchmarks.extract.documents import Document, Heading, Part

_WORD: Final = re.compile(r"\w+(?:[.,]\w+)*")
_RECORD_NAMES: Final = re.compile(r"^(?:Region|Q\d): ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Reading:
    """Extracted text, with form feeds between pages, and the titles of its headings."""

    text: str
    headings: Sequence[str]


@dataclass(frozen=True, slots=True)
class Scores:
    """Shares, 0 to 1; None if a document has no such part.

    recall and precision: of words, counting repetitions. cells: right in row and column, empty ones too.
    order: 1 less the edit distance of the words, over their number. headings: those that were found. pages:
    those whose words are on them.
    """

    recall: float
    precision: float
    order: float
    cells: float | None
    headings: float | None
    pages: float | None


def score(document: Document, reading: Reading) -> Scores:
    """Compare without regard to marks, case and white space."""
    parts = [part for page in document.pages for part in page]
    truth = [word for part in parts for word in _part_words(part)]
    # The names of the columns are repeated before each cell of a record.
    is_record = document.format in {"csv", "xlsx"}
    found = _words(_RECORD_NAMES.sub("", reading.text) if is_record else reading.text)
    if is_record:
        names = {word for part in parts if isinstance(part, list) for word in _words(" ".join(part[0]))}
        truth = [word for word in truth if word not in names]
    shared = (Counter(truth) & Counter(found)).total()
    grids = [part for part in parts if isinstance(part, list)]
    titles = [part.text for part in parts if isinstance(part, Heading)]
    return Scores(
        recall=shared / max(len(truth), 1),
        precision=shared / max(len(found), 1),
        order=1 - min(_distance(truth, found) / max(len(truth), 1), 1.0),
        cells=_cells(grids, tables_of(document, reading.text)) if grids else None,
        headings=_share(titles, reading.headings) if titles else None,
        pages=_pages(document, reading.text) if document.has_pages else None,
    )


def tables_of(document: Document, text: str) -> list[list[list[str]]]:
    """Return the tables of a text: those of Markdown, or its records."""
    if document.format in {"csv", "xlsx"}:
        return list(_record_tables(text))
    return markdown_tables(text)


def markdown_tables(text: str) -> list[list[list[str]]]:
    """Return the tables of a text in Markdown, cell by cell."""
    tables = []
    for block in re.findall(r"(?:^\|.*\n?)+", text, re.MULTILINE):
        lines = [line for line in block.splitlines() if not re.fullmatch(r"\|(?:[ :]*-+[ :]*\|)+", line)]
        tables.append([[cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines])
    return tables


def _record_tables(text: str) -> Iterator[list[list[str]]]:
    """Yield tables of records, with the names of all of them as columns."""
    for section in re.split(r"^#+ .*$", text, flags=re.MULTILINE):
        records = [
            dict(line.split(": ", 1) for line in record.splitlines() if ": " in line)
            for record in section.split("\n\n")
        ]
        records = [record for record in records if record]
        if records:
            names = sorted({name for record in records for name in record})
            names.sort(key=lambda name: name != "Region")
            yield [names, *([record.get(name, "") for name in names] for record in records)]


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]


def _part_words(part: Part) -> list[str]:
    match part:
        case Heading():
            return _words(part.text)
        case str():
            return _words(part)
        case _:
            return [word for row in part for cell in row for word in _words(cell)]


def _distance(truth: Sequence[str], found: Sequence[str]) -> int:
    """Count the words to insert, delete or replace, a row of the table at a time."""
    numbers: dict[str, int] = {}
    one = np.array([numbers.setdefault(word, len(numbers)) for word in truth], np.int64)
    other = np.array([numbers.setdefault(word, len(numbers)) for word in found], np.int64)
    places = np.arange(len(other) + 1)
    row = places.copy()
    for number, word in enumerate(one, 1):
        changed = np.minimum(row[1:] + 1, row[:-1] + (other != word))
        row = np.concatenate(([number], changed))
        # Each inserted word costs one from the cheapest column before.
        row = np.minimum.accumulate(row - places) + places
    return int(row[-1])


def _cells(truth: Sequence[Sequence[Sequence[str]]], found: Sequence[Sequence[Sequence[str]]]) -> float:
    """Score each table against the most similar one."""
    return mean(max((_agreement(table, other) for other in found), default=0.0) for table in truth)


def _agreement(truth: Sequence[Sequence[str]], found: Sequence[Sequence[str]]) -> float:
    cells = [(row, column) for row, line in enumerate(truth) for column in range(len(line))]
    right = sum(
        row < len(found) and column < len(found[row]) and found[row][column] == truth[row][column]
        for row, column in cells
    )
    return right / len(cells)


def _share(wanted: Sequence[str], found: Sequence[str]) -> float:
    given = Counter(" ".join(_words(title)) for title in found)
    return (Counter(" ".join(_words(title)) for title in wanted) & given).total() / len(wanted)


def _pages(document: Document, text: str) -> float:
    found = text.split("\f")
    right = 0
    for number, page in enumerate(document.pages):
        words = Counter(word for part in page for word in _part_words(part) if re.fullmatch(r"n\d+", word))
        here = Counter(_words(found[number])) if number < len(found) else Counter()
        right += (words & here).total() >= 0.95 * words.total()
    return right / len(document.pages)
