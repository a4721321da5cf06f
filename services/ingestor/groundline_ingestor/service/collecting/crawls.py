"""Crawls of sites, whose pages join the crawl's job one by one."""

import asyncio
from contextlib import aclosing
from dataclasses import replace

import structlog
from groundline.v1 import collector_service_pb2, document_pb2
from groundline_extraction.documents import GivenDocument, IngestionError
from groundline_indexing.collections import StoredCollection
from groundline_indexing.inputs import plain_values, restriction
from groundline_indexing.preparation import identify

from groundline_ingestor.adapters.postgres.collecting.crawls import PostgresCrawls
from groundline_ingestor.domain.sources import web_source_of
from groundline_ingestor.domain.work import ItemClaim, OrderedCrawl
from groundline_ingestor.ports import Collector
from groundline_ingestor.service.quotas import Quotas
from groundline_ingestor.service.worker.long_work import CHECK_SECONDS, while_held

_log = structlog.get_logger(__name__)


class Crawling:
    """Use case of leased crawls."""

    def __init__(
        self,
        crawls: PostgresCrawls,
        collector: Collector,
        quotas: Quotas,
        *,
        check_seconds: float = CHECK_SECONDS,
    ) -> None:
        self._crawls = crawls
        self._collector = collector
        self._quotas = quotas
        self._check_seconds = check_seconds

    async def crawl(self, claim: ItemClaim, crawl: OrderedCrawl, collection: StoredCollection) -> None:
        """Crawl the site to its end and end the item. Its lease is the caller's to extend.

        Raises ClaimLostError soon after the item was cancelled, PermissionDeniedError
        (COLLECTION_NOT_WRITABLE) soon after its caller may no longer write, IngestionError (NO_PAGES),
        UnavailableError.
        """
        walk = self._walk(claim, crawl, collection)
        await while_held(walk, claim, self._crawls, self._check_seconds)

    async def _walk(self, claim: ItemClaim, crawl: OrderedCrawl, collection: StoredCollection) -> None:
        pages = failures = 0
        start = collector_service_pb2.CollectStart(
            source=web_source_of(crawl.request, collection.collection_id),
            private_addresses=collection.settings.crawl.allow_private_addresses,
        )
        async with aclosing(self._collector.changes(start)) as batches:
            async for batch in batches:
                for change in batch.changes:
                    if change.HasField("unreadable"):
                        unreadable = change.unreadable
                        await self._crawls.add_failure(claim, unreadable.uri, unreadable.failure)
                        failures += 1
                found = [number for number, one in enumerate(batch.changes) if one.HasField("found")]
                async with aclosing(batch.load(found)) as documents:
                    async for one, given in documents:
                        if isinstance(given, GivenDocument):
                            await self._take(claim, crawl, collection, given)
                            pages += 1
                        else:
                            await self._crawls.add_failure(claim, one.uri, given)
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
        self, claim: ItemClaim, crawl: OrderedCrawl, collection: StoredCollection, given: GivenDocument
    ) -> None:
        given = replace(
            given,
            metadata=plain_values(crawl.request.metadata),
            allowed_principals=restriction(crawl.request.allowed_principals),
        )
        page = await asyncio.to_thread(identify, given, collection)
        version = page.version
        if crawl.is_dry_run:
            await self._crawls.add_preview(claim, version)
            return
        await self._quotas.require_room(collection.collection_id, {version.uri: version.size_bytes})
        await self._crawls.add_page(claim, collection, page)
