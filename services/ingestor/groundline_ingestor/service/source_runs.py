"""Runs of sources: what a connector finds joins the run's job, and what has gone is deleted."""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Container, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Final

import structlog
from groundline.v1 import document_pb2
from groundline_runtime.errors import FailedPreconditionError
from groundline_runtime.reasons import reason_value

from groundline_ingestor.domain.collections import StoredCollection, is_writable
from groundline_ingestor.domain.documents import FileContent, GivenDocument, IngestionError, restriction
from groundline_ingestor.domain.metadata import plain_values
from groundline_ingestor.domain.sources import (
    Change,
    Found,
    Gone,
    OrderedRun,
    Present,
    Reached,
    StoredSource,
    Unreadable,
)
from groundline_ingestor.domain.work import ItemClaim
from groundline_ingestor.ports import ClaimLostError, CollectionRepository, Connectors, SourceRepository
from groundline_ingestor.service.long_work import while_held
from groundline_ingestor.service.preparation import identify
from groundline_ingestor.service.quotas import Quotas

__all__ = ["SourceRuns"]

BATCH: Final = 200
"""Documents whose versions are compared at a time."""
BATCH_BYTES: Final = 1024**2
"""Of documents that are in memory before they are compared."""
RUN_SECONDS: Final = 4 * 3600.0
"""After so long a run is put off, to go on where it was."""

_log = structlog.get_logger(__name__)


