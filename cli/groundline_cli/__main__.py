"""The `groundline` command."""

from importlib.metadata import version

import click

from groundline_cli.commands.ask import ask
from groundline_cli.commands.eval import evaluate
from groundline_cli.commands.gateway import CommandFailedError
from groundline_cli.commands.ingest import ingest, sync
from groundline_cli.commands.manage import collections, delete, documents, jobs, reindex, stats
from groundline_cli.commands.search import search

__all__ = ["cli", "main"]


class _Commands(click.Group):
    """A group that imports `up` only when it is wanted: it needs what the extra of that name installs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), "up"])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return _up() if cmd_name == "up" else super().get_command(ctx, cmd_name)


def _up() -> click.Command:
    try:
        from groundline_cli.commands.up import up
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if missing.startswith("groundline_cli"):
            raise
        return _up_without_extra(missing)
    return up


def _up_without_extra(missing: str) -> click.Command:
    @click.command(
        short_help="Run the suite here (not installed: groundline-cli[up]).",
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )
    def up() -> None:
        """Run the whole suite on this machine. Needs groundline-cli[up], which is not installed."""
        raise CommandFailedError(f"{missing} is not installed: pip install 'groundline-cli[up]'")

    return up


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("groundline-cli"), prog_name="groundline")
def cli() -> None:
    """Answers from your own documents.

    `groundline up` runs the whole suite on this machine. The other commands talk to a gateway: the one that
    GROUNDLINE_GATEWAY_URL and GROUNDLINE_API_KEY name, or else the suite that runs from this directory.

    \b
      groundline ingest docs/ --collection handbook
      groundline ask "How many days of leave do I have?"
      groundline search "leave" --mode keyword --top-k 3
    """


for _command in (
    ask,
    collections,
    delete,
    documents,
    evaluate,
    ingest,
    jobs,
    reindex,
    search,
    stats,
    sync,
):
    cli.add_command(_command)


def main() -> None:
    """Run the command line."""
    cli(prog_name="groundline")


if __name__ == "__main__":
    main()
