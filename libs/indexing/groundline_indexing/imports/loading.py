"""Bulk load of files of records into a collection, in processes of its own; an operator's tool.

It uses the database directly, since a million vectors in JSON are too many for requests: whoever may use the
database may import, and the records' readers are applied as given. Documents are made as ingestion makes
them, by the same code. They are copied into a table beside the collection's partition. When it is complete
its indexes are built, a search index outside PostgreSQL is filled with it, and it replaces the partition in
one transaction. Loaded batches are recorded in the transactions that load them, so an import that was killed
continues.
"""

import asyncio
import multiprocessing
import os
import signal
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import asyncpg
from groundline.v1 import chat_pb2, quota_pb2
from groundline_database import (
    Connection,
    Pool,
    acquire,
    database_errors,
    open_pool,
    register_vectors,
    require_schema,
)
from groundline_database.spending import SpendingLedger
from groundline_embedding import create_embedders
from groundline_extraction.documents import IngestionError
from groundline_lexical import LexicalIndex, detect_lexical_index
from groundline_runtime.charges import metered, total
from groundline_runtime.errors import GroundlineError, InvalidArgumentError
from groundline_runtime.quotas import Budgets, require_within
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt

from groundline_indexing.collections import (
    StoredCollection,
    llm_contextualization,
    running_model,
)
from groundline_indexing.documents import HandedIn, ReadyDocument
from groundline_indexing.imports.files import (
    Batch,
    batches_of,
    fingerprints,
    records_of,
)
from groundline_indexing.imports.opened import Import
from groundline_indexing.imports.preparing import RecordPreparation, identified, with_vectors
from groundline_indexing.imports.records import (
    BatchResult,
    GivenRecord,
    ImportFailedError,
    ImportProgress,
    RecordFailure,
    given_record,
)
from groundline_indexing.imports.tables import (
    OpenImport,
    discard_import,
    open_import,
)
from groundline_indexing.partitions import find_collection
from groundline_indexing.preparation import open_sandbox, preparation_by
from groundline_indexing.settings import IndexingSettings

SCHEMA: Final = {"ingestor": 17}
"""Minimum version of the tables that an import works on."""

STATEMENT_SECONDS: Final = 6 * 3600.0
"""Maximum time of a statement, in seconds, in which an index of some ten million chunks is built."""

ATTEMPTS: Final = 5
"""Maximum attempts at a batch that has documents in common with another at the same moment."""

_LOOK_SECONDS: Final = 1.0
_BUILT: Final = """
    SELECT coalesce(sum(blocks_done), 0)::bigint AS done, coalesce(sum(blocks_total), 0)::bigint AS total
    FROM pg_stat_progress_create_index WHERE relid = to_regclass($1)
"""

type OnProgress = Callable[[ImportProgress], None]
type Gate = Callable[[], Awaitable[bool]]


async def import_files(
    settings: IndexingSettings,
    collection_id: str,
    paths: Sequence[Path],
    *,
    processes: int,
    skip_invalid: bool = False,
    passes: Gate | None = None,
    on_progress: OnProgress = lambda progress: None,
) -> BatchResult:
    """Load the records of all files; return the outcome.

    If records are wrong and not to be skipped, it ends before the collection is changed, with the right ones
    loaded, and returns their failures. `passes` is asked when searches find the import as the candidate: if
    it says no, nothing is changed, and what was loaded is dropped. Raises ImportFailedError, GroundlineError.
    """
    batches = batches_of(paths)
    async with _opened(settings) as (pool, lexical):
        await _collection(pool, collection_id)
        async with acquire(pool) as connection:
            opened = await open_import(connection, collection_id, fingerprints(paths))
            running = OpenImport(connection, lexical, opened)
            loaded = await running.loaded()
            await _load_all(settings, pool, opened, running, batches, loaded, processes, on_progress)
            total = await running.total()
            if total.failures and not skip_invalid:
                return total
            if total.document_count == 0:
                await discard_import(connection, collection_id)
                return total

            async def stage(name: str, work: Callable[[], Awaitable[None]]) -> None:
                await _watched(pool, opened, name, work, total.chunk_count, on_progress)

            await stage("copying other documents", running.copy_others)
            await stage("building keys", running.build_keys)
            await stage("building the keyword index", running.build_keyword_index)
            build_vector_index = partial(running.build_vector_index, settings.vector_index_memory_bytes)
            await stage("building the vector index", build_vector_index)
            await stage("attaching", running.attach)
            await _fed(running, total.chunk_count, on_progress)
            if passes is not None and not await _is_passed(running, passes):
                await discard_import(connection, collection_id)
                return total
            on_progress(ImportProgress("switching", 0, 0, total.chunk_count))
            return replace(total, job_id=await running.switch(settings.reindex_grace_seconds))


