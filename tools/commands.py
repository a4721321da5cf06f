"""Make docs/reference/commands.md, what every command's --help says.

commands.py write    write it
commands.py check    fail when it is stale
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
from generated import write_or_check
from groundline_cli.__main__ import cli

REFERENCE: Final = Path(__file__).resolve().parent.parent / "docs/reference/commands.md"
# Width of a line of a help text; narrow enough for a page.
WIDTH: Final = 100

HEAD: Final = """\
# Commands

Made from the command itself by `make command-reference`; do not edit.

What `groundline COMMAND --help` says. Which gateway a command talks to, its exit codes, and which files it
takes are in [groundline-cli](../../cli/README.md). `groundline bench` comes with the package groundline-
benchmarks; `apply` and `export` with the extra `groundline-cli[apply]`, `import` and `traces` with
`groundline-cli[database]`, `keys`, `models` and `up` with `groundline-cli[up]`, `mcp` with
`groundline-cli[mcp]`.
"""


def reference() -> str:
    """Return the whole page."""
    context = click.Context(cli, info_name="groundline", terminal_width=WIDTH, max_content_width=WIDTH)
    return "\n".join([HEAD, *sections(cli, context)])


def sections(command: click.Command, context: click.Context) -> Iterator[str]:
    """Yield the section of the command, then those below it."""
    yield f"## {context.command_path}\n\n```text\n{command.get_help(context)}\n```\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None, name
            yield from sections(
                below,
                click.Context(below, context, name, terminal_width=WIDTH, max_content_width=WIDTH),
            )


def main() -> int:
    return write_or_check(sys.argv[1:], {REFERENCE: reference()}, "make command-reference", str(__doc__))


if __name__ == "__main__":
    raise SystemExit(main())
