"""A web site whose pages a test sets."""

import asyncio
import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from groundline_tests.http_server import Answering, listening


@dataclass(frozen=True, slots=True)
class Hold:
    asked: threading.Event = field(default_factory=threading.Event)
    answer: threading.Event = field(default_factory=threading.Event)


class Site:
    """A web server whose pages are set by the test: text and links by path. A request for a path in `held`
    is answered when the test lets it go, one in `statuses` with that status; conditional requests are where
    the site has ETags."""

    def __init__(self) -> None:
        self.pages: dict[str, str] = {}
        self.asked: list[str] = []
        self.statuses: dict[str, int] = {}
        self.answered: list[tuple[str, int]] = []
        self.has_etags = False
        self.held: dict[str, Hold] = {}
        site = self

        class Handler(Answering):
            def do_GET(self) -> None:  # noqa: N802
                site.asked.append(self.path)
                if hold := site.held.get(self.path):
                    hold.asked.set()
                    hold.answer.wait(30)
                body = site.pages.get(self.path)
                content = (body or "").encode()
                etag = f'"{hashlib.sha256(content).hexdigest()}"'
                status = 200 if body is not None else 404
                if site.has_etags and body is not None and self.headers["If-None-Match"] == etag:
                    status, content = 304, b""
                status = site.statuses.get(self.path, status)
                site.answered.append((self.path, status))
                kind = "text/plain" if self.path == "/robots.txt" else "text/html"
                headers = {"Content-Type": f"{kind}; charset=utf-8"}
                self.answer(status, content, headers | ({"ETag": etag} if site.has_etags else {}))

        self.handler = Handler
        self.url = ""

    def put(self, path: str, text: str, *links: str) -> None:
        anchors = "".join(f'<li><a href="{link}">link</a></li>' for link in links)
        self.pages[path] = (
            f"<html><head><title>Page {path}</title></head><body><article><h1>{path}</h1>"
            f"<p>{text} It is a page with enough words to be worth reading by anybody who comes along.</p>"
            f"</article><ul>{anchors}</ul></body></html>"
        )

    def hold(self, path: str) -> threading.Event:
        """Hold requests for a path until the event is set."""
        self.held[path] = Hold()
        return self.held[path].answer

    async def is_asked_for(self, path: str) -> None:
        """Wait for a request for a path in `held`."""
        assert await asyncio.to_thread(self.held[path].asked.wait, 30)


@contextmanager
def serving(site: Site) -> Iterator[Site]:
    """Serve the site while the body runs."""
    with listening(site.handler) as site.url:
        try:
            yield site
        finally:
            for hold in site.held.values():
                hold.answer.set()
