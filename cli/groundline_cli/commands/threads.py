"""groundline threads"""

from collections.abc import AsyncIterator

import click

from groundline_cli.client import JsonObject
from groundline_cli.commands.gateway import json_option, run, with_gateway
from groundline_cli.connection import Connection
from groundline_cli.terminal import print_columns, print_json, printable

__all__ = ["threads"]


@click.group(short_help="List, show and delete conversations.")
def threads() -> None:
    """Your conversations; `groundline ask --thread ID` goes on with one."""


@threads.command("list")
@click.option(
    "--limit", type=click.IntRange(1, 500), default=20, show_default=True, help="Maximum threads to list."
)
@json_option
@with_gateway
def list_threads(connection: Connection, limit: int, as_json: bool) -> None:
    """List the threads used last."""
    found = run(connection, lambda client: _all(client.list_threads(limit=limit)))
    if as_json:
        print_json({"threads": found})
        return
    rows = [
        (t.get("threadId", ""), t.get("messageCount", 0), t.get("updateTime", ""), t.get("title", ""))
        for t in found
    ]
    print_columns(("THREAD", "MESSAGES", "UPDATED", "FIRST QUESTION"), rows)


@threads.command()
@click.argument("thread")
@json_option
@with_gateway
def show(connection: Connection, thread: str, as_json: bool) -> None:
    """Show the messages of THREAD, oldest first."""
    found = run(connection, lambda client: _all(client.list_messages(thread)))
    if as_json:
        print_json({"messages": found})
        return
    for message in found:
        asked = message.get("role") == "USER"
        text = printable(message.get("content", ""))
        click.echo(click.style(f"> {text}", bold=True) if asked else text)
        if message.get("finishReason") == "FINISH_REASON_CANCELLED":
            click.echo(click.style("(cancelled)", dim=True))
        click.echo()


@threads.command()
@click.argument("thread")
@click.option("--yes", is_flag=True, help="Do not ask.")
@with_gateway
def delete(connection: Connection, thread: str, yes: bool) -> None:
    """Delete THREAD with its messages."""
    if not yes:
        click.confirm(f"Delete thread {thread}?", abort=True)
    run(connection, lambda client: client.delete_thread(thread))
    click.echo(f"deleted thread {thread}")


async def _all(items: AsyncIterator[JsonObject]) -> list[JsonObject]:
    return [item async for item in items]
