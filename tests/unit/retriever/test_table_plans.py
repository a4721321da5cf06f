"""Plans checked against the columns of their table, and what their conditions mean in SQL."""

from decimal import Decimal
from typing import Any

import pytest
from groundline.v1 import table_pb2
from groundline_retriever.adapters.postgres.tables.plans import statement_of
from groundline_retriever.tables.checking import check
from groundline_retriever.tables.domain import Bound, StoredTable, TextMatch
from groundline_retriever.tables.words import explained, in_words
from groundline_runtime.errors import InvalidArgumentError

MODEL, WEIGHT, RELEASED, SPARE = range(4)
TABLE = table_pb2.Table(
    columns=[
        table_pb2.TableColumn(index=0, name="Model", type=table_pb2.COLUMN_TYPE_TEXT),
        table_pb2.TableColumn(index=1, name="Weight", type=table_pb2.COLUMN_TYPE_NUMBER, unit="kg"),
        table_pb2.TableColumn(index=2, name="Released", type=table_pb2.COLUMN_TYPE_DATE),
        table_pb2.TableColumn(index=3, name="Spare", type=table_pb2.COLUMN_TYPE_BOOLEAN),
    ]
)


def condition(column: int, operator: str, *values: str) -> table_pb2.TableCondition:
    kind = table_pb2.TableOperator.Value(f"TABLE_OPERATOR_{operator}")
    return table_pb2.TableCondition(column=column, operator=kind, values=values)


def plan(*conditions: table_pb2.TableCondition, **fields: Any) -> table_pb2.TablePlan:
    return table_pb2.TablePlan(conditions=conditions, **fields)


@pytest.mark.parametrize(
    ("given", "bounds"),
    [
        (condition(WEIGHT, "LESS", "900 g"), [[Bound(WEIGHT, most=Decimal("0.9"), is_below=True)]]),
        (
            condition(WEIGHT, "EQUAL", "1", "2"),
            [[Bound(1, Decimal(1), Decimal(1)), Bound(1, Decimal(2), Decimal(2))]],
        ),
        (
            condition(WEIGHT, "NOT_EQUAL", "1", "2"),
            [
                [Bound(1, Decimal(1), Decimal(1), is_negated=True)],
                [Bound(1, Decimal(2), Decimal(2), is_negated=True)],
            ],
        ),
        (condition(RELEASED, "EQUAL", "1970-01-02"), [[Bound(2, Decimal(86_400), Decimal(172_799))]]),
        (condition(RELEASED, "GREATER", "1970-01-02"), [[Bound(2, least=Decimal(172_799), is_above=True)]]),
        (condition(RELEASED, "EQUAL", "1970-01-01 00:01"), [[Bound(2, Decimal(60), Decimal(60))]]),
        (condition(SPARE, "EQUAL", "yes"), [[Bound(3, Decimal(1), Decimal(1))]]),
        (condition(MODEL, "EQUAL", "DN-6", "?"), [[TextMatch(0, ["DN-6", "?"], ["dn-6"])]]),
        (condition(WEIGHT, "CONTAINS", "2."), [[TextMatch(1, ["2."], (), is_part=True)]]),
    ],
    ids=lambda value: "" if isinstance(value, list) else str(value).replace("\n", " "),
)
def test_a_condition_is_taken_in_the_unit_and_the_type_of_its_column(
    given: table_pb2.TableCondition, bounds: Any
) -> None:
    assert check(plan(given), TABLE).conditions == bounds


def test_every_field_that_does_not_fit_the_table_is_named() -> None:
    wrong = plan(
        condition(9, "EQUAL", "x"),
        condition(MODEL, "LESS", "x"),
        condition(WEIGHT, "LESS", "3 EUR"),
        condition(WEIGHT, "LESS", "1", "2"),
        columns=[0, 4],
        order_by=7,
    )
    with pytest.raises(InvalidArgumentError) as raised:
        check(wrong, TABLE)
    assert {violation.field for violation in raised.value.violations} == {
        "plan.conditions[0].column",
        "plan.conditions[1].operator",
        "plan.conditions[2].values[0]",
        "plan.conditions[3].values",
        "plan.columns[1]",
        "plan.order_by",
    }


