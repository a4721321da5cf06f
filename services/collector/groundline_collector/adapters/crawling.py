"""Crawler of web sites, from page to page."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from io import StringIO
from typing import Final, Literal
from urllib.parse import urlsplit

import httpx
import structlog
from groundline.v1 import collector_service_pb2 as pb
from groundline.v1 import passage_pb2, source_pb2
from groundline_contracts import default_of
from groundline_extraction.readers.common import Read, ReadError
from groundline_extraction.sandbox import Sandbox
from groundline_validation import page_address

from groundline_collector.adapters.addresses import Resolve, is_public, resolve
from groundline_collector.adapters.fetching import (
    CrawlLimits,
    Fetched,
    Fetcher,
    Hosts,
    RefusedError,
    unpacked,
)
from groundline_collector.adapters.transport import PinnedTransport
from groundline_collector.changes import Change, Found, LoadedDocument, gone, present, reached, unreadable
from groundline_collector.pages import modified_time, robots_directives, takes, version_of
from groundline_collector.ports import SeenPages

_MAX_PAGES: Final[int] = default_of(source_pb2.WebSource, "max_pages")
_MAX_DEPTH: Final[int] = default_of(source_pb2.WebSource, "max_depth")
MAX_QUEUED_URLS: Final = 100_000
MAX_QUEUED_CHARACTERS: Final = 16 * 1024**2
"""Maximum length of all queued addresses of a crawl."""
MAX_FAILURES_IN_A_ROW: Final = 5
"""Transient failures in a row after which a server is left alone."""
MAX_SITEMAPS: Final = 100
MAX_SITEMAP_BYTES: Final = 50 * 1024**2
"""Maximum size of a sitemap, as the protocol allows."""
MAX_VALIDATOR_CHARACTERS: Final = 500
UNCHANGED_SINCE: Final = timedelta(days=1)
"""Minimum time by which a sitemap's time of change must precede the last read for the page to be skipped: the
site's clock may be wrong, and its sitemap late."""

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
        self,
        source: source_pb2.DocumentSource,
        *,
        private_addresses: bool,
        pages: SeenPages | None = None,
    ) -> AsyncGenerator[Change, None]:
        """Yield the pages of a web source as they come, and those that cannot be had; pages that robots.txt
        forbids are skipped, except the start. A page's version is a hash of its content.

        The end is reached only where no page can have been missed: behind one that failed before it was ever
        read, or beyond the maximum. With what was seen earlier, pages that have not changed are not asked for
        in full, and those that fail for now still lead to where they led.
        """
        transport = PinnedTransport(
            self._resolve, lambda address: private_addresses or self._is_public(address)
        )
        async with httpx.AsyncClient(
            transport=transport,
            trust_env=False,  # a proxy would resolve names by itself
            timeout=self._limits.page_seconds,
            headers={"user-agent": self._limits.user_agent, "accept-encoding": "gzip"},
        ) as client:
            web = source.web
            delay = web.delay_seconds if web.HasField("delay_seconds") else None
            fetcher = Fetcher(client, self._limits, self._hosts, delay_seconds=delay, sleep=self._sleep)
            walk = _Walk(fetcher, source, self._limits, self._sandbox, pages)
            async with aclosing(walk.changes()) as changes:
                async for change in changes:
                    yield change


