"""groundline bench: figures of this machine, each beside what it is compared to in the same run."""

import click

from groundline_cli.commands.bench_chat import chat
from groundline_cli.commands.bench_ingest import ingest
from groundline_cli.commands.bench_retrieval import retrieval

__all__ = ["bench"]


@click.group()
def bench() -> None:
    """Measure the suite on this machine."""


for _command in (chat, ingest, retrieval):
    bench.add_command(_command)
