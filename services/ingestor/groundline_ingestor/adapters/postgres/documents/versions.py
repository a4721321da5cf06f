"""New versions of documents in PostgreSQL: stored with their chunks in place of earlier ones."""

# ruff: noqa: S608 - what is put into SQL here are constants and names that chunk_table() makes of numbers

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

import asyncpg
from google.protobuf import json_format
from groundline.v1 import document_pb2, job_pb2
from groundline_database import (
    Connection,
    Pool,
    acquire,
    current_revision,
    is_replaceable_document,
    read_statements,
    transaction,
)
from groundline_indexing.chunks import Destination, copy_chunks, copy_in_groups, document_values, text_parts
from groundline_indexing.collections import StoredCollection
from groundline_indexing.documents import DocumentVersion
from groundline_indexing.partitions import chunk_table, clear_elsewhere, is_outgrown, move_collection
from groundline_indexing.revisions.carrying import CarriedChunks
from groundline_indexing.revisions.keeping import copy_originals, keep_revisions, settle_revisions
from groundline_indexing.revisions.past import RENEWED, past_partition, retire
from groundline_indexing.tables.found import FoundTable
from groundline_indexing.tables.storing import store_tables, tables_of
from groundline_lexical import LexicalIndex
from groundline_runtime.errors import FailedPreconditionError, PermissionDeniedError

from groundline_ingestor.adapters.postgres.collections import hold_collection
from groundline_ingestor.adapters.postgres.documents.deletion import WITHIN
from groundline_ingestor.adapters.postgres.documents.members import replace_members
from groundline_ingestor.adapters.postgres.items import finish_items
from groundline_ingestor.domain.provenance import changed_by, provenance_of
from groundline_ingestor.domain.work import ItemClaim, NewVersion, StoredOutcome

_SQL: Final = read_statements(
    __name__,
    current=current_revision("d"),
    is_replaceable=is_replaceable_document("$16", "documents", container="$13"),
    is_refreshable=is_replaceable_document("$3", "d", container="$4"),
)

_NAMED_PRINCIPALS: Final = 5
"""Maximum principals that an error names."""

TEXTS_AT_ONCE: Final = 8
"""Parts of texts, of a million characters at most, that one COPY writes; one of a text of 500 MB might take
longer than a statement may."""

_CREATED: Final = job_pb2.INGESTION_OUTCOME_CREATED
_UPDATED: Final = job_pb2.INGESTION_OUTCOME_UPDATED
_UNCHANGED: Final = job_pb2.INGESTION_OUTCOME_UNCHANGED


