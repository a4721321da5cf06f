"""Runs of sources: what the collector finds joins the run's job, and what has gone is deleted."""

import asyncio
import hashlib
import time
from collections.abc import AsyncGenerator, Container
from contextlib import aclosing
from dataclasses import replace
from typing import Final

import structlog
from groundline.v1 import collector_service_pb2, document_pb2, error_pb2
from groundline_extraction.documents import GivenDocument
from groundline_indexing.collections import StoredCollection
from groundline_indexing.inputs import plain_values, restriction
from groundline_indexing.preparation import identify

from groundline_ingestor.adapters.postgres.stores import Stores
from groundline_ingestor.domain.sources import OrderedRun, StoredSource
from groundline_ingestor.domain.work import ClaimLostError, ItemClaim
from groundline_ingestor.ports import Collected, Collector, SeenPages
from groundline_ingestor.service.quotas import Quotas
from groundline_ingestor.service.worker.long_work import while_held

BATCH: Final = 200
"""Documents whose removal is noted at a time."""
RUN_SECONDS: Final = 4 * 3600.0
"""Time after which a run is put off, to go on where it was."""

_log = structlog.get_logger(__name__)


class SourceRuns:
    """Use case of leased runs. A run that another worker began continues at the cursor, and skips the items
    of its job."""

    def __init__(self, stores: Stores, collector: Collector, quotas: Quotas) -> None:
        self._sources = stores.sources
        self._crawls = stores.crawls
        self._collections = stores.collections
        self._seen_pages = stores.seen_pages
        self._collector = collector
        self._quotas = quotas

    async def run(self, claim: ItemClaim, run: OrderedRun, collection: StoredCollection) -> None:
        """Go through the source to its end and end the item. Its lease is the caller's to extend.

        Raises ClaimLostError soon after the item was cancelled, PermissionDeniedError
        (COLLECTION_NOT_WRITABLE) soon after who created the source may no longer write the collection, what
        Collector raises, UnavailableError, IngestionError (QUOTA_EXHAUSTED).
        """
        source = run.source
        pages = self._seen_pages(source.message.source_id)
        async with asyncio.timeout(RUN_SECONDS):
            if run.is_dry_run:
                work = self._preview(claim, source, collection, _OnlyRecalled(pages))
            else:
                work = self._work(claim, source, collection, pages)
            await while_held(work, claim, self._crawls)
        _log.info(
            "source_read",
            source_id=source.message.source_id,
            job_id=claim.job_id,
            is_dry_run=run.is_dry_run,
        )

    def _batches(
        self, source: StoredSource, collection: StoredCollection, pages: SeenPages
    ) -> AsyncGenerator[Collected, None]:
        start = collector_service_pb2.CollectStart(
            source=source.message,
            cursor=source.cursor,
            private_addresses=collection.settings.crawl.allow_private_addresses,
        )
        return self._collector.changes(start, pages)

    async def _work(
        self, claim: ItemClaim, source: StoredSource, collection: StoredCollection, pages: SeenPages
    ) -> None:
        begun = time.monotonic()
        async with aclosing(self._batches(source, collection, pages)) as batches:
            async for batch in batches:
                await self._take(claim, source, collection, batch)
                for reached in (one.reached for one in batch.changes if one.HasField("reached")):
                    await self._reach(claim, source, reached)
                    if reached.is_complete and source.message.HasField("web"):
                        await pages.forget(unseen_seconds=time.monotonic() - begun)
        await self._crawls.finish(claim)

    async def _preview(
        self, claim: ItemClaim, source: StoredSource, collection: StoredCollection, pages: SeenPages
    ) -> None:
        """Do the same, with items that say what would become of what has changed."""
        seen = set[bytes]()
        async with aclosing(self._batches(source, collection, pages)) as batches:
            async for batch in batches:
                await self._fail_unreadable(claim, batch)
                seen.update(map(_digest, _versions(batch)))
                known = await self._sources.known(source, _versions(batch))
                async for given in self._documents(claim, source, batch, known):
                    handed_in = await asyncio.to_thread(identify, given, collection)
                    await self._crawls.add_preview(claim, handed_in.version)
                for one in batch.changes:
                    match one.WhichOneof("kind"):
                        case "gone" if await self._sources.known(source, {one.gone: None}):
                            await self._crawls.add_removal(claim, one.gone)
                        case "reached" if one.reached.is_complete:
                            await self._preview_removals(claim, source, seen)
        await self._crawls.finish(claim)

    async def _preview_removals(self, claim: ItemClaim, source: StoredSource, seen: Container[bytes]) -> None:
        """Note the removal of what was not found where all was to be."""
        after = ""
        while uris := await self._sources.brought(source, after=after, limit=BATCH):
            for uri in uris:
                if _digest(uri) not in seen:
                    await self._crawls.add_removal(claim, uri)
            after = uris[-1]

    async def _take(
        self, claim: ItemClaim, source: StoredSource, collection: StoredCollection, batch: Collected
    ) -> None:
        """Process the finds since the last batch."""
        await self._fail_unreadable(claim, batch)
        unchanged = await self._sources.unchanged(claim, source, _versions(batch))
        versions = {one.found.uri: one.found.version for one in batch.changes if one.HasField("found")}
        async for given in self._documents(claim, source, batch, unchanged):
            handed_in = await asyncio.to_thread(identify, given, collection)
            sizes = {given.uri: handed_in.version.size_bytes}
            await self._quotas.require_room(collection.collection_id, sizes)
            await self._sources.add(claim, source, collection, handed_in, versions[given.uri])
        if gone := [one.gone for one in batch.changes if one.HasField("gone")]:
            current = await self._current(claim, source)
            await self._sources.remove(claim, source, current, gone)

    async def _documents(
        self, claim: ItemClaim, source: StoredSource, batch: Collected, unchanged: Container[str]
    ) -> AsyncGenerator[GivenDocument, None]:
        """Yield the documents that have changed, with what the source says of all; note why others cannot be
        had."""
        wanted = [
            number
            for number, one in enumerate(batch.changes)
            if one.HasField("found") and one.found.uri not in unchanged
        ]
        uris = [batch.changes[number].found.uri for number in wanted]
        foreign = await self._sources.brought_by_others(source, uris)
        for uri in foreign:
            await self._crawls.add_failure(claim, uri, _OF_OTHER_SOURCE)
        wanted = [number for number in wanted if batch.changes[number].found.uri not in foreign]
        async with aclosing(batch.load(wanted)) as documents:
            async for found, given in documents:
                if isinstance(given, GivenDocument):
                    yield _with_what_the_source_says(given, source)
                else:
                    await self._crawls.add_failure(claim, found.uri, given)

    async def _fail_unreadable(self, claim: ItemClaim, batch: Collected) -> None:
        for one in batch.changes:
            if one.HasField("unreadable"):
                await self._crawls.add_failure(claim, one.unreadable.uri, one.unreadable.failure)

    async def _reach(
        self, claim: ItemClaim, source: StoredSource, reached: collector_service_pb2.ReachedPlace
    ) -> None:
        """Delete documents that were not found although all were to be, and store the cursor."""
        if reached.is_complete:
            while await self._sources.remove(claim, source, await self._current(claim, source)):
                pass
        await self._sources.reach(claim, source, reached.cursor)

    async def _current(self, claim: ItemClaim, source: StoredSource) -> StoredCollection:
        """Return the collection in the partition that it has by now."""
        collection = await self._collections.find(source.message.collection_id)
        if collection is None:
            raise ClaimLostError(claim)
        return collection


