"""groundline audit"""

import json
from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import click
from groundline_gateway.auditing.entries import AuditEntry, Chain, ChainError
from groundline_gateway.auditing.store import AuditQuery, AuditStore
from groundline_gateway.keys import SCHEMA

from groundline_cli.commands.as_of import past_moment
from groundline_cli.commands.gateway import json_option, with_database
from groundline_cli.commands.keys import with_pool
from groundline_cli.errors import CommandFailedError
from groundline_cli.terminal import print_columns, print_json, printable, shown_time


@click.group(short_help="Read, export and verify the audit log.")
def audit() -> None:
    """Read the audit log: who changed what, and who was refused.

    The gateway stores it in its database: calls that change something, and those refused for want of a key,
    a scope or a right; with GROUNDLINE_GATEWAY_AUDIT_READS searches, answers and other reads as well. Never a
    query, a body or a key. A call is there some two seconds after its reply.

    Access to the database decides who may use these commands, as with `keys`.
    """


def _wanted(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--resource", metavar="PATH", help="Only what begins so, such as /api/collections/hr."),
        click.option("--action", metavar="RPC", help="Only this RPC, such as DeleteDocument."),
        click.option("--client", metavar="NAME", help="Only calls of this client."),
        click.option("--until", callback=past_moment, metavar="WHEN", help="Only earlier calls."),
        click.option(
            "--since",
            callback=past_moment,
            metavar="WHEN",
            help="Only calls since then: a time, or an age: 12h.",
        ),
    ):
        command = option(command)
    return command


@audit.command("list")
@_wanted
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="The last ones.")
@json_option
@with_database
def list_(database_url: str, /, limit: int, as_json: bool, **conditions: Any) -> None:
    """List calls, the last ones below."""
    query = AuditQuery(**conditions)
    entries = _run(database_url, lambda store: store.latest(query, limit))
    if as_json:
        print_json({"entries": [entry.as_json() for entry in entries]})
        return
    rows = [
        (
            entry.entry_id,
            shown_time(datetime.fromisoformat(entry.fields["time"])),
            entry.fields.get("client", ""),
            entry.fields.get("action", ""),
            entry.fields.get("grpc_status", entry.fields.get("status", "")),
            entry.fields.get("resource", ""),
        )
        for entry in entries
    ]
    print_columns(("ENTRY", "TIME", "CLIENT", "ACTION", "STATUS", "RESOURCE"), rows)


@audit.command()
@_wanted
@click.option(
    "--output",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    metavar="FILE",
    help="Where to write. Default: standard output.",
)
@with_database
def export(database_url: str, /, output: Path | None, **conditions: Any) -> None:
    """Write calls as JSON Lines, each with its number and its hash, the oldest first."""

    async def write(store: AuditStore) -> None:
        name = "-" if output is None else str(output)
        with click.open_file(name, "w", encoding="utf-8", atomic=output is not None) as file:
            async for entry in store.read(AuditQuery(**conditions)):
                file.write(json.dumps(entry.as_json(), ensure_ascii=False) + "\n")

    _run(database_url, write)


@audit.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), required=False)
@json_option
@with_database
def verify(database_url: str, file: Path | None, as_json: bool) -> None:
    """Check that no entry is missing or was changed: in the database, or in FILE, a whole export.

    Each entry has a hash over itself and the one before. FILE is also compared with the database: its last
    entry has to be there as it is in FILE, unless it has gone by retention. Who keeps an export elsewhere so
    notices if the log was written anew.

    Exit code 1: an entry is missing or was changed.
    """

    async def check(store: AuditStore) -> tuple[AuditEntry | None, int]:
        last, pruned = await store.verify()
        if file is None:
            return last, pruned
        chain = Chain()
        chain.add(_entries_of(file))
        chain.end()
        if chain.last is not None:
            same = await store.find(chain.last.entry_id)
            if (same is None and chain.last.entry_id > pruned) or (same and same.hash != chain.last.hash):
                raise ChainError(f"the database has another entry {chain.last.entry_id} than {file.name}")
        return chain.last, pruned

    try:
        last, pruned = _run(database_url, check)
    except ChainError as error:
        raise CommandFailedError(str(error)) from error
    if as_json:
        print_json({"last": last.as_json() if last else None, "pruned": pruned})
    elif last is None:
        click.echo("no entries")
    else:
        click.echo(f"entries {pruned + 1} to {last.entry_id} are complete; hash {last.hash.hex()}")


def _entries_of(file: Path) -> Iterator[AuditEntry]:
    name = printable(str(file))
    try:
        with file.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                try:
                    yield AuditEntry.of_json(json.loads(line))
                except ValueError:
                    raise CommandFailedError(f"{name}: line {number} is not an entry") from None
    except OSError as error:
        raise CommandFailedError(f"{name}: {error.strerror}") from error


def _run[T](url: str, work: Callable[[AuditStore], Awaitable[T]]) -> T:
    return with_pool(url, SCHEMA, lambda pool: work(AuditStore(pool)))
