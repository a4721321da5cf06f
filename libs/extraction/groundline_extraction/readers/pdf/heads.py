"""Heads of several rows in tables of pages: each column is named by all of its cells there."""

from collections.abc import Sequence
from itertools import takewhile

from groundline_extraction.readers.grids import GridRow, head_of
from groundline_extraction.readers.pdf.layout import Cell, around


def with_one_head(rows: Sequence[Sequence[Cell]]) -> tuple[Sequence[Cell], Sequence[Sequence[Cell]]]:
    """Return a table's titles, which are merged cells that fill its first rows, and its other rows, of which
    the first names all columns. The places of a merged cell have one box."""
    grid = [_grid_row(row, rows[number - 1] if number else ()) for number, row in enumerate(rows)]
    width = len(rows[0])
    head = head_of(grid)
    titles = len(list(takewhile(lambda row: row.is_one_cell(width), grid[: head.height - 1])))
    names = [
        Cell(name, around([row[at].box for row in rows[titles : head.height]]))
        for at, name in enumerate(head.names)
    ]
    return [row[0] for row in rows[:titles]], [names, *rows[head.height :]]


def _grid_row(row: Sequence[Cell], above: Sequence[Cell]) -> GridRow:
    return GridRow(
        [cell.text for cell in row],
        frozenset(at for at in range(1, len(row)) if _is_one(row[at], row[at - 1])),
        frozenset(at for at, cells in enumerate(zip(row, above, strict=False)) if _is_one(*cells)),
    )


def _is_one(cell: Cell, other: Cell) -> bool:
    return cell.box is not None and cell.box == other.box
