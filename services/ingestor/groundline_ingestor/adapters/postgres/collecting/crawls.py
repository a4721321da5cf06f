"""Crawls in PostgreSQL."""

# ruff: noqa: S608 - what is put into SQL here are constants

from collections.abc import Sequence
from functools import partial
from typing import Final

import asyncpg
from google.protobuf import json_format
from groundline.v1 import document_pb2, job_pb2
from groundline.v1 import ingestor_service_pb2 as pb
from groundline_database import (
    Connection,
    Pool,
    acquire,
    is_replaceable_document,
    read_statements,
    transaction,
)
from groundline_database.codecs import enum_text
from groundline_indexing.collections import StoredCollection
from groundline_indexing.documents import DocumentVersion, HandedIn
from groundline_runtime.reasons import reason_value

from groundline_ingestor.adapters.postgres.collections import no_longer_writable, read_access
from groundline_ingestor.adapters.postgres.documents.versions import not_writable
from groundline_ingestor.adapters.postgres.items import (
    HELD,
    begin_item,
    change_held_item,
    first_waiting,
    held_by,
    require_held,
)
from groundline_ingestor.adapters.postgres.jobs import (
    PostgresJobs,
    collection_gone,
    insert_documents,
    insert_job,
    payload_parts,
    replaceable_ids,
)
from groundline_ingestor.adapters.postgres.records import failure_json, input_json
from groundline_ingestor.domain.collections import may_write
from groundline_ingestor.domain.jobs import finish
from groundline_ingestor.domain.work import (
    NO_USE,
    ClaimLostError,
    ClientUse,
    ItemClaim,
    LeasedItem,
    OrderedCrawl,
)

_SQL: Final = read_statements(__name__)


