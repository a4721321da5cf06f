"""groundline doctor"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import asdict
from pathlib import Path
from typing import Final

import click

from groundline_cli.commands.gateway import json_option, with_gateway
from groundline_cli.connection import READY_FILE, Connection, own_suite
from groundline_cli.doctor.findings import Finding, Level
from groundline_cli.doctor.gateway import gateway_findings
from groundline_cli.terminal import print_json, printable

_COLOURS: Final = {Level.OK: "green", Level.WARNING: "yellow", Level.ERROR: "red", Level.SKIPPED: "cyan"}
_WIDTH: Final = max(map(len, Level))


@click.command(short_help="Check an installation, and say what to do.")
@click.option(
    "--database-url",
    envvar=["GROUNDLINE_DATABASE_URL"],
    show_envvar=True,
    metavar="URL",
    help="PostgreSQL, for operators. Default: the one of the suite that runs from this directory, if that "
    "suite is checked. The environment hides its password from other users of this machine.",
)
@json_option
@with_gateway
def doctor(connection: Connection, database_url: str | None, as_json: bool) -> None:
    """Check the gateway, the key, the services, each collection, a search and an answer; with a database also
    its server, disk, schema, and its keyword, vector and distributed indexes.

    A search and a question are sent, which a language model answers if one is configured; nothing is
    changed. Each line is ok, warning, error or skipped, and says what to do.

    Exit code 1: there is an error.
    """
    findings: list[Finding] = []

    async def collect() -> None:
        async for finding in _findings(connection, database_url):
            findings.append(finding)
            if not as_json:
                _print(finding)

    asyncio.run(collect())
    errors = sum(finding.level is Level.ERROR for finding in findings)
    if as_json:
        print_json({"healthy": not errors, "findings": [asdict(finding) for finding in findings]})
    else:
        warnings = sum(finding.level is Level.WARNING for finding in findings)
        click.echo(f"{_count(errors, 'error')}, {_count(warnings, 'warning')}")
    if errors:
        raise SystemExit(1)


async def _findings(connection: Connection, database_url: str | None) -> AsyncIterator[Finding]:
    async for finding in gateway_findings(connection):
        yield finding
    own = own_suite(Path.cwd() / READY_FILE)
    is_own = own is not None and own.connection.gateway == connection.gateway
    data_dir = None
    if own is not None and is_own and database_url in (None, own.database_url):
        database_url = own.database_url
        data_dir = READY_FILE.parent if "host=/" in (database_url or "") else None
    if not database_url:
        advice = "pass --database-url to check its schema, indexes and disk"
        yield Finding("database", Level.SKIPPED, "no database is known", advice)
        return
    try:
        from groundline_cli.doctor.database import database_findings
    except ModuleNotFoundError as error:
        advice = "pip install 'groundline-cli[database]'"
        yield Finding("database", Level.SKIPPED, f"{error.name} is not installed", advice)
        return
    async for finding in database_findings(database_url, data_dir):
        yield finding


def _print(finding: Finding) -> None:
    level = click.style(finding.level.ljust(_WIDTH), fg=_COLOURS[finding.level])
    click.echo(f"{level}  {printable(finding.check)}: {printable(finding.message)}")
    if finding.advice:
        click.echo(f"{' ' * _WIDTH}  → {printable(finding.advice)}")


def _count(number: int, of: str) -> str:
    return f"{number} {of}" if number == 1 else f"{number} {of}s"
