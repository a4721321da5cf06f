"""Types of columns, by what their cells have in common."""

from collections.abc import Sequence
from decimal import Decimal

import pytest
from groundline.v1 import table_pb2
from groundline_tables.columns import Column, ColumnEvidence, columns_of, label_of
from groundline_tables.values import DecimalMark

NUMBER = table_pb2.COLUMN_TYPE_NUMBER
TEXT = table_pb2.COLUMN_TYPE_TEXT
DATE = table_pb2.COLUMN_TYPE_DATE


def columns(
    *cells: Sequence[str], names: Sequence[str] = (), mark: DecimalMark = "", of_language: DecimalMark = ""
) -> list[Column]:
    evidence = [ColumnEvidence() for _ in cells]
    for column, each in zip(cells, evidence, strict=True):
        for cell in column:
            each.add(cell)
    return columns_of(names or [f"c{at}" for at in range(len(cells))], evidence, mark, of_language)


def test_a_column_is_what_eight_of_ten_of_its_cells_are() -> None:
    [mostly, hardly] = columns([*["1"] * 8, "x", "x"], [*["1"] * 7, "x", "x", "x"])
    assert (mostly.type, hardly.type) == (NUMBER, TEXT)
    assert mostly.number("x") is None


def test_a_unit_comes_from_the_head_or_from_the_cells() -> None:
    [head, cells] = columns(["2.8", "3"], ["300 EUR", "–"], names=["Weight (kg)", "Price"])
    assert (head.unit, cells.unit) == ("kg", "EUR")
    assert (head.number("2.8"), head.number("900 g")) == (Decimal("2.8"), Decimal("0.9"))
    assert (cells.number("300 EUR"), cells.number("300")) == (Decimal(300), None)


def test_amounts_in_two_currencies_are_no_numbers() -> None:
    [column] = columns(["5 EUR", "5 USD", "6 EUR", "6 USD"])
    assert column.type == TEXT


@pytest.mark.parametrize(
    ("cells", "other", "of_language", "number"),
    [
        (["1.234", "2.500,5"], "7", "", "1234"),
        (["1.234", "2.5"], "7", "", "1.234"),
        (["1.234"], "0,5", "", "1234"),
        (["1.234"], "7", ",", "1234"),
        (["1.234"], "7", ".", "1.234"),
        (["1.234"], "7", "", None),
        (["1.234,5", "1,234.5"], "7", ",", None),
    ],
    ids=[
        "the column's own numbers tell",
        "with decimals",
        "another column tells",
        "German",
        "English",
        "nothing tells",
        "they contradict each other",
    ],
)
def test_the_mark_before_decimals_is_what_the_numbers_or_the_language_say(
    cells: list[str], other: str, of_language: DecimalMark, number: str | None
) -> None:
    [column, _] = columns(cells, [other], of_language=of_language)
    assert column.number("1.234") == (None if number is None else Decimal(number))


def test_days_whose_month_cannot_be_told_are_text() -> None:
    [open_, american, european] = columns(
        ["03/04/2024", "05/06/2024"], ["03/31/2024", "05/06/2024"], ["31/03/2024", "05/06/2024"]
    )
    assert (open_.type, american.type, european.type) == (TEXT, DATE, DATE)
    assert american.number("05/06/2024") != european.number("05/06/2024")


def test_a_rounded_cell_counts_with_its_exact_number() -> None:
    [column] = columns(["2.8"], names=["Weight (kg)"])
    assert column.number("2.8", "2.756") == Decimal("2.756")


@pytest.mark.parametrize(
    ("name", "label", "unit"),
    [
        ("Weight (kg)", "Weight", "kg"),
        ("Preis in EUR", "Preis", "EUR"),
        ("Price [€]", "Price", "EUR"),
        ("Country (ISO)", "Country (ISO)", ""),
        ("In", "In", ""),
    ],
)
def test_a_name_is_divided_from_its_unit(name: str, label: str, unit: str) -> None:
    assert label_of(name) == (label, unit)