class PostgresVersions:
    """Writer of documents and their chunks. Any method raises UnavailableError while the store is down."""

    def __init__(self, pool: Pool, lexical: LexicalIndex) -> None:
        self._pool = pool
        self._lexical = lexical

    async def store(
        self, collection: StoredCollection, versions: Sequence[NewVersion]
    ) -> Sequence[StoredOutcome]:
        """Store documents of different uris and their chunks in place of earlier ones, and end their items,
        all in one transaction.

        Returns of each whether it is new. Two calls for one uri happen one after the other. Files found
        within a document become items of its job; those that it no longer has are deleted, and all others get
        its principals at once. Raises ClaimLostError, NotFoundError when the collection was deleted,
        AbortedError when its partition is no longer the one given, PermissionDeniedError
        (COLLECTION_NOT_WRITABLE) when the caller of one may no longer write the collection, and
        (DOCUMENT_NOT_WRITABLE) when a uri holds a document that none of its new version's principals may
        read, FailedPreconditionError (DOCUMENT_CHANGED) when it has another revision than is to be replaced.
        """
        await self._make_room(collection.collection_id, [len(new.chunks) for new in versions])
        # Sorted, so that two groups with documents in common wait for each other but never both.
        ordered = sorted(versions, key=lambda new: new.version.uri)
        values, tables = await asyncio.to_thread(_read, collection, ordered)
        async with transaction(self._pool) as connection:
            partition_id = await hold_collection(
                connection, collection, for_callers=[new.principals for new in versions if new.claim]
            )
            replaced = await _earlier(connection, collection, ordered)
            await keep_revisions(connection, list(replaced))
            rows = await _upsert(connection, ordered, values)
            stored: dict[str, StoredOutcome] = {
                new.version.uri: (str(row["document_id"]), _CREATED if row["is_new"] else _UPDATED)
                for new, row in rows
            }
            await _replace_contents(connection, collection, partition_id, rows)
            await _copy_texts(connection, rows)
            await store_tables(connection, rows, tables)
            if restored := [row["document_id"] for new, row in rows if new.is_restored]:
                await connection.execute(_SQL["restore_pages"], restored)
                await copy_originals(connection, _SQL["restore_original"], restored)
            if collection.settings.keep_originals:
                kept = [(row["document_id"], new.claim) for new, row in rows if not new.is_restored]
                await _keep_originals(connection, kept)
            await replace_members(
                connection,
                collection,
                partition_id,
                versions,
                replaced=[new.version.uri for new, row in rows if not row["is_new"]],
            )
            await settle_revisions(connection, list(replaced))
            await finish_items(
                connection,
                [(new.claim, stored[new.version.uri], len(new.chunks)) for new, _ in rows if new.claim],
                replaced=replaced,
            )
        return [stored[new.version.uri] for new in versions]

    async def refresh(
        self,
        collection: StoredCollection,
        version: DocumentVersion,
        principals: Sequence[str],
        claim: ItemClaim | None = None,
    ) -> StoredOutcome | None:
        """Update metadata and principals if the stored chunks are already those of the version, and end the
        item.

        Its outcome is updated or unchanged; None, with nothing done, when the stored document has another
        ingestion_hash, or documents within it are unfinished or would have to change as well. Raises as
        `store` does.
        """
        async with transaction(self._pool) as connection:
            partition_id = await hold_collection(
                connection, collection, for_callers=[principals] if claim else []
            )
            row = await connection.fetchrow(
                _SQL["hold"], collection.collection_id, version.uri, list(principals), version.container_uri
            )
            if row is None:
                return None
            if not row["is_replaceable"]:
                raise not_writable(version, principals)
            if row["ingestion_hash"] != version.ingestion_hash:
                return None
            document_id = str(row["document_id"])
            unchanged = (row["metadata"], row["allowed_principals"], row["container_uri"]) == (
                version.metadata,
                list(version.allowed_principals),
                version.container_uri,
            )
            # A container within another is examined together with the outer one.
            if not version.container_uri and not await _are_members_done(
                connection, collection.collection_id, version.uri, unchanged=unchanged
            ):
                return None
            if not unchanged:
                await keep_revisions(connection, [document_id])
                by = changed_by(principals, claim)
                past = await past_partition(connection, collection.collection_id)
                await _update_in_place(connection, (partition_id, past), document_id, version, by)
                await clear_elsewhere(
                    connection, collection.collection_id, "document_id = $1::uuid", document_id
                )
                await settle_revisions(connection, [document_id])
            elif row["state"] != "done":
                await connection.execute(
                    "UPDATE documents SET state = 'done', failure = NULL WHERE document_id = $1::uuid",
                    document_id,
                )
            if collection.settings.keep_originals and not row["has_original"]:
                await _keep_originals(connection, [(row["document_id"], claim)])
            outcome = _UNCHANGED if unchanged else _UPDATED
            if claim:
                replaced = {} if unchanged else {document_id: row["revision"]}
                await finish_items(connection, [(claim, (document_id, outcome), 0)], replaced=replaced)
        return document_id, outcome

    async def _make_room(self, collection_id: str, added: Sequence[int]) -> None:
        """Move a collection before it outgrows a shared partition."""
        async with acquire(self._pool) as connection:
            if await is_outgrown(connection, collection_id, added):
                async with connection.transaction():
                    await move_collection(connection, self._lexical, collection_id)


async def _earlier(
    connection: Connection, collection: StoredCollection, versions: Sequence[NewVersion]
) -> Mapping[str, str]:
    """Lock the documents that have a version already, and return their revisions by their ids.

    Raises FailedPreconditionError (DOCUMENT_CHANGED) for one that has another than the version is to replace.
    """
    expected = {new.version.uri: new.expected_revision for new in versions}
    rows = await connection.fetch(_SQL["earlier"], collection.collection_id, list(expected))
    for row in rows:
        if expected[row["uri"]] not in ("", row["revision"]):
            raise FailedPreconditionError(
                "DOCUMENT_CHANGED", f"{row['uri']!r} was changed again before it was taken back"
            )
    return {str(row["document_id"]): row["revision"] for row in rows}


async def _replace_contents(
    connection: Connection,
    collection: StoredCollection,
    partition_id: int,
    rows: Sequence[tuple[NewVersion, asyncpg.Record]],
) -> None:
    """Write the chunks of documents in place of those that were there, and delete what else belonged to
    earlier versions."""
    rewritten = [row["document_id"] for _, row in rows if not row["is_inserted"]]
    into = Destination(partition_id, collection.collection_id, collection.settings.lexical.language)
    # New documents replace nothing that a past could take.
    past = await past_partition(connection, collection.collection_id) if rewritten else None
    if past is None:
        if rewritten:
            condition = "document_id = ANY($1::uuid[])"
            await connection.execute(f"DELETE FROM {chunk_table(partition_id)} WHERE {condition}", rewritten)
        await copy_chunks(connection, into, rows)
    else:
        carried = CarriedChunks(partition_id, past)
        await carried.read(connection, rewritten)
        await copy_chunks(connection, into, rows, is_stored=carried.holds)
        await carried.settle(connection)
    if rewritten:
        await connection.execute(
            """
            WITH texts AS (
                DELETE FROM document_texts WHERE document_id = ANY($1::uuid[])
            ), pages AS (
                DELETE FROM document_pages WHERE document_id = ANY($1::uuid[])
            )
            DELETE FROM document_originals WHERE document_id = ANY($1::uuid[])
            """,
            rewritten,
        )
        await clear_elsewhere(
            connection, collection.collection_id, "document_id = ANY($1::uuid[])", rewritten
        )


