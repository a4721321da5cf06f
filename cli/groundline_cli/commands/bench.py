"""groundline bench"""

import click

from groundline_cli.commands.bench_chat import chat

__all__ = ["bench"]


@click.group(short_help="Measure the suite on this machine.")
def bench() -> None:
    """Measure the suite on this machine."""


bench.add_command(chat)
