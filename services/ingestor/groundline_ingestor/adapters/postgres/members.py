"""Documents within documents, in PostgreSQL: attachments of mails and members of archives."""

# ruff: noqa: S608 - what is put into SQL here are constants and names that chunk_table() makes of numbers

from collections.abc import Sequence
from dataclasses import replace
from itertools import batched
from typing import Final

from groundline.v1 import job_pb2
from groundline_database import Connection, is_replaceable_document
from groundline_indexing.collections import StoredCollection
from groundline_indexing.documents import Member
from groundline_indexing.partitions import chunk_table

from groundline_ingestor.adapters.postgres.deletion import WITHIN, delete_documents
from groundline_ingestor.adapters.postgres.items import ItemKey, require_held, save_items
from groundline_ingestor.adapters.postgres.jobs import insert_documents, payload_parts
from groundline_ingestor.adapters.postgres.records import input_json
from groundline_ingestor.domain.jobs import ItemState, fail, skip
from groundline_ingestor.domain.work import ItemClaim, NewVersion

__all__ = ["replace_members"]

PARTS_AT_ONCE: Final = 64
"""Parts of contents in one COPY, 64 MiB: far below a statement's time limit."""


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
                connection, collection.collection_id, "document_id = ANY($2::uuid[])", [ids]
            )
    for new in containers:
        if new.members:
            if new.version.uri in earlier:
                await _restrict(connection, collection.collection_id, partition_id, new)
            assert new.claim is not None, "only what is handed in is looked into"
            await _queue(connection, collection, new.claim, new.members)


async def _restrict(connection: Connection, collection_id: str, partition_id: int, new: NewVersion) -> None:
    """Give the documents within one its principals now: its items may take a while."""
    changed = await connection.fetch(
        f"""
        {WITHIN} UPDATE documents d
        SET allowed_principals = $3, version = version + 1, update_time = clock_timestamp()
        FROM within w WHERE d.document_id = w.document_id AND d.allowed_principals <> $3
        RETURNING d.document_id
        """,
        collection_id,
        [new.version.uri],
        list(new.version.allowed_principals),
    )
    await connection.execute(
        f"""
        UPDATE {chunk_table(partition_id)} SET allowed_principals = $2, update_time = clock_timestamp()
        WHERE document_id = ANY($1::uuid[])
        """,
        [row["document_id"] for row in changed],
        list(new.version.allowed_principals),
    )


async def _queue(
    connection: Connection, collection: StoredCollection, claim: ItemClaim, members: Sequence[Member]
) -> None:
    """Add items for the finds of a claim's item to its job."""
    found = [one for one in members if not one.failure]
    await insert_documents(connection, collection, [(one.given, one.version) for one in found])
    # A document that must not be replaced stays unknown to the job.
    rows = await connection.fetch(
        f"""
        SELECT d.uri, d.document_id FROM documents d JOIN ingestion_jobs j ON j.job_id = $3::uuid
        JOIN unnest($2::text[], $4::text[]) AS m (uri, container_uri) ON m.uri = d.uri
        WHERE d.collection_id = $1
          AND {is_replaceable_document("j.principals", "d", container="m.container_uri")}
        """,
        collection.collection_id,
        [one.version.uri for one in found],
        claim.job_id,
        [one.version.container_uri for one in found],
    )
    ids = {row["uri"]: row["document_id"] for row in rows}
    # Adding items to a job takes the lock on its first one, which crawls and runs of sources are.
    await connection.execute(
        "SELECT FROM ingestion_items WHERE job_id = $1::uuid AND item_index = 0 FOR UPDATE", claim.job_id
    )
    await require_held(connection, claim)
    first: int = await connection.fetchval(
        "SELECT max(item_index) + 1 FROM ingestion_items WHERE job_id = $1::uuid", claim.job_id
    )
    numbered = list(enumerate(members, start=first))
    await connection.copy_records_to_table(
        "ingestion_items",
        records=[
            (
                claim.job_id,
                index,
                collection.collection_id,
                one.version.uri,
                None if one.failure else ids.get(one.version.uri),
                "queued",
                input_json(replace(one.given, metadata={}) if one.failure else one.given),
            )
            for index, one in numbered
        ],
        columns=("job_id", "item_index", "collection_id", "uri", "document_id", "state", "input"),
    )
    await save_items(connection, _refused(claim.job_id, numbered))
    payloads = (
        (claim.job_id, index, part, data)
        for index, one in numbered
        if not one.failure
        for part, data in enumerate(payload_parts(one.given.content))
    )
    for batch in batched(payloads, PARTS_AT_ONCE):
        await connection.copy_records_to_table(
            "ingestion_payloads", records=batch, columns=("job_id", "item_index", "part", "data")
        )
    await connection.execute(
        "UPDATE ingestion_items SET member_count = $3 WHERE job_id = $1::uuid AND item_index = $2",
        claim.job_id,
        claim.item_index,
        len(members),
    )


def _refused(job_id: str, numbered: Sequence[tuple[int, Member]]) -> dict[ItemKey, ItemState]:
    """Return the items of files that are not read."""
    return {
        (job_id, index): skip(ItemState(), one.failure)
        if one.is_skipped
        else fail(ItemState(), one.failure, job_pb2.ChunkCounts())
        for index, one in numbered
        if one.failure
    }
