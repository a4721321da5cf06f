"""`groundline env`."""

from shlex import quote

import click

from groundline_cli.commands.gateway import with_gateway
from groundline_cli.connection import Connection


@click.command()
@with_gateway
def env(connection: Connection) -> None:
    """Print the gateway's address and the key to it as commands of a shell.

    Programs such as curl then find the gateway that commands talk to. The output holds the key.

    \b
      eval "$(groundline env)"
      curl -H "x-api-key: $GROUNDLINE_API_KEY" "$GROUNDLINE_GATEWAY_URL/api/collections"
    """
    click.echo(f"export GROUNDLINE_GATEWAY_URL={quote(connection.gateway)}")
    click.echo(f"export GROUNDLINE_API_KEY={quote(connection.api_key)}")
