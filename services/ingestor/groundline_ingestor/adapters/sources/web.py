"""Pages of a web site."""

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing

from groundline.v1 import ingestor_service_pb2 as pb
from groundline.v1 import source_pb2

from groundline_ingestor.crawling import CrawledPage, UnchangedPage, effective_crawl, version_of
from groundline_ingestor.domain.sources import Change, Found, Gone, Present, Reached, Unreadable
from groundline_ingestor.ports import Crawler, SeenPages

__all__ = ["web_changes"]


async def web_changes(
    source: source_pb2.DocumentSource, crawler: Crawler, seen: SeenPages, *, private_addresses: bool
) -> AsyncGenerator[Change, None]:
    """The pages of a site; a page's version is a hash of its content.

    What was not found has gone, unless there may be pages that could not be found: behind one that failed
    before it was ever read, or beyond the maximum.
    """
    crawl = _crawl_of(source)
    begun = time.monotonic()
    pages, is_complete = 0, True
    async with aclosing(crawler.crawl(crawl, private_addresses=private_addresses, seen=seen)) as found:
        async for one in found:
            if isinstance(one, UnchangedPage):
                pages += 1
                yield Present(one.url)
            elif not isinstance(one, CrawledPage):
                yield Unreadable(one.url, one.reason, one.message)
                if one.is_gone:
                    yield Gone(one.url)
                is_complete = is_complete and not one.hides_pages
            elif one.is_indexed:
                pages += 1
                yield Found(one.url, version_of(one.content), one.document, held_bytes=len(one.content))
            else:
                yield Gone(one.url)
    if is_complete and 0 < pages < crawl.max_pages:
        yield Reached("", is_complete=True)
        await seen.forget(unseen_seconds=time.monotonic() - begun)


def _crawl_of(source: source_pb2.DocumentSource) -> pb.WebCrawl:
    web = source.web
    crawl = pb.WebCrawl(
        start_url=web.start_url,
        max_pages=web.max_pages,
        include_paths=source.include_paths,
        exclude_paths=source.exclude_paths,
    )
    if web.HasField("max_depth"):
        crawl.max_depth = web.max_depth
    if web.HasField("delay_seconds"):
        crawl.delay_seconds = web.delay_seconds
    return effective_crawl(crawl)
