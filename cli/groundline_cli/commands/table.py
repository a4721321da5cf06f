"""groundline table"""

from collections.abc import Sequence
from typing import Final

import click
from groundline_client import JsonObject, to_json
from groundline_client.models import (
    CellReference,
    QueryTablesResponse,
    Table,
    TableAnswerColumn,
    TableFunction,
    TableRefusal,
)

from groundline_cli.commands.gateway import collections_option, json_object, json_option, run, with_gateway
from groundline_cli.connection import Connection
from groundline_cli.terminal import print_columns, print_json, printable, shown_enum

_NO_ANSWER_EXIT_CODE: Final = 1
_CELL_LENGTH: Final = 80
_NAMED_CELLS: Final = 4
_NAMED_COLUMNS: Final = 20
_RULES: Final = "rules"
_REFUSALS: Final = {
    TableRefusal.NO_TABLE: "there is no table",
    TableRefusal.NOT_UNDERSTOOD: "the question is not understood",
    TableRefusal.AMBIGUOUS: "the question means several things: name the table or the column",
}


@click.command(short_help="Ask a table in the documents: select, count, sum, compare.")
@click.argument("question", required=False)
@click.option(
    "--plan",
    metavar="JSON",
    callback=json_object,
    help="Plan in place of a question, as TablePlan of the API, such as the one that --json shows.",
)
@collections_option
@json_option
@with_gateway
def table(
    connection: Connection,
    /,
    question: str | None,
    plan: JsonObject | None,
    collections: tuple[str, ...],
    as_json: bool,
) -> None:
    """Answer QUESTION from a table of the documents, and name the cells.

    Rules plan questions in English and German, and a language model, where one is configured, others.

    To rules every word of the question must mean something in the table: a column, a cell, a number with its
    unit, or what to do, such as "less than", "total of", "how many", "by region", "heaviest". PostgreSQL
    computes.

    \b
      groundline table "Which models cost less than 300 EUR?"
      groundline table "total of 2024 by region" --collection sales

    With --json: the response of POST /api/tables/query.

    Exit codes: 0 answered, 1 no plan could be made or the command failed, 2 wrong usage.
    """
    if (question is None) == (plan is None):
        raise click.UsageError("give a question or --plan")
    found = run(
        connection,
        lambda client: client.query_tables(question or "", plan=plan, collection_ids=collections),
    )
    if as_json:
        print_json(to_json(found))
    elif found.plan is None:
        _print_refusal(found)
    else:
        _print_answer(found)
    if found.plan is None:
        raise SystemExit(_NO_ANSWER_EXIT_CODE)


def _print_answer(found: QueryTablesResponse) -> None:
    click.echo(f"{printable(found.explanation)}, in {_title(found.table)}", err=True)
    if found.model not in {"", _RULES}:
        click.echo(f"planned by {printable(found.model)}: see that it is what you asked", err=True)
    if not found.rows:
        click.echo("no row", err=True)
        return
    heads = [printable(_heading(column)) for column in found.columns]
    rows = [
        [*(printable(cell.text)[:_CELL_LENGTH] for cell in row.cells), _cells(row.sources)]
        for row in found.rows
    ]
    print_columns([*heads, "CELLS"], rows)
    if missing := sum(row.missing_count for row in found.rows):
        click.echo(f"left out for want of a number: {missing}", err=True)
    if found.has_more and found.plan is not None and found.plan.limit != 1:
        click.echo("and more", err=True)


def _print_refusal(found: QueryTablesResponse) -> None:
    click.echo(_REFUSALS.get(found.refusal, "no plan"), err=True)
    if found.unknown_words:
        words = ", ".join(printable(word) for word in found.unknown_words)
        click.echo(f"these words mean nothing in the tables: {words}", err=True)
    for each in found.tables:
        columns = ", ".join(printable(column.name) for column in each.columns[:_NAMED_COLUMNS] if column.name)
        click.echo(f"{_title(each)}: {columns}", err=True)


def _heading(column: TableAnswerColumn) -> str:
    of_function = f"{shown_enum(column.function)} of " if column.function != TableFunction.UNSPECIFIED else ""
    unit = f" ({column.unit})" if column.unit and column.unit not in column.name else ""
    return f"{of_function}{column.name or 'rows'}{unit}".upper()


def _title(table: Table | None) -> str:
    if table is None:
        return ""
    names = dict.fromkeys(printable(name) for name in (table.title, table.sheet, table.name) if name)
    page = [f"page {table.page}"] if table.page else []
    return ", ".join([*names, *page])


def _cells(sources: Sequence[CellReference]) -> str:
    named = [each.reference or f"row {each.row}" for each in sources]
    named = list(dict.fromkeys(named))
    more = f" and {len(named) - _NAMED_CELLS} more" if len(named) > _NAMED_CELLS else ""
    return f"{', '.join(named[:_NAMED_CELLS])}{more}"
