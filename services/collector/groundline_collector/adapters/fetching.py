"""Requests to web servers, polite and bounded: robots.txt is obeyed, and a host has one request at a time,
with a pause after it."""

import asyncio
import time
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final
from urllib.parse import urlsplit

import httpx
from groundline.v1 import collector_service_pb2 as pb
from groundline_validation import page_address
from protego import Protego

from groundline_collector.adapters.addresses import AddressNotAllowedError
from groundline_collector.pages import conditions

MAX_REDIRECTS: Final = 5
MAX_ROBOTS_BYTES: Final = 512 * 1024
"""Maximum bytes of robots.txt that are read; RFC 9309 asks crawlers for at least as many."""
MAX_DELAY_SECONDS: Final = 60.0
DEFAULT_DELAY_SECONDS: Final = 1.0
MAX_RETRY_AFTER_SECONDS: Final = 120.0
"""Maximum pause that a server may ask for, in seconds; one that asks for more is left alone for now."""
MAX_ATTEMPTS: Final = 3

_BUSY: Final = (httpx.codes.TOO_MANY_REQUESTS, httpx.codes.SERVICE_UNAVAILABLE)
_FOR_NOW: Final = ("CRAWL_TIMEOUT", "SOURCE_UNREACHABLE")


@dataclass(frozen=True, slots=True)
class CrawlLimits:
    """Limits of one crawl. `max_page_bytes` counts unpacked bytes."""

    user_agent: str = "groundline"
    max_page_bytes: int = 16 * 1024**2
    page_seconds: float = 60.0
    crawl_seconds: float = 4 * 3600.0


class RefusedError(Exception):
    """A page cannot be had, for a reason in UPPER_SNAKE; `status` is the server's, if it answered.
    `is_unwelcome`: the server wants to be left alone."""

    def __init__(self, reason: str, message: str, status: int = 0, *, is_unwelcome: bool = False) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.status = status
        self.is_unwelcome = is_unwelcome

    @property
    def is_for_now(self) -> bool:
        """Whether the same request may succeed another time."""
        is_server_error = self.status >= httpx.codes.INTERNAL_SERVER_ERROR
        busy = (httpx.codes.REQUEST_TIMEOUT, httpx.codes.TOO_MANY_REQUESTS)
        return self.reason in _FOR_NOW or is_server_error or self.status in busy


@dataclass(frozen=True, slots=True)
class Fetched:
    """A response, behind redirects; without content if it has not changed since it was last seen."""

    url: str
    headers: httpx.Headers
    content: bytes
    unchanged: pb.SeenPage | None = None


class Hosts:
    """Turns at hosts, for all crawls of this process."""

    def __init__(self) -> None:
        self._hosts: dict[str, _Host] = {}

    @asynccontextmanager
    async def turn(
        self, host: str, sleep: Callable[[float], Awaitable[None]]
    ) -> AsyncGenerator["_Host", None]:
        """Wait until nobody else asks the host and its pause is over; hold it for one request."""
        now = time.monotonic()
        for name, one in list(self._hosts.items()):
            if not one.lock.locked() and one.next_time < now:
                del self._hosts[name]
        found = self._hosts.setdefault(host, _Host())
        async with found.lock:
            if (pause := found.next_time - time.monotonic()) > 0:
                await sleep(pause)
            found.next_time = 0.0
            yield found


@dataclass(slots=True)
class _Host:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    next_time: float = 0.0

    def pause(self, seconds: float) -> None:
        self.next_time = max(self.next_time, time.monotonic() + seconds)


