"""Taking back what a job did to documents, in PostgreSQL."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import asyncpg
from groundline.v1 import ingestor_service_pb2 as pb
from groundline_database import (
    Connection,
    Pool,
    acquire,
    current_revision,
    in_bulk,
    is_held_document,
    is_readable_document,
    read_statements,
    transaction,
)
from groundline_database.codecs import read_enum
from groundline_indexing.collections import StoredCollection

from groundline_ingestor.adapters.postgres.collections import hold_collection
from groundline_ingestor.adapters.postgres.documents.deletion import delete_documents
from groundline_ingestor.adapters.postgres.jobs import insert_job

MAX_LISTED: Final = 1000
"""Maximum documents that are listed, as the contract says."""

_READ_AT_ONCE: Final = 1000

_SQL: Final = read_statements(
    __name__,
    current=current_revision("d"),
    is_readable=is_readable_document("$3", "d"),
    was_readable=is_readable_document("$3", "r"),
    is_held=is_held_document("d"),
)


@dataclass(slots=True)
class Revert:
    """Documents of a job that is taken back."""

    counts: Counter[pb.RevertAction.ValueType] = field(default_factory=Counter)
    """Number of documents by action."""
    listed: list[pb.RevertedDocument] = field(default_factory=list)
    job_id: str = ""
    """The job that puts revisions back; "" without any."""


class PostgresReverts:
    """Planner and doer of reverts. Any method raises UnavailableError while the store is down."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def plan(
        self, collection_id: str, job_id: str, principals: Sequence[str], *, overwrite: bool
    ) -> Revert:
        """Return what `revert` would do now."""
        async with acquire(self._pool) as connection, connection.transaction(readonly=True):
            revert, _, _ = await _planned(
                connection, _SQL["plan"], job_id, collection_id, list(principals), overwrite
            )
        return revert

    async def revert(
        self,
        collection: StoredCollection,
        job_id: str,
        principals: Sequence[str],
        request_id: str,
        *,
        overwrite: bool,
    ) -> Revert:
        """Delete what the job created, and store a job that puts the revisions before its own back, in one
        transaction.

        Documents are those that one of the principals may read. The earlier job stands when its collection
        knows the `request_id` already. Raises NotFoundError when the collection was deleted, AbortedError
        when its partition is no longer the one given.
        """
        collection_id = collection.collection_id
        async with transaction(self._pool) as connection:
            await hold_collection(connection, collection)
            # Locked as a replacement locks them, so that they stay as they are planned.
            revert, deleted, restored = await _planned(
                connection,
                f"{_SQL['plan']} FOR NO KEY UPDATE OF d",
                job_id,
                collection_id,
                list(principals),
                overwrite,
            )
            if restored:
                own_id = await insert_job(connection, collection_id, principals, request_id)
                if own_id is None:
                    return revert
                with in_bulk():
                    await connection.execute(_SQL["insert_items"], own_id, *zip(*restored, strict=True))
                revert.job_id = own_id
            if deleted:
                await delete_documents(
                    connection, collection_id, "document_id = ANY($2::uuid[])", [deleted], spare_held=True
                )
        return revert


type _Restored = tuple[Any, str, str]
"""A document, the revision that it gets, and the one that it has."""


async def _planned(
    connection: Connection, statement: str, *values: object
) -> tuple[Revert, list[Any], list[_Restored]]:
    """Return the plan, the documents to delete, and those to restore."""
    revert, deleted, restored = Revert(), list[Any](), list[_Restored]()
    async for row in connection.cursor(statement, *values, prefetch=_READ_AT_ONCE):
        action = read_enum(pb.RevertAction, row["action"])
        revert.counts[action] += 1
        if len(revert.listed) < MAX_LISTED:
            revert.listed.append(_document(row, action))
        if action == pb.REVERT_ACTION_DELETE:
            deleted.append(row["document_id"])
        elif action == pb.REVERT_ACTION_RESTORE:
            restored.append((row["document_id"], row["before"], row["current"]))
    return revert, deleted, restored


def _document(row: asyncpg.Record, action: pb.RevertAction.ValueType) -> pb.RevertedDocument:
    return pb.RevertedDocument(
        document_id=str(row["document_id"]), uri=row["uri"], action=action, revision=row["before"]
    )
