"""Web sites, walked from page to page."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.parse import urlsplit

import httpx
import structlog
from groundline.v1 import ingestor_service_pb2 as pb

from groundline_ingestor.adapters.addresses import PinnedTransport, Resolve, is_public, resolve
from groundline_ingestor.adapters.extraction.readers.common import ReadError
from groundline_ingestor.adapters.extraction.sandbox import Sandbox
from groundline_ingestor.adapters.fetching import (
    CrawlLimits,
    Fetched,
    Fetcher,
    Hosts,
    RefusedError,
    unpacked,
)
from groundline_ingestor.crawling import (
    CrawledPage,
    CrawlFailure,
    CrawlFind,
    SeenPage,
    UnchangedPage,
    link_target,
    modified_time,
    robots_directives,
    takes,
    version_of,
)
from groundline_ingestor.ports import SeenPages

__all__ = ["HttpCrawler"]

MAX_QUEUED_URLS: Final = 100_000
MAX_FAILURES_IN_A_ROW: Final = 5
"""After so many that are for now a server is left alone."""
MAX_SITEMAPS: Final = 100
MAX_SITEMAP_BYTES: Final = 50 * 1024**2
"""What the protocol allows."""
MAX_VALIDATOR_CHARACTERS: Final = 500
UNCHANGED_SINCE: Final = timedelta(days=1)
"""So long before a page was last read a sitemap's time of change has to be for the page not to be asked for:
its clock, and when the sitemap is made anew, are the site's affair."""

_PAGES: Final = {"text/html", "application/xhtml+xml"}
_TYPES: Final = {
    *_PAGES,
    "text/plain",
    "text/markdown",
    "application/pdf",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
}
_PASSED_OVER: Final = {"ROBOTS_DISALLOWED", "UNSUPPORTED_TYPE"}
_GONE: Final = (httpx.codes.NOT_FOUND, httpx.codes.GONE)
_log = structlog.get_logger(__name__)


DEFAULT_LIMITS: Final = CrawlLimits()


