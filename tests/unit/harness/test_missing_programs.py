"""Tests that lack a program: named at the end of a run, and failed in CI."""

import os
import subprocess
import sys
from pathlib import Path

from service_requirements import ROOT

LACKING = """
from groundline_tests.programs import needs_program

@needs_program("a-program", found=False)
def test_of_a_program() -> None: ...

def test_of_nothing() -> None: ...
"""


# Plugins take longer to import than the tests to run.
PLAIN = [
    f"-pno:{name}"
    for name in ("cacheprovider", "hypothesispytest", "schemathesis", "langsmith_plugin", "xdist")
]


def run(folder: Path, **environment: str) -> tuple[int, str]:
    """Run pytest in a process of its own, with the workspace's conftest."""
    (folder / "test_lacking.py").write_text(LACKING)
    (folder / "conftest.py").symlink_to(ROOT / "tests/conftest.py")
    support = os.pathsep.join(str(ROOT / path) for path in ("tests/support", "tools"))
    inherited = {name: value for name, value in os.environ.items() if name != "CI"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *PLAIN, "--rootdir", folder, folder],
        cwd=folder,
        env={**inherited, "PYTHONPATH": support, **environment},
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout


def test_a_run_names_what_it_did_not_test_and_how_to_install_it(tmp_path: Path) -> None:
    code, shown = run(tmp_path)
    assert code == 0
    assert "1 tests, since a-program is not installed" in shown
    assert "make test-programs" in shown


def test_in_ci_a_test_that_lacks_a_program_fails(tmp_path: Path) -> None:
    code, shown = run(tmp_path, CI="1")
    assert code == 1
    assert "a-program is not installed: make test-programs" in shown
    assert "1 passed, 1 error" in shown
