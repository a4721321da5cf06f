"""Short forms of what tests of the ingestor's stores do with them."""

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from groundline.v1 import document_pb2, error_pb2, job_pb2
from groundline.v1 import ingestor_service_pb2 as pb
from groundline_database import Pool, acquire
from groundline_extraction.documents import GivenDocument
from groundline_extraction.texts import TextSegment
from groundline_filters import Filter, parse
from groundline_indexing.collections import StoredCollection
from groundline_indexing.documents import DocumentVersion, HandedIn
from groundline_indexing.partitions import chunk_table
from groundline_indexing.texts import PreparedChunk, Section, Vectors
from groundline_ingestor.adapters.postgres.stores import Stores
from groundline_ingestor.domain.documents import DocumentKey, DocumentOrder
from groundline_ingestor.domain.work import (
    ClaimLostError,
    LeasedItem,
    NewVersion,
    OrderedCrawl,
    StoredOutcome,
)
from groundline_runtime.errors import GroundlineError
from groundline_signatures import signature

from groundline_tests.ingestor.messages import a_collection, a_version

AS_EARLIER: Final = """
    WITH cut AS (
        SELECT r.revision, start, (row_number() OVER (ORDER BY r.revision, start))::integer - 1 AS segment,
               (document_text(r.document_id, r.revision, start, start + 300)).text
        FROM document_revisions r CROSS JOIN generate_series(0, r.character_count, 300) AS start
        WHERE r.document_id = $1::uuid
    ), segments AS (
        INSERT INTO revision_segments (document_id, segment, digest, text)
        SELECT $1::uuid, segment, sha256(convert_to(text, 'UTF8')), text FROM cut WHERE text IS NOT NULL
    ), runs AS (
        SELECT revision, array_agg(segment ORDER BY start) AS firsts, array_agg(1) AS counts
        FROM cut WHERE text IS NOT NULL GROUP BY revision
    ), layouts AS (DELETE FROM revision_layouts WHERE document_id = $1::uuid),
    texts AS (DELETE FROM revision_texts WHERE document_id = $1::uuid)
    UPDATE document_revisions r
    SET layout = NULL, base_layout = NULL, firsts = runs.firsts, counts = runs.counts
    FROM runs WHERE r.document_id = $1::uuid AND r.revision = runs.revision
"""
"""Statement that stores a document's revisions as releases before migration 20 did."""
EARLIER_SEGMENTS: Final = """
    SELECT s.text
    FROM document_revisions r
    CROSS JOIN unnest(r.firsts, r.counts) WITH ORDINALITY AS runs (first, count, run)
    JOIN revision_segments s ON s.document_id = r.document_id
        AND s.segment BETWEEN runs.first AND runs.first + runs.count - 1
    WHERE r.document_id = $1::uuid AND r.revision = $2
    ORDER BY runs.run, s.segment
"""
"""Statement by which these read a revision to put it back."""

DIMENSIONS: Final = 8
MAXIMUM_ATTEMPTS: Final = 3
CRAWL: Final = OrderedCrawl(pb.WebCrawl(start_url="https://a.test/"))
FAILURE: Final = document_pb2.IngestionFailure(
    stage=document_pb2.INGESTION_STATE_EXTRACTING,
    reason=error_pb2.EMPTY_TEXT,
    message="the document holds no text",
)


async def expire(stores: Stores) -> None:
    async with asyncio.timeout(10):
        expired = 0
        while not expired:
            # Longer than the leases: each row has its own end, and all of them are to be over.
            await asyncio.sleep(0.05)
            expired = await stores.queue.expire(MAXIMUM_ATTEMPTS)


async def loses_claim(call: Any) -> bool:
    try:
        await call
    except ClaimLostError:
        return True
    return False


async def listed(
    stores: Stores,
    collection_id: str,
    *principals: str,
    selection: Filter | None = None,
    order: DocumentOrder | None = None,
    after: DocumentKey | None = None,
    limit: int = 100,
) -> Sequence[document_pb2.Document]:
    return await stores.documents.list_readable(
        collection_id,
        principals,
        selection=selection or parse({}),
        order=order or DocumentOrder(),
        after=after,
        limit=limit,
    )


async def lease_crawl(
    stores: Stores, *, seconds: float = 60, alone: bool = True
) -> tuple[LeasedItem, OrderedCrawl] | None:
    return await stores.crawls.lease(str(uuid.uuid4()), seconds=seconds, alone=alone)


