"""Indexes beside the one in use, in PostgreSQL: what a re-index holds back, and what was kept when it was
replaced."""

from groundline.v1 import collection_pb2
from groundline_database import Connection, Pool, acquire, transaction
from groundline_indexing.collections import StoredCollection
from groundline_indexing.partitions import leave_partition, read_settings
from groundline_runtime.errors import FailedPreconditionError

from groundline_ingestor.adapters.postgres.collections import hold_collection
from groundline_ingestor.adapters.postgres.reindex import begin_job, insert_job, running


class PostgresKeptIndexes:
    """Indexes that are kept or held back. Any method raises UnavailableError while the store is down."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def revert(self, collection: StoredCollection, request_id: str) -> str:
        """Store a job that puts the previous index back into use; return its id, which is the earlier one's
        for a known `request_id`.

        Raises FailedPreconditionError (INDEX_NOT_FOUND, REINDEX_RUNNING), NotFoundError.
        """

        async def prepare(connection: Connection, job_id: str) -> None:
            await hold_collection(connection, collection)
            kept = await connection.fetchrow(
                "SELECT previous_partition_id, previous_settings FROM collections "
                "WHERE collection_id = $1 AND previous_partition_id IS NOT NULL",
                collection.collection_id,
            )
            if kept is None:
                raise FailedPreconditionError(
                    "INDEX_NOT_FOUND", f"no index of the collection {collection.collection_id!r} was kept"
                )
            partition_id, settings = kept
            # An earlier release drops the partitions of jobs that failed, whatever they are now.
            await connection.execute(
                "UPDATE ingestion_jobs SET partition_id = NULL "
                "WHERE collection_id = $1 AND partition_id = $2 AND end_time IS NOT NULL",
                collection.collection_id,
                partition_id,
            )
            job = (job_id, collection.collection_id, request_id, partition_id)
            await insert_job(connection, job, settings, keeps_previous=True)

        return await begin_job(self._pool, collection.collection_id, request_id, prepare)

    async def previous(self, collection_id: str) -> collection_pb2.CollectionSettings | None:
        """Return the settings by which the previous index was built; None if none is kept."""
        async with acquire(self._pool) as connection:
            row = await connection.fetchrow(
                """
                SELECT c.previous_settings AS settings, p.embedding_model, p.dimensions, p.language
                FROM collections c JOIN chunk_partitions p ON p.partition_id = c.previous_partition_id
                WHERE c.collection_id = $1
                """,
                collection_id,
            )
        return read_settings(row) if row else None

    async def reclaim(self, collection_id: str, grace_seconds: float) -> bool:
        """Give the previous index up, which is dropped after the grace time; tell whether there was one.

        Raises FailedPreconditionError (REINDEX_RUNNING) while a job puts it back into use.
        """
        async with transaction(self._pool) as connection:
            partition_id = await connection.fetchval(
                "SELECT previous_partition_id FROM collections WHERE collection_id = $1 FOR UPDATE",
                collection_id,
            )
            if partition_id is None:
                return False
            if await connection.fetchval(
                "SELECT true FROM ingestion_jobs WHERE collection_id = $1 AND kind = 'reindex' "
                "AND end_time IS NULL AND partition_id = $2",
                collection_id,
                partition_id,
            ):
                raise running(collection_id)
            await connection.execute(
                "UPDATE collections SET previous_partition_id = NULL, previous_settings = NULL "
                "WHERE collection_id = $1",
                collection_id,
            )
            await leave_partition(connection, collection_id, partition_id, grace_seconds)
        return True

    async def release(self, job_id: str) -> bool:
        """Hold the index of a job back no longer; tell whether the job is a re-index that is under way or has
        put it into use."""
        async with transaction(self._pool) as connection:
            state = await connection.fetchval(
                """
                UPDATE ingestion_jobs SET holds_index = false
                WHERE job_id = $1::uuid AND kind = 'reindex' RETURNING state
                """,
                job_id,
            )
        return state not in (None, "failed", "cancelled")
