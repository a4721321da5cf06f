"""groundline holds"""

import click
from groundline_client import AsyncClient, to_json

from groundline_cli.commands.gateway import all_of, json_option, run, with_gateway
from groundline_cli.commands.manage import find_document
from groundline_cli.connection import Connection
from groundline_cli.terminal import print_columns, print_json, printable, shown_time


@click.group(short_help="Put documents and threads under a legal hold, and release them.")
def holds() -> None:
    """Put documents, a whole collection, or threads under a legal hold, and release them.

    What is held cannot be deleted, by whomever, and all its revisions are kept. A held thread does not
    expire, and holds the documents that it cites. It takes a key that may administer the collection.
    """


@holds.command("list")
@click.argument("collection")
@json_option
@with_gateway
def list_holds(connection: Connection, collection: str, as_json: bool) -> None:
    """List the holds of COLLECTION: its own, then those of documents and of threads."""
    found = run(connection, lambda client: all_of(client.list_legal_holds(collection)))
    if as_json:
        print_json({"holds": [to_json(each) for each in found]})
        return
    rows = [
        (
            shown_time(each.create_time),
            f"thread {each.thread_id}" if each.thread_id else each.document_id or "(all)",
            printable(each.uri),
            printable(each.reason),
        )
        for each in found
    ]
    print_columns(("SINCE", "HELD", "URI", "REASON"), rows)


_threads_option = click.option(
    "--thread",
    "threads",
    multiple=True,
    metavar="ID",
    help="Thread that cites a document of COLLECTION; may be given several times.",
)


@holds.command("set")
@click.argument("collection")
@click.argument("documents", nargs=-1)
@_threads_option
@click.option("--reason", required=True, help="Why, 500 characters at most; such as a case.")
@with_gateway
def set_holds(
    connection: Connection,
    collection: str,
    documents: tuple[str, ...],
    threads: tuple[str, ...],
    reason: str,
) -> None:
    """Hold DOCUMENTS of COLLECTION, by their ids or uris, and threads; without any the whole collection, with
    what it will hold."""
    if not reason.strip():
        raise click.BadParameter("must say why", param_hint="--reason")
    click.echo(f"held: {_changed(connection, collection, documents, threads, reason)}")


@holds.command()
@click.argument("collection")
@click.argument("documents", nargs=-1)
@_threads_option
@with_gateway
def release(
    connection: Connection, collection: str, documents: tuple[str, ...], threads: tuple[str, ...]
) -> None:
    """Release DOCUMENTS of COLLECTION, and threads; without any the collection itself: what is held by
    itself stays so."""
    click.echo(f"released: {_changed(connection, collection, documents, threads, '')}")


def _changed(
    connection: Connection,
    collection: str,
    documents: tuple[str, ...],
    threads: tuple[str, ...],
    reason: str,
) -> int:
    async def work(client: AsyncClient) -> int:
        ids = [(await find_document(client, collection, each)).document_id for each in documents]
        return await client.set_legal_hold(collection, ids, thread_ids=threads, reason=reason)

    return run(connection, work)