class PostgresCrawls:
    """Store of crawls, which are items of jobs, and of their pages, which become items of the same job.

    A claim on a crawl is handled like one on an item; see PostgresQueue. What is said of a claim holds for
    those on runs of sources too. Any method raises UnavailableError while the store is down.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._jobs = PostgresJobs(pool)

    async def enqueue(
        self,
        collection: StoredCollection,
        crawl: OrderedCrawl,
        principals: Sequence[str],
        request_id: str,
    ) -> str:
        """Store a caller's job that is a crawl; return its id, which is the earlier one's for a known
        `request_id`.

        Raises NotFoundError when the collection was deleted.
        """
        try:
            async with transaction(self._pool) as connection:
                job_id = await insert_job(
                    connection, collection.collection_id, principals, request_id, is_dry_run=crawl.is_dry_run
                )
                if job_id is not None:
                    await connection.execute(
                        f"""
                        INSERT INTO ingestion_items
                            (job_id, item_index, uri, state, {"dry_crawl" if crawl.is_dry_run else "crawl"})
                        VALUES ($1::uuid, 0, $2, 'queued', $3)
                        """,
                        job_id,
                        crawl.request.start_url,
                        json_format.MessageToDict(crawl.request),
                    )
                    return job_id
        except asyncpg.ForeignKeyViolationError:
            raise collection_gone(collection) from None
        earlier = await self._jobs.find_by_request_id(collection.collection_id, request_id)
        if earlier is None:
            raise collection_gone(collection)
        return earlier.job_id

    async def lease(
        self, lease_id: str, *, seconds: float, alone: bool, use: ClientUse = NO_USE
    ) -> tuple[LeasedItem, OrderedCrawl] | None:
        """Claim the first queued crawl of the client that has used least; None without one, or if it is a
        suspect and the worker has another: only one that is lost `alone` is charged."""
        async with transaction(self._pool) as connection:
            row = await first_waiting(
                connection, "(i.crawl IS NOT NULL OR i.dry_crawl IS NOT NULL)", alone=alone, use=use
            )
            if row is None:
                return None
            item = await begin_item(connection, row, lease_id, seconds=seconds)
        stored, is_dry_run = row["crawl"] or row["dry_crawl"], row["dry_crawl"] is not None
        request = json_format.ParseDict(stored, pb.WebCrawl(), ignore_unknown_fields=True)
        return item, OrderedCrawl(request, is_dry_run=is_dry_run)

    async def require_allowed(self, claim: ItemClaim) -> None:
        """Raise ClaimLostError if the crawl, or other item, was cancelled, given to another, or deleted, and
        PermissionDeniedError (COLLECTION_NOT_WRITABLE) if who asked for it may no longer write."""
        async with acquire(self._pool) as connection:
            row = await connection.fetchrow(
                f"""
                SELECT c.readers, c.writers, c.admins, j.principals
                FROM ingestion_items i JOIN ingestion_jobs j USING (job_id)
                JOIN collections c ON c.collection_id = j.collection_id
                WHERE {HELD}
                """,
                *held_by(claim),
            )
        if row is None:
            raise ClaimLostError(claim)
        if not may_write(read_access(row), row["principals"]):
            raise no_longer_writable()

    async def add_page(self, claim: ItemClaim, collection: StoredCollection, page: HandedIn) -> None:
        """Queue a page as an item of the crawl's job, in one transaction with its content.

        Does nothing if the job has the page already, unless it could not be had until now. Raises
        ClaimLostError.
        """
        async with transaction(self._pool) as connection:
            await insert_page(connection, claim, collection, page)

    async def add_preview(self, claim: ItemClaim, page: DocumentVersion) -> None:
        """Record what would be done with a page as an item of a dry run, which is done.

        The item is failed if the uri holds a document that the caller may not replace. Does nothing if the
        job has the page. Raises ClaimLostError.
        """
        async with transaction(self._pool) as connection:
            index, _ = await _item_index(connection, claim, page.uri)
            if index is None:
                return
            known = await connection.fetchrow(
                f"""
                SELECT d.document_id, d.ingestion_hash, d.metadata, d.allowed_principals, j.principals,
                       {is_replaceable_document("j.principals", "d")} AS is_replaceable
                FROM ingestion_jobs j JOIN documents d USING (collection_id)
                WHERE j.job_id = $1::uuid AND d.uri = $2
                """,
                claim.job_id,
                page.uri,
            )
            failure, outcome = None, _outcome(known, page)
            if known and not known["is_replaceable"]:
                refused = not_writable(page, known["principals"])
                failure = failure_json(
                    document_pb2.IngestionFailure(
                        stage=document_pb2.INGESTION_STATE_STORING,
                        reason=reason_value(refused.reason),
                        message=str(refused),
                    )
                )
                outcome = job_pb2.INGESTION_OUTCOME_UNSPECIFIED
            await connection.execute(
                _SQL["add_preview"],
                claim.job_id,
                index,
                page.uri,
                known["document_id"] if known and not failure else None,
                "failed" if failure else "done",
                enum_text(job_pb2.IngestionOutcome, outcome),
                failure,
            )

    async def add_removal(self, claim: ItemClaim, uri: str) -> None:
        """Record a document that would be deleted; see PostgresSources."""
        async with transaction(self._pool) as connection:
            index, _ = await _item_index(connection, claim, uri)
            if index is None:
                return
            await connection.execute(
                _SQL["add_removal"],
                claim.job_id,
                index,
                uri,
                enum_text(job_pb2.IngestionOutcome, job_pb2.INGESTION_OUTCOME_DELETED),
            )

    async def add_failure(self, claim: ItemClaim, uri: str, failure: document_pb2.IngestionFailure) -> None:
        """Record a page that could not be had as a failed item, unless the job has the page. Raises
        ClaimLostError."""
        async with transaction(self._pool) as connection:
            index, _ = await _item_index(connection, claim, uri)
            if index is None:
                return
            await connection.execute(
                _SQL["add_failure"],
                claim.job_id,
                index,
                uri,
                failure_json(failure),
            )

    async def finish(self, claim: ItemClaim) -> None:
        """End the crawl; its pages continue. Raises ClaimLostError."""
        async with transaction(self._pool) as connection:
            await change_held_item(
                connection,
                claim,
                partial(finish, outcome=job_pb2.INGESTION_OUTCOME_UNSPECIFIED, chunk_count=0),
            )


def _outcome(known: asyncpg.Record | None, page: DocumentVersion) -> job_pb2.IngestionOutcome.ValueType:
    if known is None or not known["ingestion_hash"]:
        return job_pb2.INGESTION_OUTCOME_CREATED
    is_same = (
        known["ingestion_hash"] == page.ingestion_hash
        and known["metadata"] == page.metadata
        and known["allowed_principals"] == list(page.allowed_principals)
    )
    return job_pb2.INGESTION_OUTCOME_UNCHANGED if is_same else job_pb2.INGESTION_OUTCOME_UPDATED


async def insert_page(
    connection: Connection, claim: ItemClaim, collection: StoredCollection, page: HandedIn
) -> bool:
    """Queue a find of the claim's item as an item of its job; return False if the job has it. Raises
    ClaimLostError."""
    version = page.version
    index, is_new = await _item_index(connection, claim, version.uri)
    if index is None:
        return False
    await insert_documents(connection, collection, [page])
    ids = await replaceable_ids(connection, collection.collection_id, claim.job_id, [version])
    document_id = ids.get(version.uri)
    if is_new:
        await connection.execute(
            """
            INSERT INTO ingestion_items
                (job_id, item_index, collection_id, uri, document_id, state, input, is_page)
            VALUES ($1::uuid, $2, $3, $4, $5, 'queued', $6, true)
            """,
            claim.job_id,
            index,
            collection.collection_id,
            version.uri,
            document_id,
            input_json(page.given),
        )
    else:
        await connection.execute(
            _SQL["queue_page_again"],
            claim.job_id,
            index,
            document_id,
            input_json(page.given),
        )
    await connection.copy_records_to_table(
        "ingestion_payloads",
        records=(
            (claim.job_id, index, part, data) for part, data in enumerate(payload_parts(page.given.content))
        ),
        columns=("job_id", "item_index", "part", "data"),
    )
    return True


async def _item_index(connection: Connection, claim: ItemClaim, uri: str) -> tuple[int | None, bool]:
    """Return the index for a page in the crawl's job, and whether it is new; no index if the job has the
    page, with its content or without need of it. The crawl stays locked: pages join its job one by one."""
    await require_held(connection, claim)
    known = await connection.fetchrow(
        _SQL["page_index"],
        claim.job_id,
        uri,
    )
    if known:
        return (known["item_index"] if known["is_missing"] else None), False
    index: int = await connection.fetchval(
        "SELECT max(item_index) + 1 FROM ingestion_items WHERE job_id = $1::uuid", claim.job_id
    )
    return index, True
