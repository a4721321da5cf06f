"""Re-indexing in PostgreSQL: a second partition, filled by the workers, swapped in when it is complete."""

# ruff: noqa: S608 - what is put into SQL here are constants and names that chunk_table() makes of numbers

import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import asyncpg
from google.protobuf import json_format
from groundline.v1 import collection_pb2, document_pb2, job_pb2
from groundline_database import Connection, Pool, acquire, in_bulk, read_statements, session, transaction
from groundline_extraction.documents import IngestionError
from groundline_indexing.builds import builds_held_off
from groundline_indexing.chunks import Destination, copy_chunks
from groundline_indexing.collections import StoredCollection, effective_chunking
from groundline_indexing.feed.state import is_feed_behind
from groundline_indexing.imports.tables import drop_orphaned_imports
from groundline_indexing.partitions import (
    PENDING,
    PartitionKind,
    chunk_table,
    clear_left,
    create_partition,
    leave_partition,
    move_collection,
)
from groundline_indexing.revisions.past import swap_past
from groundline_indexing.vector_indexes import is_vector_index_due
from groundline_lexical import LexicalIndex
from groundline_runtime.context import current_traceparent
from groundline_runtime.errors import FailedPreconditionError

from groundline_ingestor.adapters.postgres.collections import hold_collection, settings_json
from groundline_ingestor.adapters.postgres.documents.stored_texts import read_segments, read_version
from groundline_ingestor.adapters.postgres.items import finish_items
from groundline_ingestor.domain.documents import StoredText
from groundline_ingestor.domain.jobs import ReindexStep, next_reindex_step
from groundline_ingestor.domain.work import ClaimLostError, LeasedItem, NewVersion

_SQL: Final = read_statements(__name__)

# A document whose chunks in the new partition are not of its current version.
_CHANGED: Final = """
    SELECT d.document_id, d.uri FROM documents d
    LEFT JOIN reindexed_documents r ON r.document_id = d.document_id AND r.partition_id = $2
    WHERE d.collection_id = $1 AND d.chunk_count > 0 AND r.version IS DISTINCT FROM d.version
"""

_TEXT: Final = "SELECT text, headings FROM document_texts WHERE document_id = $1::uuid ORDER BY part"

# Replaced and past their grace, or of a reindex that failed or was cancelled.
_OVER: Final = """
    SELECT partition_id FROM chunk_partitions p
    WHERE p.drop_time < clock_timestamp() OR EXISTS (
        SELECT FROM ingestion_jobs j
        WHERE j.partition_id = p.partition_id AND j.state IN ('failed', 'cancelled')
    ) AND NOT EXISTS (
        SELECT FROM collections c
        WHERE c.collection_id = p.collection_id
          AND p.partition_id IN (c.partition_id, c.previous_partition_id)
    )
"""

# A job whose index is held back is due once SwapIndex has been called.
_DUE: Final = f"""
    SELECT job_id, collection_id, partition_id FROM ingestion_jobs j
    WHERE kind = 'reindex' AND end_time IS NULL AND NOT EXISTS (
        SELECT FROM ingestion_items i WHERE i.job_id = j.job_id AND i.{PENDING}
    ) AND NOT (holds_index IS TRUE AND EXISTS (
        SELECT FROM collections c
        WHERE c.collection_id = j.collection_id AND c.candidate_partition_id = j.partition_id
    ))
"""


