"""groundline erasures"""

from typing import BinaryIO

import click
from groundline_client import to_json

from groundline_cli.commands.gateway import all_of, json_option, output_option, run, with_gateway
from groundline_cli.connection import Connection
from groundline_cli.terminal import print_columns, print_json, shown_time


@click.group(short_help="List what was deleted for good, and get certificates of it.")
def erasures() -> None:
    """List what was deleted for good, and get certificates of it, which the installation signs;
    `groundline evidence verify` checks them."""


@erasures.command("list")
@click.option(
    "--collection", metavar="NAME", default="", help="All of a collection that the key may administer."
)
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="Maximum erasures to list."
)
@json_option
@with_gateway
def list_erasures(connection: Connection, collection: str, limit: int, as_json: bool) -> None:
    """List the erasures that this key asked for, the newest first."""
    found = run(connection, lambda client: all_of(client.list_erasures(collection, limit=limit)))
    if as_json:
        print_json({"erasures": [to_json(each) for each in found]})
        return
    rows = [
        (
            each.erasure_id,
            shown_time(each.erase_time),
            f"{each.collection_id} (whole)" if each.is_collection else each.collection_id,
            each.document_count,
            each.revision_count,
            each.chunk_count,
            each.answer_count,
        )
        for each in found
    ]
    print_columns(("ERASURE", "TIME", "COLLECTION", "DOCUMENTS", "REVISIONS", "CHUNKS", "ANSWERS"), rows)


@erasures.command()
@click.argument("erasure")
@output_option
@with_gateway
def certificate(connection: Connection, erasure: str, output: BinaryIO) -> None:
    """Write a certificate of ERASURE; keep it byte for byte."""
    output.write(run(connection, lambda client: client.get_erasure_certificate(erasure)))
