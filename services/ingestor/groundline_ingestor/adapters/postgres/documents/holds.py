"""Legal holds in PostgreSQL, whose triggers refuse to delete what is held."""

from collections.abc import Sequence
from typing import Any, Final

import asyncpg
from groundline.v1 import ingestor_service_pb2 as pb
from groundline_database import Connection, Pool, acquire, is_held_document, transaction
from groundline_indexing.collections import StoredCollection
from groundline_runtime.errors import NotFoundError

from groundline_ingestor.adapters.postgres.collections import hold_collection
from groundline_ingestor.domain.times import timestamp

__all__ = ["PostgresHolds", "held_among"]

_IS_HELD: Final = is_held_document("d")


class PostgresHolds:
    """Store of legal holds. Any method raises UnavailableError while the store is down."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def change(self, collection: StoredCollection, document_ids: Sequence[str], reason: str) -> int:
        """Set holds of documents, or without any of the collection, for a reason; release them for an empty
        one. Return their number. Raises NotFoundError for a document that is not there."""
        collection_id = collection.collection_id
        wanted: Sequence[str | None] = list(dict.fromkeys(document_ids)) or [None]
        async with transaction(self._pool) as connection:
            # A deletion waits for these locks, and sees the hold then.
            await hold_collection(connection, collection)
            found = await connection.fetch(
                """
                SELECT document_id::text FROM documents
                WHERE collection_id = $1 AND document_id = ANY($2::uuid[]) ORDER BY uri FOR KEY SHARE
                """,
                collection_id,
                list(document_ids),
            )
            known = {row["document_id"] for row in found}
            for document_id in document_ids:
                if document_id.lower() not in known:
                    raise NotFoundError("DOCUMENT_NOT_FOUND", f"no document {document_id}")
            if not reason:
                rows = await connection.fetch(
                    """
                    DELETE FROM legal_holds WHERE collection_id = $1
                    AND CASE WHEN $3 THEN document_id IS NULL ELSE document_id = ANY($2::uuid[]) END
                    RETURNING true
                    """,
                    collection_id,
                    list(document_ids),
                    not document_ids,
                )
                return len(rows)
            await connection.execute(
                """
                INSERT INTO legal_holds (collection_id, document_id, reason)
                SELECT $1, document_id, $3 FROM unnest($2::uuid[]) AS wanted (document_id)
                ON CONFLICT (collection_id, document_id) DO UPDATE SET reason = excluded.reason
                """,
                collection_id,
                wanted,
                reason,
            )
        return len(wanted)

    async def list_holds(
        self, collection_id: str, *, after: str | None, limit: int
    ) -> Sequence[pb.LegalHold]:
        """Return the first `limit` holds behind the document `after`, "" for the collection's own."""
        async with acquire(self._pool) as connection:
            rows = await connection.fetch(
                """
                SELECT h.document_id, d.uri, h.reason, h.create_time
                FROM legal_holds h LEFT JOIN documents d USING (document_id)
                WHERE h.collection_id = $1 AND ($2::text IS NULL OR h.document_id > nullif($2, '')::uuid
                    OR $2 = '' AND h.document_id IS NOT NULL)
                ORDER BY h.document_id NULLS FIRST LIMIT $3
                """,
                collection_id,
                after,
                limit,
            )
        return [_hold(row) for row in rows]


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
        uri=row["uri"] or "",
        reason=row["reason"],
        create_time=timestamp(row["create_time"]),
    )
