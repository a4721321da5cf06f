"""The failure of a command."""

import click

from groundline_cli.terminal import printable


class CommandFailedError(click.ClickException):
    """A failure that ends a command with `error: …` on stderr and exit code 1."""

    def show(self, file: object = None) -> None:
        """Print the message without control characters: it may hold text of others."""
        click.echo(f"{click.style('error:', fg='red')} {printable(self.message)}", err=True)
