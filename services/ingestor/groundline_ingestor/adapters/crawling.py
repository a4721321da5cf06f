"""Web pages over httpx, from addresses that were checked."""

import asyncio
import time
import zlib
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

import httpx
import structlog
from groundline.v1 import ingestor_service_pb2 as pb
from protego import Protego

from groundline_ingestor.adapters.addresses import (
    AddressNotAllowedError,
    PinnedTransport,
    Resolve,
    is_public,
    resolve,
)
from groundline_ingestor.adapters.extraction.readers.common import ReadError
from groundline_ingestor.adapters.extraction.sandbox import Sandbox
from groundline_ingestor.crawling import CrawledPage, CrawlFailure, link_target, takes

__all__ = ["CrawlLimits", "HttpCrawler"]

MAX_REDIRECTS: Final = 5
MAX_ROBOTS_BYTES: Final = 512 * 1024
"""What RFC 9309 asks crawlers to read at least."""
MAX_DELAY_SECONDS: Final = 60.0
DEFAULT_DELAY_SECONDS: Final = 1.0
MAX_QUEUED_URLS: Final = 100_000

_PAGES: Final = {"text/html", "application/xhtml+xml"}
_TYPES: Final = {
    *_PAGES,
    "text/plain",
    "text/markdown",
    "application/pdf",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
}
_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class CrawlLimits:
    """Bounds of one crawl. `max_page_bytes` counts what a response unpacks to."""

    user_agent: str = "groundline"
    max_page_bytes: int = 16 * 1024**2
    page_seconds: float = 60.0
    crawl_seconds: float = 4 * 3600.0