async def discard(settings: IndexingSettings, collection_id: str) -> bool:
    """Drop what an import has loaded that has not ended; False if no import has begun.

    Raises ImportFailedError, GroundlineError.
    """
    async with _opened(settings) as (pool, _), acquire(pool) as connection:
        return await discard_import(connection, collection_id)


@asynccontextmanager
async def _opened(settings: IndexingSettings) -> AsyncIterator[tuple[Pool, LexicalIndex]]:
    patient = settings.model_copy(update={"statement_timeout_seconds": STATEMENT_SECONDS})
    # A crash of the server takes back a batch whole, together with the record that it is loaded.
    later = {"synchronous_commit": "off"}
    async with open_pool(patient, init=register_vectors, server_settings=later) as pool:
        await require_schema(pool, SCHEMA)
        async with pool.acquire() as connection:
            lexical = await detect_lexical_index(connection, settings.lexical_backend)
        yield pool, lexical


async def _collection(pool: Pool, collection_id: str) -> StoredCollection:
    async with acquire(pool) as connection:
        collection = await find_collection(connection, collection_id)
    if collection is None:
        raise ImportFailedError(f"no collection {collection_id!r}: make it by groundline create")
    if llm_contextualization(collection.settings) is not None:
        raise ImportFailedError(
            f"{collection_id} has its contexts written by a language model, which an import does not ask: "
            "ingest the documents"
        )
    return collection


async def _load_all(
    settings: IndexingSettings,
    pool: Pool,
    opened: Import,
    running: OpenImport,
    batches: Sequence[Batch],
    loaded: frozenset[int],
    processes: int,
    on_progress: OnProgress,
) -> None:
    """Load the batches that are not loaded yet, several at a time."""
    documents, size_bytes = await running.used()
    so_far = await running.total()
    added, grown, chunks = so_far.added_count, so_far.byte_count, so_far.chunk_count
    missing = [batch for batch in batches if batch.number not in loaded]
    size = sum(batch.size for batch in batches)
    done = size - sum(batch.size for batch in missing)
    # Forked from a process that has loaded this module: loading it takes longer than a small import.
    forking = multiprocessing.get_context("forkserver")
    forking.set_forkserver_preload([__name__])
    executor = ProcessPoolExecutor(processes, forking, initializer=_begin, initargs=(settings, opened))
    try:
        on_progress(ImportProgress("loading", done, size, chunks))
        loop = asyncio.get_running_loop()

        async def load(batch: Batch) -> tuple[Batch, BatchResult]:
            return batch, await loop.run_in_executor(executor, _load, batch)

        for next_one in asyncio.as_completed([load(batch) for batch in missing]):
            batch, result = await next_one
            done, chunks = done + batch.size, chunks + result.chunk_count
            added, grown = added + result.added_count, grown + result.byte_count
            require_within(quota_pb2.QUOTA_DOCUMENTS, documents, added, settings.max_documents_per_collection)
            require_within(quota_pb2.QUOTA_BYTES, size_bytes, grown, settings.max_bytes_per_collection)
            on_progress(ImportProgress("loading", done, size, chunks))
    except BrokenProcessPool as error:
        raise ImportFailedError(
            "a process that loads was ended from outside: start again to go on"
        ) from error
    finally:
        executor.shutdown(wait=False, cancel_futures=True)


async def _is_passed(running: OpenImport, passes: Gate) -> bool:
    await running.offer()
    try:
        return await passes()
    except BaseException:
        # The loaded tables stay, so that the command can try them again.
        await running.withdraw()
        raise


async def _fed(running: OpenImport, chunks: int, on_progress: OnProgress) -> None:
    """Wait until a search index that is fed has what will be searched."""
    largest = 0
    while missing := await running.missing_in_index():
        largest = max(largest, missing)
        on_progress(ImportProgress("filling the search index", largest - missing, largest, chunks))
        await asyncio.sleep(_LOOK_SECONDS)


async def _watched(
    pool: Pool,
    opened: Import,
    name: str,
    work: Callable[[], Awaitable[None]],
    chunks: int,
    on_progress: OnProgress,
) -> None:
    """Do work of PostgreSQL, and report its progress with an index."""
    on_progress(ImportProgress(name, 0, 0, chunks))
    task = asyncio.ensure_future(work())
    try:
        while not (await asyncio.wait([task], timeout=_LOOK_SECONDS))[0]:
            async with acquire(pool) as other:
                row = await other.fetchrow(_BUILT, opened.chunks)
            if row is not None and row["total"]:
                on_progress(ImportProgress(name, row["done"], row["total"], chunks))
        await task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


# State of each process that loads.


