"""Entries of an RSS or Atom feed."""

import asyncio
import hashlib
import html
import json
import time
from collections.abc import Generator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

import urllib3
from groundline.v1 import error_pb2, passage_pb2, source_pb2
from groundline_extraction.readers.common import Hints, ReadError
from urllib3.exceptions import HTTPError, MaxRetryError, ResponseError

from groundline_collector.adapters.addresses import AddressNotAllowedError
from groundline_collector.adapters.sources.common import (
    INTERFACE_VERSION,
    TRANSIENT_STATUSES,
    Run,
    SourceKind,
    host_of,
    not_allowed,
    refused,
    unreachable,
)
from groundline_collector.changes import Change, Found, LoadedDocument, not_had, reached
from groundline_collector.pages import conditions

MAX_FEED_BYTES: Final = 16 * 1024**2
"""Maximum bytes of a feed, unpacked."""
MAX_REDIRECTS: Final = 5
_PART: Final = 1 << 16
_ACCEPTED: Final = "application/atom+xml, application/rss+xml, application/xml;q=0.9, */*;q=0.1"
_OK: Final = 200
_NOT_MODIFIED: Final = 304
_WEB: Final = ("http", "https")

PAUSE_SECONDS: Final = 1.0
"""Pause between two pages that entries link to, in seconds."""


class _LinkedPages:
    """Pages as a crawl of each alone reads them."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._next_time = 0.0

    def read(self, url: str) -> LoadedDocument:
        """Return the page at an address; blocks. Raises IngestionError where it cannot be had."""
        return self._run.thread.wait_for(self._read(url))

    async def _read(self, url: str) -> LoadedDocument:
        await asyncio.sleep(max(0.0, self._next_time - time.monotonic()))
        self._next_time = time.monotonic() + PAUSE_SECONDS
        page = source_pb2.DocumentSource(
            collection_id=self._run.source.collection_id,
            web=source_pb2.WebSource(start_url=url, max_pages=1, max_depth=0),
        )
        crawl = self._run.crawler().crawl(page, private_addresses=self._run.private_addresses)
        async with aclosing(crawl) as found:
            async for change in found:
                if isinstance(change, Found):
                    return change.load()
                if change.HasField("unreadable"):
                    failure = change.unreadable.failure
                    raise not_had(error_pb2.ErrorReason.Name(failure.reason), failure.message)
        raise not_had("ROBOTS_DISALLOWED", "the page asks to be left out")


@dataclass(frozen=True, slots=True)
class _Feed:
    """A feed as it was served. `url`: address behind redirects. `cursor`: headers of a request for it if it
    has changed."""

    url: str
    content: bytes
    mime_type: str
    cursor: str


def changes(run: Run) -> Generator[Change]:
    """Yield the entries that the feed shows now, an entry's version being a hash of its fields; none if the
    server says that the feed is the cursor's. Blocks.

    Raises UnavailableError (SOURCE_UNREACHABLE), FailedPreconditionError (SOURCE_REFUSED,
    ADDRESS_NOT_ALLOWED).
    """
    described, pool = run.source.feed, run.pool()
    host = host_of(described.url)
    try:
        feed = _fetched(run, pool)
        if feed is None:
            return
        read = run.sandbox.read(
            "web.feed", feed.content, Hints(feed.mime_type), client=run.source.collection_id
        )
        entries = json.loads(read.text)
        pages = _LinkedPages(run) if described.linked_pages else None
        uris = set[str]()
        for entry in entries:
            link = _page_of(entry, feed.url)
            uri = f"{described.url}#{entry['id'] or link or entry['title']}"
            if link and (pages or _is_own(link, feed.url, run.source.uri_prefix)):
                uri = link
            if uri in uris or not run.takes(urlsplit(link or uri).path or "/"):
                continue
            if link and link != uri:
                entry["metadata"]["link"] = link
            uris.add(uri)
            version = hashlib.sha256(json.dumps(entry, sort_keys=True).encode()).hexdigest()
            load = partial(_document, entry, uri, pages if link else None)
            yield Found(uri, version, load, held_bytes=len(entry["html"]))
        # Entries that a feed no longer shows have not been deleted.
        yield reached(feed.cursor, is_complete=False)
    except ReadError as error:
        raise refused(f"{host} serves no feed that can be read: {error.message}") from None
    except AddressNotAllowedError as error:
        raise not_allowed(error) from None
    except MaxRetryError as error:
        if isinstance(error.reason, ResponseError):
            raise refused(f"{host} redirects more than {MAX_REDIRECTS} times") from None
        raise unreachable(host) from None
    except (HTTPError, ValueError):
        raise unreachable(host) from None
    finally:
        pool.clear()


def _fetched(run: Run, pool: urllib3.PoolManager) -> _Feed | None:
    """Fetch the feed; return None if it is still the cursor's."""
    feed, password = run.source.feed, run.secret(run.source.feed.password_secret)
    headers = {"User-Agent": run.settings.user_agent, "Accept": _ACCEPTED, "Accept-Encoding": "gzip"}
    if run.start.cursor:
        headers |= json.loads(run.start.cursor)
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
    if response.status in TRANSIENT_STATUSES:
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


def _document(entry: Mapping[str, Any], uri: str, pages: _LinkedPages | None) -> LoadedDocument:
    """Return the entry, or the page that it links to, by the entry's address."""
    if pages is not None:
        page = pages.read(uri)
        content, mime_type = page.content, page.mime_type
    else:
        title = html.escape(entry["title"])
        text = (
            f'<!doctype html><meta charset="utf-8"><title>{title}</title>'
            f"<body><h1>{title}</h1>{entry['html']}</body>"
        )
        content, mime_type = (text.encode("utf-8", "replace"),), "text/html"
    return LoadedDocument(
        uri,
        content,
        title=entry["title"],
        mime_type=mime_type,
        source_type=passage_pb2.SOURCE_TYPE_WEB,
        metadata=entry["metadata"],
    )


def _is_own(link: str, feed_url: str, prefix: str) -> bool:
    """Tell whether what a feed says may be stored as the page of an address: one of its own host, or one that
    the source names. Otherwise any feed could speak for any site."""
    return urlsplit(link).netloc == urlsplit(feed_url).netloc or bool(prefix and link.startswith(prefix))


def _page_of(entry: Mapping[str, Any], base: str) -> str:
    """Return the address of the page that an entry links to, or ""."""
    try:
        link = urljoin(base, entry["link"]) if entry["link"] else ""
        parts = urlsplit(link)
        is_page = parts.scheme in _WEB and bool(parts.hostname) and parts.username is None
    except ValueError:
        return ""
    return link if is_page else ""


KIND: Final = SourceKind(
    interface_version=INTERFACE_VERSION, changes=changes, secret_host=lambda feed: host_of(feed.url)
)
