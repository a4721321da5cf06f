"""A web site, and crawls of it."""

from collections.abc import Iterator
from typing import Any

import pytest
from groundline_collector.adapters.crawling import HttpCrawler
from groundline_collector.adapters.fetching import CrawlLimits
from groundline_collector.changes import Found
from groundline_extraction.readers.common import ReaderLimits
from groundline_extraction.sandbox import Sandbox
from groundline_tests.collector import LIMITS, Crawl, MemorySeenPages, Names, Site, reason, web
from groundline_tests.http_server import listening


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    with listening(site.handler) as url:
        site.port = int(url.rpartition(":")[2])
        site.url = f"http://site.test:{site.port}"
        yield site


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(ReaderLimits()) as sandbox:
        yield sandbox


@pytest.fixture
def crawl(sandbox: Sandbox) -> Crawl:
    async def run(
        start_url: str,
        *,
        names: Names | None = None,
        limits: CrawlLimits = LIMITS,
        pauses: list[float] | None = None,
        private_addresses: bool = True,
        seen: MemorySeenPages | None = None,
        **request: Any,
    ) -> tuple[list[str], dict[str, str]]:
        """Return urls of the pages in their order, and reasons of failures by url."""

        async def pause(seconds: float) -> None:
            if pauses is not None:
                pauses.append(seconds)

        crawler = HttpCrawler(sandbox, limits, resolve=names or Names(site_test=["127.0.0.1"]), sleep=pause)
        pages: list[str] = []
        failures: dict[str, str] = {}
        asked = web(start_url, **request)
        async for change in crawler.crawl(asked, private_addresses=private_addresses, pages=seen):
            if isinstance(change, Found):
                pages.append(change.uri)
            elif change.HasField("present"):
                pages.append(f"={change.present}")
            elif change.HasField("unreadable"):
                failures[change.unreadable.uri] = reason(change)
            elif change.HasField("gone"):
                failures.setdefault(change.gone, "(not indexed)")
        return pages, failures

    return run