class _Loader:
    """Loader that reads, prepares and stores batches on a connection of its own; a model is loaded when a
    record has no vector."""

    def __init__(self, settings: IndexingSettings, opened: Import) -> None:
        self._settings = settings
        self._import = opened
        self._stack = AsyncExitStack()
        self._connection: Connection | None = None
        self._ledger: SpendingLedger | None = None
        self._lexical: LexicalIndex | None = None
        self._collection: StoredCollection | None = None
        self._cutting: RecordPreparation | None = None

    async def load(self, batch: Batch) -> BatchResult:
        """Load a batch. Raises ImportFailedError alone: others do not get through to another process."""
        try:
            with database_errors():
                return await self._load(batch)
        except GroundlineError as error:
            raise ImportFailedError(error.message) from None

    async def _load(self, batch: Batch) -> BatchResult:
        connection, lexical, collection = await self._ready()
        target = OpenImport(connection, lexical, self._import)
        records, failures = _records(batch, collection)
        unchanged = await target.unchanged([record.handed_in.version for record in records])
        versions: list[ReadyDocument] = []
        with metered() as paid:
            for record in records:
                if record.handed_in.version.uri not in unchanged:
                    try:
                        versions.append(await self._prepared(record, collection))
                    except IngestionError as error:
                        failures.append(_failure(batch, record.line, "", error.failure.message))
        if paid:
            await self._book(connection, total(paid))
        storing = AsyncRetrying(
            retry=retry_if_exception_type((asyncpg.UniqueViolationError, asyncpg.DeadlockDetectedError)),
            stop=stop_after_attempt(ATTEMPTS),
            reraise=True,
        )
        return await storing(target.store, batch.number, versions, len(unchanged), failures)

    async def _book(self, connection: Connection, usage: chat_pb2.Usage) -> None:
        """Count what was embedded as spent by the collection's creator: an import has no caller."""
        assert self._ledger is not None, "set with the connection"
        creator = await connection.fetchval(
            "SELECT creator FROM collections WHERE collection_id = $1", self._import.collection_id
        )
        await self._ledger.spend(creator, usage.cost_usd)

    async def _ready(self) -> tuple[Connection, LexicalIndex, StoredCollection]:
        if self._connection is None:
            pool, lexical = await self._stack.enter_async_context(_opened(self._settings))
            self._lexical = lexical
            self._ledger = SpendingLedger(pool, Budgets())
            self._collection = await _collection(pool, self._import.collection_id)
            self._connection = await self._stack.enter_async_context(acquire(pool))
        assert self._lexical is not None, "set with the connection"
        assert self._collection is not None, "set with the connection"
        return self._connection, self._lexical, self._collection

    async def _prepared(self, record: "_Record", collection: StoredCollection) -> ReadyDocument:
        if record.record.vectors is not None:
            return with_vectors(record.record, record.handed_in, collection)
        if self._cutting is None:
            settings = self._settings
            embedders = await self._stack.enter_async_context(
                create_embedders(settings.embedding, settings.other_embedding)
            )
            embedder = running_model(collection, embedders)
            sandbox = await self._stack.enter_async_context(open_sandbox(settings))
            preparation = preparation_by(settings, sandbox, embedders)
            self._cutting = RecordPreparation(preparation, embedder)
        return await self._cutting.prepare(record.handed_in, collection)


class _Record(NamedTuple):
    """A valid record, and its document's properties."""

    line: int
    record: GivenRecord
    handed_in: HandedIn


def _records(batch: Batch, collection: StoredCollection) -> tuple[list[_Record], list[RecordFailure]]:
    """Return the valid records, the last one of each uri, and the failures of others."""
    records: dict[str, _Record] = {}
    failures: list[RecordFailure] = []
    for line, values in records_of(batch):
        if isinstance(values, str):
            failures.append(_failure(batch, line, "", values))
            continue
        try:
            record = given_record(values, collection.settings.embedding.dimensions)
        except InvalidArgumentError as error:
            failures += [_failure(batch, line, wrong.field, wrong.description) for wrong in error.violations]
        else:
            handed_in = identified(record, collection)
            records[handed_in.version.uri] = _Record(line, record, handed_in)
    return list(records.values()), failures


def _failure(batch: Batch, line: int, field: str, description: str) -> RecordFailure:
    return RecordFailure(batch.path.name, line, field, description)


class _Process:
    """State of a loading process, from its beginning to its end."""

    loader: _Loader
    runner: "asyncio.Runner"


def _begin(settings: IndexingSettings, opened: Import) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process ends the others
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _Process.runner = asyncio.Runner()
    _Process.loader = _Loader(settings, opened)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)


def _load(batch: Batch) -> BatchResult:
    return _Process.runner.run(_Process.loader.load(batch))