class PostgresReindex:
    """Builder of partitions beside those in use. Any method raises UnavailableError while the store is
    down."""

    def __init__(self, pool: Pool, lexical: LexicalIndex, *, spool_directory: Path | None = None) -> None:
        """Take pool and index. `spool_directory`: directory of long texts while chunks are made of them."""
        self._pool = pool
        self._spool_directory = spool_directory
        self._lexical = lexical

    async def begin(
        self,
        collection: StoredCollection,
        settings: collection_pb2.CollectionSettings,
        request_id: str,
        *,
        holds_index: bool = False,
        keeps_previous: bool = False,
    ) -> str:
        """Create an empty partition by the settings, which are complete, and a job with an item for each
        document; return the job's id, which is the earlier one's for a known `request_id`.

        Raises FailedPreconditionError (REINDEX_RUNNING), NotFoundError.
        """

        async def prepare(connection: Connection, job_id: str) -> None:
            await hold_collection(connection, collection)
            partition_id = await create_partition(
                connection, self._lexical, collection.collection_id, PartitionKind.of(settings)
            )
            await insert_job(
                connection,
                (job_id, collection.collection_id, request_id, partition_id),
                settings_json(settings),
                holds_index=holds_index,
                keeps_previous=keeps_previous,
            )
            await connection.execute(
                _SQL["insert_items"],
                job_id,
                collection.collection_id,
            )

        return await begin_job(self._pool, collection.collection_id, request_id, prepare)

    async def text(self, collection_id: str, document_id: str) -> StoredText | None:
        """Return the text that chunks are made of; None when the document was deleted. Segments in a Spool
        are the caller's to close. Raises IngestionError."""
        # One snapshot: version and text must be of one time.
        async with (
            acquire(self._pool) as connection,
            connection.transaction(isolation="repeatable_read", readonly=True),
        ):
            row = await connection.fetchrow(
                "SELECT * FROM documents WHERE collection_id = $1 AND document_id = $2::uuid",
                collection_id,
                document_id,
            )
            if row is None:
                return None
            segments = await read_segments(
                connection, _TEXT, document_id, mime_type=row["mime_type"], directory=self._spool_directory
            )
        if not len(segments) or row["input_hash"] is None:
            raise IngestionError(
                document_pb2.INGESTION_STATE_EXTRACTING,
                "TEXT_NOT_STORED",
                "the document was ingested by an earlier release, which kept no text; ingest it again",
            )
        return StoredText(read_version(row), row["version"], segments)

    async def store(self, item: LeasedItem, version_number: int, new: NewVersion) -> None:
        """Write a document's chunks into the partition being built and end the item, in one transaction.

        Raises ClaimLostError.
        """
        assert item.target is not None, "items of a re-index have one"
        partition_id = item.target.partition_id
        async with transaction(self._pool) as connection:
            language = await connection.fetchval(
                "SELECT language FROM chunk_partitions WHERE partition_id = $1 FOR SHARE", partition_id
            )
            if language is None:
                raise ClaimLostError(item.claim)
            document = await connection.fetchrow(
                "SELECT document_id, update_time FROM documents WHERE document_id = $1::uuid FOR KEY SHARE",
                item.document_id,
            )
            if document is not None:
                await connection.execute(
                    f"DELETE FROM {chunk_table(partition_id)} WHERE document_id = $1::uuid", item.document_id
                )
                into = Destination(partition_id, item.collection_id, language)
                await copy_chunks(connection, into, [(new, document)])
                await connection.execute(
                    _SQL["record_document"],
                    partition_id,
                    item.document_id,
                    version_number,
                    new.version.ingestion_hash,
                    len(new.chunks),
                    new.token_count,
                )
            await _finish(connection, item, len(new.chunks) if document is not None else None)

    async def skip(self, item: LeasedItem) -> None:
        """End the item of a deleted document. Raises ClaimLostError."""
        async with transaction(self._pool) as connection:
            await _finish(connection, item, None)

    async def settle(self, grace_seconds: float) -> Sequence[str]:
        """Do the next step of every re-index (see next_reindex_step), and drop partitions that were replaced
        `grace_seconds` ago.

        Returns ids of jobs that have ended.
        """
        async with acquire(self._pool) as connection:
            jobs = await connection.fetch(_DUE)
        ended = [str(job["job_id"]) for job in jobs if await self._settle_job(job, grace_seconds)]
        await self._drop_replaced()
        return ended

    async def _settle_job(self, found: asyncpg.Record, grace_seconds: float) -> bool:
        """Do the next step of a job that was found; return whether it has ended.

        Locks are taken in the order in which a deletion of the collection takes them: the collection, its
        jobs, its partitions. So a partition is read before the transaction, which would hold it locked.
        """
        job_id, collection_id = str(found["job_id"]), found["collection_id"]
        partition_id = found["partition_id"]
        async with acquire(self._pool) as connection:
            # It is built while others still write.
            is_index_due = await is_vector_index_due(connection, partition_id) or await is_feed_behind(
                connection, partition_id
            )
        async with transaction(self._pool) as connection:
            if not is_index_due:
                # Waits for documents being stored; no other is stored from here to the end.
                await connection.execute(
                    "SELECT FROM collections WHERE collection_id = $1 FOR UPDATE", collection_id
                )
            job = await connection.fetchrow(
                f"""
                SELECT j.*,
                       (SELECT count(*) FROM ingestion_items i
                        WHERE i.job_id = j.job_id AND i.{PENDING}) AS pending,
                       (SELECT count(*) FROM ingestion_items i
                        WHERE i.job_id = j.job_id AND i.state = 'failed') AS failed
                FROM ingestion_jobs j WHERE job_id = $1::uuid AND end_time IS NULL
                FOR UPDATE SKIP LOCKED
                """,
                job_id,
            )
            if job is None:  # another worker does it
                return False
            facts = {
                "pending": job["pending"],
                "failed": job["failed"],
                "is_index_due": is_index_due,
                "is_held": bool(job["holds_index"]),
            }
            step = next_reindex_step(**facts, changed=None)
            if step is ReindexStep.COMPARE:
                changed = await connection.fetch(_CHANGED, collection_id, partition_id)
                step = next_reindex_step(**facts, changed=len(changed))
            match step:
                case ReindexStep.QUEUE_CHANGED:
                    await self._queue_changed(connection, job_id, collection_id, changed)
                case ReindexStep.HOLD:
                    await connection.execute(
                        "UPDATE collections SET candidate_partition_id = $2 WHERE collection_id = $1",
                        collection_id,
                        partition_id,
                    )
                case ReindexStep.SWAP:
                    await self._swap(connection, job, grace_seconds)
                    await self._end(connection, job_id, "done")
                case ReindexStep.FAIL:
                    await self._end(connection, job_id, "failed")
            return step in (ReindexStep.SWAP, ReindexStep.FAIL)

    async def _queue_changed(
        self, connection: Connection, job_id: str, collection_id: str, changed: Sequence[asyncpg.Record]
    ) -> None:
        """Queue documents that changed since they were written, and new ones; others of the collection
        wait."""
        await connection.execute(
            "UPDATE ingestion_jobs SET is_finishing = true WHERE job_id = $1::uuid", job_id
        )
        await connection.execute(
            """
            DELETE FROM ingestion_items WHERE job_id = $1::uuid AND document_id = ANY($2::uuid[])
            """,
            job_id,
            [row["document_id"] for row in changed],
        )
        last = await connection.fetchval(
            "SELECT coalesce(max(item_index), -1) FROM ingestion_items WHERE job_id = $1::uuid", job_id
        )
        await connection.executemany(
            """
            INSERT INTO ingestion_items (job_id, item_index, collection_id, uri, document_id, state)
            VALUES ($1::uuid, $2, $3, $4, $5, 'queued')
            """,
            [
                (job_id, index, collection_id, row["uri"], row["document_id"])
                for index, row in enumerate(changed, start=last + 1)
            ],
        )

    async def _swap(self, connection: Connection, job: asyncpg.Record, grace_seconds: float) -> None:
        """Put the job's partition into use; keep the one before if it says so, else leave it."""
        collection_id, partition_id = job["collection_id"], job["partition_id"]
        if job["keeps_previous"]:
            # A kept index is a partition of the collection's own, so that it can be dropped as a whole.
            await move_collection(connection, self._lexical, collection_id, grace_seconds)
        found = await connection.fetchrow(
            "SELECT partition_id, previous_partition_id FROM collections WHERE collection_id = $1",
            collection_id,
        )
        assert found is not None, "it was locked before its job"
        old_partition, given_up = found
        if job["keeps_previous"]:
            await connection.execute(_SQL["remember"], collection_id, old_partition)
        await connection.execute(
            _SQL["take_figures"],
            partition_id,
            {"chunking": json_format.MessageToDict(effective_chunking(_settings(job)))},
        )
        # Other settings may have changed meanwhile.
        await connection.execute(
            _SQL["switch"],
            collection_id,
            partition_id,
            {
                name: value
                for name, value in job["settings"].items()
                if name in ("chunking", "contextualization")
            },
            old_partition if job["keeps_previous"] else None,
        )
        await swap_past(connection, self._lexical, collection_id, old_partition, partition_id)
        for left in {given_up, None if job["keeps_previous"] else old_partition} - {None, partition_id}:
            await leave_partition(connection, collection_id, left, grace_seconds)

    async def _end(self, connection: Connection, job_id: str, state: str) -> None:
        await connection.execute(
            """
            UPDATE ingestion_jobs SET state = $2, end_time = clock_timestamp(), is_finishing = false
            WHERE job_id = $1::uuid
            """,
            job_id,
            state,
        )

    async def _drop_replaced(self) -> None:
        async with transaction(self._pool) as connection:
            await clear_left(connection)
            await drop_orphaned_imports(connection)
        async with acquire(self._pool) as connection:
            over = [row["partition_id"] for row in await connection.fetch(_OVER)]
        if not over:
            return
        async with (
            session(self._pool) as connection,
            builds_held_off(connection, over),
            connection.transaction(),
        ):
            rows = await connection.fetch(
                "SELECT partition_id FROM chunk_partitions WHERE partition_id = ANY($1::bigint[]) "
                "FOR UPDATE SKIP LOCKED",
                over,
            )
            dropped = [row["partition_id"] for row in rows]
            for partition_id in dropped:
                await connection.execute(f"DROP TABLE {chunk_table(partition_id)}")
            await connection.execute(
                "DELETE FROM chunk_partitions WHERE partition_id = ANY($1::bigint[])", dropped
            )


