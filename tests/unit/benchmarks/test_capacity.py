"""The simulation of a load on replicas, against formulas of queueing theory and Kubernetes' own rules."""

import json
import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from groundline_benchmarks.capacity.simulation import Autoscaler, Simulated, simulate
from groundline_benchmarks.command import bench
from groundline_benchmarks.load.arrivals import Ramp

MEAN_SECONDS = 0.1


def run(
    ramp: Ramp, *, replicas: int = 1, concurrency: int = 1, autoscaler: Autoscaler | None = None
) -> Simulated:
    generator = np.random.default_rng(7)
    return simulate(
        ramp.moments(generator),
        generator.exponential(MEAN_SECONDS, 100_000).tolist(),
        replicas=replicas,
        concurrency=concurrency,
        generator=generator,
        autoscaler=autoscaler,
    )


def erlang_c(servers: int, offered: float) -> float:
    """Return the probability of waiting in M/M/c (Erlang, 1917)."""
    waits = offered**servers / math.factorial(servers) * servers / (servers - offered)
    return waits / (sum(offered**count / math.factorial(count) for count in range(servers)) + waits)


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_one_place_is_as_slow_as_m_m_1(load: float) -> None:
    seconds = run(Ramp(load / MEAN_SECONDS, load / MEAN_SECONDS, 40_000)).seconds
    mean = MEAN_SECONDS / (1 - load)
    assert np.mean(seconds) == pytest.approx(mean, rel=0.05)
    assert np.quantile(seconds, 0.95) == pytest.approx(mean * math.log(20), rel=0.07)


@pytest.mark.parametrize("load", [0.5, 0.8])
def test_several_places_are_as_slow_as_m_m_c(load: float) -> None:
    servers = 4
    rate = load * servers / MEAN_SECONDS
    seconds = run(Ramp(rate, rate, 20_000), concurrency=servers).seconds
    waited = erlang_c(servers, load * servers) / (servers / MEAN_SECONDS - rate)
    assert np.mean(seconds) == pytest.approx(MEAN_SECONDS + waited, rel=0.05)


def test_requests_take_turns_among_replicas() -> None:
    """Each has its own queue, so one may be idle while requests wait at the other."""
    apart = run(Ramp(16, 16, 20_000), replicas=2).seconds
    shared = run(Ramp(16, 16, 20_000), concurrency=2).seconds
    assert np.mean(shared) < np.mean(apart)


@pytest.mark.parametrize(
    ("in_flight", "ready", "replicas", "expected"),
    [
        (43, 4, 4, 4),
        (45, 4, 4, 5),
        (37, 4, 4, 4),
        (35, 4, 4, 4),
        (30, 4, 4, 3),
        (0, 4, 4, 2),
        (900, 4, 4, 10),
        (80, 4, 8, 8),
        (100, 4, 8, 10),
    ],
    ids=[
        "within the tolerance",
        "above it",
        "within it from below",
        "rounded up",
        "below it",
        "the fewest",
        "the most",
        "enough are starting",
        "too few are starting",
    ],
)
def test_the_autoscaler_recommends_what_kubernetes_would(
    in_flight: int, ready: int, replicas: int, expected: int
) -> None:
    assert Autoscaler(2, 10, target=10).recommendation(in_flight, ready, replicas) == expected


def test_replicas_double_at_most_in_30_s_and_go_one_a_minute_after_five_quiet_ones() -> None:
    autoscaler = Autoscaler(2, 32, target=5)
    up = run(Ramp(600, 600, 180), replicas=2, concurrency=50, autoscaler=autoscaler).replicas
    assert [count for _, count in up][:3] == [2, 4, 8]
    assert all(later[0] - earlier[0] >= 30 for earlier, later in pairwise(up[1:3]))
    down = run(Ramp(100, 1, 1_500), replicas=8, concurrency=50, autoscaler=autoscaler).replicas
    assert down[1][0] >= 300
    gone = list(pairwise(down[1:]))
    assert gone
    assert all(later[0] - earlier[0] >= 60 and later[1] == earlier[1] - 1 for earlier, later in gone)


def test_a_new_replica_answers_only_when_it_has_started() -> None:
    def slowest(start_seconds: float) -> float:
        autoscaler = Autoscaler(1, 2, target=5, start_seconds=start_seconds)
        return max(run(Ramp(15, 15, 120), autoscaler=autoscaler).seconds)

    assert slowest(60) > slowest(1)


def test_a_measured_run_is_simulated(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    file.write_text(json.dumps({"durations": [0.5]}))
    arguments = ["capacity", str(file), "--rate", "10..40", "--over", "100", "--json"]
    result = CliRunner().invoke(bench, [*arguments, "--target", "5"])
    parts = json.loads(result.stdout)["parts"]
    assert [one["until"] for one in parts] == [10.0 * number for number in range(1, 11)]
    assert parts[0]["p50"] == pytest.approx(0.5)
    assert parts[-1]["replicas"] > parts[0]["replicas"] == 2


@pytest.mark.parametrize("text", ["", "[]", '{"durations": ["x"]}', '{"durations": []}'])
def test_what_is_no_measured_run_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "run.json"
    file.write_text(text)
    result = CliRunner().invoke(bench, ["capacity", str(file), "--rate", "1"])
    assert result.exit_code == 2
    assert "RUN" in result.output


def test_a_run_that_is_not_there_is_said() -> None:
    result = CliRunner().invoke(bench, ["capacity", "no/such/run.json", "--rate", "1"])
    assert result.exit_code == 2
    assert "No such file" in result.output