class SourceRuns:
    """Does runs that were leased. A run that another worker began goes on at the cursor, and passes over what
    its job has."""

    def __init__(
        self,
        sources: SourceRepository,
        collections: CollectionRepository,
        connectors: Connectors,
        quotas: Quotas,
        *,
        allow_private_addresses: bool,
    ) -> None:
        """`allow_private_addresses`: whether collections may allow them."""
        self._sources = sources
        self._collections = collections
        self._connectors = connectors
        self._quotas = quotas
        self._allow_private_addresses = allow_private_addresses

    async def run(self, claim: ItemClaim, run: OrderedRun, collection: StoredCollection) -> None:
        """Go through the source to its end and end the item. Its lease is the caller's to extend.

        Raises ClaimLostError soon after the item was cancelled, what Connectors raise, UnavailableError,
        IngestionError (QUOTA_EXHAUSTED).
        """
        source = run.source
        if not is_writable(collection.message, source.principals):
            raise FailedPreconditionError(
                "COLLECTION_NOT_WRITABLE", "who created the source may no longer write the collection"
            )
        async with asyncio.timeout(RUN_SECONDS):
            work = self._preview if run.is_dry_run else self._work
            await while_held(work(claim, source, collection), claim, self._sources)

    def _changes(
        self, source: StoredSource, collection: StoredCollection, *, is_dry_run: bool = False
    ) -> AsyncGenerator[Change, None]:
        allowed = collection.settings.crawl.allow_private_addresses and self._allow_private_addresses
        return self._connectors.changes(source, private_addresses=allowed, is_dry_run=is_dry_run)

    async def _work(self, claim: ItemClaim, source: StoredSource, collection: StoredCollection) -> None:
        batch: list[Change] = []
        held = 0
        async with aclosing(self._changes(source, collection)) as changes:
            async for change in changes:
                batch.append(change)
                held += change.held_bytes if isinstance(change, Found) else 0
                if len(batch) == BATCH or held > BATCH_BYTES or isinstance(change, Reached):
                    await self._take(claim, source, collection, batch)
                    batch, held = [], 0
                if isinstance(change, Reached):
                    await self._reach(claim, source, change)
        await self._take(claim, source, collection, batch)
        await self._sources.finish(claim)
        _log.info("source_read", source_id=source.message.source_id, job_id=claim.job_id, is_dry_run=False)

    async def _preview(self, claim: ItemClaim, source: StoredSource, collection: StoredCollection) -> None:
        """The same, with items that say what would become of what has changed."""
        seen = set[bytes]()
        async with aclosing(self._changes(source, collection, is_dry_run=True)) as changes:
            async for change in changes:
                match change:
                    case Found():
                        seen.add(_digest(change.uri))
                        await self._preview_of(claim, source, collection, change)
                    case Present():
                        seen.add(_digest(change.uri))
                    case Unreadable():
                        seen.add(_digest(change.uri))
                        await self._fail(claim, change)
                    case Gone() if await self._sources.known(source, {change.uri: None}):
                        await self._sources.add_removal(claim, change.uri)
                    case Reached(is_complete=True):
                        await self._preview_removals(claim, source, seen)
        await self._sources.finish(claim)
        _log.info("source_read", source_id=source.message.source_id, job_id=claim.job_id, is_dry_run=True)

    async def _preview_of(
        self, claim: ItemClaim, source: StoredSource, collection: StoredCollection, found: Found
    ) -> None:
        if await self._sources.known(source, {found.uri: found.version}):
            return
        if await self._sources.owned_by_others(source, [found.uri]):
            await self._fail(claim, _of_other_source(found.uri))
            return
        try:
            given = await asyncio.to_thread(found.load)
        except IngestionError as error:
            await self._sources.add_failure(claim, found.uri, error.failure)
            return
        try:
            given = _with_what_the_source_says(given, source)
            _, version = await asyncio.to_thread(identify, given, collection)
            await self._sources.add_preview(claim, version)
        finally:
            if isinstance(given.content, FileContent):
                given.content.file.close()

    async def _preview_removals(self, claim: ItemClaim, source: StoredSource, seen: Container[bytes]) -> None:
        """Of what was not found where all was to be."""
        after = ""
        while uris := await self._sources.brought(source, after=after, limit=BATCH):
            for uri in uris:
                if _digest(uri) not in seen:
                    await self._sources.add_removal(claim, uri)
            after = uris[-1]

    async def _take(
        self,
        claim: ItemClaim,
        source: StoredSource,
        collection: StoredCollection,
        batch: Sequence[Change],
    ) -> None:
        """Deal with what was found since the last batch."""
        for one in batch:
            if isinstance(one, Unreadable):
                await self._fail(claim, one)
        versions: dict[str, str | None] = {
            one.uri: None for one in batch if isinstance(one, Present | Unreadable)
        }
        versions.update((one.uri, one.version) for one in batch if isinstance(one, Found))
        unchanged = await self._sources.unchanged(claim, source, versions)
        changed = [one for one in batch if isinstance(one, Found) and one.uri not in unchanged]
        foreign = await self._sources.owned_by_others(source, [one.uri for one in changed])
        for one in changed:
            if one.uri in foreign:
                await self._fail(claim, _of_other_source(one.uri))
            else:
                await self._add(claim, source, collection, one)
        if gone := [one.uri for one in batch if isinstance(one, Gone)]:
            current = await self._current(claim, source)
            await self._sources.remove(claim, source, current, gone)

    async def _add(
        self, claim: ItemClaim, source: StoredSource, collection: StoredCollection, found: Found
    ) -> None:
        try:
            given = await asyncio.to_thread(found.load)
        except IngestionError as error:
            await self._sources.add_failure(claim, found.uri, error.failure)
            return
        try:
            given = _with_what_the_source_says(given, source)
            handed_in = await asyncio.to_thread(identify, given, collection)
            size_bytes = handed_in[1].size_bytes
            await self._quotas.require_room(collection.collection_id, found.uri, size_bytes)
            await self._sources.add(claim, source, collection, handed_in, found.version)
        finally:
            if isinstance(given.content, FileContent):
                given.content.file.close()

    async def _fail(self, claim: ItemClaim, unreadable: Unreadable) -> None:
        failure = document_pb2.IngestionFailure(
            stage=document_pb2.INGESTION_STATE_EXTRACTING,
            reason=reason_value(unreadable.reason),
            message=unreadable.message,
        )
        await self._sources.add_failure(claim, unreadable.uri, failure)

    async def _reach(self, claim: ItemClaim, source: StoredSource, reached: Reached) -> None:
        """Delete what was not found where all was to be, and store the cursor."""
        if reached.is_complete:
            while await self._sources.remove(claim, source, await self._current(claim, source)):
                pass
        await self._sources.reach(claim, source, reached.cursor)

    async def _current(self, claim: ItemClaim, source: StoredSource) -> StoredCollection:
        """The collection in the partition that it has by now."""
        collection = await self._collections.find(source.message.collection_id)
        if collection is None:
            raise ClaimLostError(claim)
        return collection


def _digest(uri: str) -> bytes:
    """Of the many uris of a source these are held in memory."""
    return hashlib.sha256(uri.encode("utf-8", "surrogatepass")).digest()[:16]


def _of_other_source(uri: str) -> Unreadable:
    message = "another source of the collection has brought a document of this uri"
    return Unreadable(uri, "URI_OF_OTHER_SOURCE", message)


def _with_what_the_source_says(given: GivenDocument, source: StoredSource) -> GivenDocument:
    """Metadata and readers that the source gives all its documents; a document's own metadata goes before."""
    return replace(
        given,
        metadata=plain_values(source.message.metadata) | dict(given.metadata),
        allowed_principals=restriction(source.message.allowed_principals),
    )
