"""Look for known vulnerabilities of the locked versions, by pip-audit in an environment of its own.

    audit.py

Ends with 1 if one is known, and with 2 if a version could not be looked up: pip-audit takes that for a
success, and where the service cannot be reached nothing was looked at.
"""

import json
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from project import ROOT

LISTS: Final = ("constraints.txt", "docs.txt", "frameworks.txt", "models.txt", "training.txt", "audit.txt")
VIEWER: Final = ROOT / "cli/groundline_cli/stack/viewer-requirements.txt"
"""List that is part of the command's package."""
ENVIRONMENT: Final = Path(sys.prefix) / "audit"
INSTALLED: Final = ENVIRONMENT / "bin/pip-audit"

type Report = dict[str, Any]


def install() -> None:
    """Install what looks, pinned and hashed, beside the interpreter. Raises CalledProcessError."""
    venv.create(ENVIRONMENT, with_pip=True)
    pip = [str(ENVIRONMENT / "bin/python"), "-m", "pip", "install", "--quiet", "--require-hashes"]
    subprocess.run([*pip, "-r", str(ROOT / "requirements/audit.txt")], check=True)


def look(file: Path, program: Path = INSTALLED) -> Report:
    """Return what is known of one list's versions: pip-audit's report, or that nothing was looked at."""
    options = ["--disable-pip", "--require-hashes", "--format", "json", "--progress-spinner", "off"]
    command = [str(program), *options, "--requirement", str(file)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    try:
        report: Report = json.loads(done.stdout)
    except ValueError:
        # The last line of a traceback, such as a connection that failed leaves.
        reason = (done.stderr.strip().splitlines() or ["no report"])[-1]
        return {"dependencies": [{"name": file.name, "version": "all", "skip_reason": reason}]}
    return report


def conclude(reports: Sequence[Report]) -> tuple[list[str], int]:
    """Return what to say, and how to end."""
    found = {
        (one["name"], one.get("version", "unknown version")): one
        for report in reports
        for one in report["dependencies"]
    }
    skipped = [name for name, one in sorted(found.items()) if "skip_reason" in one]
    lines = [
        f"{name} {version}: {known['id']} {', '.join(known['aliases'])}; fixed in "
        f"{', '.join(known['fix_versions']) or 'no version'}"
        for (name, version), one in sorted(found.items())
        for known in one.get("vulns", ())
    ]
    vulnerable = bool(lines)
    if skipped:
        lines.append(
            f"NOT LOOKED: {len(skipped)} of {len(found)} locked versions, such as {' '.join(skipped[0])}:"
        )
        lines.append(f"  {found[skipped[0]]['skip_reason']}")
    lines.append(f"audit: looked at {len(found) - len(skipped)} of {len(found)} locked versions")
    return lines, 1 if vulnerable else 2 if skipped or not found else 0


def main() -> int:
    if not INSTALLED.exists():
        install()
    lines, code = conclude(
        [look(file) for file in (*(ROOT / "requirements" / name for name in LISTS), VIEWER)]
    )
    print("\n".join(lines))
    return code


if __name__ == "__main__":
    raise SystemExit(main())