class HttpCrawler:
    """A Crawler that goes from page to page in the order of their distance from the start, one at a time."""

    def __init__(
        self,
        sandbox: Sandbox,
        limits: CrawlLimits = DEFAULT_LIMITS,
        *,
        resolve: Resolve = resolve,
        is_public: Callable[[str], bool] = is_public,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._sandbox = sandbox
        self._limits = limits
        self._resolve = resolve
        self._is_public = is_public
        self._sleep = sleep
        self._hosts = Hosts()

    async def crawl(
        self, request: pb.WebCrawl, *, private_addresses: bool, seen: SeenPages | None = None
    ) -> AsyncGenerator[CrawlFind, None]:
        """Pages and failures as they come; what robots.txt forbids is passed over, but for the start."""
        transport = PinnedTransport(
            self._resolve, lambda address: private_addresses or self._is_public(address)
        )
        async with httpx.AsyncClient(
            transport=transport,
            trust_env=False,  # a proxy would resolve names by itself
            timeout=self._limits.page_seconds,
            headers={"user-agent": self._limits.user_agent, "accept-encoding": "gzip"},
        ) as client:
            delay = request.delay_seconds if request.HasField("delay_seconds") else None
            fetcher = Fetcher(client, self._limits, self._hosts, delay_seconds=delay, sleep=self._sleep)
            walk = _Walk(fetcher, request, self._limits, self._sandbox, seen)
            async with aclosing(walk.pages()) as pages:
                async for found in pages:
                    yield found


@dataclass
class _Walk:
    fetcher: Fetcher
    request: pb.WebCrawl
    limits: CrawlLimits
    sandbox: Sandbox
    seen: SeenPages | None
    host: str | None = None
    """On which the walk stays; None until the start has been read, which often leads to another spelling."""
    queue: deque[tuple[str, int]] = field(default_factory=deque)
    """Addresses with their distances from the start."""
    known: set[str] = field(default_factory=set)
    """Addresses that were queued, or to which redirects led."""
    stored: set[str] = field(default_factory=set)
    """Addresses of documents."""
    failed: set[str] = field(default_factory=set)
    modified: dict[str, datetime] = field(default_factory=dict)
    """By address, when a page changed last, as sitemaps say."""
    failures_in_a_row: int = 0

    async def pages(self) -> AsyncGenerator[CrawlFind, None]:
        start = link_target(self.request.start_url, "")
        if start is None:
            yield CrawlFailure(self.request.start_url, "INVALID_URL", "not an http or https URL")
            return
        self._queue(start, 0)
        end = time.monotonic() + self.limits.crawl_seconds
        while self.queue and len(self.stored) < self.request.max_pages:
            url, depth = self.queue.popleft()
            if url in self.stored:  # another page named it its canonical address
                continue
            if time.monotonic() > end:
                yield CrawlFailure(
                    url, "CRAWL_TIMEOUT", "the crawl took longer than it may", hides_pages=True
                )
                return
            try:
                found = await self._visit(url, depth)
            except RefusedError as refused:
                failure = await self._refused(url, depth, refused)
                if failure is not None:
                    yield failure
                if refused.is_unwelcome or self.failures_in_a_row == MAX_FAILURES_IN_A_ROW:
                    _log.info("server_left_alone", host=self.host or "", reason=refused.reason)
                    return
            else:
                self.failures_in_a_row = 0
                if found is not None:
                    yield found
            if depth == 0 and self.host is not None and self.request.max_depth > 0:
                async with aclosing(self._list_sitemaps(url)) as failures:
                    async for failure in failures:
                        yield failure

    async def _visit(self, url: str, depth: int) -> CrawledPage | UnchangedPage | None:
        """Read a page and queue where it leads; None where it is no document of its own. Raises
        RefusedError."""
        earlier = await self._recall(url)
        if earlier and earlier.is_current and self._is_older(url, earlier.read_time):
            page, content, mime_type = earlier, None, ""
        else:
            fetched = await self.fetcher.fetch(
                url, max_bytes=self.limits.max_page_bytes, host=self.host, recall=self._recall
            )
            if depth > 0 and fetched.url != url and fetched.url in self.known:
                return None
            self.known.add(fetched.url)
            if fetched.unchanged:
                page, content, mime_type = replace(fetched.unchanged, read_time=datetime.now(UTC)), None, ""
            else:
                mime_type = _mime_type(fetched)
                if mime_type not in _TYPES:
                    raise RefusedError("UNSUPPORTED_TYPE", f"{mime_type[:100]} is not a page")
                page, content = await self._read(fetched, mime_type), fetched.content
        self.host = urlsplit(page.url).netloc
        if self.seen:
            await self.seen.note(page)
        self._queue_links(page.links, depth + 1)
        uri = page.uri or page.url
        if uri in self.stored or not takes(self.request, urlsplit(uri).path):
            return None
        if not page.uri:
            return CrawledPage(uri, b"", mime_type, is_indexed=False)
        self.stored.add(uri)
        return UnchangedPage(uri) if content is None else CrawledPage(uri, content, mime_type)

    async def _refused(self, url: str, depth: int, refused: RefusedError) -> CrawlFailure | None:
        """What is said of a page that could not be had; None where nothing is. Where that is so only for now,
        the walk goes on to where the page led when it was last read."""
        self.failed.add(url)
        self.failures_in_a_row = self.failures_in_a_row + 1 if refused.is_for_now else 0
        if depth > 0 and refused.reason in _PASSED_OVER:
            return None
        earlier = await self._recall(url) if refused.is_for_now else None
        if earlier:
            self.host = self.host or urlsplit(earlier.url).netloc
            self._queue_links(earlier.links, depth + 1)
        is_last = refused.is_unwelcome or self.failures_in_a_row == MAX_FAILURES_IN_A_ROW
        message = refused.message
        if is_last:
            message += "; the crawl ended here"
        return CrawlFailure(
            (earlier.uri if earlier else "") or url,
            refused.reason,
            message,
            is_gone=refused.status in _GONE,
            hides_pages=depth == 0 or is_last or (refused.is_for_now and earlier is None),
        )

    async def _read(self, fetched: Fetched, mime_type: str) -> SeenPage:
        """What a page says of itself and where it leads."""
        agent = self.limits.user_agent
        directives = robots_directives(fetched.headers.get_list("x-robots-tag"), agent)
        links: list[str] = []
        uri = fetched.url
        for kind, value in await self._head(fetched) if mime_type in _PAGES else ():
            target = link_target(value, fetched.url) if kind in {"link", "canonical"} else None
            if kind == "robots":
                directives |= robots_directives([value], agent)
            elif target and urlsplit(target).netloc == urlsplit(fetched.url).netloc:
                if kind == "link":
                    links.append(target)
                elif target not in self.failed and takes(self.request, urlsplit(target).path):
                    uri = target
        return SeenPage(
            url=fetched.url,
            uri="" if "noindex" in directives else uri,
            version=version_of(fetched.content),
            links=() if "nofollow" in directives else tuple(dict.fromkeys(links)),
            etag=_validator(fetched, "etag"),
            last_modified=_validator(fetched, "last-modified"),
            read_time=datetime.now(UTC),
        )

    async def _head(self, fetched: Fetched) -> Sequence[tuple[str, str]]:
        try:
            read = await asyncio.to_thread(self.sandbox.read, "page", fetched.content)
        except ReadError as error:
            _log.info("page_not_read", reason=error.reason)
            return []
        return [(kind, value) for kind, _, value in (line.partition("\t") for line in read.text.splitlines())]

    async def _list_sitemaps(self, start: str) -> AsyncGenerator[CrawlFailure, None]:
        """Queue what the sitemaps of the host list; those that should be there and cannot be read come."""
        origin = f"{urlsplit(start).scheme}://{self.host}"
        try:
            declared = [link_target(url, origin) for url in (await self.fetcher.robots_of(origin)).sitemaps]
        except RefusedError:
            return  # pages will say so
        named = [url for url in declared if url and urlsplit(url).netloc == self.host]
        waiting = deque(named or [f"{origin}/sitemap.xml"])
        known = set(waiting)
        for _ in range(MAX_SITEMAPS):
            if not waiting:
                return
            url = waiting.popleft()
            try:
                entries = await self._sitemap(url)
            except RefusedError as refused:
                is_missing = 400 <= refused.status < 500 and not refused.is_for_now
                if not named and (is_missing or refused.reason in _PASSED_OVER):
                    return
                yield CrawlFailure(url, refused.reason, f"sitemap: {refused.message}", hides_pages=True)
                if refused.is_unwelcome:
                    return
                continue
            for kind, target, changed in entries:
                if kind == "page":
                    if (moment := modified_time(changed)) is not None:
                        self.modified[target] = moment
                    self._queue_links([target], 1)
                elif target not in known and urlsplit(target).netloc == self.host:
                    known.add(target)
                    waiting.append(target)
        if waiting:
            message = f"sitemap: there are more than {MAX_SITEMAPS}"
            yield CrawlFailure(waiting[0], "PAGE_TOO_LARGE", message, hides_pages=True)

    async def _sitemap(self, url: str) -> Sequence[tuple[str, str, str]]:
        """Whether it is of a page or of another sitemap, its address, and when it changed. Raises
        RefusedError."""
        fetched = await self.fetcher.fetch(url, max_bytes=MAX_SITEMAP_BYTES, host=self.host)
        content = await asyncio.to_thread(unpacked, fetched.content, MAX_SITEMAP_BYTES)
        try:
            read = await asyncio.to_thread(self.sandbox.read, "sitemap", content)
        except ReadError as error:
            raise RefusedError("UNSUPPORTED_TYPE", error.message) from None
        entries = []
        for line in read.text.splitlines():
            kind, address, changed = line.split("\t")
            if target := link_target(address, fetched.url):
                entries.append((kind, target, changed))
        return entries

    def _queue_links(self, links: Sequence[str], depth: int) -> None:
        if depth > self.request.max_depth:
            return
        for link in links:
            parts = urlsplit(link)
            if parts.netloc == self.host and link not in self.known and takes(self.request, parts.path):
                self._queue(link, depth)

    def _queue(self, url: str, depth: int) -> None:
        if len(self.known) < MAX_QUEUED_URLS:
            self.known.add(url)
            self.queue.append((url, depth))

    async def _recall(self, url: str) -> SeenPage | None:
        return await self.seen.recall(url) if self.seen else None

    def _is_older(self, url: str, read_time: datetime) -> bool:
        return url in self.modified and self.modified[url] + UNCHANGED_SINCE < read_time


def _mime_type(fetched: Fetched) -> str:
    return str(fetched.headers.get("content-type", "text/html")).split(";", 1)[0].strip().lower()


def _validator(fetched: Fetched, name: str) -> str:
    """A header to send back; none that could not be stored or sent."""
    value = str(fetched.headers.get(name, ""))
    is_fit = len(value) <= MAX_VALIDATOR_CHARACTERS and value.isascii() and value.isprintable()
    return value if is_fit else ""
