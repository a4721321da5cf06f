"""Plans for questions: every word must mean something in the table, and all of them one thing."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pytest
from google.protobuf import json_format
from groundline.v1 import table_pb2
from groundline_tables.matching import MAX_WORDS, Known, phrases_of
from groundline_tables.questions import Planned, plan_for

_TEXT, _NUMBER, _DATE = (table_pb2.COLUMN_TYPE_TEXT, table_pb2.COLUMN_TYPE_NUMBER, table_pb2.COLUMN_TYPE_DATE)
MODEL, WEIGHT, PRICE, REGION, SALES, RELEASED = range(6)
COLUMNS: Final = (
    ("Model", _TEXT, ""),
    ("Weight (kg)", _NUMBER, "kg"),
    ("Price", _NUMBER, "EUR"),
    ("Region", _TEXT, ""),
    ("2024", _NUMBER, ""),
    ("Released", _DATE, ""),
)
CELLS: Final[Mapping[str, frozenset[int]]] = {
    "dn-6": frozenset({MODEL}),
    "dn-8": frozenset({MODEL}),
    "north": frozenset({REGION}),
    "south": frozenset({REGION}),
    "3": frozenset({SALES}),
}


def table(title: str = "Pumps") -> table_pb2.Table:
    columns = [
        table_pb2.TableColumn(index=index, name=name, type=type_, unit=unit)
        for index, (name, type_, unit) in enumerate(COLUMNS)
    ]
    return table_pb2.Table(document_id="d", title=title, columns=columns)


def plan(question: str) -> dict[str, Any] | None:
    planned = plan_for(question, [Known(table(), CELLS)])
    if planned.plan is None:
        return None
    written = json_format.MessageToDict(planned.plan)
    del written["documentId"]
    for condition in written.get("conditions", ()):
        condition["operator"] = condition["operator"].removeprefix("TABLE_OPERATOR_")
        condition.setdefault("column", 0)
    if "function" in written:
        written["function"] = written["function"].removeprefix("TABLE_FUNCTION_")
    return written


def where(column: int, operator: str, *values: str) -> dict[str, Any]:
    return {"column": column, "operator": operator, "values": list(values)}


DN_6: Final = where(MODEL, "EQUAL", "DN-6")


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("How heavy is a DN-6?", {"conditions": [DN_6], "columns": [MODEL, WEIGHT]}),
        ("Wie schwer ist die DN-6?", {"conditions": [DN_6], "columns": [MODEL, WEIGHT]}),
        (
            "Weight of DN-6 and DN-8",
            {"conditions": [where(MODEL, "EQUAL", "DN-6", "DN-8")], "columns": [MODEL, WEIGHT]},
        ),
        (
            "Which models cost less than 300 EUR?",
            {"conditions": [where(PRICE, "LESS", "300 EUR")], "columns": [MODEL, PRICE]},
        ),
        (
            "Welche Modelle kosten zwischen 100 und 1.300 EUR?",
            {
                "conditions": [where(PRICE, "AT_LEAST", "100 EUR"), where(PRICE, "AT_MOST", "1300 EUR")],
                "columns": [MODEL, PRICE],
            },
        ),
        (
            "Which models are heavier than 3 kg?",
            {"conditions": [where(WEIGHT, "GREATER", "3 kg")], "columns": [MODEL, WEIGHT]},
        ),
        (
            "Which models were released in 2020?",
            {
                "conditions": [
                    where(RELEASED, "AT_LEAST", "2020-01-01"),
                    where(RELEASED, "LESS", "2021-01-01"),
                ],
                "columns": [MODEL, RELEASED],
            },
        ),
        ("total of 2024 by region", {"function": "SUM", "functionColumn": SALES, "groupBy": REGION}),
        ("Summe 2024 nach Region", {"function": "SUM", "functionColumn": SALES, "groupBy": REGION}),
        (
            "Total 2024 in the North?",
            {"function": "SUM", "functionColumn": SALES, "conditions": [where(REGION, "EQUAL", "North")]},
        ),
        ("Durchschnittlicher Preis", {"function": "AVERAGE", "functionColumn": PRICE}),
        (
            "How many models are in the North or the South?",
            {
                "function": "COUNT",
                "functionColumn": MODEL,
                "conditions": [where(REGION, "EQUAL", "North", "South")],
            },
        ),
        (
            "Which is the heaviest model?",
            {"columns": [MODEL, WEIGHT], "orderBy": WEIGHT, "isDescending": True, "limit": 1},
        ),
        (
            "Which model is cheaper, DN-6 or DN-8?",
            {
                "conditions": [where(MODEL, "EQUAL", "DN-6", "DN-8")],
                "columns": [MODEL, PRICE],
                "orderBy": PRICE,
                "limit": 1,
            },
        ),
        (
            "Which region has the highest total 2024?",
            {
                "function": "SUM",
                "functionColumn": SALES,
                "groupBy": REGION,
                "orderBy": REGION,
                "isDescending": True,
                "limit": 1,
            },
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_common_question_has_its_plan(question: str, expected: dict[str, Any] | None) -> None:
    assert plan(question) == expected


@pytest.mark.parametrize(
    "question",
    [
        "What colour is the DN-6?",
        "How heavy is a DN-9?",
        "Which models do not cost 300 EUR?",
        "Which models cost less than 300 USD?",
        "Which models weigh less than 3 m?",
        "Which model is the second heaviest?",
        "What share of models is in the North?",
        "What is the median price?",
        "Models in the North or cheaper than 300 EUR",
        "Which model is cheaper?",
        "total and average price",
        "How many kg?",
        "DN-6",
        "Which models are there?",
        "What did we sell last year?",
        "older than 3",
    ],
)
def test_a_question_that_the_table_or_the_rules_do_not_cover_has_none(question: str) -> None:
    assert plan(question) is None


type Column = tuple[str, table_pb2.ColumnType.ValueType, *tuple[str, ...]]
NONE: Final[Mapping[str, int]] = {}


def asked(question: str, *columns: Column, title: str = "", cells: Mapping[str, int] = NONE) -> Planned:
    """Ask a table of these columns, each a name, a type and maybe a unit; `cells`: who holds a word."""
    described = [
        table_pb2.TableColumn(index=at, name=name, type=kind, unit="".join(unit))
        for at, (name, kind, *unit) in enumerate(columns)
    ]
    holders = {word: frozenset({column}) for word, column in cells.items()}
    return plan_for(question, [Known(table_pb2.Table(title=title, columns=described), holders)])


def planned(question: str, *columns: Column, **known: Any) -> table_pb2.TablePlan:
    plan = asked(question, *columns, **known).plan
    assert plan is not None, question
    return plan


def test_how_many_of_a_number_is_no_count_of_rows() -> None:
    """ "How many inhabitants has Vienna?" asks for a cell."""
    columns, cells = (("City", _TEXT), ("Inhabitants", _NUMBER)), {"vienna": 0}
    one = planned("How many inhabitants has Vienna?", *columns, cells=cells)
    assert (one.function, list(one.columns)) == (table_pb2.TABLE_FUNCTION_UNSPECIFIED, [0, 1])
    assert asked("How many inhabitants?", *columns, cells=cells).plan is None


def test_words_that_mean_nothing_are_named() -> None:
    planned = plan_for("What colour is the DN-6?", [Known(table(), CELLS)])
    assert planned.refusal == table_pb2.TABLE_REFUSAL_NOT_UNDERSTOOD
    assert planned.unknown_words == ["colour"]


def test_of_two_tables_the_one_that_is_named_is_asked_and_neither_if_none_is() -> None:
    tables = [Known(table("Pumps of Altona"), {}), Known(table("Pumps of Dover"), {})]
    assert plan_for("average price in Dover", tables).place == 1
    refused = plan_for("average price", tables)
    assert (refused.plan, refused.refusal) == (None, table_pb2.TABLE_REFUSAL_AMBIGUOUS)


def test_a_name_that_two_columns_have_is_ambiguous() -> None:
    columns = (("Model", _TEXT), ("Net weight", _NUMBER), ("Gross weight", _NUMBER))
    assert asked("average weight", *columns).refusal == table_pb2.TABLE_REFUSAL_AMBIGUOUS
    assert planned("average net weight", *columns).function_column == 1


def test_without_a_table_and_for_a_text_there_is_no_plan() -> None:
    assert plan_for("average price", []).refusal == table_pb2.TABLE_REFUSAL_NO_TABLE
    long = "average price " * MAX_WORDS
    assert plan_for(long, [Known(table(), CELLS)]).refusal == table_pb2.TABLE_REFUSAL_NOT_UNDERSTOOD
    assert phrases_of(long) == []


def test_a_cell_that_the_title_names_too_makes_a_superlative_ambiguous() -> None:
    """The cheapest DN-6 may be the row of that name, or the cheapest row of a page about it."""
    titled = Known(table("Variants of the DN-6"), CELLS)
    assert plan_for("Which is the cheapest DN-6?", [titled]).refusal == table_pb2.TABLE_REFUSAL_AMBIGUOUS
    assert plan_for("How heavy is the DN-6?", [titled]).plan is not None


def test_a_unit_says_which_of_two_columns_is_meant() -> None:
    columns = (("Lake", _TEXT), ("Area (km²)", _NUMBER, "km²"), ("Area (sq mi)", _NUMBER, "sq mi"))
    cells = {"ladoga": 0}
    ambiguous = asked("area of Ladoga", *columns, cells=cells)
    assert ambiguous.refusal == table_pb2.TABLE_REFUSAL_AMBIGUOUS
    for question, column in (("area of Ladoga in square miles", 2), ("Fläche von Ladoga in km²", 1)):
        assert list(planned(question, *columns, cells=cells).columns) == [0, column]
    assert asked("area of Ladoga in kg", *columns, cells=cells).plan is None


def test_the_average_number_of_something_is_no_count() -> None:
    columns, cells = (("Airline", _TEXT), ("Incidents", _NUMBER)), {"klm": 0, "lufthansa": 0}
    one = asked("What is the average number of incidents per airline?", *columns, cells=cells).plan
    assert one is None or one.function == table_pb2.TABLE_FUNCTION_AVERAGE
    other = planned("Did Lufthansa or KLM have more incidents?", *columns, cells=cells)
    assert (other.order_by, other.is_descending) == (1, True)
    assert list(other.conditions[0].values) == ["Lufthansa", "KLM"]


@pytest.mark.parametrize(
    ("question", "columns", "known", "shown"),
    [
        (
            "Which of the language models are under the MIT licence?",
            [("Name", _TEXT), ("Licence", _TEXT), ("Year", _NUMBER)],
            {"title": "Language models", "cells": {"mit": 1}},
            [0, 1],
        ),
        (
            "What is the max. pressure?",
            [("Property", _TEXT), ("Value", _TEXT)],
            {"cells": {"max pressure": 0}},
            [0, 1],
        ),
        (
            "Which country has the highest population?",
            [("Code", _TEXT), ("Head of state", _TEXT), ("Name", _TEXT), ("Population", _NUMBER)],
            {"title": "countries"},
            [2, 3],
        ),
    ],
    ids=["a cell of another column", "a table of properties", "the column of names"],
)
def test_rows_are_shown_with_the_column_that_names_them(
    question: str, columns: Sequence[Column], known: Mapping[str, Any], shown: Sequence[int]
) -> None:
    assert list(planned(question, *columns, **known).columns) == shown


def test_names_that_programs_made_are_read_as_words() -> None:
    one = planned("average top speed of electric cars", ("TopSpeed", _NUMBER), title="ElectricCarData")
    assert one.function == table_pb2.TABLE_FUNCTION_AVERAGE


@pytest.mark.parametrize("number", ["50 million", "50 Mio.", "50,000,000"])
def test_numbers_may_be_said_in_millions(number: str) -> None:
    question = f"Which countries have more than {number} inhabitants?"
    one = planned(question, ("Country", _TEXT), ("Population", _NUMBER))
    assert list(one.conditions[0].values) == ["50000000"]


def test_german_compounds_are_divided_where_all_of_their_parts_mean_something() -> None:
    sets = (("Name", _TEXT), ("Preis", _NUMBER), ("Teile", _NUMBER))
    one = planned("Welche LEGO-Sets haben mehr als 290 Teile?", *sets, title="LEGO sets")
    assert list(one.columns) == [0, 2]
    total = planned("Gesamtpreis der Sets", *sets, title="LEGO sets")
    assert (total.function, total.function_column) == (table_pb2.TABLE_FUNCTION_SUM, 1)
    assert asked("Welche LEGO-Züge haben mehr als 290 Teile?", *sets, title="LEGO sets").plan is None


def test_a_number_before_a_column_is_its_value() -> None:
    one = planned("Which cars have 7 seats?", ("Car", _TEXT), ("Seats", _NUMBER))
    assert (one.conditions[0].column, list(one.conditions[0].values)) == (1, ["7"])


def test_a_comparison_is_with_the_column_that_is_named_or_with_none() -> None:
    columns = (("Building", _TEXT), ("Year built", _TEXT), ("Floors", _NUMBER))
    assert asked("buildings with year built after 2016", *columns).plan is None
    assert planned("buildings with more than 100 floors", *columns).conditions[0].column == 2


@pytest.mark.parametrize(
    ("question", "shown"),
    [
        ("How many days of leave do I have?", None),
        ("How many days of leave are there?", None),
        ("How many occasions?", None),
        ("Wie viele days?", None),
        ("How many days for a wedding?", [0, 1]),
    ],
)
def test_how_many_of_a_row_is_what_the_row_says(question: str, shown: Sequence[int] | None) -> None:
    """A table of absences does not say how many days of leave there are."""
    columns, cells = (("occasion", _TEXT), ("days", _TEXT)), {"wedding": 0}
    one = asked(question, *columns, title="Leave", cells=cells).plan
    assert (one and list(one.columns)) == shown
    assert not one or one.function == table_pb2.TABLE_FUNCTION_UNSPECIFIED


@pytest.mark.parametrize(
    "question",
    [
        "What is the difference in weight between the DN-6 and the DN-8?",
        "weight difference between DN-6 and DN-8",
        "Unterschied im Gewicht zwischen DN-6 und DN-8",
    ],
)
def test_two_rows_are_compared_by_their_difference(question: str) -> None:
    german = question.startswith("Unterschied")
    asked = question.replace("Gewicht", "Weight") if german else question
    assert plan(asked) == {
        "conditions": [where(MODEL, "EQUAL", "DN-6", "DN-8")],
        "function": "DIFFERENCE",
        "functionColumn": WEIGHT,
    }


@pytest.mark.parametrize(
    "question",
    [
        "difference in weight",
        "difference in weight of the DN-6",
        "difference in weight between DN-6 and north",
        "difference in weight between 2 and 3 kg",
        "difference in weight by region between DN-6 and DN-8",
        "difference in price between North and South and DN-6",
    ],
)
def test_a_difference_is_of_two_rows_that_are_named(question: str) -> None:
    assert plan(question) is None
