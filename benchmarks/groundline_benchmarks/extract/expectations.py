"""Comparison of what was read with what was found by eye."""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Final

from groundline_benchmarks.extract.real import Expected
from groundline_benchmarks.extract.scoring import markdown_tables

_ESCAPE: Final = re.compile(r"\\([^\w\s])")
_LINK: Final = re.compile(r"\[([^\[\]]*)\]\([^()\s]*\)")
_MARKS: Final = re.compile(r"[*_`#|\u00ad]|~~")
_FIELD: Final = re.compile(r"^([^\n:]+(?::[^\n:]+)*?): (.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Found:
    """Result of reading a file: text with form feeds between pages, titles of headings, texts of the files
    within by their paths; or the reason for which it was refused."""

    text: str = ""
    headings: Sequence[str] = ()
    members: Mapping[str, str] = field(default_factory=dict)
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """One expectation, and whether it is met."""

    kind: str
    wanted: str
    is_met: bool


def check(expected: Expected, found: Found) -> list[Check]:
    """Return each expectation of a file, compared without regard to marks and white space."""
    if expected.refused:
        return [Check("refused", expected.refused, found.refused == expected.refused)]
    text = _plain(found.text)
    is_read = bool(text or found.members)
    checks = list(_in_order(expected.phrases, text))
    checks += [Check("absent", phrase, is_read and _plain(phrase) not in text) for phrase in expected.absent]
    titles = {_plain(title) for title in found.headings}
    checks += [Check("heading", title, _plain(title) in titles) for title in expected.headings]
    tables = [[[_plain(cell) for cell in row] for row in table] for table in _tables(found.text)]
    checks += [Check("row", " | ".join(row), _has_row(tables, row)) for row in expected.rows]
    checks += [Check("cell", " | ".join(cell), _has_cell(tables, *cell)) for cell in expected.cells]
    pages = [_plain(page) for page in found.text.split("\f")]
    for number, phrases in expected.pages.items():
        page = pages[int(number) - 1] if int(number) <= len(pages) else ""
        checks += [Check(f"page {number}", phrase, _plain(phrase) in page) for phrase in phrases]
    for path, phrases in expected.members.items():
        checks.append(Check("member", path, path in found.members))
        member = _plain(found.members.get(path, ""))
        checks += [Check(f"member {path}", phrase, _plain(phrase) in member) for phrase in phrases]
    return checks


def _plain(text: str) -> str:
    """Return the words of a text, without marks of Markdown."""
    text = _ESCAPE.sub(r"\1", _LINK.sub(r"\1", unicodedata.normalize("NFKC", text)))
    return " ".join(_MARKS.sub("", text).split())


def _in_order(phrases: Sequence[str], text: str) -> Iterator[Check]:
    position = 0
    for phrase in phrases:
        plain = _plain(phrase)
        begin = text.find(plain, position)
        yield Check("phrase", phrase, begin >= 0)
        if begin >= 0:
            position = begin + len(plain)


def _tables(text: str) -> Iterator[list[list[str]]]:
    """Yield the tables of a text, and each of its records as one of two rows."""
    yield from markdown_tables(text)
    for record in re.split(r"\n\s*\n", text):
        if fields := _FIELD.findall(record):
            yield [[name for name, _ in fields], [value for _, value in fields]]


def _has_row(tables: Sequence[Sequence[Sequence[str]]], wanted: Sequence[str]) -> bool:
    cells = [_plain(cell) for cell in wanted]
    return any(
        row[start : start + len(cells)] == cells
        for table in tables
        for row in table
        for start in range(len(row) - len(cells) + 1)
    )


def _has_cell(tables: Sequence[Sequence[Sequence[str]]], row: str, column: str, value: str) -> bool:
    """Return whether the value stands where the two meet, whichever of them is written across."""
    row, column, value = _plain(row), _plain(column), _plain(value)
    for table in tables:
        across = [list(line) for line in zip_longest(*table, fillvalue="")]
        if _meet(table, row, column, value) or _meet(across, row, column, value):
            return True
    return False


def _meet(table: Sequence[Sequence[str]], row: str, column: str, value: str) -> bool:
    columns = [index for index, name in enumerate(table[0]) if name == column]
    return any(
        row in line and index < len(line) and line[index] == value for line in table[1:] for index in columns
    )