@dataclass(slots=True)
class _Walk:
    fetcher: Fetcher
    source: source_pb2.DocumentSource
    limits: CrawlLimits
    sandbox: Sandbox
    seen: SeenPages | None
    host: str | None = None
    """Host that the walk stays on; None until the start has been read, which often leads to another
    spelling."""
    queue: deque[tuple[str, int]] = field(default_factory=deque)
    """Addresses with their distances from the start."""
    known: set[str] = field(default_factory=set)
    """Addresses that were queued, or that redirects led to."""
    queued_characters: int = 0
    stored: set[str] = field(default_factory=set)
    """Addresses of documents."""
    failed: set[str] = field(default_factory=set)
    modified: dict[str, datetime] = field(default_factory=dict)
    """Times of the last change by address, as sitemaps say."""
    failures_in_a_row: int = 0
    is_complete: bool = True
    """Whether no page can have been missed so far."""

    @property
    def max_pages(self) -> int:
        return self.source.web.max_pages or _MAX_PAGES

    @property
    def max_depth(self) -> int:
        return self.source.web.max_depth if self.source.web.HasField("max_depth") else _MAX_DEPTH

    async def changes(self) -> AsyncGenerator[Change, None]:
        async with aclosing(self.pages()) as pages:
            async for change in pages:
                yield change
        if self.is_complete and 0 < len(self.stored) < self.max_pages:
            yield reached("", is_complete=True)

    def failure(self, url: str, reason: str, message: str, *, hides_pages: bool) -> pb.SourceChange:
        """Return the failure of a page that cannot be had; other pages may be missing because only it leads
        to them."""
        self.is_complete = self.is_complete and not hides_pages
        return unreadable(url, reason, message)

    async def pages(self) -> AsyncGenerator[Change, None]:
        start = page_address(self.source.web.start_url)
        if start is None:
            yield self.failure(
                self.source.web.start_url, "INVALID_URL", "not an http or https URL", hides_pages=True
            )
            return
        self._queue(start, 0)
        end = time.monotonic() + self.limits.crawl_seconds
        while self.queue and len(self.stored) < self.max_pages:
            url, depth = self.queue.popleft()
            if url in self.stored:  # another page named it as its canonical address
                continue
            if time.monotonic() > end:
                message = "the crawl took longer than it may"
                yield self.failure(url, "CRAWL_TIMEOUT", message, hides_pages=True)
                return
            try:
                found = await self._visit(url, depth)
            except RefusedError as refused:
                for change in await self._refused(url, depth, refused):
                    yield change
                if refused.is_unwelcome or self.failures_in_a_row == MAX_FAILURES_IN_A_ROW:
                    _log.info("server_left_alone", host=self.host or "", reason=refused.reason)
                    return
            else:
                self.failures_in_a_row = 0
                if found is not None:
                    yield found
            if depth == 0 and self.host is not None and self.max_depth > 0:
                async with aclosing(self._list_sitemaps(url)) as failures:
                    async for failure in failures:
                        yield failure

    async def _visit(self, url: str, depth: int) -> Change | None:
        """Read a page and queue its links; return None for a page that is not a document of its own. Raises
        RefusedError."""
        earlier = await self._recall(url)
        if earlier and earlier.is_current and self._is_older(url, earlier):
            page, content, mime_type = earlier, None, ""
        else:
            fetched = await self.fetcher.fetch(
                url, max_bytes=self.limits.max_page_bytes, host=self.host, recall=self._recall
            )
            if depth > 0 and fetched.url != url and fetched.url in self.known:
                return None
            self.known.add(fetched.url)
            if fetched.unchanged:
                page, content, mime_type = fetched.unchanged, None, ""
                page.read_time.GetCurrentTime()
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
        if uri in self.stored or not takes(self.source, urlsplit(uri).path):
            return None
        if not page.uri:
            return gone(uri)
        self.stored.add(uri)
        if content is None:
            return present(uri)
        load = partial(
            LoadedDocument, uri, (content,), mime_type=mime_type, source_type=passage_pb2.SOURCE_TYPE_WEB
        )
        return Found(uri, page.version, load, held_bytes=len(content))

    async def _refused(self, url: str, depth: int, refused: RefusedError) -> list[Change]:
        """Return the failures of a page that could not be had, if they are reported. If they are transient,
        the crawl continues with the links of the last read."""
        self.failed.add(url)
        self.failures_in_a_row = self.failures_in_a_row + 1 if refused.is_for_now else 0
        if depth > 0 and refused.reason in _PASSED_OVER:
            return []
        earlier = await self._recall(url) if refused.is_for_now else None
        if earlier:
            self.host = self.host or urlsplit(earlier.url).netloc
            self._queue_links(earlier.links, depth + 1)
        is_last = refused.is_unwelcome or self.failures_in_a_row == MAX_FAILURES_IN_A_ROW
        message = refused.message
        if is_last:
            message += "; the crawl ended here"
        uri = (earlier.uri if earlier else "") or url
        hides_pages = depth == 0 or is_last or (refused.is_for_now and earlier is None)
        failure = self.failure(uri, refused.reason, message, hides_pages=hides_pages)
        return [failure, gone(uri)] if refused.status in _GONE else [failure]

    async def _read(self, fetched: Fetched, mime_type: str) -> pb.SeenPage:
        """Return a page's own statements and its links."""
        agent = self.limits.user_agent
        directives = robots_directives(fetched.headers.get_list("x-robots-tag"), agent)
        links: list[str] = []
        uri = fetched.url
        for kind, value in await self._head(fetched) if mime_type in _PAGES else ():
            target = page_address(value, fetched.url) if kind in {"link", "canonical"} else None
            if kind == "robots":
                directives |= robots_directives([value], agent)
            elif target and urlsplit(target).netloc == urlsplit(fetched.url).netloc:
                if kind == "link":
                    links.append(target)
                elif target not in self.failed and takes(self.source, urlsplit(target).path):
                    uri = target
        page = pb.SeenPage(
            url=fetched.url,
            uri="" if "noindex" in directives else uri,
            version=version_of(fetched.content),
            links=() if "nofollow" in directives else dict.fromkeys(links),
            etag=_validator(fetched, "etag"),
            last_modified=_validator(fetched, "last-modified"),
        )
        page.read_time.GetCurrentTime()
        return page

    async def _read_confined(self, reader: Literal["web.page", "web.sitemap"], content: bytes) -> Read:
        """Read what the site sent, in a process that reads for this collection alone. Raises ReadError."""
        client = self.source.collection_id
        return await asyncio.to_thread(self.sandbox.read, reader, content, client=client)

    async def _head(self, fetched: Fetched) -> Sequence[tuple[str, str]]:
        try:
            read = await self._read_confined("web.page", fetched.content)
        except ReadError as error:
            _log.info("page_not_read", reason=error.reason)
            return []
        return [(kind, value) for kind, _, value in (line.partition("\t") for line in read.text.splitlines())]

    async def _list_sitemaps(self, start: str) -> AsyncGenerator[Change, None]:
        """Queue the entries of the host's sitemaps; yield the failures of sitemaps that should exist."""
        origin = f"{urlsplit(start).scheme}://{self.host}"
        try:
            declared = [page_address(url, origin) for url in (await self.fetcher.robots_of(origin)).sitemaps]
        except RefusedError:
            return  # pages will report the failure
        named = [url for url in declared if url and urlsplit(url).netloc == self.host]
        waiting = deque(named or [f"{origin}/sitemap.xml"])
        known, is_cut = set(waiting), False
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
                yield self.failure(url, refused.reason, f"sitemap: {refused.message}", hides_pages=True)
                if refused.is_unwelcome:
                    return
                continue
            for kind, target, changed in entries:
                if kind == "page":
                    self._queue_links([target], 1)
                    if target in self.known and (moment := modified_time(changed)) is not None:
                        self.modified[target] = moment
                elif target not in known and urlsplit(target).netloc == self.host:
                    if is_cut := len(known) >= MAX_SITEMAPS:
                        break
                    known.add(target)
                    waiting.append(target)
            if is_cut:
                break
        if is_cut or waiting:
            message = f"sitemap: there are more than {MAX_SITEMAPS}"
            yield self.failure(url, "PAGE_TOO_LARGE", message, hides_pages=True)

    async def _sitemap(self, url: str) -> Iterator[tuple[str, str, str]]:
        """Return of each entry whether it is a page or another sitemap, its address, and when it changed.
        Raises RefusedError."""
        fetched = await self.fetcher.fetch(url, max_bytes=MAX_SITEMAP_BYTES, host=self.host)
        content = await asyncio.to_thread(unpacked, fetched.content, MAX_SITEMAP_BYTES)
        try:
            read = await self._read_confined("web.sitemap", content)
        except ReadError as error:
            raise RefusedError("UNSUPPORTED_TYPE", error.message) from None
        return _entries(read.text, fetched.url)

    def _queue_links(self, links: Sequence[str], depth: int) -> None:
        if depth > self.max_depth:
            return
        for link in links:
            parts = urlsplit(link)
            if parts.netloc == self.host and link not in self.known and takes(self.source, parts.path):
                self._queue(link, depth)

    def _queue(self, url: str, depth: int) -> None:
        self.queued_characters += len(url)
        if len(self.known) < MAX_QUEUED_URLS and self.queued_characters <= MAX_QUEUED_CHARACTERS:
            self.known.add(url)
            self.queue.append((url, depth))
        else:  # pages that only this one leads to are missed
            self.is_complete = False

    async def _recall(self, url: str) -> pb.SeenPage | None:
        return await self.seen.recall(url) if self.seen else None

    def _is_older(self, url: str, page: pb.SeenPage) -> bool:
        changed = self.modified.get(url)
        return changed is not None and changed + UNCHANGED_SINCE < page.read_time.ToDatetime(UTC)


def _entries(sitemap: str, base: str) -> Iterator[tuple[str, str, str]]:
    for line in StringIO(sitemap):
        kind, address, changed = line.rstrip("\n").split("\t")
        if target := page_address(address, base):
            yield kind, target, changed


def _mime_type(fetched: Fetched) -> str:
    return str(fetched.headers.get("content-type", "text/html")).split(";", 1)[0].strip().lower()


def _validator(fetched: Fetched, name: str) -> str:
    """Return a header to send back; empty for one that could not be stored or sent."""
    value = str(fetched.headers.get(name, ""))
    is_fit = len(value) <= MAX_VALIDATOR_CHARACTERS and value.isascii() and value.isprintable()
    return value if is_fit else ""
