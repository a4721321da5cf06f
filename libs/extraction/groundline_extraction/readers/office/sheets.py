"""Sheets of cells as text: each row a record under the names of its columns."""

import re
from collections.abc import Iterator, Sequence
from itertools import chain, groupby
from typing import Final

from openpyxl.utils.cell import get_column_letter

from groundline_extraction.readers.building import escaped
from groundline_extraction.readers.data.table import row_text

__all__ = ["MAX_CELLS", "Comments", "Merged", "Rows", "fill_merged", "sheet_blocks"]

MAX_CELLS: Final = 2_000_000

type Rows = list[list[str]]
type Merged = Sequence[tuple[tuple[int, int], tuple[int, int]]]
"""First row and column, last row and column, from 0."""
type Comments = dict[tuple[int, int], str]
"""By row and column, from 0."""


def fill_merged(rows: Rows, merged: Merged) -> None:
    """Copy the text of each merged cell to all of its places."""
    for (top, left), (bottom, right) in merged:
        if top < len(rows) and left < len(rows[top]) and (value := rows[top][left]):
            for row in rows[top : bottom + 1]:
                for column in range(left, min(right + 1, len(row))):
                    row[column] = row[column] or value


def sheet_blocks(rows: Rows, comments: Comments | None = None) -> Iterator[str]:
    """Yield the tables that empty rows divide: records under their header rows; lines of one cell as they
    are. Comments stand behind their cells; those on header rows stand once, before the records."""
    left = dict(comments or {})
    end = 0
    for is_filled, group in groupby(rows, key=any):
        table = list(group)
        start, end = end, end + len(table)
        if not is_filled:
            continue
        # A title above the names, and notes.
        while table and sum(map(bool, table[0])) < 2:
            yield escaped(" ".join(filter(None, _commented(table.pop(0), start, left))))
            start += 1
        if table:
            names, body = _header(table)
            heads = table[: len(table) - len(body)]
            marked = [_commented(head, start + at, left) for at, head in enumerate(heads)]
            start += len(heads)
            changed = [
                cell
                for head, shown in zip(heads, marked, strict=True)
                for plain, cell in zip(head, shown, strict=True)
                if cell != plain
            ]
            if body and changed:
                yield escaped("\n".join(changed))
            for at, row in enumerate(body, start):
                yield escaped(row_text(names, _commented(row, at, left)))
            if not body:
                yield escaped(" ".join(filter(None, chain.from_iterable(marked) if changed else names)))
    if left:
        yield escaped("\n".join(f"{_place(*at)}: {_comment(left[at])}" for at in sorted(left)))


def _commented(row: Sequence[str], index: int, left: Comments) -> Sequence[str]:
    """Return the cells of a row with their comments, which are taken out of `left`."""
    if not left:
        return row
    return [
        f"{cell} {_comment(left.pop((index, column)))}".strip() if (index, column) in left else cell
        for column, cell in enumerate(row)
    ]


def _comment(text: str) -> str:
    return f"[Comment: {text}]"


def _place(row: int, column: int) -> str:
    return f"{get_column_letter(column + 1)}{row + 1}"


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
