"""Entries of an RSS or Atom feed."""

import asyncio
import hashlib
import html
import json
from collections.abc import Generator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

import urllib3
from groundline.v1 import ingestor_service_pb2 as pb
from groundline.v1 import passage_pb2, source_pb2
from groundline_runtime.errors import FailedPreconditionError
from urllib3.exceptions import HTTPError, MaxRetryError, ResponseError

from groundline_ingestor.adapters.addresses import AddressNotAllowedError
from groundline_ingestor.adapters.extraction.readers.common import Hints, ReadError
from groundline_ingestor.adapters.extraction.sandbox import Sandbox
from groundline_ingestor.adapters.sources.common import host_of, not_had, refused, unreachable
from groundline_ingestor.crawling import CrawledPage, CrawlFailure, conditions
from groundline_ingestor.domain.documents import GivenDocument
from groundline_ingestor.domain.sources import Change, Found, Reached, takes_path
from groundline_ingestor.ports import Crawler

__all__ = ["LinkedPages", "feed_changes"]

MAX_FEED_BYTES: Final = 16 * 1024**2
"""Unpacked."""
MAX_REDIRECTS: Final = 5
_PART: Final = 1 << 16
_ACCEPTED: Final = "application/atom+xml, application/rss+xml, application/xml;q=0.9, */*;q=0.1"
_OK: Final = 200
_NOT_MODIFIED: Final = 304
_PASSING: Final = (408, 425, 429, *range(500, 600))
"""Statuses of a server that may answer otherwise later."""
_WEB: Final = ("http", "https")

PAUSE_SECONDS: Final = 1.0
"""Between two pages that entries link to."""


class LinkedPages:
    """Pages as a crawl of each alone reads them. Made in the event loop, used from threads."""

    def __init__(self, crawler: Crawler, *, private_addresses: bool) -> None:
        self._crawler = crawler
        self._private_addresses = private_addresses
        self._loop = asyncio.get_running_loop()
        self._next_time = 0.0

    def read(self, url: str) -> GivenDocument:
        """Blocks. Raises IngestionError where the page cannot be had."""
        return asyncio.run_coroutine_threadsafe(self._read(url), self._loop).result()

    async def _read(self, url: str) -> GivenDocument:
        await asyncio.sleep(max(0.0, self._next_time - self._loop.time()))
        self._next_time = self._loop.time() + PAUSE_SECONDS
        crawl = pb.WebCrawl(start_url=url, max_pages=1, max_depth=0)
        async with aclosing(self._crawler.crawl(crawl, private_addresses=self._private_addresses)) as pages:
            async for page in pages:
                if isinstance(page, CrawlFailure):
                    raise not_had(page.reason, page.message)
                if isinstance(page, CrawledPage) and page.is_indexed:
                    return page.document()
        raise not_had("ROBOTS_DISALLOWED", "the page asks to be left out")


@dataclass(frozen=True)
class _Feed:
    """A feed as it was served. `url`: where redirects led. `cursor`: the headers of a request for it if it
    has changed."""

    url: str
    content: bytes
    mime_type: str
    cursor: str


