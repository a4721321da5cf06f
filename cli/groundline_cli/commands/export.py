"""groundline export"""

from collections.abc import Sequence
from typing import Any, BinaryIO

import click
import yaml
from groundline_client import ApiError, AsyncClient, JsonObject
from groundline_client.models import Collection

from groundline_cli.commands.apply import database_option, key_store
from groundline_cli.commands.gateway import all_of, output_option, run, with_gateway
from groundline_cli.configuration.planning import described_collection, described_source
from groundline_cli.connection import Connection
from groundline_cli.terminal import printable


@click.command(short_help="Write collections, sources and keys as a file for `apply`.")
@click.argument("collections", nargs=-1, metavar="[COLLECTION...]")
@click.option(
    "--keys",
    "with_keys",
    is_flag=True,
    help="Also the API keys, without the keys themselves, which are stored nowhere: `apply` makes new ones.",
)
@output_option
@database_option
@with_gateway
def export(
    connection: Connection,
    collections: tuple[str, ...],
    with_keys: bool,
    output: BinaryIO,
    database_url: str | None,
) -> None:
    """Write each COLLECTION, or else all that the key may read, with settings and sources, in YAML that
    `groundline apply` takes, here or of another installation. Documents are not in it.

    Sources are written of collections that the key administers.
    """

    async def work(client: AsyncClient) -> JsonObject:
        if collections:
            found: Sequence[Collection] = [await client.get_collection(one) for one in collections]
        else:
            found = await all_of(client.list_collections())
        described: JsonObject = {"collections": [await _described(client, one) for one in found]}
        if with_keys:
            described["keys"] = await _keys(connection, database_url)
        return described

    text = yaml.dump(run(connection, work), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    output.write(text.encode())


async def _described(client: AsyncClient, collection: Collection) -> JsonObject:
    described = described_collection(collection)
    try:
        sources = await all_of(client.list_sources(collection.collection_id))
    except ApiError as error:
        if error.http_status != 403:
            raise
        note = f"{collection.collection_id} without its sources: the key does not administer it"
        click.echo(printable(note), err=True)
        return described
    return {**described, "sources": [described_source(source) for source in sources]}


async def _keys(connection: Connection, database_url: str | None) -> list[dict[str, object]]:
    async with key_store(connection, database_url) as store:
        from groundline_cli.configuration.keys import described_key, valid_keys

        return [described_key(key) for key in await valid_keys(store)]


class _Dumper(yaml.SafeDumper):
    """YAML without aliases, in which texts of several lines are blocks."""

    def ignore_aliases(self, data: Any) -> bool:
        """Return True."""
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)
