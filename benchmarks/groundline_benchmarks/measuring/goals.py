"""Goals of figures, printed beside them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import click
from groundline_cli.terminal import print_columns


@dataclass(frozen=True, slots=True)
class Goal:
    """A measured figure and its limit: a maximum or a minimum."""

    name: str
    figure: float
    limit: float
    is_minimum: bool = False

    @property
    def is_met(self) -> bool:
        return self.figure >= self.limit if self.is_minimum else self.figure <= self.limit


def print_goals(goals: Sequence[Goal]) -> None:
    """Print a table, with a mark at a missed goal."""
    if goals:
        click.echo()
        print_columns(
            ("GOAL", "FIGURE", "SHOULD BE", ""),
            [
                (
                    one.name,
                    one.figure,
                    f"{'at least' if one.is_minimum else 'at most'} {one.limit:g}",
                    "" if one.is_met else "missed",
                )
                for one in goals
            ],
        )


def goals_as_json(goals: Sequence[Goal]) -> list[dict[str, object]]:
    """Return the goals for programs; null for a figure that JSON has no number for."""
    return [
        {
            "name": one.name,
            "figure": one.figure if math.isfinite(one.figure) else None,
            "atLeast" if one.is_minimum else "atMost": one.limit,
            "met": one.is_met,
        }
        for one in goals
    ]
