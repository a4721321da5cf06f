"""Revisions of documents in PostgreSQL."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import asyncpg
from google.protobuf import json_format
from google.protobuf.struct_pb2 import Struct
from groundline.v1 import document_pb2, passage_pb2
from groundline_contracts.times import timestamp
from groundline_database import (
    Pool,
    acquire,
    current_revision,
    is_readable_document,
    read_statements,
    transaction,
)
from groundline_database.codecs import read_enum
from groundline_extraction.documents import GivenDocument
from groundline_indexing.documents import HandedIn
from groundline_indexing.revisions.keeping import prune_revisions

from groundline_ingestor.adapters.postgres.documents.stored_texts import read_segments, read_version
from groundline_ingestor.domain.documents import StoredText, TextPart

MAX_OFFSET: Final = 2**31 - 1
PRUNED_AT_ONCE: Final = 1000

_PIECES_AT_ONCE: Final = 500
"""Number of pieces that are read at a time: five million characters at most."""

_SQL: Final = read_statements(
    __name__,
    current=current_revision("d"),
    is_readable=is_readable_document("$3", "d"),
    was_readable=is_readable_document("$3", "r"),
)

type RevisionKey = tuple[datetime | None, str]
"""A revision's place in a list: when it was replaced, None of the one in use, and its name."""


class PostgresRevisions:
    """Reader of revisions: of documents that one of the principals may read those that it might read as well.
    Any method raises UnavailableError while the store is down."""

    def __init__(self, pool: Pool, *, spool_directory: Path | None = None) -> None:
        """Take the pool. `spool_directory`: directory of long texts while chunks are made of them."""
        self._pool = pool
        self._spool_directory = spool_directory

    async def list_readable(
        self,
        collection_id: str,
        document_id: str,
        principals: Sequence[str],
        *,
        after: RevisionKey | None,
        limit: int,
    ) -> Sequence[document_pb2.Revision]:
        """Return the first `limit` revisions behind `after`, the one in use first, then from the newest."""
        async with acquire(self._pool) as connection:
            rows = await connection.fetch(
                _SQL["list"], collection_id, document_id, list(principals), *(after or (None, "")), limit
            )
        return [_revision(row) for row in rows]

    async def find(
        self, collection_id: str, document_id: str, principals: Sequence[str], revision: str
    ) -> document_pb2.Revision | None:
        """Return a revision by its name, the one in use for "", or None."""
        async with acquire(self._pool) as connection:
            row = await connection.fetchrow(
                _SQL["find"], collection_id, document_id, list(principals), revision
            )
        return _revision(row) if row else None

    async def text(
        self,
        collection_id: str,
        document_id: str,
        principals: Sequence[str],
        revision: str,
        *,
        start: int = 0,
        limit: int = MAX_OFFSET,
    ) -> TextPart:
        """Return at most `limit` characters of a revision's text; "" for a missing one."""
        end = min(start + limit, MAX_OFFSET)
        async with acquire(self._pool) as connection:
            row = await connection.fetchrow(
                _SQL["text"], collection_id, document_id, list(principals), revision, start, end
            )
        return TextPart((row and row["text"]) or "", (row and row["size"]) or 0)

    async def handed_in(
        self, collection_id: str, document_id: str, principals: Sequence[str], revision: str
    ) -> HandedIn | None:
        """Return a replaced revision as a document to be stored again; None if it is not kept."""
        async with acquire(self._pool) as connection:
            row = await connection.fetchrow(
                _SQL["stored"], collection_id, document_id, list(principals), revision
            )
        return _handed_in(row) if row else None

    async def stored(
        self, collection_id: str, document_id: str, principals: Sequence[str], revision: str
    ) -> StoredText | None:
        """Return the text of a replaced revision, for making chunks; None if it is not kept. Segments in a
        Spool are the caller's to close."""
        async with (
            acquire(self._pool) as connection,
            connection.transaction(isolation="repeatable_read", readonly=True),
        ):
            row = await connection.fetchrow(
                _SQL["stored"], collection_id, document_id, list(principals), revision
            )
            if row is None:
                return None
            segments = await read_segments(
                connection,
                _SQL["segments"],
                document_id,
                revision,
                mime_type=row["mime_type"],
                directory=self._spool_directory,
                parts_at_once=_PIECES_AT_ONCE,
            )
        return StoredText(read_version(row), 0, segments)

    async def prune(self) -> None:
        """Drop the revisions that neither their collections nor answers keep any more."""
        pruned = PRUNED_AT_ONCE
        while pruned == PRUNED_AT_ONCE:
            async with transaction(self._pool) as connection:
                pruned = await prune_revisions(connection, PRUNED_AT_ONCE)


def _handed_in(row: asyncpg.Record) -> HandedIn:
    version = read_version(row)
    given = GivenDocument(
        b"",
        uri=version.uri,
        title=version.title,
        mime_type=version.mime_type,
        source_type=version.source_type,
        metadata=version.metadata,
        allowed_principals=version.allowed_principals,
        content_hash=version.content_hash,
        container_uri=version.container_uri,
    )
    return HandedIn(given, version, revision=row["revision"])


def _revision(row: asyncpg.Record) -> document_pb2.Revision:
    metadata = Struct()
    metadata.update(row["metadata"])
    replaced = row["replace_time"]
    return document_pb2.Revision(
        revision=row["revision"],
        is_current=replaced is None,
        title=row["title"],
        mime_type=row["mime_type"],
        source_type=read_enum(passage_pb2.SourceType, row["source_type"]),
        content_hash=row["content_hash"].hex(),
        size_bytes=row["size_bytes"],
        metadata=metadata,
        allowed_principals=row["allowed_principals"],
        store_time=timestamp(row["store_time"]),
        replace_time=timestamp(replaced) if replaced else None,
        has_original=row["has_original"],
        provenance=_provenance(row["provenance"]),
    )


def _provenance(stored: dict[str, Any] | None) -> document_pb2.Provenance | None:
    if stored is None:
        return None
    # A field that a newer release stored must not make the revision unreadable.
    return json_format.ParseDict(stored, document_pb2.Provenance(), ignore_unknown_fields=True)
