"""Work on single items: from a leased item to chunks, and from chunks with their vectors into the store."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, closing, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import batched, islice
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from groundline.v1 import chat_pb2, collection_pb2, document_pb2, job_pb2
from groundline_embedding import Embedder
from groundline_extraction.descriptions import PlacedDescription, with_descriptions
from groundline_extraction.documents import FileContent, GivenDocument, IngestionError
from groundline_extraction.members import MemberSpool
from groundline_extraction.readers.common import PicturePart
from groundline_extraction.segments import kept_segments
from groundline_extraction.spooling import Spool
from groundline_extraction.texts import TextSegment
from groundline_indexing.collections import StoredCollection, running_model
from groundline_indexing.documents import DocumentVersion, HandedIn
from groundline_indexing.hashes import ingestion_hash
from groundline_indexing.preparation import Prepared, members_of, undescribed, version_of
from groundline_indexing.texts import PreparedChunk, Series, Vectors
from groundline_runtime.charges import metered, total
from groundline_runtime.context import span
from groundline_runtime.turns import ClientTurns
from opentelemetry import trace

from groundline_ingestor.adapters.postgres.collections import no_longer_writable
from groundline_ingestor.adapters.postgres.stores import Stores
from groundline_ingestor.domain.collections import is_writable
from groundline_ingestor.domain.work import LeasedItem, NewVersion, ReindexTarget
from groundline_ingestor.metrics import CHUNKS
from groundline_ingestor.service.quotas import Quotas
from groundline_ingestor.service.worker.accounts import Accounts
from groundline_ingestor.service.worker.embedding import GROUP_CHUNKS
from groundline_ingestor.service.worker.finished import FinishedChunks
from groundline_ingestor.service.worker.leases import Leases
from groundline_ingestor.service.worker.outcomes import Outcomes
from groundline_ingestor.service.worker.stages import Stages
from groundline_ingestor.settings import IngestorSettings

LARGE_ITEMS: Final = 4
"""Maximum documents of more than a part that a process reads at a time, and of long texts that it processes:
they take memory and disk."""


PREPARED_ITEMS: Final = 20
"""Maximum items that a line of work prepares at a time; each has at most one segment in memory."""

ITEMS_PER_CLIENT: Final = 16
"""Maximum items of one client among these: the rest is for others, however slow its files are."""

HELD_PER_CLIENT: Final = 4 * ITEMS_PER_CLIENT
"""Maximum items of one client that a line of work has at all stages: while some are prepared, others are
embedded and stored. Another client's documents wait for no more of them."""

_OUTCOMES: Final = {
    job_pb2.INGESTION_OUTCOME_UPDATED: "updated",
    job_pb2.INGESTION_OUTCOME_UNCHANGED: "unchanged",
}

_NO_VECTORS: Final = np.empty((0, 0), np.float16)

_tracer = trace.get_tracer("groundline_ingestor")


@dataclass(slots=True)
class Work:
    """An item in progress."""

    item: LeasedItem
    collection: StoredCollection
    """Collection with the settings and the partition that the item is built for."""
    new: NewVersion
    """Version to store; without chunks until it is cut, and without vectors until it is embedded."""
    version_number: int = 0

    @property
    def counts(self) -> job_pb2.ChunkCounts:
        count = len(self.new.chunks)
        return _counts(count, count, len(self.new.vectors))

    @property
    def next_count(self) -> int:
        """Number of the chunks to embed next."""
        return min(GROUP_CHUNKS, len(self.new.chunks) - len(self.new.vectors))

    @property
    def next_chunks(self) -> Sequence[PreparedChunk]:
        """Chunks to embed next: those without vectors, of a long document some."""
        begin = len(self.new.vectors)
        return list(islice(self.new.chunks, begin, begin + self.next_count))

    def embedded(self, vectors: Vectors, token_count: int) -> None:
        """Take the vectors of the next chunks."""
        if len(self.new.vectors):
            vectors = np.concatenate([self.new.vectors, vectors])
        self.new = replace(self.new, vectors=vectors, token_count=self.new.token_count + token_count)

    @property
    def is_embedded(self) -> bool:
        """Whether every chunk has its vector."""
        return not self.next_count


class Unembedded(NamedTuple):
    """Chunks of an item that have no vectors yet."""

    item: LeasedItem
    collection: StoredCollection
    chunks: Series[PreparedChunk]


