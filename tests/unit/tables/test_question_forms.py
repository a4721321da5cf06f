"""Questions of people who did not write the table: which of its columns and rows they mean, if any."""

from collections.abc import Mapping
from typing import Any, Final

import pytest
from google.protobuf import json_format
from groundline.v1 import table_pb2
from groundline_tables.matching import Known
from groundline_tables.questions import Planned, plan_for

_TEXT, _NUMBER, _DATE = (table_pb2.COLUMN_TYPE_TEXT, table_pb2.COLUMN_TYPE_NUMBER, table_pb2.COLUMN_TYPE_DATE)
POS, RIDER, NATION, YEAR, GOLD, BEDS = range(6)
RIDERS: Final = (
    ("Pos", _TEXT),
    ("Rider", _TEXT),
    ("Nation", _TEXT),
    ("Year", _NUMBER),
    ("Gold", _NUMBER),
    ("Hospital beds", _NUMBER),
)
CELLS: Final[Mapping[str, frozenset[int]]] = {
    "popov": frozenset({RIDER}),
    "rossi": frozenset({RIDER}),
    "italy": frozenset({NATION}),
    "spain": frozenset({NATION}),
    "2014": frozenset({YEAR}),
}
GAMES: Final = (("Opponent", _TEXT), ("Venue", _TEXT), ("Played", _DATE), ("Result", _TEXT))


def planned(
    question: str,
    columns: tuple[tuple[str, table_pb2.ColumnType.ValueType], ...] = RIDERS,
    cells: Mapping[str, frozenset[int]] = CELLS,
) -> Planned:
    described = [
        table_pb2.TableColumn(index=at, name=name, type=kind) for at, (name, kind) in enumerate(columns)
    ]
    return plan_for(question, [Known(table_pb2.Table(title="Results", columns=described), cells)])


def plan(question: str) -> dict[str, Any] | None:
    found = planned(question).plan
    return None if found is None else json_format.MessageToDict(found)


def where(column: int, *values: str, operator: str = "EQUAL") -> dict[str, Any]:
    return {"column": column, "operator": f"TABLE_OPERATOR_{operator}", "values": list(values)}


MOST_GOLD: Final = {"columns": [RIDER, GOLD], "orderBy": GOLD, "isDescending": True, "limit": 1}
OF_NATIONS: Final = {
    "function": "TABLE_FUNCTION_COUNT",
    "groupBy": NATION,
    "orderBy": NATION,
    "isDescending": True,
    "limit": 1,
}


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("who has the most gold medals?", MOST_GOLD),
        ("Which player scored the most gold medals?", MOST_GOLD),
        ("Wer hat die meisten Gold Medaillen?", MOST_GOLD),
        ("which nation has the most riders?", OF_NATIONS),
        ("Welche Nation hat die meisten Rider?", OF_NATIONS),
        (
            "how many gold medals did Popov earn in 2014?",
            {"conditions": [where(RIDER, "Popov"), where(YEAR, "2014")], "columns": [RIDER, YEAR, GOLD]},
        ),
        (
            "how many more gold medals did Popov have than Rossi?",
            {
                "conditions": [where(RIDER, "Popov", "Rossi")],
                "function": "TABLE_FUNCTION_DIFFERENCE",
                "functionColumn": GOLD,
            },
        ),
        (
            "Wie viel mehr Gold hat Popov als Rossi?",
            {
                "conditions": [where(RIDER, "Popov", "Rossi")],
                "function": "TABLE_FUNCTION_DIFFERENCE",
                "functionColumn": GOLD,
            },
        ),
        (
            "how many times is Popov listed?",
            {"conditions": [where(RIDER, "Popov")], "function": "TABLE_FUNCTION_COUNT"},
        ),
        (
            "Wie oft ist Popov aufgeführt?",
            {"conditions": [where(RIDER, "Popov")], "function": "TABLE_FUNCTION_COUNT"},
        ),
        ("how many riders are in the table?", {"function": "TABLE_FUNCTION_COUNT", "functionColumn": RIDER}),
        (
            "how many riders are not from Italy?",
            {
                "conditions": [where(NATION, "Italy", operator="NOT_EQUAL")],
                "function": "TABLE_FUNCTION_COUNT",
                "functionColumn": RIDER,
            },
        ),
        (
            "Welche Rider sind nicht aus Italy oder Spain?",
            {
                "conditions": [where(NATION, "Italy", "Spain", operator="NOT_EQUAL")],
                "columns": [RIDER, NATION],
            },
        ),
        (
            "in which year did Popov have the most gold medals?",
            MOST_GOLD | {"conditions": [where(RIDER, "Popov")], "columns": [RIDER, YEAR, GOLD]},
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_form_that_people_use_has_its_plan(question: str, expected: dict[str, Any]) -> None:
    found = plan(question)
    assert found is not None
    for condition in found.get("conditions", ()):
        condition.setdefault("column", 0)
    assert found == expected


@pytest.mark.parametrize(
    "question",
    [
        "which nation has the most hospitals?",
        "how many medals did Popov win?",
        "how many riders are there?",
        "which riders are not gold?",
        "who came in first?",
        "who is listed next after Popov?",
        "what did we win last year?",
        "which year comes before 2014?",
        "what is the total number of races?",
        "Welche Nation war letztes Jahr die beste?",
    ],
)
def test_a_form_that_may_mean_something_else_has_none(question: str) -> None:
    assert plan(question) is None


@pytest.mark.parametrize(
    ("question", "ordinal", "is_descending"),
    [
        ("who was the first opponent?", "first", False),
        ("where was the last game played?", None, None),
        ("what was the result of the last one?", "last", True),
        ("Wer war der letzte Gegner?", "last", True),
        ("who was the latest opponent?", "", True),
    ],
)
def test_first_and_last_go_by_day(question: str, ordinal: str | None, is_descending: bool | None) -> None:
    found = planned(question, GAMES, {})
    if ordinal is None:
        assert found.plan is None  # "game" means nothing here
        return
    assert found.plan is not None
    assert (found.ordinal, found.plan.order_by, found.plan.limit) == (ordinal, 2, 1)
    assert found.plan.is_descending == is_descending


def test_a_table_without_one_column_of_days_has_no_first_row() -> None:
    assert planned("which rider was the first?", RIDERS[:3], {}).plan is None
    assert planned("who was the first opponent?", (*GAMES, ("Announced", _DATE)), {}).plan is None


def test_the_only_one_and_different_ones_are_said_to_be_meant() -> None:
    assert planned("who is the only rider from Italy?").is_only
    assert planned("which different nations have 3 gold?").is_distinct
    assert planned("what is the only year with the most gold?").plan is None


def test_rows_are_named_by_what_is_no_rank() -> None:
    one = planned("Which has 3 gold?").plan
    assert one is not None
    assert list(one.columns) == [RIDER, GOLD]


def test_where_and_when_ask_for_the_one_column_that_says_it() -> None:
    cells = {"leeds": frozenset({0})}
    where_ = planned("where was Leeds?", GAMES, cells).plan
    assert where_ is not None
    assert list(where_.columns) == [0, 1]
    two = (*GAMES, ("City", _TEXT))
    assert planned("where was Leeds?", two, cells).refusal == table_pb2.TABLE_REFUSAL_AMBIGUOUS
