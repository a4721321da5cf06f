"""Tables with merged cells as rows of texts, and the heads of such tables."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from typing import Final, NamedTuple

type Cell = tuple[str, int, int]
"""Its text, and how many columns and rows it spans."""

MAX_HEADS: Final = 3
"""Maximum rows of a head; where more are marked as such, the marks are not believed."""

_NUMBER: Final = re.compile(r"[-+]?[\d.,]+ ?%?")
_YEAR: Final = re.compile(r"(?:19|20)\d\d")


class GridRow(NamedTuple):
    """A row, with the text of a merged cell in each of its places.

    `left` and `above`: places that only repeat the cell to their left, or above; `is_head`: the document says
    that the row belongs to the table's head.
    """

    cells: Sequence[str]
    left: frozenset[int] = frozenset()
    above: frozenset[int] = frozenset()
    is_head: bool = False

    @property
    def copies(self) -> dict[int, str]:
        """Places of filled cells that are no numbers, as `TableRow.numbers` has them."""
        return {at: "" for at in sorted(self.left | self.above) if at < len(self.cells) and self.cells[at]}

    def is_one_cell(self, width: int) -> bool:
        """Return whether one merged cell fills a row of this many columns, as titles do."""
        return width > 1 and self.left.issuperset(range(1, width))


class Head(NamedTuple):
    """Head of a table: the title that fills its first rows, the names of its columns, and how many rows both
    take."""

    title: str
    names: Sequence[str]
    height: int


def spread(rows: Iterable[Sequence[Cell]], most_repeated: int) -> Iterator[GridRow]:
    """Yield rows of cells with each text in every place that its cell spans. Beyond `most_repeated` places
    besides the first ones, it stands in its first one only."""
    above: dict[int, tuple[str, int]] = {}
    repeated = 0
    for row in rows:
        placed = {column: text for column, (text, _) in above.items()}
        from_above = frozenset(placed)
        from_left: set[int] = set()
        below = {column: (text, left - 1) for column, (text, left) in above.items() if left > 1}
        repeated += len(above)
        column = 0
        for text, columns, height in row:
            while column in placed:
                column += 1
            if repeated + columns - 1 > most_repeated:
                columns = height = 1
            for right in range(column, column + columns):
                placed.setdefault(right, text)
                if height > 1:
                    below.setdefault(right, (text, height - 1))
            from_left.update(range(column + 1, column + columns))
            repeated += columns - 1
            column += columns
        above = below if repeated + len(below) <= most_repeated else {}
        cells = [placed.get(column, "") for column in range(max(placed, default=-1) + 1)]
        yield GridRow(cells, frozenset(from_left - from_above), from_above)


def head_of(rows: Sequence[GridRow]) -> Head:
    """Return the head of a table that has a row: the first one, and those that belong to it."""
    width = max(len(row.cells) for row in rows)
    titles = list(takewhile(lambda row: row.is_one_cell(width), rows[:-1]))
    table = rows[len(titles) :]
    marked = len(list(takewhile(lambda row: row.is_head, table)))
    count = _count(table, marked if marked <= min(MAX_HEADS, len(table) - 1) else 0)
    title = " ".join(row.cells[0] for row in titles)
    return Head(title, joined_names([row.cells for row in table[:count]]), len(titles) + count)


def joined_names(heads: Sequence[Sequence[str]]) -> list[str]:
    """Return the names of columns from the rows of a head, those of a column joined from above."""
    names = []
    for column in range(max(map(len, heads), default=0)):
        parts = [head[column] for head in heads if column < len(head) and head[column]]
        names.append(" ".join(dict.fromkeys(parts)))
    return names


def is_names(row: Iterable[str]) -> bool:
    """Return whether no cell of a row is a number."""
    return not any(_NUMBER.fullmatch(cell) for cell in row)


def is_head_above(row: Iterable[str], below: Iterable[str]) -> bool:
    """Return whether a row of names, or of years, stands above one that has numbers, and not only years."""
    return is_names(cell for cell in row if not _YEAR.fullmatch(cell)) and not is_names(
        cell for cell in below if not _YEAR.fullmatch(cell)
    )


def _count(table: Sequence[GridRow], marked: int) -> int:
    """Return how many rows the head has; `marked` of them are known to be its rows. Another one belongs to it
    if it divides a merged cell above it and stands beside one that comes down from the head and ends there,
    or, in a head without marks, is of names or years where the row below has numbers."""
    count = max(1, marked)
    while count < min(MAX_HEADS, len(table) - 1):
        over, row, body = table[count - 1], table[count], table[count + 1]
        if not any(_differs(row.cells, at) for at in over.left):
            break
        is_beside = 0 < len(row.above) < len(row.cells) and not body.above & row.above
        if not is_beside and (marked or not is_head_above(row.cells, body.cells)):
            break
        count += 1
    return count


def _differs(cells: Sequence[str], at: int) -> bool:
    return at < len(cells) and cells[at] != cells[at - 1]
