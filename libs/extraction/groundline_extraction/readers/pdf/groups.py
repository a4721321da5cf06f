"""Heads of tables that are set by spaces alone: which columns a name stands over."""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from math import inf
from typing import Final, NamedTuple

type Span = tuple[float, float]
"""Left and right edge."""
_MAX_COLUMNS: Final = 40
"""Maximum columns for which groups are looked for."""
_OFF: Final = 1 / 12
"""Maximum distance of a name from where it belongs, as a share of the distance of columns."""


class TableColumns(NamedTuple):
    """Columns of a table, and where their names stand; None: it has none."""

    spans: Sequence[Span]
    names: Sequence[Span | None]

    @property
    def off(self) -> float:
        return _OFF * min(right[0] - left[0] for left, right in pairwise(self.spans))

    def from_left(self, name: Span, group: range) -> float:
        first = self.names[group[0]]
        return abs(name[0] - first[0]) if first else inf

    def from_middle(self, name: Span, group: range) -> float:
        return min(
            abs(sum(name) - first[0] - last[1]) / 2
            for places in (self.spans, self.names)
            if (first := places[group[0]]) and (last := places[group[-1]])
        )

    def is_single(self, name: Span, column: int) -> bool:
        """Return whether a name may belong to one column: the first, or one without a name below."""
        left, right = self.spans[column]
        return name[0] < right and name[1] > left and (column == 0 or self.names[column] is None)


class ColumnGroups(NamedTuple):
    """Columns below each name. The best have the most columns and, of those, names nearest to where they
    belong."""

    size: int = 0
    nearness: float = 0.0
    columns: tuple[range, ...] = ()

    def behind(self, group: range, off: float) -> "ColumnGroups":
        return ColumnGroups(self.size + len(group), self.nearness - off, (group, *self.columns))


def groups_over(names: Sequence[Span], columns: TableColumns) -> Sequence[range]:
    """Return the columns that each name stands over, if some stand over several, as many columns each;
    nothing if this cannot be told.

    A name of several columns stands in their middle or, in a row with another one, begins where they do. One
    alone in its row stands in the middle of all columns but the first: any other may be a caption.
    """
    count = len(columns.spans)
    if not 3 <= count <= _MAX_COLUMNS:
        return ()
    if len(names) == 1:
        others = range(1, count)
        is_head = names[0][0] > columns.spans[0][1] and columns.from_middle(names[0], others) <= columns.off
        return (others,) if is_head else ()
    found = [
        groups
        for least, distance in ((2, columns.from_left), (1, columns.from_middle))
        for size in range(2, count)
        if (groups := _best(names, columns, size, distance))
        and sum(len(group) > 1 for group in groups.columns) >= least
    ]
    return max(found, key=lambda groups: groups[:2], default=ColumnGroups()).columns


def _best(
    names: Sequence[Span], columns: TableColumns, size: int, distance: Callable[[Span, range], float]
) -> ColumnGroups | None:
    """Return the best groups, of one column or of `size`, for names in their order."""

    @cache
    def best(number: int, begin: int) -> ColumnGroups | None:
        if number == len(names):
            return ColumnGroups()
        found = (
            rest.behind(group, off)
            for group, off in _groups(names[number], columns, begin, size, distance)
            if (rest := best(number + 1, group.stop)) is not None
        )
        return max(found, key=lambda groups: groups[:2], default=None)

    return best(0, 0)


def _groups(
    name: Span, columns: TableColumns, begin: int, size: int, distance: Callable[[Span, range], float]
) -> Iterator[tuple[range, float]]:
    """Yield columns from `begin` on that a name may stand over, and how far it is from where it belongs."""
    for first in range(max(begin, 1), len(columns.spans) - size + 1):
        group = range(first, first + size)
        off = distance(name, group)
        if off <= columns.off and name[1] <= columns.spans[group[-1]][1] + columns.off:
            yield group, off
    for column in range(begin, len(columns.spans)):
        if columns.is_single(name, column):
            yield range(column, column + 1), 0.0
