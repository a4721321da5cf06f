"""A stranger's first finds keep their word: decisions by number, and the hosted checks."""

import re

import yaml
from groundline_tests.shown import ROOT


def test_decisions_are_numbered_without_gaps_and_headed_by_their_numbers() -> None:
    pages = sorted((ROOT / "docs/adr").glob("[0-9]*.md"))
    assert [int(page.name[:4]) for page in pages] == list(range(1, len(pages) + 1))
    for number, page in enumerate(pages, 1):
        assert page.read_text().startswith(f"# {number}. "), page.name


def test_the_hosted_checks_are_those_that_decide_what_lands_and_run_nothing_of_others() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())
    [job] = workflow["jobs"].values()
    assert [step["run"] for step in job["steps"] if "run" in step][-1] == ".ci/run"
    used = [step["uses"] for step in job["steps"] if "uses" in step]
    assert all(re.search(r"@[0-9a-f]{40}$", action) for action in used)