async def next_crawl(stores: Stores, *, seconds: float = 60) -> tuple[LeasedItem, OrderedCrawl]:
    """Lease a crawl, which there is."""
    leased = await lease_crawl(stores, seconds=seconds)
    assert leased is not None
    return leased


async def begin_crawl(stores: Stores, collection: StoredCollection) -> tuple[str, LeasedItem]:
    """Id of the job, and the item that was leased."""
    job_id = await stores.crawls.enqueue(collection, CRAWL, (), "")
    return job_id, (await next_crawl(stores))[0]


async def lease(stores: Stores, *, seconds: float = 60, suspects: bool = False) -> Sequence[LeasedItem]:
    return list(
        await stores.queue.lease(
            str(uuid.uuid4()), models=["model"], limit=10, seconds=seconds, suspects=suspects
        )
    )


def a_hand_in(uri: str) -> HandedIn:
    return HandedIn(GivenDocument(uri, uri=uri), a_version(uri, uri))


def a_new(version: DocumentVersion, *texts: str) -> NewVersion:
    return NewVersion(
        version, [_chunk(text) for text in texts], _vectors(len(texts)), [TextSegment(" ".join(texts))]
    )


async def lease_alone(stores: Stores, collection: StoredCollection, uri: str) -> LeasedItem:
    """Lease a document that is handed in by itself."""
    await stores.jobs.enqueue(collection, [a_hand_in(uri)], ["user:ann"], "")
    found = [item for item in await lease(stores) if item.uri == uri]
    return found[0]


def a_member(
    uri: str,
    content: str = "",
    *,
    container: str = "a.zip",
    failure: document_pb2.IngestionFailure | None = None,
) -> HandedIn:
    version = replace(a_version(uri, content), container_uri=container)
    return HandedIn(GivenDocument(content.encode(), uri=uri, container_uri=container), version, failure)


async def store_container(
    stores: Stores,
    collection: StoredCollection,
    item: LeasedItem,
    members: Sequence[HandedIn] | None,
    *,
    readers: tuple[str, ...] = (),
) -> None:
    """Store the item's document with its members; None if none were looked for."""
    version = replace(
        a_version(item.uri, item.uri), container_uri=item.container_uri, allowed_principals=readers
    )
    new = replace(a_new(version, "text"), claim=item.claim, principals=item.principals, members=members)
    await stores.versions.store(collection, [new])


async def uris(stores: Stores, collection: StoredCollection, *principals: str) -> list[str]:
    return [one.uri for one in await listed(stores, collection.collection_id, *principals)]


async def refusal(call: Any) -> type[GroundlineError] | None:
    try:
        await call
    except GroundlineError as error:
        return type(error)
    return None


async def create(
    stores: Stores,
    collection_id: str,
    *,
    readers: tuple[str, ...] = ("*",),
    writers: tuple[str, ...] = ("*",),
    creator: str = "",
    request_id: str = "",
) -> StoredCollection:
    new = a_collection(collection_id, dimensions=DIMENSIONS, readers=readers, writers=writers)
    return await stores.collections.create(new, creator, request_id)


async def store(stores: Stores, collection: StoredCollection, uri: str, *texts: str) -> StoredOutcome:
    [stored] = await stores.versions.store(collection, [a_new(a_version(uri, " ".join(texts)), *texts)])
    return stored


def _chunk(text: str) -> PreparedChunk:
    return PreparedChunk(Section(text, 0, len(text)), "", text, signature(text))


def _vectors(count: int) -> Vectors:
    return np.ones((count, DIMENSIONS), np.float16)


async def job_of(stores: Stores, job_id: str) -> job_pb2.IngestionJob:
    """Return a job that there is."""
    job = await stores.jobs.find(job_id)
    assert job is not None
    return job


async def texts_of(pool: Pool, collection: StoredCollection, document_id: str) -> Sequence[str]:
    """Return the texts of a document's chunks, in order, from the partition itself."""
    async with acquire(pool) as connection:
        rows = await connection.fetch(
            f"SELECT original_text FROM {chunk_table(collection.partition_id)} "
            "WHERE document_id = $1::uuid ORDER BY chunk_index",
            document_id,
        )
    return [row["original_text"] for row in rows]
