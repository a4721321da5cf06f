"""Programs that some tests need beside what `make setup` installs; `make test-programs` installs them.

Without one of them its tests are skipped and named at the end of the run; in CI they fail.
"""

from typing import Final

import pytest

MISSING: Final = "not installed: "

INSTALL: Final = "make test-programs"


def needs_program(package: str, *, found: bool) -> pytest.MarkDecorator:
    """Mark tests of a program, named by its Debian package, which test-programs in the Makefile has."""
    return pytest.mark.skipif(not found, reason=f"{MISSING}{package}")


def missing(report: pytest.TestReport | pytest.CollectReport) -> str | None:
    """Return the package whose absence skipped the test."""
    if not report.skipped or not isinstance(report.longrepr, tuple):
        return None
    _, _, reason = report.longrepr
    return reason.partition(MISSING)[2] or None
