"""Tables as they are asked: conditions in the units of their columns, and the rows that answer."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from groundline.v1 import table_pb2


@dataclass(frozen=True, slots=True)
class StoredTable:
    """A table that may be read; `table_id` is the store's, `left` its first column on its sheet, from 0, -1
    where cells have no references."""

    table_id: int
    table: table_pb2.Table
    left: int
    joined: "StoredTable | None" = None
    """Another table of the document, whose columns are the last of `table`."""

    @property
    def width(self) -> int:
        """Number of its own columns."""
        return len(self.table.columns) - (len(self.joined.table.columns) if self.joined else 0)

    def with_joined(self, joined: "StoredTable") -> "StoredTable":
        """Return the table with the columns of another."""
        both = table_pb2.Table()
        both.CopyFrom(self.table)
        both.columns.extend(joined.table.columns)
        for index, column in enumerate(both.columns):
            column.index = index
        return StoredTable(self.table_id, both, self.left, joined)


class Bound(NamedTuple):
    """Condition on a column's numbers: within the bounds, each open or not, or outside if `is_negated`."""

    column: int
    least: Decimal | None = None
    most: Decimal | None = None
    is_above: bool = False
    """Whether `least` itself is not within."""
    is_below: bool = False
    """Whether `most` itself is not within."""
    is_negated: bool = False


class TextMatch(NamedTuple):
    """Condition on a column's texts: one of the texts, or of the keys as texts are compared; or, `is_part`,
    that the text holds one of them."""

    column: int
    texts: Sequence[str]
    keys: Sequence[str] = ()
    is_part: bool = False
    is_negated: bool = False


@dataclass(frozen=True, slots=True)
class CheckedPlan:
    """A plan whose conditions were checked: each is met if one of its alternatives is."""

    plan: table_pb2.TablePlan
    conditions: Sequence[Sequence[Bound | TextMatch]]
    columns: Sequence[int]
    """Columns to return; of a function none."""
    limit: int
    orders_texts: bool
    """Whether the column of `order_by` holds texts."""
    with_totals: bool
    """Whether rows that are totals of others count as well."""
    group_bounds: Sequence[Bound] = ()
    """Bounds of what is computed of a group, all of which are met; their column means nothing."""


class AnswerRow(NamedTuple):
    """A row of the table with its texts and numbers, or a group with what was computed of it. The places of a
    row are its own and, with a joined table, the one that it found there, if any."""

    texts: Sequence[str]
    numbers: Sequence[Decimal | None]
    row_numbers: Sequence[int | None]
    start_offsets: Sequence[int | None]
    row_count: int = 1
    missing_count: int = 0