class _OnlyRecalled:
    """Implements SeenPages; what is seen now is not kept."""

    def __init__(self, pages: SeenPages) -> None:
        self._pages = pages

    async def recall(self, url: str) -> collector_service_pb2.SeenPage | None:
        return await self._pages.recall(url)

    async def note(self, page: collector_service_pb2.SeenPage) -> None:
        pass

    async def forget(self, *, unseen_seconds: float) -> None:
        pass


_OF_OTHER_SOURCE: Final = document_pb2.IngestionFailure(
    stage=document_pb2.INGESTION_STATE_EXTRACTING,
    reason=error_pb2.URI_OF_OTHER_SOURCE,
    message="the collection has a document of this uri that this source has not brought",
)


def _versions(batch: Collected) -> dict[str, str | None]:
    """Return the versions of documents that there are, by uri; None for the one that is known."""
    versions: dict[str, str | None] = {}
    for one in batch.changes:
        match one.WhichOneof("kind"):
            case "present":
                versions.setdefault(one.present, None)  # found in the same batch, it has a version
            case "unreadable":
                versions[one.unreadable.uri] = None
            case "found":
                versions[one.found.uri] = one.found.version
    return versions


def _digest(uri: str) -> bytes:
    """Return what is held in memory of each of the many uris of a source."""
    return hashlib.sha256(uri.encode()).digest()[:16]


def _with_what_the_source_says(given: GivenDocument, source: StoredSource) -> GivenDocument:
    """Return a document with the metadata and readers that the source gives all; its own go before."""
    return replace(
        given,
        metadata=plain_values(source.message.metadata) | dict(given.metadata),
        allowed_principals=restriction(given.allowed_principals or source.message.allowed_principals),
    )
