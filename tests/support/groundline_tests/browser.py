"""A headless Chromium that is driven over the DevTools pipe, without a driver between."""

import asyncio
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

CHROMIUM: Final = next((path for name in ("chromium", "google-chrome") if (path := shutil.which(name))), None)

# Chromium's DevTools pipe is file descriptors 3 and 4. Copies first: one of the ends may be 3 or 4 itself.
LAUNCHER: Final = """
import os, sys
ends = [os.dup(int(end)) for end in sys.argv[1:3]]
for end, place in zip(ends, (3, 4)):
    os.dup2(end, place)
    os.set_inheritable(place, True)
os.execv(sys.argv[3], sys.argv[3:])
"""

WRITE: Final = """
{{
    const box = document.querySelector({selector});
    box.value = {text};
    box.dispatchEvent(new Event(box instanceof HTMLSelectElement ? "change" : "input", {{ bubbles: true }}));
}}
"""

POLL: Final = "const look = () => ({expression}) ? done() : requestAnimationFrame(look); look();"


class NavigatedError(AssertionError):
    """A page that went away while it was asked."""


class Tab:
    """A page of a headless browser."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._session = self._target = ""
        self._last = 0
        self._screen = {"width": 1280, "height": 800, "deviceScaleFactor": 1, "mobile": False}
        self.complaints: list[str] = []
        self.requested: list[str] = []

    async def open(self, url: str) -> None:
        """Load an address in a tab of its own, instead of the one before."""
        before, self._session = self._target, ""
        target = await self.command("Target.createTarget", url="about:blank")
        self._target = target["targetId"]
        if before:
            await self.command("Target.closeTarget", targetId=before)
        self.complaints.clear()
        self.requested.clear()
        session = await self.command("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = session["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            await self.command(f"{domain}.enable")
        await self.command("Emulation.setDeviceMetricsOverride", **self._screen)
        await self.visit(url)

    async def visit(self, url: str) -> None:
        """Load an address in the tab that is open."""
        await self.command("Page.navigate", url="about:blank")
        await self.command("Page.navigate", url=url)
        await self.until("document.readyState === 'complete' && location.protocol === 'http:'")

    async def resize(self, width: int, height: int) -> None:
        """Give the page a window of as many pixels."""
        self._screen |= {"width": width, "height": height}
        await self.command("Emulation.setDeviceMetricsOverride", **self._screen)

    async def command(self, method: str, **params: Any) -> dict[str, Any]:
        self._last += 1
        message: dict[str, Any] = {"id": self._last, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        self._writer.write(json.dumps(message).encode() + b"\0")
        while True:
            reply = json.loads((await self._reader.readuntil(b"\0"))[:-1])
            if reply.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded"):
                self.complaints.append(json.dumps(reply["params"]))
            if reply.get("method") == "Network.requestWillBeSent":
                self.requested.append(reply["params"]["request"]["url"])
            if reply.get("id") == self._last:
                if "navigated" in str(reply.get("error")) or "context" in str(reply.get("error")):
                    raise NavigatedError(reply)
                assert "error" not in reply, reply
                result: dict[str, Any] = reply["result"]
                return result

    async def js(self, expression: str) -> Any:
        reply = await self.command(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in reply, reply
        return reply["result"].get("value")

    async def until(self, expression: str) -> None:
        """Wait until something is so on the page, or on the one that it leads to."""
        try:
            async with asyncio.timeout(15):
                while True:
                    with suppress(NavigatedError):
                        await self.js(f"new Promise((done) => {{ {POLL.format(expression=expression)} }})")
                        return
        except TimeoutError:
            shown = await self.js("document.body.innerText")
            raise AssertionError(
                f"not so: {expression}\nthe page shows: {shown}\n{self.complaints}"
            ) from None

    async def text(self, selector: str) -> str:
        return str(
            await self.js(f"[...document.querySelectorAll({selector!r})].map((n) => n.innerText).join('|')")
        )

    async def write(self, selector: str, text: str) -> None:
        """Put the text into a box, and tell the page, as typing does."""
        await self.until(f"document.querySelector({selector!r})")
        await self.js(WRITE.format(selector=json.dumps(selector), text=json.dumps(text)))

    async def click(self, selector: str, at: int = 0) -> None:
        """Click what the selector finds in place `at`, as soon as it is there."""
        await self.until(f"document.querySelectorAll({selector!r}).length > {at}")
        await self.js(f"document.querySelectorAll({selector!r})[{at}].click()")

    async def choose(self, selector: str, *files: Path) -> None:
        """Choose files in an input for them, as its dialog does."""
        await self.until(f"document.querySelector({selector!r})")
        found = await self.command("Runtime.evaluate", expression=f"document.querySelector({selector!r})")
        chosen = [str(file) for file in files]
        await self.command("DOM.setFileInputFiles", files=chosen, objectId=found["result"]["objectId"])

    async def ask(self, question: str) -> None:
        await self.write("#query", question)
        await self.click("#send:not(:disabled)")


@asynccontextmanager
async def browser(profile: Path) -> AsyncIterator[Tab]:
    assert CHROMIUM is not None
    from_us, ours_out = os.pipe()
    ours_in, to_us = os.pipe()

    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        LAUNCHER,
        str(from_us),
        str(to_us),
        CHROMIUM,
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--remote-debugging-pipe",
        f"--user-data-dir={profile}",
        pass_fds=(from_us, to_us),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    os.close(from_us)
    os.close(to_us)
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=64 << 20)
    incoming, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(ours_in, "rb", 0)
    )
    outgoing, protocol = await loop.connect_write_pipe(
        lambda: asyncio.streams.FlowControlMixin(loop), os.fdopen(ours_out, "wb", 0)
    )
    try:
        yield Tab(reader, asyncio.StreamWriter(outgoing, protocol, None, loop))
    finally:
        outgoing.close()
        incoming.close()
        process.kill()
        await process.wait()
