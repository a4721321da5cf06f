"""A web site that a test sets, names that lead to it, and a crawl of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from groundline.v1 import collector_service_pb2 as pb
from groundline.v1 import error_pb2, source_pb2
from groundline_collector.adapters.fetching import CrawlLimits

from groundline_tests.http_server import Answering

PUBLIC = "93.184.215.14"
LIMITS = CrawlLimits(page_seconds=10)


@dataclass(frozen=True)
class Answer:
    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: {"Content-Type": "text/html; charset=utf-8"})


def page(*links: str, head: str = "") -> Answer:
    anchors = "".join(f"<a href='{link}'>link</a>" for link in links)
    return Answer(f"<html><head>{head}</head><body><p>Some text.</p>{anchors}</body></html>".encode())


def redirect(target: str) -> Answer:
    return Answer(status=302, headers={"Location": target})


class Site:
    """A web server whose pages are set by the test; it remembers who asked for what."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer | list[Answer]] = {}
        self.statuses: list[tuple[str, int]] = []
        self.asked: list[tuple[str, str]] = []
        site = self

        class Handler(Answering):
            def do_GET(self) -> None:  # noqa: N802
                site.asked.append((self.headers["Host"], self.path))
                answer = site.answers.get(self.path, Answer(b"gone", 404))
                if isinstance(answer, list):  # one after the other, the last of them for ever
                    answer = answer.pop(0) if len(answer) > 1 else answer[0]
                validators = {"ETag": "If-None-Match", "Last-Modified": "If-Modified-Since"}
                if any(
                    name in answer.headers and answer.headers[name] == self.headers[condition]
                    for name, condition in validators.items()
                ):
                    answer = Answer(status=304)
                site.statuses.append((self.path, answer.status))
                self.answer(answer.status, answer.body, answer.headers)

        self.handler = Handler
        self.port = 0
        self.url = ""

    @property
    def paths(self) -> list[str]:
        return [path for _, path in self.asked if path not in ("/robots.txt", "/sitemap.xml")]


class Names:
    """A resolver: names of the test lead to given addresses, one after the other."""

    def __init__(self, **addresses: Sequence[str]) -> None:
        self.addresses = {name.replace("_", "."): list(found) for name, found in addresses.items()}
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        found = self.addresses.get(host)
        if found is None:
            raise OSError("no such name")
        return [found.pop(0) if len(found) > 1 else found[0]]


class MemorySeenPages:
    """Implements SeenPages, of documents that are all there unless the test says so."""

    def __init__(self) -> None:
        self.pages: dict[str, pb.SeenPage] = {}
        self.outdated: set[str] = set()

    async def recall(self, url: str) -> pb.SeenPage | None:
        page = self.pages.get(url)
        if page:
            page.is_current = url not in self.outdated
        return page

    async def note(self, page: pb.SeenPage) -> None:
        self.pages[page.url] = page


def web(start_url: str, **options: Any) -> source_pb2.DocumentSource:
    """Return a web source; include_paths and exclude_paths are the source's, all else the site's."""
    paths = {name: options.pop(name) for name in ("include_paths", "exclude_paths") if name in options}
    return source_pb2.DocumentSource(web=source_pb2.WebSource(start_url=start_url, **options), **paths)


def reason(change: Any) -> str:
    return error_pb2.ErrorReason.Name(change.unreadable.failure.reason)


Crawl = Callable[..., Any]
