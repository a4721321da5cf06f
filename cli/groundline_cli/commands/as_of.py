"""Option --as-of of what searches."""

from datetime import datetime

import click

from groundline_cli.moments import moment_of


def past_moment(_context: click.Context, _option: click.Parameter, value: str | None) -> datetime | None:
    """Parse an option's text as a time, or as an age; for click's `callback`."""
    if value is None:
        return None
    found = moment_of(value, ago=True)
    if found is None:
        raise click.BadParameter("a time such as 2026-03-01 or 2026-03-01T09:30, or an age such as 12h, 30d")
    return found


as_of_option = click.option(
    "--as-of",
    metavar="TIME",
    callback=past_moment,
    help="Search what was current then: 2026-03-01 (its first moment, UTC), 2026-03-01T09:30, or 30d (ago). "
    "Needs collections with history.searchable.",
)
