"""groundline search"""

import click

from groundline_cli.client import JsonObject
from groundline_cli.commands.ask import print_degraded
from groundline_cli.commands.gateway import collections_option, json_option, run, with_gateway
from groundline_cli.connection import Connection
from groundline_cli.terminal import print_json, printable, summary

__all__ = ["search"]

_TITLE_LENGTH = 120
_SNIPPET_LENGTH = 400


@click.command(short_help="Print the passages that fit a query best.")
@click.argument("query")
@collections_option
@click.option("--top-k", type=click.IntRange(1, 100), help="Most passages. Default: the collection's, or 8.")
@click.option(
    "--mode",
    type=click.Choice(["hybrid", "semantic", "keyword"]),
    help="Which searches run. Default: the collection's, or hybrid.",
)
@json_option
@with_gateway
def search(
    connection: Connection,
    query: str,
    collections: tuple[str, ...],
    top_k: int | None,
    mode: str | None,
    as_json: bool,
) -> None:
    """Print the passages that fit QUERY best, without writing an answer.

    Scores are comparable within one search only. With --json: the response of POST /api/search.
    """
    options: JsonObject = {}
    if top_k is not None:
        options["rerank"] = {"topK": top_k}
    if mode is not None:
        options["retrieval"] = {"mode": f"RETRIEVAL_MODE_{mode.upper()}"}
    request: JsonObject = {"query": query, "collectionIds": list(collections), "options": options}
    response = run(connection, lambda client: client.search(request))
    if as_json:
        print_json(response)
        return
    passages = response.get("passages", [])
    for rank, passage in enumerate(passages, start=1):
        chunk = passage.get("chunk", {})
        title = click.style(summary(chunk.get("title", ""), length=_TITLE_LENGTH), bold=True)
        click.echo(f"{rank:>3}. {passage.get('score', 0):.4f}  {title} — {printable(chunk.get('uri', ''))}")
        click.echo(f"     {summary(chunk.get('text', ''), length=_SNIPPET_LENGTH)}")
    if not passages:
        click.echo("nothing found", err=True)
    print_degraded(response)
