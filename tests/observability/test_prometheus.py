"""The real Prometheus of the tests, on a server whose figures a test sets."""

import subprocess
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path

import pytest
from groundline_tests.http_server import Answering, listening
from groundline_tests.observability.prometheus import Prometheus, running_prometheus

TRACE = "0af7651916cd43dd8448eb211c80319c"
OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
TEXT = f"""\
# TYPE test_failures counter
test_failures_total{{reason="busy"}} %s
# TYPE test_duration_seconds histogram
test_duration_seconds_bucket{{le="0.5"}} 1 # {{trace_id="{TRACE}"}} 0.3
test_duration_seconds_bucket{{le="+Inf"}} 1
test_duration_seconds_count 1
test_duration_seconds_sum 0.3
# EOF
"""
ALERTS = """\
groups:
  - name: test
    rules:
      - {alert: Failing, expr: test_failures_total > 5, for: 1s, labels: {severity: page}}
      - {alert: Patient, expr: test_failures_total > 5, for: 1h}
"""
OBJECTIVE = """\
version: prometheus/v1
service: test
slos:
  - name: failures
    objective: 99.5
    sli:
      events:
        error_query: sum(rate(test_failures_total[{{.window}}]))
        total_query: sum(rate(test_duration_seconds_count[{{.window}}]))
    alerting: {name: Failing, page_alert: {disable: true}, ticket_alert: {disable: true}}
"""


class Figures:
    """A target of one job, whose counter a test sets."""

    def __init__(self) -> None:
        self.failures = 3
        self.address = ""


@contextmanager
def serving() -> Iterator[Figures]:
    figures = Figures()

    class Metrics(Answering):
        def do_GET(self) -> None:  # noqa: N802
            found = self.path == "/metrics"
            self.answer(
                200 if found else 404, (TEXT % figures.failures).encode(), {"Content-Type": OPEN_METRICS}
            )

    with listening(Metrics) as url:
        figures.address = url.removeprefix("http://")
        yield figures


@pytest.fixture
def figures() -> Iterator[Figures]:
    with serving() as served:
        yield served


def quick(
    folder: Path, *addresses: str, rules: tuple[Path, ...] = ()
) -> AbstractAsyncContextManager[Prometheus]:
    return running_prometheus(
        folder, targets={"test": addresses}, rules=rules, scrape_seconds=0.2, evaluation_seconds=0.2
    )


async def test_a_rule_that_cannot_be_read_fails_the_start_with_its_reason(tmp_path: Path) -> None:
    rules = tmp_path / "rules.yml"
    rules.write_text(ALERTS.replace("test_failures_total > 5", "sum("))
    with pytest.raises(
        AssertionError, match=r"(?s)prometheus exited with code 2.*could not parse expression"
    ):
        async with quick(tmp_path, rules=(rules,)):
            pass


async def test_what_does_not_hold_in_time_fails_with_the_last_result_and_the_targets(tmp_path: Path) -> None:
    async with quick(tmp_path, "127.0.0.1:1") as prometheus:
        await prometheus.wait_for("up == 0")
        [target] = await prometheus.targets()
        assert (target.job, target.url, target.health) == ("test", "http://127.0.0.1:1/metrics", "down")
        assert "connection refused" in target.error
        with pytest.raises(
            AssertionError, match=r"absent_total: not within 0 s; last: \[\].*connection refused"
        ):
            await prometheus.wait_for("absent_total", seconds=0)
        with pytest.raises(AssertionError, match=r"400.*parse error"):
            await prometheus.query("sum(")


async def test_a_query_returns_what_the_target_counts(tmp_path: Path, figures: Figures) -> None:
    async with quick(tmp_path, figures.address) as prometheus:
        [(labels, value)] = await prometheus.wait_for("test_failures_total")
        assert value == 3
        assert (labels["job"], labels["instance"], labels["reason"]) == ("test", figures.address, "busy")
        [(_, median)] = await prometheus.query("histogram_quantile(0.5, test_duration_seconds_bucket)")
        assert 0 < median <= 0.5
        assert await prometheus.query("scalar(test_failures_total)") == [({}, 3)]

        figures.failures = 4
        await prometheus.wait_for("test_failures_total", lambda found: found[0].value == 4)


async def test_an_exemplar_leads_from_a_bucket_to_a_trace(tmp_path: Path, figures: Figures) -> None:
    async with quick(tmp_path, figures.address) as prometheus:
        await prometheus.wait_for("test_duration_seconds_bucket")
        [exemplar] = await prometheus.exemplars("test_duration_seconds_bucket")
        assert (exemplar.labels, exemplar.value) == ({"trace_id": TRACE}, 0.3)
        assert exemplar.series["le"] == "0.5"


async def test_an_alert_is_pending_then_fires_and_resolves(tmp_path: Path, figures: Figures) -> None:
    rules = tmp_path / "rules.yml"
    rules.write_text(ALERTS)
    async with quick(tmp_path, figures.address, rules=(rules,)) as prometheus:
        await prometheus.wait_for("test_failures_total")
        assert await prometheus.alerts() == []

        figures.failures = 6
        [patient] = await prometheus.wait_for_alert("Patient", "pending")
        assert patient.labels["reason"] == "busy"
        [failing] = await prometheus.wait_for_alert("Failing", "firing")
        assert failing.labels["severity"] == "page"
        # It may have been too short for a look at the active alerts; its series tells it ever after.
        assert await prometheus.query(
            'present_over_time(ALERTS{alertname="Failing",alertstate="pending"}[1h])'
        )

        figures.failures = 0
        await prometheus.wait_for_alert("Failing", None)


def test_promtool_accepts_the_rules_that_sloth_makes_of_an_objective(tmp_path: Path, built: Path) -> None:
    objective, rules = tmp_path / "objective.yml", tmp_path / "rules.yml"
    objective.write_text(OBJECTIVE)
    run(built / "bin/sloth", "generate", "--input", objective, "--out", rules)
    assert "slo:sli_error:ratio_rate5m" in rules.read_text()
    assert "SUCCESS" in run(built / "bin/promtool", "check", "rules", rules)
    rules.write_text(ALERTS.replace("test_failures_total > 5", "sum("))
    with pytest.raises(subprocess.CalledProcessError):
        run(built / "bin/promtool", "check", "rules", rules)


def run(*command: str | Path) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
