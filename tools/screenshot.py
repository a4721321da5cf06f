"""Take the pictures of the console in docs/images, from a suite of its own with the examples."""

import asyncio
import base64
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from groundline_tests.browser import CHROMIUM, Tab, browser
from groundline_tests.suite import EXAMPLES, running_stack

PICTURES: Final = Path(__file__).resolve().parent.parent / "docs/images"
QUESTION: Final = "Within what time must a lost or stolen laptop be reported?"
WIDTH: Final = 1000
HEIGHT: Final = 640
MAX_BYTES: Final = 200_000

ADDRESSES: Final[Mapping[str, tuple[str, str]]] = {
    "search": (
        "search?q=lost+laptop&settings=hybrid..weighted.5&settings=keyword...",
        "document.querySelectorAll('section > .ranking').length === 2",
    ),
    "documents": (
        "documents/examples",
        "document.querySelectorAll('#documents tbody tr').length === 15",
    ),
}
"""Addresses of views in the page, and what says that they are shown."""


async def taken(folder: Path) -> Mapping[str, bytes]:
    """Return each picture by its name, as PNG."""
    pictures: dict[str, bytes] = {}
    async with running_stack(folder / "data") as stack, browser(folder / "profile") as tab:
        ingested = await stack.command(
            "ingest", str(EXAMPLES), "--collection", "examples", "--exclude", "questions.json"
        )
        assert ingested.code == 0, ingested.err
        await tab.open(f"{stack.ready['gateway']}/#key={stack.ready['api_key']}")
        await tab.resize(WIDTH, HEIGHT)
        await tab.ask(QUESTION)
        await tab.until("document.querySelector('article .cite') && !document.querySelector('.busy')")
        pictures["chat"] = await picture(tab)
        await tab.click(".cite")
        await tab.until("document.querySelector('#passage mark strong')")
        pictures["passage"] = await picture(tab)
        for name, (address, shown) in ADDRESSES.items():
            await tab.js(f"location.hash = '{address}'; 0")
            await tab.until(shown)
            if name == "search":
                await tab.js("document.querySelectorAll('.why').forEach((each) => { each.open = true; })")
                await tab.js("document.querySelector('.why').scrollIntoView({ block: 'center' }); 0")
            pictures[name] = await picture(tab)
    return pictures


async def picture(tab: Tab) -> bytes:
    shot = await tab.command("Page.captureScreenshot", format="png")
    return base64.b64decode(shot["data"])


def main() -> int:
    if CHROMIUM is None:
        print("screenshot: install chromium", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        pictures = asyncio.run(taken(Path(folder)))
    if large := [name for name, content in pictures.items() if len(content) > MAX_BYTES]:
        print(f"screenshot: larger than {MAX_BYTES} bytes: {', '.join(large)}", file=sys.stderr)
        return 1
    for name, content in pictures.items():
        (PICTURES / f"{name}.png").write_bytes(content)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