def feed_changes(
    source: source_pb2.DocumentSource,
    pool: urllib3.PoolManager,
    sandbox: Sandbox,
    *,
    cursor: str,
    password: str | None,
    user_agent: str,
    pages: LinkedPages,
) -> Generator[Change]:
    """The entries that the feed shows now, an entry's version being a hash of all that it says; nothing where
    the server says that the feed is the cursor's. Blocks.

    The pool is closed at the end. Raises UnavailableError (SOURCE_UNREACHABLE), FailedPreconditionError
    (SOURCE_REFUSED, ADDRESS_NOT_ALLOWED).
    """
    host = host_of(source.feed.url)
    try:
        feed = _fetched(source.feed, pool, cursor=cursor, password=password, user_agent=user_agent)
        if feed is None:
            return
        entries = json.loads(sandbox.read("feed", feed.content, Hints(feed.mime_type)).text)
        uris = set[str]()
        for entry in entries:
            link = _page_of(entry, feed.url)
            uri = link or f"{source.feed.url}#{entry['id'] or entry['title']}"
            if uri in uris or not takes_path(source, urlsplit(uri).path or "/"):
                continue
            uris.add(uri)
            version = hashlib.sha256(json.dumps(entry, sort_keys=True).encode()).hexdigest()
            is_read = source.feed.linked_pages and bool(link)
            load = partial(_document, entry, uri, pages if is_read else None)
            yield Found(uri, version, load, held_bytes=len(entry["html"]))
        # What a feed no longer shows has not gone.
        yield Reached(feed.cursor, is_complete=False)
    except ReadError as error:
        raise refused(f"{host} serves no feed that can be read: {error.message}") from None
    except AddressNotAllowedError as error:
        raise FailedPreconditionError("ADDRESS_NOT_ALLOWED", str(error)) from None
    except MaxRetryError as error:
        if isinstance(error.reason, ResponseError):
            raise refused(f"{host} redirects more than {MAX_REDIRECTS} times") from None
        raise unreachable(host) from None
    except (HTTPError, ValueError):
        raise unreachable(host) from None
    finally:
        pool.clear()


def _fetched(
    feed: source_pb2.FeedSource,
    pool: urllib3.PoolManager,
    *,
    cursor: str,
    password: str | None,
    user_agent: str,
) -> _Feed | None:
    """None where it is still the cursor's."""
    headers = {"User-Agent": user_agent, "Accept": _ACCEPTED, "Accept-Encoding": "gzip"}
    if cursor:
        headers |= json.loads(cursor)
    if password is not None:
        # They do not follow to another host: urllib3 leaves them out there.
        headers |= urllib3.util.make_headers(basic_auth=f"{feed.username}:{password}")
    response = pool.request(
        "GET",
        feed.url,
        headers=headers,
        preload_content=False,
        retries=urllib3.Retry(connect=2, read=2, redirect=MAX_REDIRECTS, backoff_factor=0.5),
    )
    if response.status == _NOT_MODIFIED:
        return None
    host = host_of(feed.url)
    if response.status in _PASSING:
        raise unreachable(host)
    if response.status != _OK:
        raise refused(f"{host} answered {response.status}")
    content = bytearray()
    for part in response.stream(_PART, decode_content=True):
        content += part
        if len(content) > MAX_FEED_BYTES:
            raise refused(f"the feed has more than {MAX_FEED_BYTES} bytes")
    url = urljoin(feed.url, response.geturl() or "")
    return _Feed(
        url,
        bytes(content),
        response.headers.get("content-type", ""),
        json.dumps(conditions(response.headers.get("etag", ""), response.headers.get("last-modified", ""))),
    )


def _document(entry: Mapping[str, Any], uri: str, pages: LinkedPages | None) -> GivenDocument:
    """The entry, or the page that it links to, by the entry's address."""
    if pages is not None:
        page = pages.read(uri)
        content, mime_type = page.content, page.mime_type
    else:
        title = html.escape(entry["title"])
        content = (
            f'<!doctype html><meta charset="utf-8"><title>{title}</title>'
            f"<body><h1>{title}</h1>{entry['html']}</body>"
        ).encode()
        mime_type = "text/html"
    return GivenDocument(
        content=content,
        uri=uri,
        title=entry["title"],
        mime_type=mime_type,
        source_type=passage_pb2.SOURCE_TYPE_WEB,
        metadata=entry["metadata"],
    )


def _page_of(entry: Mapping[str, Any], base: str) -> str:
    """The address of the page that an entry links to; empty where it links to none."""
    try:
        link = urljoin(base, entry["link"]) if entry["link"] else ""
        parts = urlsplit(link)
        is_page = parts.scheme in _WEB and bool(parts.hostname) and parts.username is None
    except ValueError:
        return ""
    return link if is_page else ""
