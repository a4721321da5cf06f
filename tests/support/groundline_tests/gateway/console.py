"""The console in a browser: where it goes, and what keeps people from using it."""

import json
import subprocess
import sys
from typing import Final

from groundline_tests.browser import Tab
from groundline_tests.suite import ROOT

AXE: Final = """
    axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]})
        .then(({violations}) => violations.map(({id, nodes}) => `${id}: ${nodes.map(({html}) => html)}`))
"""
"""Returns what is wrong with the page, once the program of the fixture `axe` is in it."""


async def go(tab: Tab, address: str) -> None:
    await tab.js(f"location.hash = {json.dumps(address)}")


def axe_program() -> str:
    """Return the program of axe, of the console's locked packages."""
    subprocess.run([sys.executable, str(ROOT / "tools/console.py"), "install"], check=True)
    return (ROOT / "console/node_modules/axe-core/axe.min.js").read_text(encoding="utf-8")
