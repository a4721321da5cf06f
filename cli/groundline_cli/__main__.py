"""The `groundline` command."""

from importlib import import_module
from importlib.metadata import version

import click

from groundline_cli.commands.ask import ask
from groundline_cli.commands.collections import collections, create, reindex, update
from groundline_cli.commands.crawl import crawl
from groundline_cli.commands.eval import evaluate
from groundline_cli.commands.gateway import CommandFailedError
from groundline_cli.commands.ingest import ingest, sync
from groundline_cli.commands.manage import delete, documents, jobs, stats
from groundline_cli.commands.search import search
from groundline_cli.commands.threads import threads

__all__ = ["cli", "main"]


class _Commands(click.Group):
    """A group that imports `up` and `bench` only when they are wanted: they need what the extra `up`
    installs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *_WITH_EXTRA])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _WITH_EXTRA:
            return _with_extra(cmd_name)
        return super().get_command(ctx, cmd_name)


_WITH_EXTRA = {"up": "Run the suite here", "bench": "Measure parts of the suite here"}


def _with_extra(name: str) -> click.Command:
    try:
        module = import_module(f"groundline_cli.commands.{name}")
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if missing.startswith("groundline_cli"):
            raise
        return _without_extra(name, missing)
    command = getattr(module, name)
    assert isinstance(command, click.Command)
    return command


def _without_extra(name: str, missing: str) -> click.Command:
    @click.command(
        name,
        short_help=f"{_WITH_EXTRA[name]} (not installed: groundline-cli[up]).",
        help=f"{_WITH_EXTRA[name]}. Needs groundline-cli[up], which is not installed.",
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )
    def command() -> None:
        raise CommandFailedError(f"{missing} is not installed: pip install 'groundline-cli[up]'")

    return command


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
    create,
    crawl,
    delete,
    documents,
    evaluate,
    ingest,
    jobs,
    reindex,
    search,
    stats,
    sync,
    threads,
    update,
):
    cli.add_command(_command)


def main() -> None:
    """Run the command line."""
    cli(prog_name="groundline")


if __name__ == "__main__":
    main()
