"""Documents within documents, in PostgreSQL: attachments of mails and members of archives."""

# ruff: noqa: S608 - what is put into SQL here are constants and names that chunk_table() makes of numbers

from collections.abc import Sequence

from groundline.v1 import job_pb2
from groundline_database import Connection
from groundline_indexing.collections import StoredCollection
from groundline_indexing.documents import HandedIn
from groundline_indexing.partitions import chunk_table
from groundline_indexing.revisions.keeping import keep_revisions, settle_revisions
from groundline_indexing.revisions.past import RENEWED, past_partition, retire

from groundline_ingestor.adapters.postgres.documents.deletion import WITHIN, delete_documents
from groundline_ingestor.adapters.postgres.items import ItemKey, require_held, save_items
from groundline_ingestor.adapters.postgres.jobs import insert_documents, insert_items
from groundline_ingestor.domain.jobs import ItemState, fail, skip
from groundline_ingestor.domain.work import ItemClaim, NewVersion


async def replace_members(
    connection: Connection,
    collection: StoredCollection,
    partition_id: int,
    versions: Sequence[NewVersion],
    *,
    replaced: Sequence[str],
) -> None:
    """Replace the documents within those that the transaction has stored by the members found, if any were
    looked for. `replaced`: uris that had an earlier version.

    Raises ClaimLostError.
    """
    containers = [new for new in versions if new.members is not None]
    earlier = [new.version.uri for new in containers if new.version.uri in set(replaced)]
    if earlier:
        kept = [one.version.uri for new in containers for one in new.members or () if not one.is_skipped]
        rows = await connection.fetch(
            f"{WITHIN} SELECT document_id FROM within WHERE uri <> ALL($3::text[])",
            collection.collection_id,
            earlier,
            kept,
        )
        if rows:
            ids = [row["document_id"] for row in rows]
            await delete_documents(
                connection, collection.collection_id, "document_id = ANY($2::uuid[])", [ids], spare_held=True
            )
    for new in containers:
        if new.members:
            if new.version.uri in earlier:
                await _restrict(connection, collection.collection_id, partition_id, new)
            assert new.claim is not None, "only what is handed in is looked into"
            await _queue(connection, collection, new.claim, new.members)


async def _restrict(connection: Connection, collection_id: str, partition_id: int, new: NewVersion) -> None:
    """Give the documents within one its principals now: its items may take a while."""
    principals = list(new.version.allowed_principals)
    rows = await connection.fetch(
        f"""
        {WITHIN} SELECT document_id FROM documents
        WHERE document_id IN (SELECT document_id FROM within) AND allowed_principals <> $3
        ORDER BY uri FOR NO KEY UPDATE
        """,
        collection_id,
        [new.version.uri],
        principals,
    )
    changed = [row["document_id"] for row in rows]
    await keep_revisions(connection, changed)
    await connection.execute(
        """
        UPDATE documents SET allowed_principals = $2, version = version + 1, update_time = clock_timestamp()
        WHERE document_id = ANY($1::uuid[])
        """,
        changed,
        principals,
    )
    await settle_revisions(connection, changed)
    if (past := await past_partition(connection, collection_id)) is not None:
        await retire(connection, partition_id, past, "c.document_id = ANY($1::uuid[])", changed)
    renewed = RENEWED if past is not None else ""
    await connection.execute(
        f"""
        UPDATE {chunk_table(partition_id)} c
        SET allowed_principals = $2, update_time = d.update_time{renewed}
        FROM documents d WHERE c.document_id = ANY($1::uuid[]) AND d.document_id = c.document_id
        """,
        changed,
        principals,
    )


async def _queue(
    connection: Connection, collection: StoredCollection, claim: ItemClaim, members: Sequence[HandedIn]
) -> None:
    """Add items for the finds of a claim's item to its job."""
    await insert_documents(connection, collection, [one for one in members if not one.failure])
    # Adding items to a job takes the lock on its first one, which crawls and runs of sources are.
    await connection.execute(
        "SELECT FROM ingestion_items WHERE job_id = $1::uuid AND item_index = 0 FOR UPDATE", claim.job_id
    )
    await require_held(connection, claim)
    first: int = await connection.fetchval(
        "SELECT max(item_index) + 1 FROM ingestion_items WHERE job_id = $1::uuid", claim.job_id
    )
    numbered = list(enumerate(members, start=first))
    await insert_items(connection, collection.collection_id, claim.job_id, numbered)
    await save_items(connection, _refused(claim.job_id, numbered))
    await connection.execute(
        "UPDATE ingestion_items SET member_count = $3 WHERE job_id = $1::uuid AND item_index = $2",
        claim.job_id,
        claim.item_index,
        len(members),
    )


def _refused(job_id: str, numbered: Sequence[tuple[int, HandedIn]]) -> dict[ItemKey, ItemState]:
    """Return the items of files that are not read."""
    return {
        (job_id, index): skip(ItemState(), one.failure)
        if one.is_skipped
        else fail(ItemState(), one.failure, job_pb2.ChunkCounts())
        for index, one in numbered
        if one.failure
    }
