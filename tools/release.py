"""Make a release: set the one version of all packages and images, close the changelog, commit and tag.

    release.py VERSION    such as 1.2.3, and newer than the present one

Nothing is pushed. The work tree must be clean, and CHANGELOG.md must say what is new.
"""

import re
import subprocess
import sys
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final

from project import ROOT, VERSION

CHANGELOG: Final = Path("CHANGELOG.md")

_VERSION: Final = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")
_UNRELEASED: Final = "## Unreleased\n"

# Files by pattern, and the lines in which the version stands.
VERSIONED: Final = {
    "*/**/pyproject.toml": (r'(?m)^(version = ")', r'("groundline-[a-z]+(?:\[[a-z,]+\])?==)'),
    "clients/typescript/package.json": (r'(?m)^(  "version": ")',),
    "pyproject.toml": (r'(?m)^(version = ")',),
    "*/Dockerfile": (r"(?m)^(ARG VERSION=)",),
    "deploy/compose.canary.yaml": (r"(image: groundline/[a-z]+:\$\{GROUNDLINE_[A-Z]+_VERSION:-)",),
    "deploy/compose.yaml": (r"(image: groundline/[a-z]+:\$\{GROUNDLINE_[A-Z]+_VERSION:-)",),
    "deploy/helm/groundline/Chart.yaml": (r"(?m)^(version: )", r"(?m)^(appVersion: )"),
    "deploy/k8s/images/kustomization.yaml": (r"(groundline/[a-z]+, newTag: )",),
    "deploy/k8s/rollout/argo-rollouts.yaml": (r"(image: groundline/cli:)",),
    "deploy/k8s/rollout/check.yaml": (r"(image: groundline/cli:)",),
    "deploy/k8s/rollout/candidate/kustomization.yaml": (r"(groundline/[a-z]+, newTag: )",),
}


class ReleaseError(Exception):
    """The release cannot be made; the message says why."""


def parsed(version: str) -> tuple[int, ...]:
    """Parse a version. Raises ReleaseError for an invalid one."""
    if not (match := _VERSION.fullmatch(version)):
        raise ReleaseError(f"{version!r} is not a version like 1.2.3")
    return tuple(map(int, match.groups()))


def with_version(text: str, places: tuple[str, ...], version: str) -> str:
    """Return the text with the version at all its places."""
    for place in places:
        text = re.sub(rf"{place}{_VERSION.pattern}", rf"\g<1>{version}", text)
    return text


def closed(changelog: str, version: str, day: date) -> str:
    """Return the changelog with its unreleased part under a heading of its own. Raises ReleaseError without
    any."""
    before, heading, rest = changelog.partition(_UNRELEASED)
    new = rest.partition("\n## ")[0]
    if not heading or not new.strip():
        raise ReleaseError(f"{CHANGELOG} has nothing under {_UNRELEASED.strip()!r}")
    return f"{before}{_UNRELEASED}\n## {version} - {day.isoformat()}\n{rest}"


def files() -> list[tuple[Path, tuple[str, ...]]]:
    """Return the files that hold the version, with its places in them."""
    return [
        (path, places)
        for pattern, places in VERSIONED.items()
        for path in sorted(ROOT.glob(pattern))
        if ".venv" not in path.parts
    ]


def git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise ReleaseError(f"git {arguments[0]}: {done.stderr.strip()}")
    return done.stdout.strip()


def release(version: str) -> None:
    new = parsed(version)
    tags = git("tag", "--list", "v*").split()
    if new < parsed(VERSION) or (new == parsed(VERSION) and tags):
        raise ReleaseError(f"{version} is not newer than {VERSION}")
    if git("status", "--porcelain"):
        raise ReleaseError("the work tree is not clean")
    changelog = closed((ROOT / CHANGELOG).read_text(encoding="utf-8"), version, datetime.now(UTC).date())
    for path, places in files():
        path.write_text(with_version(path.read_text(encoding="utf-8"), places, version), encoding="utf-8")
    (ROOT / CHANGELOG).write_text(changelog, encoding="utf-8")
    git("commit", "--all", "--message", f"Release {version}")
    git("tag", "--annotate", f"v{version}", "--message", f"Groundline {version}")
    print(f"release: v{version} is committed and tagged; push with: git push --follow-tags")


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        release(sys.argv[1])
    except ReleaseError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
