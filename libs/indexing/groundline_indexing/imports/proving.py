"""An import that is tried before it is switched to, as the candidate of its collection's index."""

# ruff: noqa: S608 - what is put into SQL here are names made of numbers

from groundline_database import Connection, is_held_document

from groundline_indexing.imports.opened import Import
from groundline_indexing.imports.records import ImportFailedError
from groundline_indexing.partitions import PENDING


async def offer(connection: Connection, target: Import) -> None:
    """Let searches that ask for the candidate find what the attached import will make of the collection.

    Its new documents are listed from now on, as those that wait to be ingested are. Raises ImportFailedError.
    """
    async with connection.transaction():
        found = await connection.fetchrow(
            """
            SELECT candidate_partition_id, EXISTS (
                SELECT FROM legal_holds h WHERE h.collection_id = c.collection_id AND h.document_id IS NULL
            ) AS is_held FROM collections c WHERE collection_id = $1 FOR UPDATE
            """,
            target.collection_id,
        )
        if found is None:
            raise ImportFailedError(f"the collection {target.collection_id} was deleted meanwhile")
        if found["candidate_partition_id"] not in (None, target.partition_id):
            raise ImportFailedError(f"{target.collection_id} has another index that waits to be used")
        if found["is_held"]:
            raise ImportFailedError(
                f"{target.collection_id} is under a legal hold, so that new documents could not be taken "
                "back: import without a gate"
            )
        # An empty ingestion_hash, as of documents that were handed in and have no chunks yet.
        await connection.execute(
            f"""
            INSERT INTO documents
                (document_id, collection_id, uri, source_type, title, mime_type, content_hash, input_hash,
                 ingestion_hash, size_bytes, metadata, allowed_principals, state, create_time)
            SELECT document_id, collection_id, uri, source_type, title, mime_type, content_hash, input_hash,
                   ''::bytea, size_bytes, metadata, allowed_principals, 'queued', create_time
            FROM {target.documents} WHERE seen_version IS NULL
            ON CONFLICT DO NOTHING
            """
        )
        await connection.execute(
            f"""
            UPDATE {target.documents} s SET seen_version = d.version FROM documents d
            WHERE d.document_id = s.document_id AND s.seen_version IS NULL
            """
        )
        await connection.execute(
            f"""
            INSERT INTO reindexed_documents
                (partition_id, document_id, version, ingestion_hash, chunk_count, token_count)
            SELECT $1, document_id, d.version, d.ingestion_hash, d.chunk_count, d.token_count FROM (
                SELECT document_id, version FROM {target.kept}
                UNION ALL SELECT document_id, seen_version FROM {target.documents}
            ) AS copied (document_id, version) JOIN documents d USING (document_id, version)
            ON CONFLICT (partition_id, document_id) DO UPDATE SET version = excluded.version
            """,
            target.partition_id,
        )
        await connection.execute(
            "UPDATE collections SET candidate_partition_id = $2 WHERE collection_id = $1", *target
        )


async def withdraw(connection: Connection, target: Import) -> None:
    """Take back what `offer` did, if it was called, except what was handed in since; in a transaction."""
    if not await connection.fetchval(
        """
        UPDATE collections SET candidate_partition_id = NULL
        WHERE (collection_id, candidate_partition_id) = ($1, $2) RETURNING true
        """,
        *target,
    ):
        return
    await connection.execute(
        f"""
        WITH gone AS (
            DELETE FROM documents d USING {target.documents} s
            WHERE d.document_id = s.document_id AND d.ingestion_hash = ''::bytea
                AND NOT {is_held_document("d")} AND NOT EXISTS (
                    SELECT FROM ingestion_items i WHERE (i.collection_id, i.uri) = (d.collection_id, d.uri)
                        AND i.{PENDING}
                )
            RETURNING d.document_id
        )
        UPDATE {target.documents} s SET seen_version = NULL FROM gone WHERE s.document_id = gone.document_id
        """
    )
    await connection.execute("DELETE FROM reindexed_documents WHERE partition_id = $1", target.partition_id)
