"""Erasures that a restored backup does not know yet."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import asyncpg
from groundline_database import Connection, is_held_document

from groundline_ingestor.adapters.postgres.collections import delete_collection
from groundline_ingestor.adapters.postgres.documents.deletion import delete_documents

_READ: Final = "SELECT coalesce(jsonb_agg(to_jsonb(e) ORDER BY create_time), '[]') FROM erasures e"
_ADD: Final = """
    INSERT INTO erasures SELECT * FROM jsonb_populate_recordset(null::erasures, $1)
    ON CONFLICT DO NOTHING RETURNING *
"""
# Collections that another one has been created in place of are not meant.
_COLLECTION: Final = """
    SELECT EXISTS (SELECT FROM legal_holds h WHERE h.collection_id = c.collection_id)
        OR EXISTS (SELECT FROM thread_holds h WHERE h.collection_id = c.collection_id) AS is_held
    FROM collections c WHERE collection_id = $1 AND create_time < $2
"""
# Erasures of earlier releases tell what was handed in alone.
_ERASED: Final = """
    (document_id = ANY($2::uuid[]) OR $2::uuid[] IS NULL AND (content_hash = ANY($3::bytea[]) OR EXISTS (
        SELECT FROM document_revisions r
        WHERE r.document_id = documents.document_id AND r.content_hash = ANY($3::bytea[])
    )))
"""
_HELD: Final = f"""
    SELECT document_id::text FROM documents
    WHERE collection_id = $1 AND {_ERASED} AND {is_held_document("documents")} ORDER BY document_id
"""  # noqa: S608

type HeldBack = tuple[str, str]
"""Collection, and the document of it, or "" for all, that a legal hold keeps."""


async def read_erasures(connection: Connection) -> Sequence[Mapping[str, Any]]:
    """Return the rows of all erasures as JSON, the oldest first; none of a release that had no erasures."""
    if await connection.fetchval("SELECT to_regclass('erasures')") is None:
        return []
    found: Sequence[Mapping[str, Any]] = await connection.fetchval(_READ)
    return found


async def erase_again(
    connection: Connection, erasures: Sequence[Mapping[str, Any]]
) -> tuple[int, Sequence[HeldBack]]:
    """Erase in a restored database what its backup still had, by rows of `read_erasures`; in a transaction,
    with nobody else at work.

    Erasures that the database knows are passed over. Returns the number of documents that are gone, and what
    stays because the backup has a legal hold on it.
    """
    erased, held = 0, list[HeldBack]()
    for row in await connection.fetch(_ADD, erasures):
        count, kept = await (_erase_collection if row["is_collection"] else _erase_documents)(connection, row)
        erased += count
        held += kept
    return erased, held


async def _erase_collection(connection: Connection, row: asyncpg.Record) -> tuple[int, Sequence[HeldBack]]:
    collection_id = row["collection_id"]
    found = await connection.fetchrow(_COLLECTION, collection_id, row["create_time"])
    if found is None:
        return 0, ()
    if found["is_held"]:
        return 0, [(collection_id, "")]
    count: int = await connection.fetchval(
        "SELECT count(*) FROM documents WHERE collection_id = $1", collection_id
    )
    await delete_collection(connection, collection_id)
    return count, ()


async def _erase_documents(connection: Connection, row: asyncpg.Record) -> tuple[int, Sequence[HeldBack]]:
    collection_id, erased = row["collection_id"], (row["document_ids"], row["content_hashes"])
    count = await delete_documents(connection, collection_id, _ERASED, erased, spare_held=True)
    held = await connection.fetch(_HELD, collection_id, *erased)
    return count, [(collection_id, each["document_id"]) for each in held]