class ItemWork:
    """Processing of items through the stages; those of one process share its threads."""

    def __init__(
        self,
        stores: Stores,
        stages: Stages,
        quotas: Quotas,
        leases: Leases,
        outcomes: Outcomes,
        settings: IngestorSettings,
    ) -> None:
        self._queue = stores.queue
        self._versions = stores.versions
        self._reindex = stores.reindex
        self._revisions = stores.revisions
        self._crawls = stores.crawls
        self._preparation = stages.preparation
        self._contextualization = stages.contextualization
        self._pictures = stages.pictures
        self._embedder = stages.embedder
        self._quotas = quotas
        self._accounts = Accounts(stores.queue, quotas)
        self._leases = leases
        self._outcomes = outcomes
        self._settings = settings
        self._executor: ThreadPoolExecutor | None = None
        # More threads that compute only keep each other, and the event loop, waiting for the interpreter. One
        # client has as many as there are workers.
        self._computing = ClientTurns(max(1, settings.workers) + 1)
        self._reading = ClientTurns(LARGE_ITEMS)
        self._finishing_long = ClientTurns(LARGE_ITEMS)

    @asynccontextmanager
    async def threads(self) -> AsyncIterator[None]:
        """Provide the threads that prepare items."""
        # One thread for each item that may run: none waits for a thread while another waits for its file.
        executor = ThreadPoolExecutor(max(1, self._settings.workers) * PREPARED_ITEMS, "prepare")
        self._executor = executor
        try:
            yield
        finally:
            executor.shutdown(wait=False, cancel_futures=True)

    async def prepare(self, item: LeasedItem, collection: StoredCollection) -> Work | None:
        """Return the item, ready to be embedded with others; None when it has ended already."""
        if item.target is not None:
            return await self._prepare_again(item, collection, item.target)
        running_model(collection, self._embedder.embedders)
        if not is_writable(collection.message, item.principals):
            raise no_longer_writable()
        if item.revision:
            return await self._prepare_revision(item, collection)
        given = item.given or await self._queue.given(item)
        # Files within a file within a document were found with it.
        spool = None if item.container_uri else MemberSpool(self._settings.spool_directory)
        are_described = self._pictures.are_asked_for(collection)
        pictures = self._preparation.keep_pictures() if are_described else None
        with ExitStack() as opened:
            for one in (spool, pictures):
                if one is not None:
                    opened.callback(one.close)
            try:
                read = await self._read(item, given, collection, spool, pictures)
            finally:
                if isinstance(given.content, FileContent):
                    given.content.file.close()
            if read is None:
                return None
            segments, version = read
            opened.callback(segments.close)
            if pictures is not None:
                segments, version = await self._described(item, read, given, collection, pictures)
                opened.callback(segments.close)
            members = await self._members(item, version, spool, collection)
            new = NewVersion(
                version,
                (),
                _NO_VECTORS,
                segments,
                claim=item.claim,
                principals=item.principals,
                members=members,
            )
            return await self._chunked(Work(item, collection, new))

    async def _read(
        self,
        item: LeasedItem,
        given: GivenDocument,
        collection: StoredCollection,
        spool: MemberSpool | None,
        pictures: Spool[PicturePart] | None,
    ) -> tuple[Spool[TextSegment], DocumentVersion] | None:
        """Return the document's text and version; None when it was the same as before and has ended."""
        is_large = isinstance(given.content, FileContent)
        version = version_of(given, collection)
        read = partial(self._preparation.read, given, client=item.owner, members=spool, pictures=pictures)
        if item.is_first and not is_large:
            # At once, since each change of threads takes as long as reading a small document.
            return await self._in_thread(read, version)
        refreshed = await self._versions.refresh(collection, version, item.principals, item.claim)
        if refreshed is not None:
            self._outcomes.ended(item, _OUTCOMES[refreshed[1]])
            return None
        async with self._reading.turn(item.owner) if is_large else nullcontext():
            return await self._in_thread(read, version)

    async def _described(
        self,
        item: LeasedItem,
        read: tuple[Spool[TextSegment], DocumentVersion],
        given: GivenDocument,
        collection: StoredCollection,
        pictures: Spool[PicturePart],
    ) -> tuple[Spool[TextSegment], DocumentVersion]:
        """Return the document with descriptions of its pictures. If some could not be described, its version
        is another than when all are, so that it is read again when it is handed in again. Raises
        IngestionError, with EMPTY_TEXT if there is no text."""
        segments, version = read
        found, missing = await self._pictures.describe(pictures, collection, self._accounts.of(item))
        await self._queue.note_undescribed(item.claim, missing)
        if missing:
            version = undescribed(version, given, collection)
        described = await self._computed(
            item.owner, _with_descriptions, segments, found, self._settings.spool_directory
        )
        if not any(segment.text.strip() for segment in described):
            described.close()
            message = "the document holds no text" + (
                ", and no model described its pictures" if missing else ", and its pictures need none"
            )
            raise IngestionError(document_pb2.INGESTION_STATE_EXTRACTING, "EMPTY_TEXT", message)
        return described, version

    async def _prepare_revision(self, item: LeasedItem, collection: StoredCollection) -> Work | None:
        """Make the chunks of a revision of the document, which takes the place of the one in use."""
        stored = await self._revisions.stored(
            item.collection_id, item.document_id, item.principals, item.revision
        )
        if stored is None:
            raise IngestionError(
                document_pb2.INGESTION_STATE_EXTRACTING,
                "REVISION_NOT_FOUND",
                "the revision was dropped, or the document deleted, before it was stored again",
            )
        version = replace(
            stored.version,
            ingestion_hash=ingestion_hash(stored.version.input_hash, collection.settings),
        )
        with closing(stored.segments):
            new = NewVersion(
                version,
                (),
                _NO_VECTORS,
                stored.segments,
                claim=item.claim,
                principals=item.principals,
                is_restored=True,
                expected_revision=item.expected_revision,
            )
            return await self._chunked(Work(item, collection, new))

    async def _members(
        self,
        item: LeasedItem,
        version: DocumentVersion,
        spool: MemberSpool | None,
        collection: StoredCollection,
    ) -> Sequence[HandedIn] | None:
        """Return the files found within a document. Raises IngestionError (QUOTA_EXHAUSTED)."""
        if spool is None or not spool.found:
            return None if spool is None else ()
        members = await self._computed(item.owner, members_of, version, spool.found, collection)
        sizes = {one.version.uri: one.version.size_bytes for one in members if not one.failure}
        await self._quotas.require_room(collection.collection_id, sizes)
        return members

    async def _prepare_again(
        self, item: LeasedItem, collection: StoredCollection, target: ReindexTarget
    ) -> Work | None:
        """Make the chunks of a document for another partition, from its stored text."""
        message = collection_pb2.Collection(collection_id=collection.collection_id, settings=target.settings)
        collection = StoredCollection(message, target.partition_id)
        running_model(collection, self._embedder.embedders)
        stored = await self._reindex.text(item.collection_id, item.document_id)
        if stored is None:
            await self._reindex.skip(item)
            self._outcomes.ended(item, "skipped")
            return None
        version = replace(
            stored.version,
            ingestion_hash=ingestion_hash(stored.version.input_hash, target.settings),
        )
        with closing(stored.segments):
            new = NewVersion(version, (), _NO_VECTORS, stored.segments, claim=item.claim)
            return await self._chunked(Work(item, collection, new, stored.version_number))

    async def _chunked(self, work: Work) -> Work | None:
        """Return a document of one segment with its chunks. A longer one is finished here, segment by
        segment, since it is a group of its own and others should not wait for it; and so is one with files
        within it, which are on disk until it is stored."""
        item, new = work.item, work.new

        def on_stage(stage: document_pb2.IngestionState.ValueType) -> None:
            self._leases.at(item.claim, stage)

        parts = self._preparation.chunk(new.segments, new.version, work.collection, on_stage)
        if len(new.segments) > 1 or new.members:
            async with self._finishing_long.turn(item.owner):
                await self._finish_long(work, parts)
            return None
        [prepared] = await self._computed(item.owner, list, parts)
        chunks = await self._contextualized(work, prepared, 0)
        work.new = replace(new, chunks=chunks)
        return work

    async def _finish_long(self, work: Work, parts: Iterator[Prepared]) -> None:
        item = work.item
        with FinishedChunks(self._settings.spool_directory) as finished:
            token_count = 0
            while (prepared := await self._computed(item.owner, next, parts, None)) is not None:
                # Otherwise one that was cancelled, or may no longer be stored, would continue for hours.
                await (self._queue.require if item.target else self._crawls.require_allowed)(item.claim)
                before = len(finished.chunks)
                chunks = await self._contextualized(work, prepared, before)
                count = before + len(chunks)
                self._leases.at(
                    item.claim, document_pb2.INGESTION_STATE_EMBEDDING, _counts(count, count, before)
                )
                [(vectors, count_of_tokens)] = await self.embed([Unembedded(item, work.collection, chunks)])
                token_count += count_of_tokens
                await self._in_thread(finished.append, chunks, vectors)
            work.new = replace(
                work.new, chunks=finished.chunks, vectors=finished.vectors, token_count=token_count
            )
            self._leases.at(item.claim, document_pb2.INGESTION_STATE_STORING, work.counts)
            await self.store([work])
        self._outcomes.ended(item, "stored")

    async def _contextualized(self, work: Work, prepared: Prepared, before: int) -> Sequence[PreparedChunk]:
        """Return the chunks of a document or segment with their contexts; `before`: number of those above."""
        item = work.item
        counts = _counts(before + len(prepared.chunks), before, before)
        self._leases.at(item.claim, document_pb2.INGESTION_STATE_CONTEXTUALIZING, counts)
        embedder = running_model(work.collection, self._embedder.embedders)
        if self._accounts.have_budgets and await asyncio.to_thread(embedder.cost, 1) != 0:
            await self._accounts.require_budget(item)
        return await self._contextualization.contextualize(prepared, work.collection, self._accounts.of(item))

    async def _computed[**P, T](
        self, client: str, work: Callable[P, T], *arguments: P.args, **named: P.kwargs
    ) -> T:
        """Run work that takes no longer than its computing, when it is its turn."""
        async with self._computing.turn(client):
            return await self._in_thread(work, *arguments, **named)

    async def _in_thread[**P, T](self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Run work in a thread of preparations: if slow ones wait, no other work of the process waits for
        them."""
        return await asyncio.get_running_loop().run_in_executor(
            self._executor, partial(work, *arguments, **named)
        )

    async def embed(self, items: Sequence[Unembedded]) -> Sequence[tuple[Vectors, int]]:
        """Return vectors of the chunks of each item, at least one in all, and their tokens; tokens that the
        model read are charged."""
        found: dict[int, tuple[Vectors, int]] = {}
        by_model: dict[Embedder, list[int]] = defaultdict(list)
        for position, item in enumerate(items):
            by_model[running_model(item.collection, self._embedder.embedders)].append(position)
        for embedder, positions in by_model.items():
            embedded = await self._embed_by(embedder, [items[position] for position in positions])
            found |= zip(positions, embedded, strict=True)
        return [found[position] for position in range(len(items))]

    async def _embed_by(
        self, embedder: Embedder, items: Sequence[Unembedded]
    ) -> Sequence[tuple[Vectors, int]]:
        documents = [[chunk.embedded_text for chunk in item.chunks] for item in items]
        texts = [text for document in documents for text in document]
        with span(_tracer, "embed_chunks", attributes={"chunks": len(texts)}), metered() as paid:
            parts = [await self._embedder.embed(embedder, some) for some in _together(documents)]
        vectors = np.concatenate([part for part, _ in parts]).astype(np.float16, copy=False)
        tokens = np.array(await asyncio.to_thread(embedder.count_tokens, texts), np.int64)
        read = tokens * [is_read for _, are_read in parts for is_read in are_read]
        ends = np.cumsum([len(item.chunks) for item in items])[:-1]
        reads = [int(part.sum()) for part in np.split(read, ends)]
        billed = total(paid)
        if not paid:
            cost = await asyncio.to_thread(embedder.cost, sum(reads))
            billed = chat_pb2.Usage(embedding_tokens=sum(reads), cost_usd=cost)
        spent = [
            (one.item, _share(billed, count / sum(reads)))
            for one, count in zip(items, reads, strict=True)
            if count
        ]
        if spent:
            await self._accounts.spend(spent)
        counts = [int(part.sum()) for part in np.split(tokens, ends)]
        return list(zip(np.split(vectors, ends), counts, strict=True))

    async def store(self, batch: Sequence[Work]) -> None:
        """Write a document, or documents of one collection, and end their items, in one transaction."""
        [first, *_] = batch
        if first.item.target is not None:
            await self._reindex.store(first.item, first.version_number, first.new)
        else:
            await self._versions.store(first.collection, [work.new for work in batch])
        CHUNKS.add(sum(len(work.new.chunks) for work in batch))


def _with_descriptions(
    segments: Spool[TextSegment], descriptions: Sequence[PlacedDescription], directory: Path | None
) -> Spool[TextSegment]:
    """Return the text with the descriptions in it."""
    described = kept_segments(directory)
    try:
        for segment in with_descriptions(segments, descriptions):
            described.append(segment)
    except BaseException:
        described.close()
        raise
    return described


def _together(documents: Sequence[Sequence[str]]) -> Iterator[Sequence[Sequence[str]]]:
    """Yield texts of documents in groups; of a long one GROUP_CHUNKS at a time, however it is embedded with
    others, so that a chunk has the same neighbours each time."""
    group: list[Sequence[str]] = []
    for part in (part for document in documents for part in batched(document, GROUP_CHUNKS)):
        if group and sum(map(len, group)) + len(part) > GROUP_CHUNKS:
            yield group
            group = []
        group.append(part)
    if group:
        yield group


def _share(billed: chat_pb2.Usage, part: float) -> chat_pb2.Usage:
    """Return a part of what was billed for several documents."""
    cost = billed.cost_usd * part if billed.HasField("cost_usd") else None
    return chat_pb2.Usage(embedding_tokens=round(billed.embedding_tokens * part), cost_usd=cost)


def _counts(parsed: int, contextualized: int, embedded: int) -> job_pb2.ChunkCounts:
    return job_pb2.ChunkCounts(parsed=parsed, contextualized=contextualized, embedded=embedded)
