"""A release: one version everywhere, a closed changelog, a commit and a tag."""

import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest
from project import ROOT, VERSION
from release import VERSIONED, ReleaseError, closed, files, parsed, with_version

CHANGELOG = "# Changelog\n\n## Unreleased\n\n- A thing.\n\n## 0.1.0 - 2026-01-01\n\n- Old.\n"


@pytest.mark.parametrize("version", ["", "1", "1.2", "v1.2.3", "1.2.3rc1", "01.2.3", "1.2.3 "])
def test_what_is_no_version_is_refused(version: str) -> None:
    with pytest.raises(ReleaseError, match="not a version"):
        parsed(version)


@pytest.mark.parametrize("changelog", ["# Changelog\n", "## Unreleased\n\n## 0.1.0 - 2026-01-01\n\n- Old.\n"])
def test_a_changelog_without_news_is_refused(changelog: str) -> None:
    with pytest.raises(ReleaseError, match="nothing under"):
        closed(changelog, "0.2.0", date(2026, 12, 1))


def test_what_was_unreleased_gets_version_and_date() -> None:
    assert closed(CHANGELOG, "0.2.0", date(2026, 12, 1)) == (
        "# Changelog\n\n## Unreleased\n\n## 0.2.0 - 2026-12-01\n\n- A thing.\n\n"
        "## 0.1.0 - 2026-01-01\n\n- Old.\n"
    )


def test_only_our_own_versions_are_set() -> None:
    text = 'version = "0.1.0"\ndependencies = ["groundline-cli[up]==0.1.0", "httpx==0.1.0"]\n'
    assert with_version(text, VERSIONED["*/**/pyproject.toml"], "0.2.0") == (
        'version = "0.2.0"\ndependencies = ["groundline-cli[up]==0.2.0", "httpx==0.1.0"]\n'
    )


def test_every_place_has_the_version_of_the_project() -> None:
    for path, places in files():
        text = path.read_text()
        assert with_version(text, places, VERSION) == text, path
        assert with_version(text, places, "77.0.0") != text, path


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The repository as it is committed, with this tool."""
    target = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(target)], check=True)
    for path in ("tools/release.py", "tools/project.py", "pyproject.toml"):
        (target / path).write_text((ROOT / path).read_text())
    (target / "CHANGELOG.md").write_text(CHANGELOG)
    git(target, "config", "user.name", "Tester")
    git(target, "config", "user.email", "tester@example.org")
    git(target, "add", "--all")
    git(target, "commit", "--quiet", "--allow-empty", "--message", "Prepare")
    return target


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def make_release(folder: Path, version: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "tools/release.py", version]
    return subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)


def test_a_release_is_committed_and_tagged_once(clone: Path) -> None:
    (clone / "stray.txt").write_text("not committed")
    refused = make_release(clone, "7.0.0")
    assert (refused.returncode, refused.stderr) == (1, "release: the work tree is not clean\n")
    (clone / "stray.txt").unlink()

    assert make_release(clone, "7.0.0").returncode == 0
    assert git(clone, "describe", "--exact-match") == "v7.0.0"
    assert git(clone, "status", "--porcelain") == ""
    changed = git(clone, "show", "--name-only", "--format=").split()
    assert "CHANGELOG.md" in changed
    assert "deploy/compose.yaml" in changed
    assert 'version = "7.0.0"' in (clone / "libs/runtime/pyproject.toml").read_text()
    assert "groundline-contracts==7.0.0" in (clone / "libs/runtime/pyproject.toml").read_text()

    again = make_release(clone, "7.0.0")
    assert (again.returncode, again.stderr) == (1, "release: 7.0.0 is not newer than 7.0.0\n")