@pytest.mark.parametrize(
    ("function", "column"),
    [(table_pb2.TABLE_FUNCTION_SUM, RELEASED), (table_pb2.TABLE_FUNCTION_MAXIMUM, MODEL)],
)
def test_a_function_needs_a_column_that_it_can_compute(function: Any, column: int) -> None:
    with pytest.raises(InvalidArgumentError):
        check(plan(function=function, function_column=column), TABLE)


def test_totals_count_only_where_a_condition_names_them() -> None:
    assert not check(plan(condition(MODEL, "EQUAL", "DN-6")), TABLE).with_totals
    assert check(plan(condition(MODEL, "EQUAL", "Total")), TABLE).with_totals


def test_values_reach_sql_as_arguments_only() -> None:
    hostile = "x'; DROP TABLE documents; --%"
    made = plan(condition(MODEL, "EQUAL", hostile), condition(MODEL, "CONTAINS", hostile), order_by=0)
    statement = statement_of(StoredTable(7, TABLE, 0), check(made, TABLE))
    assert "DROP" not in statement.text
    assert statement.arguments[0] == 7
    assert ["%x'; DROP TABLE documents; --\\%%"] in statement.arguments


def test_a_plan_is_explained_in_words() -> None:
    made = plan(
        condition(WEIGHT, "AT_LEAST", "2 kg"),
        function=table_pb2.TABLE_FUNCTION_AVERAGE,
        function_column=WEIGHT,
        group_by=MODEL,
        order_by=MODEL,
        is_descending=True,
    )
    said = "average of Weight where Weight is at least 2 kg, by Model, the highest first"
    assert explained(made, TABLE) == said
    assert explained(plan(function=table_pb2.TABLE_FUNCTION_COUNT), TABLE) == "number of rows"


def test_what_a_group_is_compared_with_is_of_the_kind_that_is_computed() -> None:
    def grouped(value: str, function: Any = table_pb2.TABLE_FUNCTION_SUM, column: int = WEIGHT) -> Any:
        above = table_pb2.TableGroupCondition(operator=table_pb2.TABLE_OPERATOR_GREATER, value=value)
        made = plan(function=function, function_column=column, group_by=MODEL, group_conditions=[above])
        return check(made, TABLE)

    heavy = grouped("900 g")
    assert heavy.group_bounds == [Bound(0, least=Decimal("0.9"), is_above=True)]
    assert explained(heavy.plan, TABLE) == "sum of Weight, by Model, where that is more than 900 g"
    statement = statement_of(StoredTable(7, TABLE, 0), heavy)
    assert "WHERE (value > $3::numeric)" in statement.text
    assert statement.arguments == [7, 100, Decimal("0.9")]
    assert grouped("2", table_pb2.TABLE_FUNCTION_COUNT, MODEL).group_bounds[0].least == 2
    assert grouped("1970-01-01", table_pb2.TABLE_FUNCTION_MAXIMUM, RELEASED).group_bounds[0].least == 86_399
    with pytest.raises(InvalidArgumentError, match=r"plan\.group_conditions\[0\]\.value"):
        grouped("3 EUR")
    heavy.plan.ClearField("group_by")
    with pytest.raises(InvalidArgumentError, match="without group_by"):
        check(heavy.plan, TABLE)


def test_rows_are_said_in_the_language_of_the_question() -> None:
    columns = [
        table_pb2.TableAnswerColumn(name="Region"),
        table_pb2.TableAnswerColumn(name="Preis", function=table_pb2.TABLE_FUNCTION_SUM, unit="EUR"),
    ]
    cells = [table_pb2.TableCell(text="Nord"), table_pb2.TableCell(text="7.5", number=7.5, unit="EUR")]
    row = table_pb2.TableAnswerRow(cells=cells, missing_count=2)
    assert in_words(row, columns, "german") == "Nord: Summe Preis: 7.5 EUR; Zeilen ohne Zahl: 2"
    assert in_words(row, columns, "english") == "Nord: sum of Preis: 7.5 EUR; rows without a number: 2"
