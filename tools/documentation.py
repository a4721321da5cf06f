"""Hooks of MkDocs: pages that are files elsewhere in the repository.

The READMEs of the parts, CONTRIBUTING.md and the like become pages of the site at their own paths, so no text
is written twice. Their links, and those of docs/, are written for readers of the repository. Here they are
made to lead to the pages; a link to a file that is not a page becomes plain text, and one to a file that does
not exist fails `make docs`.
"""

import posixpath
import re
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import get_plugin_logger
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from project import ROOT

FOLDER: Final = "docs/"
INCLUDED: Final = (
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "CODE_OF_CONDUCT.md",
    *(
        path.relative_to(ROOT).as_posix()
        for folder in (
            "services/*",
            "libs/*",
            "clients/*",
            "gateway",
            "cli",
            "console",
            "benchmarks",
            "deploy",
            "deploy/helm/*",
            "requirements",
        )
        for path in sorted(ROOT.glob(f"{folder}/README.md"))
    ),
)
"""Pages with a source outside of docs/, by their path in the repository."""

_FENCE: Final = re.compile(r"^( *)(```+).*?^\1\2 *$", re.MULTILINE | re.DOTALL)
_LINK: Final = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")

_log = get_plugin_logger(__name__)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the included pages."""
    for path in INCLUDED:
        files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point the links of a page, outside of fenced blocks, to their targets on the site."""
    here = page.file.src_uri if page.file.src_uri in INCLUDED else FOLDER + page.file.src_uri
    shown, end = [], 0
    for fence in _FENCE.finditer(markdown):
        shown += [_relinked(markdown[end : fence.start()], here, files), fence.group()]
        end = fence.end()
    return "".join([*shown, _relinked(markdown[end:], here, files)])


def _relinked(text: str, here: str, files: Files) -> str:
    def relinked(link: re.Match[str]) -> str:
        path, anchor, fragment = link["target"].partition("#")
        if not path or re.match(r"[a-z]+:", path):
            return link.group()
        target = posixpath.normpath(posixpath.join(posixpath.dirname(here), path))
        uri = target.removeprefix(FOLDER)
        if uri in files.src_uris and (target in INCLUDED or target.startswith(FOLDER)):
            base = posixpath.dirname(here.removeprefix(FOLDER))
            return f"{link['image']}[{link['text']}]({posixpath.relpath(uri, base or '.')}{anchor}{fragment})"
        if not (ROOT / target).exists():
            _log.warning(f"{here} links to {link['target']}, which does not exist")
        return link["text"]

    return _LINK.sub(relinked, text)
