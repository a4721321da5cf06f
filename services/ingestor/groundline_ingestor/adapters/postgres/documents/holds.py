"""Legal holds in PostgreSQL, whose triggers refuse to delete what is held."""

from collections.abc import Sequence
from typing import Any, Final

import asyncpg
from groundline.v1 import ingestor_service_pb2 as pb
from groundline_contracts.times import timestamp
from groundline_database import Connection, Pool, acquire, is_held_document, transaction
from groundline_indexing.collections import StoredCollection
from groundline_runtime.errors import NotFoundError

from groundline_ingestor.adapters.postgres.collections import hold_collection

_IS_HELD: Final = is_held_document("d")

_DOCUMENTS: Final = """
    SELECT document_id::text AS id FROM documents
    WHERE collection_id = $1 AND document_id = ANY($2::uuid[]) ORDER BY uri FOR KEY SHARE
"""
_THREADS: Final = """
    SELECT c.thread_id::text AS id FROM cited_revisions c JOIN documents d USING (document_id)
    WHERE d.collection_id = $1 AND c.thread_id = ANY($2::uuid[])
    ORDER BY c.thread_id, c.document_id, c.revision FOR KEY SHARE OF c
"""
_SET: Final = """
    INSERT INTO legal_holds (collection_id, document_id, reason)
    SELECT $1, document_id, $3 FROM unnest($2::uuid[]) AS wanted (document_id)
    ON CONFLICT (collection_id, document_id) DO UPDATE SET reason = excluded.reason RETURNING true
"""
_SET_THREADS: Final = """
    INSERT INTO thread_holds (collection_id, thread_id, reason)
    SELECT $1, thread_id, $3 FROM unnest($2::uuid[]) AS wanted (thread_id)
    ON CONFLICT (thread_id, collection_id) DO UPDATE SET reason = excluded.reason RETURNING true
"""
_RELEASE: Final = """
    DELETE FROM legal_holds USING unnest($2::uuid[]) AS wanted (document_id)
    WHERE collection_id = $1 AND legal_holds.document_id IS NOT DISTINCT FROM wanted.document_id
    RETURNING true
"""
_RELEASE_THREADS: Final = """
    DELETE FROM thread_holds WHERE collection_id = $1 AND thread_id = ANY($2::uuid[]) RETURNING true
"""
# By page_key, in which threads follow documents.
_LIST: Final = """
    SELECT * FROM (
        SELECT coalesce(document_id::text, '') AS key, document_id, NULL::uuid AS thread_id, d.uri,
               h.reason, h.create_time
        FROM legal_holds h LEFT JOIN documents d USING (document_id) WHERE h.collection_id = $1
        UNION ALL
        SELECT 'thread ' || thread_id, NULL, thread_id, NULL, reason, create_time
        FROM thread_holds WHERE collection_id = $1
    ) AS held
    WHERE $2::text IS NULL OR key COLLATE "C" > $2 ORDER BY key COLLATE "C" LIMIT $3
"""


class PostgresHolds:
    """Store of legal holds. Any method raises UnavailableError while the store is down."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def change(
        self,
        collection: StoredCollection,
        document_ids: Sequence[str],
        thread_ids: Sequence[str],
        reason: str,
    ) -> int:
        """Set holds of documents and threads, or without any of the collection, for a reason; release them
        for an empty one. Return their number. Raises NotFoundError for a document that is not there, and for
        a thread that cites none of the collection."""
        collection_id = collection.collection_id
        is_whole = not document_ids and not thread_ids
        held: Sequence[str | None] = [None] if is_whole else list(dict.fromkeys(document_ids))
        async with transaction(self._pool) as connection:
            # A deletion waits for these locks, and sees the hold then.
            await hold_collection(connection, collection)
            for name, ids, statement in (
                ("document", document_ids, _DOCUMENTS),
                ("thread", thread_ids, _THREADS),
            ):
                found = await connection.fetch(statement, collection_id, list(ids))
                known = {row["id"] for row in found}
                for one in ids:
                    if one.lower() not in known:
                        raise NotFoundError(f"{name.upper()}_NOT_FOUND", f"no {name} {one}")
            statements = (_SET, _SET_THREADS) if reason else (_RELEASE, _RELEASE_THREADS)
            count = 0
            for statement, of in zip(statements, (held, list(dict.fromkeys(thread_ids))), strict=True):
                values = (collection_id, of, reason) if reason else (collection_id, of)
                count += len(await connection.fetch(statement, *values))
        return count

    async def list_holds(
        self, collection_id: str, *, after: str | None, limit: int
    ) -> Sequence[pb.LegalHold]:
        """Return the first `limit` holds behind the one of the `page_key` `after`."""
        async with acquire(self._pool) as connection:
            rows = await connection.fetch(_LIST, collection_id, after, limit)
        return [_hold(row) for row in rows]


def page_key(hold: pb.LegalHold) -> str:
    """Return what holds of a collection are listed by."""
    return f"thread {hold.thread_id}" if hold.thread_id else hold.document_id


async def held_among(connection: Connection, document_ids: Sequence[Any]) -> set[Any]:
    """Return those of the documents that are held."""
    rows = await connection.fetch(
        f"SELECT document_id FROM documents d WHERE document_id = ANY($1::uuid[]) AND {_IS_HELD}",  # noqa: S608
        document_ids,
    )
    return {row["document_id"] for row in rows}


def _hold(row: asyncpg.Record) -> pb.LegalHold:
    return pb.LegalHold(
        document_id=str(row["document_id"] or ""),
        thread_id=str(row["thread_id"] or ""),
        uri=row["uri"] or "",
        reason=row["reason"],
        create_time=timestamp(row["create_time"]),
    )