def _settings(job: asyncpg.Record) -> collection_pb2.CollectionSettings:
    """Return the settings that a re-index builds by, without those of its partition."""
    settings = collection_pb2.CollectionSettings()
    return json_format.ParseDict(job["settings"], settings, ignore_unknown_fields=True)


async def begin_job(
    pool: Pool,
    collection_id: str,
    request_id: str,
    prepare: Callable[[Connection, str], Awaitable[None]],
) -> str:
    """Store a job with an id of its own by `prepare`, in one transaction; return its id, which is the
    earlier one's where the request made one. Raises FailedPreconditionError (REINDEX_RUNNING)."""
    job_id = str(uuid.uuid4())
    try:
        async with transaction(pool) as connection:
            with in_bulk():  # an item for each document
                await prepare(connection, job_id)
    except asyncpg.UniqueViolationError:
        async with acquire(pool) as connection:
            earlier = await connection.fetchval(
                "SELECT job_id FROM ingestion_jobs WHERE collection_id = $1 AND request_id = $2",
                collection_id,
                request_id,
            )
        if earlier is None:
            raise running(collection_id) from None
        return str(earlier)
    return job_id


async def insert_job(
    connection: Connection,
    job: tuple[str, str, str, int],
    settings: Mapping[str, Any],
    *,
    holds_index: bool = False,
    keeps_previous: bool = False,
) -> None:
    """Store the job of a re-index, which is given by its id, collection, request and partition."""
    await connection.execute(
        _SQL["insert_job"],
        *job,
        settings,
        holds_index,
        keeps_previous,
        current_traceparent(),
    )


def running(collection_id: str) -> FailedPreconditionError:
    return FailedPreconditionError(
        "REINDEX_RUNNING", f"the collection {collection_id!r} is being indexed again already"
    )


async def _finish(connection: Connection, item: LeasedItem, chunk_count: int | None) -> None:
    """End an item; without a number of chunks its document was deleted."""
    is_gone = chunk_count is None
    outcome = job_pb2.INGESTION_OUTCOME_UNCHANGED if is_gone else job_pb2.INGESTION_OUTCOME_UPDATED
    await finish_items(connection, [(item.claim, (item.document_id, outcome), chunk_count or 0)])
