"""Erasures in PostgreSQL: what was deleted for good, and certificates of it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import asyncpg
from google.protobuf.json_format import MessageToDict
from groundline.v1 import evidence_pb2
from groundline_contracts.times import timestamp
from groundline_database import Connection, Pool, SigningKeyStore, acquire, read_statements
from groundline_runtime.context import current_caller

_SQL: Final = read_statements(__name__)


async def record_erasure(
    connection: Connection, collection_id: str, document_ids: Sequence[Any] | None
) -> None:
    """Write down that the transaction is about to delete documents, or for None a whole collection."""
    owner = current_caller().owner
    await connection.execute(_SQL["record"], collection_id, owner, document_ids is None, document_ids)


class PostgresErasures:
    """Reader of erasures. Any method raises UnavailableError while the store is down."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def list_erasures(
        self, collection_id: str, owner: str, *, before: tuple[datetime, str] | None, limit: int
    ) -> Sequence[evidence_pb2.Erasure]:
        """Return erasures without hashes, newest first: of a collection, or for "" those of an owner."""
        before_time, before_id = before or (None, None)
        async with acquire(self._pool) as connection:
            rows = await connection.fetch(_SQL["list"], collection_id, owner, before_time, before_id, limit)
        return [_erasure(row, ()) for row in rows]

    async def find(self, erasure_id: str) -> tuple[evidence_pb2.Erasure, str] | None:
        """Return an erasure and its owner, or None."""
        async with acquire(self._pool) as connection:
            row = await connection.fetchrow(_SQL["find"], erasure_id)
        return (_erasure(row, row["content_hashes"]), row["owner"]) if row else None

    async def sign(self, certificate: evidence_pb2.ErasureCertificate) -> bytes:
        """Set the time of issue; return the certificate with its signature as canonical JSON."""
        # Where it is needed: it takes 12 MB.
        from groundline_evidence import KeyPair, sign

        private_key, now = await SigningKeyStore(self._pool).in_use()
        certificate.issue_time.FromDatetime(now)
        values = MessageToDict(certificate, always_print_fields_with_no_presence=True)
        return sign(values, KeyPair.of(private_key))


def _erasure(row: asyncpg.Record, hashes: Sequence[bytes]) -> evidence_pb2.Erasure:
    return evidence_pb2.Erasure(
        erasure_id=str(row["erasure_id"]),
        collection_id=row["collection_id"],
        is_collection=row["is_collection"],
        erase_time=timestamp(row["create_time"]),
        document_count=row["document_count"],
        revision_count=row["revision_count"],
        chunk_count=row["chunk_count"],
        answer_count=row["answer_count"],
        content_hashes=[each.hex() for each in hashes],
    )
