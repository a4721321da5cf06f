"""Command line of a service that owns tables."""

import argparse
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager

from groundline_runtime.serving.server import Application, run, run_command
from groundline_runtime.settings import ServiceSettings


def serve_or_migrate[S: ServiceSettings, M: ServiceSettings](
    settings: type[S],
    wire: Callable[[S], AbstractAsyncContextManager[Application]],
    migration_settings: type[M],
    migrate: Callable[[M], Awaitable[None]],
    argv: Sequence[str] | None = None,
    *,
    epilog: str | None = None,
) -> None:
    """Run `groundline-SERVICE [serve|migrate] [--settings FILE]`; exit as `run` of groundline_runtime does.

    `epilog` ends the help.
    """
    parser = argparse.ArgumentParser(prog=settings.service_name(), epilog=epilog)
    parser.add_argument(
        "command",
        nargs="?",
        choices=("serve", "migrate"),
        default="serve",
        help="serve (the default), or bring the schema of the service's tables up to date and end",
    )
    parser.add_argument("--settings", metavar="FILE", help="read settings from a dotenv file")
    options = parser.parse_args(argv)
    rest = ["--settings", options.settings] if options.settings else []
    if options.command == "migrate":
        run_command(migration_settings, migrate, rest)
    else:
        run(settings, wire, rest)
