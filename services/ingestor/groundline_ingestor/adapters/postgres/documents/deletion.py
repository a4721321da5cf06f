"""Deletion of documents in PostgreSQL, with the documents within them."""

# ruff: noqa: S608 - what is put into SQL here are constants and names of tables

from collections.abc import Sequence
from typing import Any, Final

from groundline_database import Connection, in_bulk
from groundline_indexing.erasure import forget_cached_chunks, forget_handed_in
from groundline_indexing.partitions import partitions_with

from groundline_ingestor.adapters.postgres.documents.erasures import record_erasure
from groundline_ingestor.adapters.postgres.documents.holds import held_among
from groundline_ingestor.adapters.postgres.items import cancel_items_of

WITHIN: Final = """
    WITH RECURSIVE within AS (
        SELECT document_id, uri, state FROM documents
        WHERE collection_id = $1 AND container_uri = ANY($2::text[]) AND container_uri <> ''
        UNION
        SELECT d.document_id, d.uri, d.state FROM documents d JOIN within w ON d.container_uri = w.uri
        WHERE d.collection_id = $1 AND d.container_uri <> ''
    )
"""
"""Expression for the documents within those of the uris $2, at all depths."""


async def delete_documents(
    connection: Connection,
    collection_id: str,
    predicate: str,
    values: Sequence[Any],
    *,
    spare_held: bool = False,
) -> int:
    """Delete documents by a condition whose values are numbered from $2, and those within them, and cancel
    their unfinished items; return their number.

    Raises FailedPreconditionError (LEGAL_HOLD) when one is held, unless those are to be spared.
    """
    with in_bulk():
        uris = await remove_documents(connection, collection_id, predicate, values, spare_held=spare_held)
        if uris:
            await cancel_items_of(connection, collection_id, uris)
            await forget_handed_in(connection, collection_id, uris)
    return len(uris)


async def remove_documents(
    connection: Connection,
    collection_id: str,
    predicate: str,
    values: Sequence[Any],
    *,
    spare_held: bool = False,
) -> Sequence[str]:
    """Delete documents as `delete_documents` does, but leave items alone: unfinished ones bring them back.
    Returns the uris."""
    rows = await connection.fetch(
        f"""
        SELECT document_id, uri FROM documents WHERE collection_id = $1 AND {predicate}
        ORDER BY uri FOR UPDATE
        """,
        collection_id,
        *values,
    )
    if not rows:
        return []
    rows += await connection.fetch(
        f"""
        {WITHIN} SELECT document_id, uri FROM documents
        WHERE document_id IN (SELECT document_id FROM within) ORDER BY uri FOR UPDATE
        """,
        collection_id,
        [row["uri"] for row in rows],
    )
    deleted = {row["document_id"]: row["uri"] for row in rows}
    if spare_held:
        for held in await held_among(connection, list(deleted)):
            del deleted[held]
    condition, ids = "document_id = ANY($1::uuid[])", list(deleted)
    await record_erasure(connection, collection_id, ids)
    await connection.execute(f"DELETE FROM documents WHERE {condition}", ids)
    # Partitions that wait to be dropped are included: a search that began before a swap reads them.
    for partition in await partitions_with(connection, collection_id):
        await forget_cached_chunks(connection, partition, condition, ids)
        await connection.execute(f"DELETE FROM {partition.table} WHERE {condition}", ids)
    return list(deleted.values())
