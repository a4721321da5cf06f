"""groundline bench: figures of this machine, each beside a reference from the same run."""

from importlib import import_module
from typing import Final

import click

_BENCHMARKS: Final = (
    "capacity",
    "chaos",
    "chat",
    "extract",
    "feed",
    "idle",
    "ingest",
    "lexical",
    "load",
    "past",
    "retrieval",
    "soak",
    "tables",
)


class _Benchmarks(click.Group):
    """A group that imports a benchmark only when it is called: each needs numpy, gRPC and the services."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return list(_BENCHMARKS)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _BENCHMARKS:
            return None
        command = getattr(import_module(f"groundline_benchmarks.{cmd_name}.command"), cmd_name)
        assert isinstance(command, click.Command)
        return command


@click.group(cls=_Benchmarks)
def bench() -> None:
    """Measure the suite on this machine."""
