"""Crawls: a site is walked, and what is found joins the crawl's job page by page."""

import asyncio
from contextlib import aclosing
from dataclasses import replace
from functools import partial

import structlog
from groundline.v1 import document_pb2
from groundline_runtime.reasons import reason_value

from groundline_ingestor.crawling import CrawledPage, CrawlFailure
from groundline_ingestor.domain.collections import StoredCollection
from groundline_ingestor.domain.documents import IngestionError, restriction
from groundline_ingestor.domain.metadata import plain_values
from groundline_ingestor.domain.work import ItemClaim, OrderedCrawl
from groundline_ingestor.ports import Crawler, CrawlRepository, HandedIn
from groundline_ingestor.service.long_work import CHECK_SECONDS, while_held
from groundline_ingestor.service.preparation import identify
from groundline_ingestor.service.quotas import Quotas

__all__ = ["Crawling"]

_log = structlog.get_logger(__name__)


class Crawling:
    """Does crawls that were leased."""

    def __init__(
        self,
        crawls: CrawlRepository,
        crawler: Crawler,
        quotas: Quotas,
        *,
        allow_private_addresses: bool,
        check_seconds: float = CHECK_SECONDS,
    ) -> None:
        """`allow_private_addresses`: whether collections may allow them."""
        self._crawls = crawls
        self._crawler = crawler
        self._quotas = quotas
        self._allow_private_addresses = allow_private_addresses
        self._check_seconds = check_seconds

    async def crawl(self, claim: ItemClaim, crawl: OrderedCrawl, collection: StoredCollection) -> None:
        """Walk the site to its end and end the item. Its lease is the caller's to extend.

        Raises ClaimLostError soon after the item was cancelled, IngestionError (NO_PAGES), UnavailableError.
        """
        allowed = collection.settings.crawl.allow_private_addresses and self._allow_private_addresses
        walk = self._walk(claim, crawl, collection, private_addresses=allowed)
        await while_held(walk, claim, self._crawls, self._check_seconds)

    async def _walk(
        self,
        claim: ItemClaim,
        crawl: OrderedCrawl,
        collection: StoredCollection,
        *,
        private_addresses: bool,
    ) -> None:
        request = crawl.request
        pages = failures = 0
        said = partial(
            replace,
            metadata=plain_values(request.metadata),
            allowed_principals=restriction(request.allowed_principals),
        )
        async with aclosing(self._crawler.crawl(request, private_addresses=private_addresses)) as found:
            async for one in found:
                if isinstance(one, CrawledPage) and one.is_indexed:
                    page = await asyncio.to_thread(identify, said(one.document()), collection)
                    await self._take(claim, crawl, collection, page)
                    pages += 1
                elif isinstance(one, CrawlFailure):
                    failure = document_pb2.IngestionFailure(
                        stage=document_pb2.INGESTION_STATE_EXTRACTING,
                        reason=reason_value(one.reason),
                        message=one.message,
                    )
                    await self._crawls.add_failure(claim, one.url, failure)
                    failures += 1
        if not pages and not failures:
            raise IngestionError(
                document_pb2.INGESTION_STATE_EXTRACTING,
                "NO_PAGES",
                "the site was walked, but no page of it has a path that is to be included and may be indexed",
            )
        await self._crawls.finish(claim)
        _log.info(
            "site_crawled",
            job_id=claim.job_id,
            pages=pages,
            failures=failures,
            is_dry_run=crawl.is_dry_run,
        )

    async def _take(
        self, claim: ItemClaim, crawl: OrderedCrawl, collection: StoredCollection, page: HandedIn
    ) -> None:
        _, version = page
        if crawl.is_dry_run:
            await self._crawls.add_preview(claim, version)
            return
        await self._quotas.require_room(collection.collection_id, version.uri, version.size_bytes)
        await self._crawls.add_page(claim, collection, page)