class _RefusedError(Exception):
    def __init__(self, reason: str, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.status = status


class _Unpacking:
    """A body as it comes, unpacked to no more than it may be. httpx would unpack it as often as it says."""

    def __init__(self, encodings: Sequence[str], most: int) -> None:
        """Raises _RefusedError for any but one gzip."""
        named = [name for value in encodings for name in value.lower().replace(" ", "").split(",")]
        packings = [name for name in named if name not in {"", "identity"}]
        if packings not in ([], ["gzip"], ["x-gzip"]):
            raise _RefusedError("INVALID_ENCODING", "it is packed otherwise than once by gzip")
        # gzip with its header, whose window may be as large as any.
        self._gzip = zlib.decompressobj(16 + zlib.MAX_WBITS) if packings else None
        self._most = most
        self._taken = 0
        self._left = most

    def feed(self, part: bytes) -> bytes:
        """What the part adds to the body. Raises _RefusedError with PAGE_TOO_LARGE or INVALID_ENCODING."""
        self._taken += len(part)
        try:
            unpacked = self._gzip.decompress(part, self._left + 1) if self._gzip else part
        except zlib.error:
            raise _RefusedError("INVALID_ENCODING", "it is not packed by gzip, as it says") from None
        self._left -= len(unpacked)
        # What unpacks to nothing must not go on for ever either.
        if self._left < 0 or self._taken > self._most:
            raise _RefusedError("PAGE_TOO_LARGE", f"more than {self._most} bytes")
        return unpacked


class HttpCrawler:
    """A Crawler that goes from page to page in the order of their distance from the start, one at a time."""

    def __init__(
        self,
        sandbox: Sandbox,
        limits: CrawlLimits = CrawlLimits(),
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

    async def crawl(
        self, request: pb.WebCrawl, *, private_addresses: bool
    ) -> AsyncGenerator[CrawledPage | CrawlFailure, None]:
        """Pages and failures as they come; what robots.txt forbids is passed over, but for the start."""
        any_address = private_addresses
        transport = PinnedTransport(self._resolve, lambda address: any_address or self._is_public(address))
        async with httpx.AsyncClient(
            transport=transport,
            trust_env=False,  # a proxy would resolve names by itself
            timeout=self._limits.page_seconds,
            headers={"user-agent": self._limits.user_agent, "accept-encoding": "gzip"},
        ) as client:
            run = _Run(client, request, self._limits, self._sandbox, self._sleep)
            async with aclosing(run.pages()) as pages:
                async for found in pages:
                    yield found


@dataclass
class _Run:
    client: httpx.AsyncClient
    request: pb.WebCrawl
    limits: CrawlLimits
    sandbox: Sandbox
    sleep: Callable[[float], Awaitable[None]]
    robots: dict[str, Protego] = field(default_factory=dict)
    next_time: dict[str, float] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)

    async def pages(self) -> AsyncGenerator[CrawledPage | CrawlFailure, None]:
        start = link_target(self.request.start_url, "")
        if start is None:
            yield CrawlFailure(self.request.start_url, "INVALID_URL", "not an http or https URL")
            return
        host, taken = urlsplit(start).netloc, 0
        queue: deque[tuple[str, int]] = deque([(start, 0)])
        self.seen.add(start)
        end = time.monotonic() + self.limits.crawl_seconds
        while queue and taken < self.request.max_pages:
            url, depth = queue.popleft()
            if time.monotonic() > end:
                yield CrawlFailure(url, "CRAWL_TIMEOUT", "the crawl took longer than it may")
                return
            try:
                async with asyncio.timeout(self.limits.page_seconds + MAX_DELAY_SECONDS):
                    page = await self._fetch(url, None if depth == 0 else host)
            except _RefusedError as refused:
                if depth == 0 or refused.reason not in _PASSED_OVER:
                    yield CrawlFailure(url, refused.reason, refused.message, refused.status)
                continue
            except TimeoutError:
                yield CrawlFailure(url, "TIMEOUT", "the page took longer than it may")
                continue
            if depth == 0:
                host = urlsplit(page.url).netloc  # a start often leads to another spelling of its host
            elif page.url != url and page.url in self.seen:
                continue
            self.seen.add(page.url)
            if depth < self.request.max_depth and page.mime_type in _PAGES:
                for link in await self._links(page):
                    if self._is_wanted(link, host):
                        self.seen.add(link)
                        queue.append((link, depth + 1))
            if takes(self.request, urlsplit(page.url).path):
                taken += 1
                yield page

    def _is_wanted(self, link: str, host: str) -> bool:
        parts = urlsplit(link)
        return (
            parts.netloc == host
            and link not in self.seen
            and len(self.seen) < MAX_QUEUED_URLS
            and takes(self.request, parts.path)
        )

    async def _links(self, page: CrawledPage) -> Sequence[str]:
        try:
            read = await asyncio.to_thread(self.sandbox.read, "links", page.content)
        except ReadError as error:
            _log.info("links_not_read", reason=error.reason)
            return []
        targets = (link_target(link, page.url) for link in read.text.splitlines())
        return [target for target in targets if target is not None]

    async def _fetch(self, url: str, host: str | None) -> CrawledPage:
        """Follow redirects, each of them checked as the first request is; with a host, only on it."""
        for _ in range(MAX_REDIRECTS + 1):
            robots = await self._robots_of(url)
            if not robots.can_fetch(url, self.limits.user_agent):
                raise _RefusedError("ROBOTS_DISALLOWED", "robots.txt forbids this page")
            await self._wait(url, robots)
            response, content = await self._get(url, self.limits.max_page_bytes)
            if response.is_redirect:
                target = link_target(response.headers["location"], url)
                if target is None:
                    raise _RefusedError("INVALID_REDIRECT", "it redirects to what is no web page")
                if host is not None and urlsplit(target).netloc != host:
                    raise _RefusedError("OTHER_HOST", "it redirects to another host")
                url = target
                continue
            if response.status_code != httpx.codes.OK:
                message = f"the server answered {response.status_code}"
                raise _RefusedError("HTTP_STATUS", message, response.status_code)
            mime_type = response.headers.get("content-type", "text/html").split(";", 1)[0].strip().lower()
            if mime_type not in _TYPES:
                raise _RefusedError("UNSUPPORTED_TYPE", f"{mime_type[:100]} is not a page")
            return CrawledPage(url, content, mime_type)
        raise _RefusedError("TOO_MANY_REDIRECTS", f"more than {MAX_REDIRECTS} redirects")

    async def _get(self, url: str, most: int) -> tuple[httpx.Response, bytes]:
        content = bytearray()
        try:
            async with self.client.stream("GET", url) as response:
                if response.status_code == httpx.codes.OK:
                    unpacked = _Unpacking(response.headers.get_list("content-encoding"), most)
                    async for part in response.aiter_raw(64 * 1024):
                        content += unpacked.feed(part)
        except AddressNotAllowedError as error:
            raise _RefusedError("ADDRESS_NOT_ALLOWED", str(error)) from None
        except httpx.TimeoutException:
            raise _RefusedError("TIMEOUT", "the server did not answer in time") from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise _RefusedError("UNREACHABLE", f"no answer ({type(error).__name__})") from None
        return response, bytes(content)

    async def _robots_of(self, url: str) -> Protego:
        parts = urlsplit(url)
        origin = f"{parts.scheme}://{parts.netloc}"
        if origin not in self.robots:
            self.robots[origin] = Protego.parse(await self._robots_text(f"{origin}/robots.txt"))
        return self.robots[origin]

    async def _robots_text(self, url: str) -> str:
        """Everything is allowed without a robots.txt, nothing while the server fails (RFC 9309)."""
        for _ in range(MAX_REDIRECTS + 1):
            try:
                response, content = await self._get(url, MAX_ROBOTS_BYTES)
            except _RefusedError as refused:
                if refused.reason == "ADDRESS_NOT_ALLOWED":
                    raise
                raise _RefusedError(refused.reason, f"robots.txt: {refused.message}") from None
            if response.is_redirect and (target := link_target(response.headers["location"], url)):
                url = target
                continue
            if response.is_server_error:
                return "User-agent: *\nDisallow: /"
            return content.decode("utf-8", "replace")
        return ""

    async def _wait(self, url: str, robots: Protego) -> None:
        host = urlsplit(url).netloc
        delay = self.request.delay_seconds
        if not self.request.HasField("delay_seconds"):
            delay = robots.crawl_delay(self.limits.user_agent) or DEFAULT_DELAY_SECONDS
        if (pause := self.next_time.get(host, 0.0) - time.monotonic()) > 0:
            await self.sleep(pause)
        self.next_time[host] = time.monotonic() + min(delay, MAX_DELAY_SECONDS)


_PASSED_OVER: Final = {"ROBOTS_DISALLOWED", "UNSUPPORTED_TYPE"}
