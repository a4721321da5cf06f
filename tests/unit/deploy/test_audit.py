"""`make audit` reads pip-audit's reports, and never takes silence for an answer."""

import sys
from pathlib import Path

import audit
import pytest
import yaml
from project import ROOT

SOUND = {"name": "anyio", "version": "4.11.0", "vulns": []}
UNKNOWN = {"name": "grpcio", "version": "1.85.1", "skip_reason": "Dependency not found on PyPI"}
VULNERABLE = {
    "name": "jinja2",
    "version": "2.4.1",
    "vulns": [{"id": "PYSEC-2014-82", "aliases": ["CVE-2014-0012"], "fix_versions": ["2.7.2"]}],
}


def test_a_known_vulnerability_fails_and_names_its_fix() -> None:
    lines, code = audit.conclude([{"dependencies": [SOUND, UNKNOWN]}, {"dependencies": [VULNERABLE]}])
    assert code == 1
    assert lines[0] == "jinja2 2.4.1: PYSEC-2014-82 CVE-2014-0012; fixed in 2.7.2"


def test_a_version_that_was_not_looked_up_is_no_success() -> None:
    lines, code = audit.conclude([{"dependencies": [SOUND, UNKNOWN]}])
    assert code == 2
    assert lines[0].startswith("NOT LOOKED: 1 of 2 locked versions, such as grpcio 1.85.1")
    assert audit.conclude([])[1] == 2


def test_all_that_was_looked_up_and_is_sound_is_a_success() -> None:
    # Two lists hold the same version.
    report = {"dependencies": [SOUND]}
    assert audit.conclude([report, report]) == (["audit: looked at 1 of 1 locked versions"], 0)


@pytest.mark.parametrize("failure", ["import sys; sys.exit('ConnectionError: no way to the service')"])
def test_a_service_that_cannot_be_reached_is_named(failure: str, tmp_path: Path) -> None:
    program = tmp_path / "pip-audit"
    program.write_text(f"#!{sys.executable}\n{failure}\n")
    program.chmod(0o755)
    lines, code = audit.conclude([audit.look(tmp_path / "constraints.txt", program)])
    assert code == 2
    assert "ConnectionError: no way to the service" in lines[1]


def test_every_locked_list_of_python_packages_is_looked_at() -> None:
    locked = {path.name for path in (ROOT / "requirements").glob("*.txt")}
    # npm.txt has Node.js, which pip-audit does not know.
    assert locked - {"npm.txt"} == set(audit.LISTS)


@pytest.mark.parametrize(
    "path", sorted((ROOT / ".github/workflows").glob("*.yml")), ids=lambda path: path.name
)
def test_a_workflow_takes_others_actions_by_digest_alone(path: Path) -> None:
    jobs = yaml.safe_load(path.read_text())["jobs"].values()
    used = [step["uses"] for job in jobs for step in job["steps"] if "uses" in step]
    assert [one for one in used if len(one.partition("@")[2]) != 40] == []
