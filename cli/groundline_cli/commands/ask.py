"""groundline ask"""

import uuid
from contextlib import aclosing

import click
from rich.console import Console

from groundline_cli.client import GatewayClient, JsonObject
from groundline_cli.commands.gateway import collections_option, json_option, run, with_gateway
from groundline_cli.connection import Connection
from groundline_cli.terminal import print_json, printable, summary

__all__ = ["ask", "print_degraded"]

_REFUSED_EXIT_CODE = 3
_TITLE_LENGTH = 120
_SAID_BY_FINISH_REASON = ("ANSWER_CUT_OFF", "ANSWER_WITHHELD")


@click.command(short_help="Answer a question from the documents.")
@click.argument("question")
@collections_option
@click.option("--thread", metavar="ID", help="Thread to go on with, as an earlier answer named it.")
@json_option
@with_gateway
def ask(
    connection: Connection, question: str, collections: tuple[str, ...], thread: str | None, as_json: bool
) -> None:
    """Answer QUESTION from the documents, with the sources that the answer cites by number.

    With --json the whole answer comes at once, as the response of POST /api/answer.

    Exit codes: 0 answered, 1 failed, 2 wrong usage, 3 the documents do not hold the answer.
    """
    request: JsonObject = {"query": question, "collectionIds": list(collections)}
    if thread:
        request["threadId"] = thread
    if as_json:
        request["requestId"] = str(uuid.uuid4())
        response = run(connection, lambda client: client.answer(request))
        print_json(response)
        completed: JsonObject = response.get("completed", {})
    else:
        completed = run(connection, lambda client: _stream(client, request))
    if completed.get("finishReason") == "FINISH_REASON_NO_ANSWER":
        raise SystemExit(_REFUSED_EXIT_CODE)


async def _stream(client: GatewayClient, request: JsonObject) -> JsonObject:
    """Print the answer as it comes and then its sources; returns ChatCompleted."""
    thread_id = ""
    searched_for: list[str] = []
    sources: list[JsonObject] = []
    completed: JsonObject = {}
    waiting = Console(stderr=True).status("")
    line_open = False
    try:
        async with aclosing(client.chat(request)) as events:
            async for event in events:
                match event:
                    case {"started": started}:
                        thread_id = started.get("threadId", "")
                    case {"status": status}:
                        searched_for = _searched_for(status) or searched_for
                        waiting.update(_stage(status))
                        waiting.start()
                    case {"sources": found}:
                        sources = found.get("sources", [])
                    case {"delta": delta}:
                        waiting.stop()
                        text = printable(delta.get("text", ""))
                        click.echo(text, nl=False)
                        line_open = not text.endswith("\n")
                    case {"completed": completed}:
                        pass
    finally:
        waiting.stop()
        if line_open:
            click.echo()
    _print_sources(sources, completed)
    for query in searched_for:
        click.echo(click.style(f"searched for: {summary(query, length=_TITLE_LENGTH)}", dim=True), err=True)
    _print_notes(completed, thread_id)
    return completed


def _stage(status: JsonObject) -> str:
    return f"{str(status.get('stage', '')).removeprefix('STAGE_').lower()}…"


def _searched_for(status: JsonObject) -> list[str]:
    """What stands for the question, where it is not just the question."""
    rewritten = status.get("rewrittenQuery", "")
    return [*([rewritten] if rewritten else []), *status.get("subQueries", [])]


def _print_sources(sources: list[JsonObject], completed: JsonObject) -> None:
    if completed.get("finishReason") == "FINISH_REASON_NO_ANSWER" or not sources:
        return
    cited = {citation.get("sourceNumber") for citation in completed.get("citations", [])}
    if cited:
        click.echo()
    for source in sources:
        if source.get("number") in cited:
            click.echo(_source_line(source))
    if others := [_source_line(source) for source in sources if source.get("number") not in cited]:
        click.echo(click.style("\n".join(["also found:", *others]), dim=True), err=True)


def _source_line(source: JsonObject) -> str:
    title = summary(source.get("title", ""), length=_TITLE_LENGTH)
    return f"[{source.get('number')}] {title} — {printable(source.get('uri', ''))}"


def _print_notes(completed: JsonObject, thread_id: str) -> None:
    reason = completed.get("finishReason", "")
    if reason == "FINISH_REASON_NO_ANSWER":
        _note("the documents do not hold the answer")
    else:
        if reason != "FINISH_REASON_STOP":
            _note(f"the answer is not complete ({str(reason).removeprefix('FINISH_REASON_').lower()})")
        for issue in completed.get("validation", {}).get("issues", []):
            if issue.get("reason") not in _SAID_BY_FINISH_REASON:
                _note(issue.get("message") or issue.get("reason", ""))
    print_degraded(completed)
    if thread_id:
        click.echo(click.style(f"thread: {printable(thread_id)}", dim=True), err=True)


def print_degraded(response: JsonObject) -> None:
    """A note on stderr for each thing that was skipped, failed or came late."""
    for degradation in response.get("degraded", []):
        reason = degradation.get("message") or degradation.get("reason", "")
        component = str(degradation.get("component", "")).removeprefix("COMPONENT_").lower().replace("_", " ")
        _note(f"without {component}: {reason}")


def _note(text: str) -> None:
    click.echo(f"{click.style('note:', fg='yellow')} {printable(text)}", err=True)
