"""The rules of deploy/observability, and promtool's cases for them in rules/tests."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from project import ROOT

type Node = dict[str, Any]

OBSERVABILITY: Final = ROOT / "deploy/observability"
RULES: Final = sorted((OBSERVABILITY / "rules").glob("*.yaml"))
CASES: Final = sorted((OBSERVABILITY / "rules/tests").glob("*.yaml"))
RUNBOOKS: Final = ROOT / "docs/runbooks"
HEADINGS: Final = [
    "## What it means",
    "## What users see",
    "## How to look",
    "## What to do",
    "## When to wake somebody",
]


def alerts() -> list[Node]:
    """Return the rules of alerts; an objective has two of one name, which pages and which makes a ticket."""
    groups = (group for path in RULES for group in yaml.safe_load(path.read_text())["groups"])
    return [rule for group in groups for rule in group["rules"] if "alert" in rule]


ALERTS: Final = alerts()
NAMES: Final = sorted({alert["alert"] for alert in ALERTS})


def title(alert: Node) -> str:
    return f"{alert['alert']}-{alert['labels']['severity']}"


def cases() -> Iterator[Node]:
    for path in CASES:
        yield from yaml.safe_load(path.read_text())["tests"]


def fired(case: Node) -> dict[str, set[str]]:
    """Return the alerts that a case looks for, each with the severities in which it is to fire at some time,
    without any if it is to stay silent."""
    found: dict[str, set[str]] = {}
    for look in case.get("alert_rule_test", []):
        severities = (alert["exp_labels"]["severity"] for alert in look["exp_alerts"])
        found.setdefault(look["alertname"], set()).update(severities)
    return found


FIRED: Final = [fired(case) for case in cases()]


def run(*command: str | Path) -> None:
    """Run a program; what it says is the message of its failure."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.stem)
def test_prometheus_can_read_the_rules(built: Path, path: Path) -> None:
    run(built / "bin/promtool", "check", "rules", path)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_alerts_fire_when_they_should_and_at_no_other_time(built: Path, path: Path) -> None:
    run(built / "bin/promtool", "test", "rules", path)


def test_the_rules_of_objectives_are_those_that_sloth_makes(built: Path, tmp_path: Path) -> None:
    made, kept = tmp_path / "objectives.yaml", OBSERVABILITY / "rules/objectives.yaml"
    run(built / "bin/sloth", "generate", "--input", OBSERVABILITY / "objectives.yaml", "--out", made)
    is_same = kept.is_file() and made.read_text() == kept.read_text()
    assert is_same, f"{kept.relative_to(ROOT)} is stale: make monitoring-rules"


@pytest.mark.parametrize("alert", ALERTS, ids=title)
def test_a_case_makes_the_alert_fire(alert: Node) -> None:
    assert any(alert["labels"]["severity"] in found.get(alert["alert"], ()) for found in FIRED)


@pytest.mark.parametrize("name", NAMES)
def test_the_alert_stays_silent_throughout_another_case(name: str) -> None:
    assert any(found.get(name) == set() for found in FIRED)


@pytest.mark.parametrize("name", NAMES)
def test_a_fault_of_a_running_suite_makes_the_alert_fire(name: str) -> None:
    waits = re.compile(rf"fires_and_resolves\([^)]*{name}|names = \([^)]*{name}")
    assert any(waits.search(path.read_text()) for path in Path(__file__).parent.glob("test_*alerts*.py"))


@pytest.mark.parametrize("name", NAMES)
def test_the_alert_has_a_runbook_that_answers_the_same_questions_as_others(name: str) -> None:
    page = RUNBOOKS / f"{name}.md"
    assert page.is_file(), f"{page.relative_to(ROOT)} is missing"
    assert [line for line in page.read_text().splitlines() if line.startswith("## ")] == HEADINGS


@pytest.mark.parametrize("alert", ALERTS, ids=title)
def test_the_alert_leads_to_its_runbook(alert: Node) -> None:
    assert alert["annotations"]["runbook"] == f"docs/runbooks/{alert['alert']}.md"
