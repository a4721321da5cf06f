"""Tables as they are stored: typed columns, and rows of which totals are known."""

from collections.abc import Sequence
from decimal import Decimal
from itertools import batched

import pytest
from groundline.v1 import table_pb2
from groundline_extraction.tables import TableRow, TableRows
from groundline_indexing.tables import found
from groundline_indexing.tables.found import StoredRow, found_tables, stored_rows


def parts(columns: Sequence[str], *rows: Sequence[str], at_a_time: int = 2) -> list[TableRows]:
    numbered = [TableRow(number, number * 10, tuple(row)) for number, row in enumerate(rows, 2)]
    return [TableRows(0, "", tuple(columns), part, left=0) for part in batched(numbered, at_a_time)]


def stored(columns: Sequence[str], *rows: Sequence[str]) -> list[StoredRow]:
    given = parts(columns, *rows)
    return list(stored_rows(given, found_tables(given, "")))


def totals(columns: Sequence[str], *rows: Sequence[str]) -> list[str]:
    return [row.texts[0] for row in stored(columns, *rows) if row.is_total]


def test_a_column_is_typed_by_all_rows_of_its_table() -> None:
    given = parts(["Part", "Weight (kg)"], ["a", "1,5"], ["b", "1.234"], ["c", "2"])
    [table] = found_tables(given, "").values()
    assert [column.type for column in table.columns] == [
        table_pb2.COLUMN_TYPE_TEXT,
        table_pb2.COLUMN_TYPE_NUMBER,
    ]
    assert [row.numbers[1] for row in stored_rows(given, {0: table})] == [
        Decimal("1.5"),
        Decimal(1234),
        Decimal(2),
    ]


def test_names_and_whole_numbers_can_be_named_by_questions() -> None:
    [row, *_] = stored(["Part", "Year", "Price"], ["DN-6 (new)", "2024", "1.50"], ["b", "2025", "2.5"])
    assert row.keys == [("dn-6 new", 0, "DN-6 (new)"), ("2024", 1, "2024")]


def test_totals_are_known_by_their_name() -> None:
    assert totals(["Band", "Albums"], ["a", "1"], ["b", "4"], ["Total", "5"]) == ["Total"]
    assert totals(["Band", "Albums"], ["a", "1"], ["b", "4"], ["Total albums", "5"]) == ["Total albums"]
    rows = [["Total War", "9"], ["b", "4"], ["c", "5"], ["d", "6"], ["e", "7"]]
    assert totals(["Game", "Sold"], *rows) == []


def test_a_last_row_in_which_two_columns_add_up_is_a_total() -> None:
    rows = [["a", "1", "10"], ["b", "2", "20"], ["c", "4", "40"]]
    assert totals(["Land", "x", "y"], *rows, ["BW", "7", "70"]) == ["BW"]
    assert totals(["Land", "x", "y"], *rows, ["d", "7", "71"]) == []
    assert totals(["Land", "x"], *([row[0], row[1]] for row in rows), ["d", "7"]) == []


def test_a_table_beyond_its_maximum_of_rows_is_cut_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(found, "MAX_ROWS", 3)
    given = parts(["id"], *([str(number)] for number in range(7)))
    [table] = found_tables(given, "").values()
    assert (table.row_count, table.is_cut) == (3, True)
    assert [row.texts for row in stored_rows(given, {0: table})] == [["0"], ["1"], ["2"]]


def test_a_table_without_names_or_with_too_many_columns_is_none() -> None:
    assert found_tables(parts(["", ""], ["a", "b"]), "") == {}
    assert found_tables(parts(["x"] * 16_001, ["a"]), "") == {}


def test_short_and_long_rows_have_the_tables_columns() -> None:
    rows = stored(["a", "b"], ["1"], ["1", "2", "3"])
    assert [row.texts for row in rows] == [["1", ""], ["1", "2"]]
    assert [row.numbers for row in rows] == [[1, None], [1, 2]]
