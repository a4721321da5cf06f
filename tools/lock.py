"""Pins every third-party dependency of the workspace, with hashes, in requirements/*.txt.

Reads the pyproject.toml of each package and requirements/dev.in, drops the workspace's own packages, and lets
uv resolve once for all supported Python versions, into constraints.txt. What only the documentation site
needs (docs.in) is a list of its own, docs.txt, which keeps to the versions of the first. No list names an
index or a host.
"""

import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PINS = ROOT / "requirements/constraints.txt"


def third_party_requirements() -> list[str]:
    """Every requirement that the workspace's packages and dev.in declare, without the workspace's own."""
    requirements: set[str] = set()
    for pyproject in sorted(ROOT.glob("*/**/pyproject.toml")):
        if ".venv" in pyproject.parts:
            continue
        project = tomllib.loads(pyproject.read_text())["project"]
        requirements.update(project.get("dependencies", []))
        for extra in project.get("optional-dependencies", {}).values():
            requirements.update(extra)
    lines = (ROOT / "requirements/dev.in").read_text().splitlines()
    requirements.update(line for line in lines if line and not line.startswith("#"))
    return sorted(r for r in requirements if not re.match(r"groundline[-_]", r))


def compile_pins(source: Path, pins: Path, *options: str) -> int:
    """Let uv resolve the requirements of `source`; its exit code."""
    command = ["uv", "pip", "compile", str(source), "--universal", "--python-version", "3.12"]
    command += ["--generate-hashes", "--no-header", "--no-annotate", "--no-emit-index-url"]
    command += ["--no-emit-find-links", "--quiet", *options, "--output-file", str(pins)]
    return subprocess.run(command, check=False).returncode


def main() -> int:
    with tempfile.NamedTemporaryFile("w", suffix=".in") as requirements:
        requirements.write("\n".join(third_party_requirements()) + "\n")
        requirements.flush()
        failed = compile_pins(Path(requirements.name), PINS, *sys.argv[1:])
    docs = PINS.with_name("docs.in")
    return failed or compile_pins(docs, docs.with_suffix(".txt"), "--constraint", str(PINS), *sys.argv[1:])


if __name__ == "__main__":
    raise SystemExit(main())
