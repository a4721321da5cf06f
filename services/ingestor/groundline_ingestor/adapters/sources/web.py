"""Pages of a web site."""

import hashlib
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from groundline.v1 import ingestor_service_pb2 as pb
from groundline.v1 import source_pb2

from groundline_ingestor.crawling import CrawledPage, effective_crawl
from groundline_ingestor.domain.sources import Change, Found, Gone, Reached, Unreadable
from groundline_ingestor.ports import Crawler

__all__ = ["web_changes"]

_GONE: Final = (404, 410)


async def web_changes(
    source: source_pb2.DocumentSource, crawler: Crawler, *, private_addresses: bool
) -> AsyncGenerator[Change, None]:
    """The pages that links lead to from the start; a page's version is a hash of its content.

    What was not found has gone, unless a page failed or there were more pages than may be: other pages could
    then not be found either.
    """
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
    crawl = effective_crawl(crawl)
    pages, is_complete = 0, True
    async with aclosing(crawler.crawl(crawl, private_addresses=private_addresses)) as found:
        async for one in found:
            if isinstance(one, CrawledPage):
                pages += 1
                version = hashlib.sha256(one.content).hexdigest()
                yield Found(one.url, version, one.document, held_bytes=len(one.content))
            else:
                yield Unreadable(one.url, one.reason, one.message)
                if one.status in _GONE:
                    yield Gone(one.url)
                else:
                    is_complete = False
    if is_complete and 0 < pages < crawl.max_pages:
        yield Reached("", is_complete=True)
