"""The documentation site: whole, and read without asking anybody else."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from groundline_tests.shown import ROOT

# What a browser fetches by itself. A link that a reader follows is the reader's affair.
FETCHED = re.compile(
    r"<(?:script|img|iframe|source|video|audio|link)\b[^>]*?\b(?:src|href|srcset)=[\"']?(?P<url>[^\"' >]+)"
    r"|@import\s+[\"'](?P<imported>[^\"']+)|url\(\s*[\"']?(?P<styled>(?:https?:)?//[^\"')]+)"
)


def build(configuration: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the strict build of `make docs`."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    return subprocess.run(
        [*command, "--config-file", str(configuration)],
        cwd=configuration.parent,
        env={"NO_MKDOCS_2_WARNING": "1", "LANG": "C.UTF-8"},
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    built = build(ROOT / "mkdocs.yml", folder)
    assert built.returncode == 0, built.stderr
    return folder


def test_nothing_of_it_is_fetched_from_elsewhere(site: Path) -> None:
    files = [path for path in site.rglob("*") if path.suffix in (".html", ".css")]
    fetched = [
        (path.relative_to(site).as_posix(), url)
        for path in files
        for found in FETCHED.finditer(path.read_text(encoding="utf-8"))
        for url in found.groups()
        if url
    ]
    assert len(fetched) > len(files)
    assert [one for one in fetched if re.match(r"(https?:)?//", one[1])] == []


def test_its_search_knows_every_page(site: Path) -> None:
    index = (site / "search/search_index.json").read_text(encoding="utf-8")
    for place in (
        "tutorial/",
        "how-to/teams/",
        "services/retriever/",
        "reference/settings/",
        "adr/0005-keyword-engines/",
    ):
        assert f'"{place}' in index


@pytest.fixture
def draft(tmp_path: Path) -> Path:
    """A copy of what the site is made of, to break."""
    passed_over = shutil.ignore_patterns(".*", "site", "dist", "node_modules")
    shutil.copytree(ROOT, tmp_path / "copy", ignore=passed_over)
    return tmp_path / "copy"


def test_a_mistake_in_a_link_or_in_the_menu_fails_its_build(draft: Path, tmp_path: Path) -> None:
    with (draft / "docs/tutorial.md").open("a", encoding="utf-8") as page:
        page.write(
            "\n[a](gone.md) [b](performance.md#gone) [c](../README.md#gone) [d](../services/gone/README.md)\n"
        )
    (draft / "docs/lonely.md").write_text("# Nobody leads here\n", encoding="utf-8")

    built = build(draft / "mkdocs.yml", tmp_path / "site")

    assert built.returncode != 0
    for mistake in (
        "gone.md",
        "performance.md#gone",
        "README.md#gone",
        "services/gone/README.md",
        "lonely.md",
    ):
        assert mistake in built.stderr
