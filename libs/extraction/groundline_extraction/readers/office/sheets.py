"""Sheets of cells as text: each row a record under the names of its columns."""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from groundline_extraction.readers.building import escaped
from groundline_extraction.readers.data.table import row_text

__all__ = ["MAX_CELLS", "Merged", "Rows", "fill_merged", "sheet_blocks"]

MAX_CELLS: Final = 2_000_000

type Rows = list[list[str]]
type Merged = Sequence[tuple[tuple[int, int], tuple[int, int]]]
"""First row and column, last row and column, from 0."""


def fill_merged(rows: Rows, merged: Merged) -> None:
    """Copy the text of each merged cell to all of its places."""
    for (top, left), (bottom, right) in merged:
        if top < len(rows) and left < len(rows[top]) and (value := rows[top][left]):
            for row in rows[top : bottom + 1]:
                for column in range(left, min(right + 1, len(row))):
                    row[column] = row[column] or value


def sheet_blocks(rows: Rows) -> Iterator[str]:
    """Yield the tables that empty rows divide: records under their header rows; lines of one cell as they
    are."""
    for is_filled, group in groupby(rows, key=any):
        if not is_filled:
            continue
        table = list(group)
        # A title above the names, and notes.
        while table and sum(map(bool, table[0])) < 2:
            yield escaped(" ".join(filter(None, table.pop(0))))
        if table:
            names, body = _header(table)
            yield from (escaped(row_text(names, row)) for row in body)
            if not body:
                yield escaped(" ".join(filter(None, names)))


def _header(table: Rows) -> tuple[list[str], Rows]:
    """Return the names of the columns, from the first row and the rows that belong to it, and the rows
    below."""
    heads = [table[0]]
    for row in table[1:3]:
        # A second row of names is below merged ones, which repeat.
        if not (_is_names(row) and _repeats(heads[-1])):
            break
        heads.append(row)
    names = []
    for column in range(max(map(len, heads))):
        parts = [head[column] for head in heads if column < len(head) and head[column]]
        names.append(" ".join(dict.fromkeys(parts)))
    return names, table[len(heads) :]


def _is_names(row: Sequence[str]) -> bool:
    return not any(re.fullmatch(r"[-+]?[\d.,]+ ?%?", cell) for cell in row if cell)


def _repeats(row: Sequence[str]) -> bool:
    filled = [cell for cell in row if cell]
    return len(set(filled)) < len(filled)
