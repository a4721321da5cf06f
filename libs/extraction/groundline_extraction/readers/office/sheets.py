"""Sheets of cells: each row a record under the names of its columns, and a row of a table."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import merge
from itertools import chain, groupby
from operator import attrgetter
from typing import Final

from openpyxl.utils.cell import get_column_letter

from groundline_extraction.readers.building import MarkdownBuilder, escaped
from groundline_extraction.readers.common import ReaderLimits, one_line
from groundline_extraction.readers.data.table import row_text
from groundline_extraction.readers.grids import is_names, joined_names
from groundline_extraction.readers.images.pictures import record_picture
from groundline_extraction.tables import TableRow

MAX_CELLS: Final = 2_000_000

type Rows = list[list[str]]
type Merged = Sequence[tuple[tuple[int, int], tuple[int, int]]]
"""First row and column, last row and column, from 0."""
type Comments = dict[tuple[int, int], str]
"""By row and column, from 0."""
type Numbers = dict[tuple[int, int], str]
"""Exact numbers of cells that show others, by row and column, from 0; "" where a merged cell is repeated."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """Cells of a sheet as it shows them. `has_references`: its columns, and its rows or their `places`, are
    those of the sheet, from 0; `has_points`: points stand before decimals, whatever the language; `pictures`:
    each with the row that it begins in, from 0, in the order of these."""

    name: str
    rows: Rows
    comments: Comments = field(default_factory=dict)
    numbers: Numbers = field(default_factory=dict)
    has_references: bool = True
    has_points: bool = False
    places: Sequence[int] = ()
    pictures: Iterable[tuple[int, bytes]] = ()


@dataclass(frozen=True, slots=True)
class _Block:
    """A text, and the row that it shows; `columns` are one object for all rows of a table. Or a picture."""

    text: str
    columns: Sequence[str] = ()
    row: int = 0
    cells: Sequence[str] = ()
    picture: bytes | None = None


def add_sheet(builder: MarkdownBuilder, sheet: Sheet, limits: ReaderLimits) -> None:
    """Append the tables of a sheet, which empty rows divide, and the lines between them; a picture is
    recorded behind the row that it begins in."""
    builder.heading(2, sheet.name)
    by_row: dict[int, dict[int, str]] = {}
    for (row, column), exact in sheet.numbers.items():
        by_row.setdefault(row, {})[column] = exact
    columns: Sequence[str] = ()
    caption = ""
    pictures = (_Block("", row=row, picture=data) for row, data in sheet.pictures)
    for block in merge(_blocks(sheet.rows, sheet.comments), pictures, key=attrgetter("row")):
        if block.picture is not None:
            record_picture(builder, block.picture, limits)
            continue
        start = builder.start
        builder.add(block.text)
        if not block.cells:
            caption = block.text
            continue
        if block.columns is not columns:
            columns = block.columns
            builder.begin_table(
                columns,
                name=one_line(caption),
                sheet=sheet.name,
                left=0 if sheet.has_references else -1,
                has_points=sheet.has_points,
            )
            caption = ""
        exact_numbers: Mapping[int, str] = by_row.get(block.row, {})
        row = sheet.places[block.row] if sheet.places else block.row
        builder.row(TableRow(row + 1, start, tuple(block.cells), exact_numbers))


def fill_merged(rows: Rows, merged: Merged) -> Numbers:
    """Copy the text of each merged cell to all of its places; return that the copies are no numbers."""
    copies: Numbers = {}
    width = max(map(len, rows), default=0)
    is_padded = width * len(rows) <= MAX_CELLS
    for (top, left), (bottom, right) in merged:
        if top < len(rows) and left < len(rows[top]) and (value := rows[top][left]):
            for at, row in enumerate(rows[top : bottom + 1], top):
                if is_padded:
                    row += [""] * (min(right + 1, width) - len(row))
                for column in range(left, min(right + 1, len(row))):
                    if not row[column]:
                        row[column] = value
                        copies[at, column] = ""
    return copies


def _blocks(rows: Rows, comments: Comments) -> Iterator[_Block]:
    """Yield the tables that empty rows divide: records under their header rows; lines of one cell as they
    are. Comments stand behind their cells; those on header rows stand once, before the records."""
    left = dict(comments)
    end = 0
    for is_filled, group in groupby(rows, key=any):
        table = list(group)
        start, end = end, end + len(table)
        if not is_filled:
            continue
        # A title above the names, and notes.
        while table and sum(map(bool, table[0])) < 2:
            text = " ".join(filter(None, _commented(table.pop(0), start, left)))
            yield _Block(escaped(text), row=start)
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
                yield _Block(escaped("\n".join(changed)), row=start)
            for at, row in enumerate(body, start):
                yield _Block(escaped(row_text(names, _commented(row, at, left))), names, at, row)
            if not body:
                texts = chain.from_iterable(marked) if changed else names
                yield _Block(escaped(" ".join(filter(None, texts))), row=start - 1)
    if left:
        lines = (f"{_place(*at)}: {_comment(left[at])}" for at in sorted(left))
        yield _Block(escaped("\n".join(lines)), row=end)


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
        if not (is_names(row) and _repeats(heads[-1])):
            break
        heads.append(row)
    return joined_names(heads), table[len(heads) :]


def _repeats(row: Sequence[str]) -> bool:
    filled = [cell for cell in row if cell]
    return len(set(filled)) < len(filled)
