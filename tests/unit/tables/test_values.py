"""Values of cells: nothing is guessed that a document does not say."""

import subprocess
import sys
from decimal import Decimal

import pytest
from groundline_tables.units import convert, is_unit
from groundline_tables.values import (
    DecimalMark,
    boolean_of,
    date_of,
    folded_text,
    is_blank,
    is_total,
    number_of,
    read_number,
)


def read(text: str, mark: DecimalMark = "") -> tuple[Decimal | None, str] | None:
    written = read_number(text)
    return None if written is None else (number_of(written, mark), written.unit)


@pytest.mark.parametrize(
    ("text", "number", "unit"),
    [
        ("2.8 kg", "2.8", "kg"),
        ("1.234,56 €", "1234.56", "EUR"),
        ("$1,234,567", "1234567", "USD"),
        ("CHF 12", "12", "CHF"),
        ("(12.5)", "-12.5", ""),
        ("−5", "-5", ""),
        ("5,-", "5", ""),
        ("0,250", "0.250", ""),
        ("12 345", "12345", ""),
        ("1'234.50", "1234.50", ""),
        ("50%", "50", "%"),
        ("12 doors", "12", "doors"),
    ],
)
def test_a_number_is_read_with_its_unit(text: str, number: str, unit: str) -> None:
    assert read(text) == (Decimal(number), unit)


@pytest.mark.parametrize(
    "text",
    [
        "00123",
        "1.2.3",
        "10 Downing Street",
        "DN 6",
        "A4",
        "3–5",
        "<5",
        "ca. 5",
        "10:30",
        "030 1234567",
        "½",
        "",
    ],
)
def test_codes_versions_ranges_and_addresses_are_no_numbers(text: str) -> None:
    assert read_number(text) is None


@pytest.mark.parametrize(("mark", "number"), [("", None), (".", "1.234"), (",", "1234")])
def test_a_number_of_two_readings_is_none_without_a_mark(mark: DecimalMark, number: str | None) -> None:
    assert read("1.234", mark) == (None if number is None else Decimal(number), "")


def test_a_number_that_contradicts_the_mark_is_none() -> None:
    assert read("1,5", ".") == (None, "")


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("2024-05-31", "2024-05-31T00:00"),
        ("2024-05-31 18:30", "2024-05-31T18:30"),
        ("31.05.2024", "2024-05-31T00:00"),
        ("31. Mai 2024", "2024-05-31T00:00"),
        ("May 31, 2024", "2024-05-31T00:00"),
    ],
)
def test_a_day_is_read_as_documents_write_it(text: str, day: str) -> None:
    found = date_of(text)
    assert found is not None
    assert found.isoformat(timespec="minutes") == f"{day}+00:00"


@pytest.mark.parametrize("text", ["31.04.2024", "2024", "May", "soon"])
def test_what_is_no_day_is_none(text: str) -> None:
    assert date_of(text) is None


def test_marks_for_nothing_yes_and_no_and_totals_are_known() -> None:
    assert all(map(is_blank, ["", " ", "–", "n/a", "k. A."]))
    assert (boolean_of("Ja"), boolean_of("no"), boolean_of("perhaps")) == (True, False, None)
    assert is_total("Summe:")
    assert not is_total("Total SA")
    assert folded_text(" Max.  Druck (bar) ") == "max druck bar"


def test_units_are_converted_within_their_kind_and_money_never() -> None:
    assert convert(Decimal(900), "g", "kg") == Decimal("0.9")
    assert convert(Decimal(20), "°C", "°F") == Decimal(68)
    assert convert(Decimal(1000), "Nm", "kNm") == Decimal(1)
    assert convert(Decimal(1), "kg", "m") is None
    assert convert(Decimal(1), "EUR", "USD") is None


@pytest.mark.parametrize("text", ["x*y", "__import__('os')", "2**9**9", "kg kg", "doors", "a" * 40])
def test_what_is_no_unit_is_not_computed(text: str) -> None:
    assert not is_unit(text)


def test_units_that_threads_read_at_once_in_a_new_process_can_be_compared() -> None:
    asked = """
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from groundline_tables.units import is_unit, same_unit
begin = Barrier(4)
def read(unit):
    begin.wait()
    return is_unit(unit)
with ThreadPoolExecutor(4) as threads:
    assert all(threads.map(read, ["kg", "kilogram", "m", "s"]))
assert same_unit("kg", "kilogram")
"""
    subprocess.run([sys.executable, "-c", asked], check=True)
