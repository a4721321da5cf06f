"""The documentation site: whole, and read without asking anybody else."""

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from groundline_tests.shown import ROOT

# What a browser fetches by itself. A link that a reader follows is the reader's affair.
FETCHED = re.compile(
    r"<(?:script|img|iframe|source|video|audio|link)\b[^>]*?\b(?:src|href|srcset)=[\"']?(?P<url>[^\"' >]+)"
    r"|@import\s+[\"'](?P<imported>[^\"']+)|url\(\s*[\"']?(?P<styled>(?:https?:)?//[^\"')]+)"
)


GONE: Final = ("gone.md", "performance.md#gone", "../README.md#gone", "../services/gone/README.md")


@dataclass(frozen=True, slots=True)
class Draft:
    """A site that was built of the pages with mistakes; `make lint` builds those without."""

    site: Path
    code: int
    complaints: str


@pytest.fixture(scope="module")
def draft(tmp_path_factory: pytest.TempPathFactory) -> Draft:
    """The strict build of `make docs`, of a copy with mistakes: it writes every page before it fails."""
    folder = tmp_path_factory.mktemp("draft")
    passed_over = shutil.ignore_patterns(".*", "site", "dist", "node_modules")
    copy = Path(shutil.copytree(ROOT, folder / "copy", ignore=passed_over))
    with (copy / "docs/tutorial.md").open("a", encoding="utf-8") as page:
        page.writelines(f"\n[a]({target})\n" for target in GONE)
    (copy / "docs/lonely.md").write_text("# Nobody leads here\n", encoding="utf-8")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder / "site")],
        cwd=copy,
        env={"NO_MKDOCS_2_WARNING": "1", "LANG": "C.UTF-8"},
        check=False,
        capture_output=True,
        text=True,
    )
    return Draft(folder / "site", built.returncode, built.stderr)


def test_nothing_of_it_is_fetched_from_elsewhere(draft: Draft) -> None:
    files = [path for path in draft.site.rglob("*") if path.suffix in (".html", ".css")]
    fetched = [
        (path.relative_to(draft.site).as_posix(), url)
        for path in files
        for found in FETCHED.finditer(path.read_text(encoding="utf-8"))
        for url in found.groups()
        if url
    ]
    assert len(fetched) > len(files)
    assert [one for one in fetched if re.match(r"(https?:)?//", one[1])] == []


def test_its_search_knows_every_page(draft: Draft) -> None:
    index = (draft.site / "search/search_index.json").read_text(encoding="utf-8")
    for place in (
        "tutorial/",
        "how-to/teams/",
        "services/retriever/",
        "reference/settings/",
        "adr/0005-keyword-engines/",
    ):
        assert f'"{place}' in index


def test_a_mistake_in_a_link_or_in_the_menu_fails_its_build(draft: Draft) -> None:
    assert draft.code != 0
    for mistake in (*GONE, "lonely.md"):
        assert mistake.removeprefix("../") in draft.complaints
