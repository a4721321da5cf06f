"""Options of the benchmarks' commands."""

from collections.abc import Callable
from typing import Any

import click


def number(name: str, default: float, text: str, *, minimum: int = 1) -> Callable[[Any], Any]:
    """Return an option of whole numbers if its default is one, else of any, then without a minimum of 0."""
    if isinstance(default, int):
        kind: click.ParamType[Any] = click.IntRange(minimum)
    else:
        kind = click.FloatRange(minimum, min_open=minimum == 0)
    return click.option(name, type=kind, default=default, show_default=True, help=text)