class Fetcher:
    """Requests of one crawl."""

    def __init__(
        self,
        client: httpx.AsyncClient,
        limits: CrawlLimits,
        hosts: Hosts,
        *,
        delay_seconds: float | None,
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        """Take client and limits. `delay_seconds`: pause between two requests to a host; None: as robots.txt
        asks, else a second."""
        self._client = client
        self._limits = limits
        self._hosts = hosts
        self._delay_seconds = delay_seconds
        self._sleep = sleep
        self._robots: dict[str, Protego] = {}

    async def fetch(
        self,
        url: str,
        *,
        max_bytes: int,
        host: str | None = None,
        recall: Callable[[str], Awaitable[pb.SeenPage | None]] | None = None,
    ) -> Fetched:
        """Follow redirects, each of them checked as the first request is; with a host, only on it.

        `recall` returns an address's last seen state. Raises RefusedError.
        """
        for _ in range(MAX_REDIRECTS + 1):
            robots = await self.robots_of(url)
            if not robots.can_fetch(url, self._limits.user_agent):
                raise RefusedError("ROBOTS_DISALLOWED", "robots.txt forbids this page")
            earlier = await recall(url) if recall else None
            headers: Mapping[str, str] = {}
            if earlier and earlier.is_current:
                headers = conditions(earlier.etag, earlier.last_modified)
            response, content = await self._polite(url, robots, headers, max_bytes)
            if response.has_redirect_location:
                target = page_address(response.headers["location"], url)
                if target is None:
                    raise RefusedError(
                        "INVALID_REDIRECT", "it redirects to an address that is not a web page"
                    )
                if host is not None and urlsplit(target).netloc != host:
                    raise RefusedError("OTHER_HOST", "it redirects to another host")
                url = target
                continue
            if response.status_code == httpx.codes.NOT_MODIFIED and headers:
                return Fetched(url, response.headers, b"", unchanged=earlier)
            if response.status_code != httpx.codes.OK:
                message = f"the server answered {response.status_code}"
                raise RefusedError("HTTP_STATUS", message, response.status_code)
            return Fetched(url, response.headers, content)
        raise RefusedError("TOO_MANY_REDIRECTS", f"more than {MAX_REDIRECTS} redirects")

    async def robots_of(self, url: str) -> Protego:
        """Return the rules of a URL's server, which are read once. Raises RefusedError."""
        parts = urlsplit(url)
        origin = f"{parts.scheme}://{parts.netloc}"
        if origin not in self._robots:
            self._robots[origin] = Protego.parse(await self._robots_text(f"{origin}/robots.txt"))
        return self._robots[origin]

    async def _robots_text(self, url: str) -> str:
        """Read robots.txt: without one everything is allowed; while the server fails, nothing is known (RFC
        9309)."""
        for _ in range(MAX_REDIRECTS + 1):
            try:
                async with self._hosts.turn(urlsplit(url).netloc, self._sleep):
                    response, content = await self._get(url, {}, MAX_ROBOTS_BYTES)
            except RefusedError as refused:
                if refused.reason == "ADDRESS_NOT_ALLOWED":
                    raise
                raise RefusedError(refused.reason, f"robots.txt: {refused.message}") from None
            if response.has_redirect_location and (target := page_address(response.headers["location"], url)):
                url = target
                continue
            if response.is_server_error or response.status_code == httpx.codes.TOO_MANY_REQUESTS:
                message = f"robots.txt: the server answered {response.status_code}"
                raise RefusedError("HTTP_STATUS", message, response.status_code)
            return content.decode("utf-8", "replace")
        return ""

    async def _polite(
        self, url: str, robots: Protego, headers: Mapping[str, str], max_bytes: int
    ) -> tuple[httpx.Response, bytes]:
        """Return the response, after the wait that the server asks for."""
        delay = self._delay_seconds
        if delay is None:
            delay = robots.crawl_delay(self._limits.user_agent) or DEFAULT_DELAY_SECONDS
        for attempt in range(MAX_ATTEMPTS):
            async with self._hosts.turn(urlsplit(url).netloc, self._sleep) as host:
                try:
                    response, content = await self._get(url, headers, max_bytes)
                finally:
                    host.pause(min(delay, MAX_DELAY_SECONDS))
                seconds = _retry_after(response) if response.status_code in _BUSY else None
                if seconds is None:
                    break
                host.pause(min(seconds, MAX_RETRY_AFTER_SECONDS))
            if seconds > MAX_RETRY_AFTER_SECONDS or attempt == MAX_ATTEMPTS - 1:
                message = f"the server answered {response.status_code} and asks for {seconds:.0f} seconds"
                raise RefusedError("HTTP_STATUS", message, response.status_code, is_unwelcome=True)
        return response, content

    async def _get(
        self, url: str, headers: Mapping[str, str], max_bytes: int
    ) -> tuple[httpx.Response, bytes]:
        content = bytearray()
        try:
            async with (
                asyncio.timeout(self._limits.page_seconds),
                self._client.stream("GET", url, headers=dict(headers)) as response,
            ):
                if response.status_code == httpx.codes.OK:
                    unpacking = _Unpacking(response.headers.get_list("content-encoding"), max_bytes)
                    async for part in response.aiter_raw(64 * 1024):
                        content += unpacking.feed(part)
        except AddressNotAllowedError as error:
            raise RefusedError("ADDRESS_NOT_ALLOWED", str(error)) from None
        except (httpx.TimeoutException, TimeoutError):
            raise RefusedError("CRAWL_TIMEOUT", "the server did not answer in time") from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise RefusedError("SOURCE_UNREACHABLE", f"no answer ({type(error).__name__})") from None
        return response, bytes(content)


def unpacked(content: bytes, max_bytes: int) -> bytes:
    """Unpack a file that may be compressed by gzip. Raises RefusedError."""
    return _Unpacking(["gzip"], max_bytes).feed(content) if content.startswith(b"\x1f\x8b") else content


class _Unpacking:
    """A body as it arrives, unpacked up to its maximum. httpx would unpack as many layers as it states."""

    def __init__(self, encodings: Sequence[str], most: int) -> None:
        """Take the encodings and the maximum. Raises RefusedError for any but one gzip."""
        named = [name for value in encodings for name in value.lower().replace(" ", "").split(",")]
        packings = [name for name in named if name not in {"", "identity"}]
        if packings not in ([], ["gzip"], ["x-gzip"]):
            raise RefusedError("INVALID_ENCODING", "it is packed otherwise than once by gzip")
        # gzip with its header, whose window may be as large as any.
        self._gzip = zlib.decompressobj(16 + zlib.MAX_WBITS) if packings else None
        self._most = most
        self._taken = 0
        self._left = most

    def feed(self, part: bytes) -> bytes:
        """Return the part's share of the body. Raises RefusedError with PAGE_TOO_LARGE or
        INVALID_ENCODING."""
        self._taken += len(part)
        try:
            unpacked = self._gzip.decompress(part, self._left + 1) if self._gzip else part
        except zlib.error:
            raise RefusedError("INVALID_ENCODING", "it is not packed by gzip, as it says") from None
        self._left -= len(unpacked)
        # A body that unpacks to nothing must not go on for ever either.
        if self._left < 0 or self._taken > self._most:
            raise RefusedError("PAGE_TOO_LARGE", f"more than {self._most} bytes")
        return unpacked


def _retry_after(response: httpx.Response) -> float | None:
    """Return the seconds that a server asks for, or None."""
    text = response.headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())
