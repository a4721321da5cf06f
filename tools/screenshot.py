"""Take the picture of the chat page in README.md, from a suite of its own with the examples."""

import asyncio
import base64
import sys
import tempfile
from pathlib import Path
from typing import Final

from groundline_tests.browser import CHROMIUM, browser
from groundline_tests.suite import EXAMPLES, running_stack

PICTURE: Final = Path(__file__).resolve().parent.parent / "docs/images/chat.png"
QUESTION: Final = "Within what time must a lost or stolen laptop be reported?"
WIDTH: Final = 1000
HEIGHT: Final = 640
MAX_BYTES: Final = 200_000


async def taken(folder: Path) -> bytes:
    """Return the page with the answer, as PNG."""
    async with running_stack(folder / "data") as stack, browser(folder / "profile") as tab:
        ingested = await stack.command(
            "ingest", str(EXAMPLES), "--collection", "examples", "--exclude", "questions.json"
        )
        assert ingested.code == 0, ingested.err
        await tab.open(f"{stack.ready['gateway']}/#key={stack.ready['api_key']}")
        await tab.resize(WIDTH, HEIGHT)
        await tab.ask(QUESTION)
        await tab.until("document.querySelector('article .cite') && !document.querySelector('.busy')")
        shot = await tab.command("Page.captureScreenshot", format="png")
        return base64.b64decode(shot["data"])


def main() -> int:
    if CHROMIUM is None:
        print("screenshot: install chromium", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        picture = asyncio.run(taken(Path(folder)))
    if len(picture) > MAX_BYTES:
        print(f"screenshot: {len(picture)} bytes, {MAX_BYTES} at most", file=sys.stderr)
        return 1
    PICTURE.write_bytes(picture)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
