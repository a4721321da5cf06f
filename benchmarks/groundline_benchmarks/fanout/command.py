"""groundline bench fanout"""

from dataclasses import asdict
from typing import Final

import click
from groundline_cli.commands.gateway import json_option
from groundline_cli.terminal import print_columns, print_json

from groundline_benchmarks.fanout.benchmark import Shard, simulate

__all__ = ["fanout"]

SHARDS: Final = (1, 4, 16, 64)
HEDGED_AT: Final = (None, 0.99, 0.95)
_SHARD: Final = Shard()


@click.command()
@click.option("--p50-ms", default=_SHARD.p50_ms, show_default=True, help="A shard's median.")
@click.option("--p95-ms", default=_SHARD.p95_ms, show_default=True, help="Its 95th percentile.")
@click.option(
    "--pause-share",
    type=click.FloatRange(0, 1),
    default=_SHARD.pause_share,
    show_default=True,
    help="Share of requests that meet a pause.",
)
@click.option("--pause-ms", default=_SHARD.pause_ms, show_default=True, help="A pause's mean.")
@click.option("--searches", type=click.IntRange(min=1000), default=20_000, show_default=True)
@click.option("--seed", default=1, show_default=True)
@json_option
def fanout(
    p50_ms: float,
    p95_ms: float,
    pause_share: float,
    pause_ms: float,
    searches: int,
    seed: int,
    *,
    as_json: bool,
) -> None:
    """Simulate searches that ask many shards and wait for the slowest.

    Without hedging, and with a second request to a replica where a shard is later than its own 99th or 95th
    percentile. No server is asked: the figures are as good as what is said of a shard.
    """
    if not 0 < p50_ms < p95_ms:
        raise click.UsageError("--p50-ms must be above 0 and below --p95-ms")
    shard = Shard(p50_ms, p95_ms, pause_share, pause_ms)
    answers = [
        simulate(shard, shards, quantile, searches=searches, seed=seed)
        for shards in SHARDS
        for quantile in HEDGED_AT
    ]
    if as_json:
        print_json({"shard": asdict(shard), "answers": [asdict(one) for one in answers]})
        return
    print_columns(
        ("SHARDS", "HEDGED AFTER MS", "P50 MS", "P99 MS", "P99.9 MS", "EXTRA REQUESTS"),
        [
            (
                one.shards,
                "never" if one.hedged_after_ms is None else f"{one.hedged_after_ms:.1f}",
                one.p50_ms,
                one.p99_ms,
                one.p999_ms,
                f"{one.extra_requests:.1%}",
            )
            for one in answers
        ],
    )
