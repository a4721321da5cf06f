"""Pin every third-party dependency of the workspace, with hashes, in requirements/*.txt.

Reads the pyproject.toml of each package and requirements/dev.in, drops the workspace's own packages, and lets
uv resolve once for all supported Python versions, into constraints.txt. Lists of their own, which keep to its
versions, hold what only the documentation site needs (docs.in), the client's adapters of frameworks (its
extras), what looks into images and lists (audit.in), and what trains the reader (training.in). The viewer of
traces (viewer.in) has an environment of its own, and keeps to none of our versions; its list is part of the
command's package. No list names an index or a host.
"""

import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
PINS: Final = ROOT / "requirements/constraints.txt"
# The package whose extras are frameworks: heavy, and needed only by its adapters.
CLIENT: Final = ROOT / "clients/python/pyproject.toml"
VIEWER: Final = ROOT / "cli/groundline_cli/stack/viewer-requirements.txt"


def third_party_requirements() -> list[str]:
    """Return every requirement that the workspace's packages and dev.in declare, without the workspace's
    own."""
    requirements: set[str] = set()
    for pyproject in sorted(ROOT.glob("*/**/pyproject.toml")):
        if ".venv" in pyproject.parts:
            continue
        requirements.update(tomllib.loads(pyproject.read_text())["project"].get("dependencies", []))
        if pyproject != CLIENT:
            requirements.update(extras_of(pyproject))
    lines = (ROOT / "requirements/dev.in").read_text().splitlines()
    requirements.update(line for line in lines if line and not line.startswith("#"))
    return sorted(r for r in requirements if not re.match(r"groundline[-_]", r))


def extras_of(pyproject: Path) -> list[str]:
    """Return the requirements of all its extras."""
    extras = tomllib.loads(pyproject.read_text())["project"].get("optional-dependencies", {})
    return sorted(requirement for extra in extras.values() for requirement in extra)


def compile_pins(requirements: Iterable[str], pins: Path, *options: str) -> None:
    """Let uv resolve the requirements. Raises CalledProcessError."""
    with tempfile.NamedTemporaryFile("w", suffix=".in") as source:
        source.write("\n".join(requirements) + "\n")
        source.flush()
        command = ["uv", "pip", "compile", source.name, "--universal", "--python-version", "3.12"]
        command += ["--generate-hashes", "--no-header", "--no-annotate", "--no-emit-index-url"]
        command += ["--no-emit-find-links", "--quiet", *options, "--output-file", str(pins)]
        subprocess.run(command, check=True)


def main() -> int:
    options = sys.argv[1:]
    compile_pins(third_party_requirements(), PINS, *options)
    left_out = ("--override", str(PINS.with_name("viewer-overrides.in")))
    compile_pins(PINS.with_name("viewer.in").read_text().splitlines(), VIEWER, *options, *left_out)
    options += ["--constraint", str(PINS)]
    for name in ("docs", "audit", "training"):
        wanted = PINS.with_name(f"{name}.in").read_text().splitlines()
        compile_pins(wanted, PINS.with_name(f"{name}.txt"), *options)
    compile_pins(extras_of(CLIENT), PINS.with_name("frameworks.txt"), *options)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
