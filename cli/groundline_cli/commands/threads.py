"""groundline threads"""

from typing import Final

import click
from groundline_client import AsyncClient, to_json
from groundline_client.models import FinishReason, Problem, Rating, Role

from groundline_cli.commands.gateway import all_of, json_option, run, with_gateway
from groundline_cli.connection import Connection
from groundline_cli.errors import CommandFailedError
from groundline_cli.terminal import print_columns, print_json, printable, shown_time

_PROBLEMS: Final = [one.name.lower().replace("_", "-") for one in Problem if one is not Problem.UNSPECIFIED]


@click.group(short_help="List, show, change and delete conversations.")
def threads() -> None:
    """List, show, change and delete your conversations; `groundline ask --thread ID` continues one."""


@threads.command("list")
@click.option(
    "--limit", type=click.IntRange(1, 500), default=20, show_default=True, help="Maximum threads to list."
)
@json_option
@with_gateway
def list_threads(connection: Connection, limit: int, as_json: bool) -> None:
    """List the pinned threads, then those used last."""
    found = run(connection, lambda client: all_of(client.list_threads(limit=limit)))
    if as_json:
        print_json({"threads": [to_json(one) for one in found]})
        return
    rows = [
        (t.thread_id, "yes" if t.is_pinned else "", t.message_count, shown_time(t.update_time), t.title)
        for t in found
    ]
    print_columns(("THREAD", "PINNED", "MESSAGES", "UPDATED", "TITLE"), rows)


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
        if message.feedback is not None and message.feedback.rating != Rating.UNSPECIFIED:
            said = (message.feedback.rating.name, message.feedback.problem.name, message.feedback.comment)
            click.echo(click.style(f"({_said(*said)})", dim=True))
        click.echo()


def _said(rating: str, problem: str, comment: str) -> str:
    """Return the rating, the problem and the comment, as far as they are given."""
    problem = "" if problem == Problem.UNSPECIFIED.name else problem.lower().replace("_", " ")
    return ", ".join(part for part in (f"rated {rating.lower()}", problem, printable(comment)) if part)


@threads.command()
@click.argument("thread")
@click.argument("rating", type=click.Choice(["good", "bad", "none"]))
@click.option("--message", metavar="ID", help="The answer; by default the last one of THREAD.")
@click.option("--problem", type=click.Choice(_PROBLEMS), help="What is wrong with a bad answer.")
@click.option("--comment", default="", help="In your own words, 2000 characters at most.")
@with_gateway
def rate(
    connection: Connection, thread: str, rating: str, message: str | None, problem: str | None, comment: str
) -> None:
    """Say whether an answer of THREAD was good or bad; none takes that back.

    Nobody else sees it, and it is deleted with the thread. `groundline eval create --from-feedback` makes
    questions of an evaluation set of what you rated.
    """

    async def work(client: AsyncClient) -> None:
        answer = message or await _last_answer(client, thread)
        await client.rate_answer(
            thread,
            answer,
            Rating.UNSPECIFIED if rating == "none" else Rating[rating.upper()],
            problem=Problem[problem.upper().replace("-", "_")] if problem else None,
            comment=comment,
        )

    run(connection, work)
    click.echo("took the rating back" if rating == "none" else f"rated {rating}")


async def _last_answer(client: AsyncClient, thread: str) -> str:
    answers = [one.message_id async for one in client.list_messages(thread) if one.role == Role.ASSISTANT]
    if not answers:
        raise CommandFailedError(f"the thread has no answer: {thread}")
    return answers[-1]


@threads.command()
@click.argument("thread")
@click.option("--title", help="The new title, 120 characters at most.")
@click.option("--pin/--unpin", default=None, help="Whether it comes before the others in lists.")
@with_gateway
def update(connection: Connection, thread: str, title: str | None, pin: bool | None) -> None:
    """Change the title of THREAD, or whether it is pinned."""
    if title is None and pin is None:
        raise click.UsageError("give --title, --pin or --unpin")
    run(connection, lambda client: client.update_thread(thread, title=title, is_pinned=pin))
    click.echo(f"changed thread {thread}")


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
