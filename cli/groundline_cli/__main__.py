"""The `groundline` command."""

import sys
from importlib import import_module
from typing import Final

import click

from groundline_cli.errors import CommandFailedError

_PLUGINS: Final = "groundline.commands"
"""Entry points of packages that add commands of their own, as groundline-benchmarks adds `bench`."""


class _Commands(click.Group):
    """A group that also holds the commands of other installed packages. A command is imported when it is
    called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        from importlib.metadata import entry_points

        return sorted([*_MODULES, *_WITH_EXTRA, *entry_points(group=_PLUGINS).names])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _MODULES:
            return _imported(_MODULES[cmd_name], cmd_name)
        if cmd_name in _WITH_EXTRA:
            return _with_extra(cmd_name)
        from importlib.metadata import entry_points

        for plugin in entry_points(group=_PLUGINS, name=cmd_name):
            command = plugin.load()
            assert isinstance(command, click.Command)
            return command
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:
            # Click would suggest none, since it knows only commands that are imported.
            raise click.NoSuchCommand(error.command_name, None, self.list_commands(ctx), ctx) from None


_MODULES: Final = {
    "ask": "ask",
    "calibrate": "calibrate",
    "collections": "collections",
    "completion": "completion",
    "crawl": "crawl",
    "create": "collections",
    "delete": "manage",
    "doctor": "doctor",
    "document": "manage",
    "documents": "manage",
    "env": "env",
    "erasures": "erasures",
    "eval": "eval",
    "evidence": "evidence",
    "holds": "holds",
    "ingest": "ingest",
    "jobs": "manage",
    "reindex": "reindex",
    "revisions": "revisions",
    "rollback": "revisions",
    "rollout-check": "rollout_check",
    "search": "search",
    "sources": "sources",
    "stats": "manage",
    "sync": "ingest",
    "table": "table",
    "threads": "threads",
    "update": "collections",
    "verify": "verify",
}
"""Modules of the commands that need the gateway's address alone."""


_WITH_EXTRA: Final = {
    "apply": ("Make collections, sources and keys what files say", "apply"),
    "export": ("Write collections, sources and keys as a file for `apply`", "apply"),
    "import": ("Load files of records into a collection in bulk", "database"),
    "backup": ("Write a backup of the whole suite", "up"),
    "audit": ("Read, export and verify the audit log", "up"),
    "keys": ("Create, list and revoke API keys", "up"),
    "mcp": ("Give agents on this machine the documents, over MCP", "mcp"),
    "models": ("List and fetch local embedding models", "up"),
    "restore": ("Bring back a backup, or one collection of it", "up"),
    "traces": ("Look through the database for a text that should be gone", "database"),
    "up": ("Run the suite here", "up"),
}
"""Commands that need an extra: their help and the extra's name."""


def _imported(module: str, name: str) -> click.Command:
    command = getattr(import_module(f"groundline_cli.commands.{module}"), _ATTRIBUTES.get(name, name))
    assert isinstance(command, click.Command)
    return command


_ATTRIBUTES: Final = {"eval": "evaluate", "import": "import_", "rollout-check": "rollout_check"}


def _with_extra(name: str) -> click.Command:
    try:
        return _imported(_ATTRIBUTES.get(name, name), name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if missing.startswith("groundline_cli"):
            raise
        return _without_extra(name, missing)


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
@click.version_option(package_name="groundline-cli", prog_name="groundline")
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


def main() -> None:
    """Run the command line."""
    # httpx loads a command of its own with rich and pygments, and does without if the import fails.
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
    cli(prog_name="groundline")


if __name__ == "__main__":
    main()
