"""groundline threads"""

import click
from groundline_client import to_json
from groundline_client.models import FinishReason, Role

from groundline_cli.commands.gateway import all_of, json_option, run, with_gateway
from groundline_cli.connection import Connection
from groundline_cli.terminal import print_columns, print_json, printable, shown_time

__all__ = ["threads"]


@click.group(short_help="List, show and delete conversations.")
def threads() -> None:
    """List, show and delete your conversations; `groundline ask --thread ID` continues one."""


@threads.command("list")
@click.option(
    "--limit", type=click.IntRange(1, 500), default=20, show_default=True, help="Maximum threads to list."
)
@json_option
@with_gateway
def list_threads(connection: Connection, limit: int, as_json: bool) -> None:
    """List the threads used last."""
    found = run(connection, lambda client: all_of(client.list_threads(limit=limit)))
    if as_json:
        print_json({"threads": [to_json(one) for one in found]})
        return
    rows = [(t.thread_id, t.message_count, shown_time(t.update_time), t.title) for t in found]
    print_columns(("THREAD", "MESSAGES", "UPDATED", "FIRST QUESTION"), rows)


@threads.command()
@click.argument("thread")
@json_option
@with_gateway
def show(connection: Connection, thread: str, as_json: bool) -> None:
    """Show the messages of THREAD, oldest first."""
    found = run(connection, lambda client: all_of(client.list_messages(thread)))
    if as_json:
        print_json({"messages": [to_json(one) for one in found]})
        return
    for message in found:
        asked = message.role == Role.USER
        text = printable(message.content)
        click.echo(click.style(f"> {text}", bold=True) if asked else text)
        if message.finish_reason == FinishReason.CANCELLED:
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
