"""Tables of a load, the same on a terminal and on a page."""

from collections.abc import Iterator, Sequence

from groundline_benchmarks.load.figures import FAILED_SHARE, LoadFigures, Window
from groundline_benchmarks.load.sending import Ended

type Table = tuple[str, Sequence[str], list[tuple[str, ...]]]
"""Title, headings and rows."""

_WAITED = ("p50 ms", "p95 ms", "p99 ms")


def notes(figures: LoadFigures) -> Iterator[str]:
    """Yield what has to be known of a run as a whole."""
    if figures.ramp.first != figures.ramp.last:
        bound = f"{figures.within:g} s at p99, {FAILED_SHARE:.0%} failed"
        held = "at no rate" if figures.knee is None else f"up to {figures.knee:.1f} a second"
        yield f"held {held} (bound: {bound})"
    yield f"the sender was {figures.lag_seconds * 1000:.1f} ms late at p99, which is in all figures"
    if not figures.is_valid:
        yield "not valid: the sender itself was late; ask for less, or send from another machine"
    if figures.database_connections:
        opened = ", ".join(f"{name} {count}" for name, count in figures.database_connections.items())
        yield f"connections to the database: {opened}"
    for reason, count in sorted(figures.reasons.items()):
        yield f"without an answer: {count} for {reason}"


def tables(figures: LoadFigures) -> Iterator[Table]:
    """Yield the tables; those of processes only for a suite of its own."""
    yield (
        "By kind of request",
        ("kind", "goodput/s", *_WAITED, *Ended),
        [(kind, *_row(figures.of_kind(kind))) for kind in figures.mix],
    )
    yield (
        "By rate",
        ("planned/s", "due/s", "goodput/s", *_WAITED, *Ended, "held"),
        [
            (
                f"{one.rate:.1f}",
                f"{one.offered:.1f}",
                *_row(one),
                "yes" if one.holds(figures.within) else "no",
            )
            for one in figures.windows
        ],
    )
    if figures.costs:
        yield (
            "Processor time of a request, ms",
            ("process", *figures.costs),
            [(name, *(f"{cost[name]:.1f}" for cost in figures.costs.values())) for name in figures.loaded],
        )
    if figures.loaded:
        yield (
            "Resources",
            ("process", "MiB before", "MiB after", "sockets before", "sockets after"),
            [
                (
                    name,
                    *(f"{held.memory_mib:.0f}" for held in (figures.idle[name], after)),
                    *(str(held.connections) for held in (figures.idle[name], after)),
                )
                for name, after in figures.loaded.items()
            ],
        )


def _row(window: Window) -> tuple[str, ...]:
    waited = [f"{seconds * 1000:.0f}" for seconds in window.waited] or [""] * len(_WAITED)
    return (f"{window.goodput:.1f}", *waited, *(str(window.counts[one]) for one in Ended))
