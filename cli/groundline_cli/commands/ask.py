"""groundline ask"""

import math
import uuid
from collections.abc import Sequence
from contextlib import aclosing
from datetime import datetime
from typing import Final

import click
from groundline_client import AsyncClient, JsonObject, to_json
from groundline_client.models import (
    ChatCompleted,
    ChatDelta,
    ChatSources,
    ChatStarted,
    ChatStatus,
    Degradation,
    ErrorReason,
    FinishReason,
    Source,
)
from rich.console import Console

from groundline_cli.commands.as_of import as_of_option
from groundline_cli.commands.gateway import collections_option, json_option, run, with_gateway
from groundline_cli.connection import Connection
from groundline_cli.terminal import one_line, print_json, printable, shown_enum, summary

_REFUSED_EXIT_CODE: Final = 3
_TITLE_LENGTH: Final = 120
_SAID_BY_FINISH_REASON: Final = (ErrorReason.ANSWER_CUT_OFF, ErrorReason.ANSWER_WITHHELD)


@click.command(short_help="Answer a question from the documents.")
@click.argument("question")
@collections_option
@click.option("--thread", metavar="ID", help="Thread to go on with, as an earlier answer named it.")
@click.option(
    "--effort",
    type=click.Choice(["quick", "balanced", "thorough"]),
    help="How much work the answer may take. Default: balanced.",
)
@click.option("--model", metavar="NAME", help="Model that answers, one of those of GET /api/models.")
@as_of_option
@json_option
@with_gateway
def ask(
    connection: Connection,
    question: str,
    collections: tuple[str, ...],
    thread: str | None,
    effort: str | None,
    model: str | None,
    as_of: datetime | None,
    as_json: bool,
) -> None:
    """Answer QUESTION from the documents, with the sources that the answer cites by number.

    With --json the whole answer comes at once, as the response of POST /api/answer.

    Exit codes: 0 answered, 1 failed, 2 wrong usage, 3 the documents do not hold the answer.
    """
    request: JsonObject = {"collection_ids": collections, "thread_id": thread or "", "as_of": as_of}
    request["options"] = {
        **({"effort": f"EFFORT_{effort.upper()}"} if effort else {}),
        **({"generation": {"model": model}} if model else {}),
    }
    if as_json:
        response = run(
            connection,
            lambda client: client.answer(question, **request, request_id=str(uuid.uuid4())),
        )
        print_json(to_json(response))
        completed = response.completed or ChatCompleted()
    else:
        completed = run(connection, lambda client: _stream(client, question, request))
    if completed.finish_reason == FinishReason.NO_ANSWER:
        raise SystemExit(_REFUSED_EXIT_CODE)


async def _stream(client: AsyncClient, question: str, request: JsonObject) -> ChatCompleted:
    """Print the answer as it comes and then its sources."""
    # What is printed cannot be taken back.
    asked = {**request, "options": {**request["options"], "appendOnly": True}}
    thread_id = ""
    searched_for: list[str] = []
    sources: Sequence[Source] = []
    completed = ChatCompleted()
    waiting = Console(stderr=True).status("")
    line_open = False
    try:
        async with aclosing(client.chat(question, **asked)) as events:
            async for event in events:
                match event:
                    case ChatStarted():
                        thread_id = event.thread_id
                    case ChatStatus():
                        searched_for = _searched_for(event) or searched_for
                        waiting.update(f"{_stage(event)}…")
                        waiting.start()
                    case ChatSources():
                        sources = event.sources
                    case ChatDelta():
                        waiting.stop()
                        text = printable(event.text)
                        click.echo(text, nl=False)
                        line_open = not text.endswith("\n")
                    case ChatCompleted():
                        completed = event
    finally:
        waiting.stop()
        if line_open:
            click.echo()
    _print_sources(sources, completed)
    for query in searched_for:
        click.echo(click.style(f"searched for: {summary(query, length=_TITLE_LENGTH)}", dim=True), err=True)
    _print_notes(completed, thread_id)
    return completed


def _stage(status: ChatStatus) -> str:
    if status.waiting is None:
        return shown_enum(status.stage)
    seconds = math.ceil(status.waiting.duration_seconds)
    return "waiting for the language model" + (f", about {seconds} s" if seconds else "")


def _searched_for(status: ChatStatus) -> list[str]:
    """Return the queries that were searched for if they differ from the question."""
    return [*([status.rewritten_query] if status.rewritten_query else []), *status.sub_queries]


def _print_sources(sources: Sequence[Source], completed: ChatCompleted) -> None:
    if completed.finish_reason == FinishReason.NO_ANSWER or not sources:
        return
    cited = {citation.source_number for citation in completed.citations}
    if cited:
        click.echo()
    for source in sources:
        if source.number in cited:
            click.echo(_source_line(source))
    if others := [_source_line(source) for source in sources if source.number not in cited]:
        click.echo(click.style("\n".join(["also found:", *others]), dim=True), err=True)


def _source_line(source: Source) -> str:
    title = summary(source.title, length=_TITLE_LENGTH)
    return f"[{source.number}] {title} — {one_line(source.uri)}"


def _print_notes(completed: ChatCompleted, thread_id: str) -> None:
    reason = completed.finish_reason
    if reason == FinishReason.NO_ANSWER:
        _note("the documents do not hold the answer")
    else:
        if reason != FinishReason.STOP:
            _note(f"the answer is not complete ({shown_enum(reason)})")
        for issue in completed.validation.issues if completed.validation else ():
            if issue.reason not in _SAID_BY_FINISH_REASON:
                _note(issue.message or issue.reason)
    print_degraded(completed.degraded)
    for quota in completed.nearly_used:
        amounts = f"{quota.used:,.2f} of {quota.limit:,g}"
        share = quota.used / quota.limit
        _note(f"{share:.0%} of the quota of {shown_enum(quota.quota)} is used ({amounts})")
    if thread_id:
        click.echo(click.style(f"thread: {printable(thread_id)}", dim=True), err=True)


def print_degraded(degraded: Sequence[Degradation]) -> None:
    """Print a note on stderr for each part that was skipped, failed or came late."""
    for degradation in degraded:
        _note(f"without {shown_enum(degradation.component)}: {degradation.message or degradation.reason}")


def _note(text: str) -> None:
    click.echo(f"{click.style('note:', fg='yellow')} {printable(text)}", err=True)
