"""The `groundline` command."""

from importlib import import_module
from importlib.metadata import entry_points, version
from keyword import iskeyword
from typing import Final

import click

from groundline_cli.commands.ask import ask
from groundline_cli.commands.calibrate import calibrate
from groundline_cli.commands.collections import collections, create, update
from groundline_cli.commands.completion import completion
from groundline_cli.commands.crawl import crawl
from groundline_cli.commands.doctor import doctor
from groundline_cli.commands.env import env
from groundline_cli.commands.erasures import erasures
from groundline_cli.commands.eval import evaluate
from groundline_cli.commands.evidence import evidence
from groundline_cli.commands.gateway import CommandFailedError
from groundline_cli.commands.holds import holds
from groundline_cli.commands.ingest import ingest, sync
from groundline_cli.commands.manage import delete, document, documents, jobs, stats
from groundline_cli.commands.reindex import reindex
from groundline_cli.commands.revisions import revisions, rollback
from groundline_cli.commands.search import search
from groundline_cli.commands.sources import sources
from groundline_cli.commands.table import table
from groundline_cli.commands.threads import threads
from groundline_cli.commands.verify import verify

__all__ = ["cli", "main"]


_PLUGINS: Final = "groundline.commands"
"""Entry points of packages that add commands of their own, as groundline-benchmarks adds `bench`."""


class _Commands(click.Group):
    """A group that also holds the commands of other installed packages. Those, and commands that need more
    than the gateway's address, are imported only when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *_WITH_EXTRA, *entry_points(group=_PLUGINS).names])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _WITH_EXTRA:
            return _with_extra(cmd_name)
        for plugin in entry_points(group=_PLUGINS, name=cmd_name):
            command = plugin.load()
            assert isinstance(command, click.Command)
            return command
        return super().get_command(ctx, cmd_name)


_WITH_EXTRA: Final = {
    "apply": ("Make collections, sources and keys what files say", "apply"),
    "export": ("Write collections, sources and keys as a file for `apply`", "apply"),
    "import": ("Load files of records into a collection in bulk", "database"),
    "audit": ("Read, export and verify the audit log", "up"),
    "keys": ("Create, list and revoke API keys", "up"),
    "mcp": ("Give agents on this machine the documents, over MCP", "mcp"),
    "models": ("List and fetch local embedding models", "up"),
    "traces": ("Look through the database for a text that should be gone", "database"),
    "up": ("Run the suite here", "up"),
}
"""Commands that need an extra: their help and the extra's name."""


def _with_extra(name: str) -> click.Command:
    attribute = f"{name}_" if iskeyword(name) else name
    try:
        command = getattr(import_module(f"groundline_cli.commands.{attribute}"), attribute)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if missing.startswith("groundline_cli"):
            raise
        return _without_extra(name, missing)
    assert isinstance(command, click.Command)
    return command


def _without_extra(name: str, missing: str) -> click.Command:
    purpose, extra = _WITH_EXTRA[name]

    @click.command(
        name,
        short_help=f"{purpose} (not installed: groundline-cli[{extra}]).",
        help=f"{purpose}. Needs groundline-cli[{extra}], which is not installed.",
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )
    def command() -> None:
        raise CommandFailedError(f"{missing} is not installed: pip install 'groundline-cli[{extra}]'")

    return command


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("groundline-cli"), prog_name="groundline")
def cli() -> None:
    """Answer questions from your own documents.

    `groundline up` runs the whole suite on this machine. The other commands talk to a gateway: the one that
    GROUNDLINE_GATEWAY_URL and GROUNDLINE_API_KEY name, or else the profile that --profile names, or else the
    suite that runs from this directory, or else the default profile.

    \b
      groundline ingest docs/ --collection handbook
      groundline ask "How many days of leave do I have?"
      groundline search "leave" --mode keyword --top-k 3
    """


for _command in (
    ask,
    calibrate,
    collections,
    completion,
    create,
    crawl,
    delete,
    doctor,
    document,
    documents,
    env,
    erasures,
    evaluate,
    evidence,
    holds,
    ingest,
    jobs,
    reindex,
    revisions,
    rollback,
    search,
    sources,
    stats,
    sync,
    table,
    threads,
    update,
    verify,
):
    cli.add_command(_command)


def main() -> None:
    """Run the command line."""
    cli(prog_name="groundline")


if __name__ == "__main__":
    main()
