"""groundline bench capacity"""

import json
from pathlib import Path
from typing import Final

import click
import numpy as np
from groundline_cli.commands.gateway import json_option
from groundline_cli.terminal import print_columns, print_json

from groundline_benchmarks.capacity.simulation import Autoscaler, Simulated, simulate
from groundline_benchmarks.load.arrivals import Ramp
from groundline_benchmarks.load.command import RATE
from groundline_benchmarks.measuring.options import number
from groundline_benchmarks.measuring.statistics import percentile

_PARTS: Final = 10
_SHARES: Final = (0.5, 0.95, 0.99)
_SEED: Final = 1


@click.command(short_help="Simulate a load on replicas and their autoscaler.")
@click.argument("run", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--rate", type=RATE, required=True, metavar="FROM..TO", help="Requests a second.")
@number("--over", 600.0, "Length of the ramp, in seconds.", minimum=0)
@number("--replicas", 2, "Replicas at the begin, and the fewest.")
@number("--max-replicas", 10, "Maximum replicas; as many as --replicas: no autoscaler.")
@number("--concurrency", 64, "Requests that a replica works on at a time; others wait.")
@number("--target", 20.0, "Requests in flight a replica, which the autoscaler keeps to.", minimum=0)
@number("--start-seconds", 15.0, "Time until a new replica answers.", minimum=0)
@json_option
def capacity(
    run: Path,
    rate: tuple[float, float],
    over: float,
    replicas: int,
    max_replicas: int,
    concurrency: int,
    target: float,
    start_seconds: float,
    as_json: bool,
) -> None:
    """Predict how long requests take, and how many replicas an autoscaler runs, from a measured RUN.

    RUN is what `groundline bench load --json` has printed, at a rate at which nothing waits: how long
    requests are worked on is drawn from it. The autoscaler is Kubernetes' on requests in flight, with the
    policies of deploy/k8s. What replicas share, such as the database or a machine's cores, is not simulated.
    """
    ramp, generator = Ramp(*rate, over), np.random.default_rng(_SEED)
    moments = ramp.moments(generator)
    simulated = simulate(
        moments,
        _durations(run),
        replicas=replicas,
        concurrency=concurrency,
        generator=generator,
        autoscaler=Autoscaler(replicas, max_replicas, target, start_seconds)
        if max_replicas > replicas
        else None,
    )
    rows = _rows(ramp, moments, simulated)
    if as_json:
        names = ("until", "rate", "replicas", "p50", "p95", "p99")
        print_json({"parts": [dict(zip(names, row, strict=False)) for row in rows]})
    else:
        headings = ("UNTIL S", "RATE/S", "REPLICAS", "P50 MS", "P95 MS", "P99 MS")
        print_columns(
            headings,
            [(*map(round, row[:3]), *(round(seconds * 1000) for seconds in row[3:])) for row in rows],
        )


def _durations(run: Path) -> list[float]:
    """Return the durations of a run's requests, in seconds."""
    try:
        found = [float(seconds) for seconds in json.loads(run.read_text(encoding="utf-8"))["durations"]]
    except OSError as error:
        raise click.BadParameter(error.strerror or str(error), param_hint="RUN") from error
    except (ValueError, TypeError, KeyError) as error:
        message = "it is not what `groundline bench load --json` prints"
        raise click.BadParameter(message, param_hint="RUN") from error
    if not found:
        raise click.BadParameter("none of its requests was answered", param_hint="RUN")
    return found


def _rows(ramp: Ramp, moments: list[float], simulated: Simulated) -> list[tuple[float, ...]]:
    """Return for each part of the run its end, the rate and the replicas there, and how long requests took
    that came in it, in seconds."""
    rows: list[tuple[float, ...]] = []
    for part in range(_PARTS):
        begin, end = (ramp.seconds * number / _PARTS for number in (part, part + 1))
        there = [
            seconds
            for moment, seconds in zip(moments, simulated.seconds, strict=True)
            if begin <= moment < end
        ]
        count = [count for moment, count in simulated.replicas if moment <= end][-1]
        quantiles = [percentile(there, share) for share in _SHARES] if there else []
        rows.append((end, ramp.rate_at(end), count, *quantiles))
    return rows
