"""groundline traces"""

from collections.abc import Sequence
from typing import Final

import click
from groundline_database import DatabaseSettings, Pool, database_errors, open_pool
from groundline_runtime.errors import GroundlineError
from pydantic import SecretStr

from groundline_cli.commands.gateway import json_option, with_database
from groundline_cli.errors import CommandFailedError
from groundline_cli.interrupts import run_interruptible
from groundline_cli.terminal import print_columns, print_json

_HOLDS_TEXT: Final = {
    "text": 'strpos(lower("{0}"), lower($1)) > 0',
    "character varying": 'strpos(lower("{0}"), lower($1)) > 0',
    "jsonb": 'strpos(lower("{0}"::text), lower($1)) > 0',
    "ARRAY": 'strpos(lower("{0}"::text), lower($1)) > 0',
    "uuid": 'strpos("{0}"::text, lower($1)) > 0',
    "bytea": "position(convert_to($1, 'UTF8') in \"{0}\") > 0",
}
"""Condition that a column's value holds the text, by the column's type; letter case counts only in bytes."""

_COLUMNS: Final = """
    SELECT columns.table_name, columns.column_name, columns.data_type
    FROM information_schema.columns JOIN information_schema.tables USING (table_schema, table_name)
    WHERE table_schema = current_schema() AND tables.table_type = 'BASE TABLE'
      AND NOT EXISTS (
          SELECT FROM pg_partitioned_table
          WHERE partrelid = format('%I.%I', table_schema, table_name)::regclass)
    ORDER BY columns.table_name, columns.ordinal_position
"""


@click.command(short_help="Look through the database for a text that should be gone.")
@click.argument("text")
@json_option
@with_database
def traces(database_url: str, text: str, *, as_json: bool) -> None:
    """Look through every column of every table for TEXT.

    Use it after deleting a document: a sentence of it should not be found; its id may be, in jobs and
    threads. Reads the whole database. Exit status 1: something was found.
    """
    if len(text.strip()) < 3:
        raise click.BadParameter("3 characters or more", param_hint="TEXT")
    try:
        found = run_interruptible(_search(database_url, text))
    except GroundlineError as error:
        raise CommandFailedError(error.message) from error
    rows = [{"table": table, "column": column, "rows": count} for table, column, count in found]
    if as_json:
        print_json({"traces": rows})
    elif found:
        print_columns(("TABLE", "COLUMN", "ROWS"), [(table, column, str(n)) for table, column, n in found])
    else:
        click.echo("nothing found")
    if found:
        raise SystemExit(1)


async def _search(database_url: str, text: str) -> Sequence[tuple[str, str, int]]:
    settings = DatabaseSettings(
        database_url=SecretStr(database_url), pool_max_size=1, statement_timeout_seconds=3600
    )
    async with open_pool(settings) as pool:
        return await find_traces(pool, text)


async def find_traces(pool: Pool, text: str) -> Sequence[tuple[str, str, int]]:
    """Return table, column and number of rows for each column that holds the text. Raises
    UnavailableError."""
    found = []
    with database_errors():
        for table, column, kind in await pool.fetch(_COLUMNS):
            condition = _HOLDS_TEXT.get(kind)
            if condition is not None:
                count = await pool.fetchval(
                    f'SELECT count(*) FROM "{table}" WHERE {condition.format(column)}',  # noqa: S608
                    text,
                )
                if count:
                    found.append((table, column, count))
    return found