async def _are_members_done(connection: Connection, collection_id: str, uri: str, *, unchanged: bool) -> bool:
    """Tell whether a document has none within it, or all of them are done and it is unchanged."""
    undone: bool | None = await connection.fetchval(
        f"{WITHIN} SELECT bool_or(state <> 'done') FROM within", collection_id, [uri]
    )
    return undone is None or (unchanged and not undone)


def _read(
    collection: StoredCollection, versions: Sequence[NewVersion]
) -> tuple[list[tuple[Any, ...]], dict[str, Mapping[int, FoundTable]]]:
    """Return what is read of the whole texts: the arguments of `upsert`, and the tables by uri, of each that
    is not restored."""
    tables = {new.version.uri: tables_of(new.segments) for new in versions if not new.is_restored}
    return _values(collection, versions), tables


def _values(collection: StoredCollection, versions: Sequence[NewVersion]) -> list[tuple[Any, ...]]:
    """Return the arguments of `upsert` for each document."""
    return [
        (
            *document_values(collection.collection_id, new).values(),
            new.version.container_uri,
            len(new.chunks),
            new.token_count,
            list(new.principals),
            json_format.MessageToDict(provenance_of(collection.settings, new)),
        )
        for new in versions
    ]


async def _upsert(
    connection: Connection, ordered: Sequence[NewVersion], values: Sequence[tuple[Any, ...]]
) -> Sequence[tuple[NewVersion, asyncpg.Record]]:
    """Write the documents' rows, which stay locked until the end: a second call for a uri waits here."""
    rows = await connection.fetchmany(_SQL["upsert"], values)
    written = {row["uri"]: row for row in rows}
    for new in ordered:
        if new.version.uri not in written:
            raise not_writable(new.version, new.principals)
    return [(new, written[new.version.uri]) for new in ordered]


async def _copy_texts(connection: Connection, rows: Sequence[tuple[NewVersion, asyncpg.Record]]) -> None:
    """Write the texts of documents, and where their lines are on their pages."""
    pages: list[tuple[Any, ...]] = []
    await copy_in_groups(
        connection,
        "document_texts",
        (part for new, row in rows for part in text_parts(row["document_id"], new.segments, pages)),
        columns=("document_id", "part", "text", "headings"),
        at_once=TEXTS_AT_ONCE,
    )
    if pages:
        await connection.copy_records_to_table(
            "document_pages", records=pages, columns=("document_id", "start_offset", "lines")
        )


async def _keep_originals(connection: Connection, documents: Sequence[tuple[Any, ItemClaim | None]]) -> None:
    """Copy the contents of the claimed items, which are deleted when these end."""
    claimed = [(document_id, claim) for document_id, claim in documents if claim]
    await copy_originals(
        connection,
        _SQL["keep_originals"],
        [document_id for document_id, _ in claimed],
        [claim.job_id for _, claim in claimed],
        [claim.item_index for _, claim in claimed],
    )


def not_writable(version: DocumentVersion, principals: Sequence[str]) -> PermissionDeniedError:
    """Return the error of a caller that must not replace the document of a uri."""
    reason = f"there is a document {version.uri!r} that the caller may not read, so it cannot be replaced"
    if version.allowed_principals and set(version.allowed_principals).isdisjoint(principals):
        named = ", ".join(version.allowed_principals[:_NAMED_PRINCIPALS])
        reason += (
            "; the new version names none of the caller's principals either: hand it in with a key of one of "
            f"{named}"
        )
    return PermissionDeniedError("DOCUMENT_NOT_WRITABLE", reason)


async def _update_in_place(
    connection: Connection,
    partitions: tuple[int, int | None],
    document_id: str,
    version: DocumentVersion,
    by: document_pb2.Provenance,
) -> None:
    """Change a document and its chunks in the first of the partitions; the second takes those of before."""
    partition_id, past = partitions
    updated = await connection.fetchrow(
        _SQL["update"],
        document_id,
        version.metadata,
        list(version.allowed_principals),
        version.container_uri,
        json_format.MessageToDict(by),
    )
    assert updated is not None, "the document is locked"
    if past is not None:
        await retire(connection, partition_id, past, "c.document_id = $1::uuid", document_id)
    # The pages of a chunk are its own, unless the document has metadata of that name.
    await connection.execute(
        f"""
        UPDATE {chunk_table(partition_id)}
        SET metadata = CASE WHEN $5 OR $2 ? 'page' THEN $2
            ELSE (
                SELECT coalesce(jsonb_object_agg(key, value), '{{}}') FROM jsonb_each(metadata)
                WHERE key IN ('page', 'lastPage', 'pages')
            ) || $2 END,
            allowed_principals = $3, update_time = $4{RENEWED if past is not None else ""}
        WHERE document_id = $1::uuid
        """,
        document_id,
        version.metadata,
        list(version.allowed_principals),
        updated["update_time"],
        updated["page_was_given"],
    )
