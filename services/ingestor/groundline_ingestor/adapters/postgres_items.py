"""What ends an item of a job, inside the transaction that makes it so."""

# ruff: noqa: S608 - what is put into SQL here are constants

from collections.abc import Sequence
from typing import Any, Final

from groundline_database import Connection

from groundline_ingestor.domain import Claim, IngestionOutcome, NewVersion
from groundline_ingestor.ports import ClaimLostError

__all__ = ["HELD", "PENDING", "cancel_items_of", "finish", "held_by"]

PENDING: Final = "state NOT IN ('done', 'failed', 'cancelled')"
"""As the partial indexes have it."""

HELD: Final = f"job_id = $1::uuid AND item_index = $2 AND lease_id = $3::uuid AND {PENDING}"
"""Of the item that a claim is on, while it holds; its values are `held_by`'s."""


def held_by(claim: Claim) -> tuple[Any, ...]:
    """$1 to $3 of HELD."""
    return claim.job_id, claim.item_index, claim.lease_id


async def finish(
    connection: Connection,
    claim: Claim,
    document_id: str,
    outcome: IngestionOutcome,
    new: NewVersion | None,
) -> None:
    """Mark an item done, by the right of its claim; of a document that was stored, with its counts.

    Raises ClaimLostError, which rolls the transaction back.
    """
    count = len(new.chunks) if new else 0
    finished = await connection.fetchval(
        f"""
        UPDATE ingestion_items
        SET state = 'done', outcome = $4, document_id = $5::uuid, failure = NULL,
            lease_id = NULL, lease_until = NULL,
            parsed_count = $6, contextualized_count = $6, embedded_count = $6, stored_count = $6,
            change_time = clock_timestamp(), end_time = clock_timestamp()
        WHERE {HELD}
        RETURNING true
        """,
        *held_by(claim),
        outcome,
        document_id,
        count,
    )
    if finished is None:
        raise ClaimLostError(claim)
    await connection.execute(
        "DELETE FROM ingestion_payloads WHERE job_id = $1::uuid AND item_index = $2",
        claim.job_id,
        claim.item_index,
    )


async def cancel_items_of(connection: Connection, collection_id: str, uris: Sequence[str]) -> None:
    """Cancel what is still to be done for documents that are deleted, so that no worker brings them back."""
    await connection.execute(
        f"""
        WITH cancelled AS (
            UPDATE ingestion_items
            SET state = 'cancelled', lease_id = NULL, lease_until = NULL,
                change_time = clock_timestamp(), end_time = clock_timestamp()
            WHERE collection_id = $1 AND uri = ANY($2::text[]) AND {PENDING}
            RETURNING job_id, item_index
        )
        DELETE FROM ingestion_payloads p USING cancelled c
        WHERE (p.job_id, p.item_index) = (c.job_id, c.item_index)
        """,
        collection_id,
        list(uris),
    )
