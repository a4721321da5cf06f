"""groundline holds"""

import click
from groundline_client import AsyncClient, to_json

from groundline_cli.commands.gateway import all_of, json_option, run, with_gateway
from groundline_cli.commands.manage import find_document
from groundline_cli.connection import Connection
from groundline_cli.terminal import print_columns, print_json, printable, shown_time

__all__ = ["holds"]


@click.group(short_help="Put documents under a legal hold, and release them.")
def holds() -> None:
    """Put documents, or a whole collection, under a legal hold, and release them.

    What is held cannot be deleted, by whomever, and all its revisions are kept. It takes a key that may
    administer the collection.
    """


@holds.command("list")
@click.argument("collection")
@json_option
@with_gateway
def list_holds(connection: Connection, collection: str, as_json: bool) -> None:
    """List the holds of COLLECTION: its own, then those of documents."""
    found = run(connection, lambda client: all_of(client.list_legal_holds(collection)))
    if as_json:
        print_json({"holds": [to_json(each) for each in found]})
        return
    rows = [
        (
            shown_time(each.create_time),
            each.document_id or "(all)",
            printable(each.uri),
            printable(each.reason),
        )
        for each in found
    ]
    print_columns(("SINCE", "DOCUMENT", "URI", "REASON"), rows)


@holds.command("set")
@click.argument("collection")
@click.argument("documents", nargs=-1)
@click.option("--reason", required=True, help="Why, 500 characters at most; such as a case.")
@with_gateway
def set_holds(connection: Connection, collection: str, documents: tuple[str, ...], reason: str) -> None:
    """Hold DOCUMENTS of COLLECTION, by their ids or uris; without any the whole collection, with what it will
    hold."""
    if not reason.strip():
        raise click.BadParameter("must say why", param_hint="--reason")
    click.echo(f"held: {_changed(connection, collection, documents, reason)}")


@holds.command()
@click.argument("collection")
@click.argument("documents", nargs=-1)
@with_gateway
def release(connection: Connection, collection: str, documents: tuple[str, ...]) -> None:
    """Release DOCUMENTS of COLLECTION; without any the collection itself: documents that are held by
    themselves stay so."""
    click.echo(f"released: {_changed(connection, collection, documents, '')}")


def _changed(connection: Connection, collection: str, documents: tuple[str, ...], reason: str) -> int:
    async def work(client: AsyncClient) -> int:
        ids = [(await find_document(client, collection, each)).document_id for each in documents]
        return await client.set_legal_hold(collection, ids, reason=reason)

    return run(connection, work)
