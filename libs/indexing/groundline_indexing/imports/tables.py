"""Imports in PostgreSQL: a table of chunks beside the collection's partition, which it replaces when it is
complete, and the tables in which its documents wait until then."""

# ruff: noqa: S608 - what is put into SQL here are constants, columns and names made of numbers

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from datetime import datetime
from typing import Any, Final

import asyncpg
from groundline_database import Connection, current_revision, read_statements
from groundline_lexical import LAST_RECOVERY, LexicalIndex

from groundline_indexing.chunks import CHUNK_COLUMNS, Destination, chunk_records, document_values, text_parts
from groundline_indexing.documents import DocumentVersion, ReadyDocument
from groundline_indexing.erasure import forget_handed_in
from groundline_indexing.feed.state import is_feed_behind
from groundline_indexing.imports.opened import Import
from groundline_indexing.imports.proving import offer, withdraw
from groundline_indexing.imports.records import BatchResult, ImportFailedError, RecordFailure
from groundline_indexing.partitions import (
    IS_QUANTIZED,
    attach_partition,
    clear_elsewhere,
    copy_partition,
    create_chunk_table,
    has_moved,
    leave_partition,
)
from groundline_indexing.revisions.keeping import keep_revisions, settle_revisions
from groundline_indexing.revisions.past import past_partition, retire
from groundline_indexing.vector_indexes import build_vector_index, is_vector_index_due

_LOCKS: Final = 0x696D70
"""First half of the advisory lock's key; the second is the partition's id. The holder runs the import."""

_IDENTITY: Final = ("document_id", "collection_id", "uri")

_SQL: Final = read_statements(__name__, is_quantized=IS_QUANTIZED)

# Documents that were written, replaced or deleted while the import ran: the last change counts. Only the
# chunks of deleted ones have to be removed.
_CHANGED: Final = """
    SELECT d.document_id, s.document_id AS imported_id FROM documents d
    LEFT JOIN {kept} k ON k.document_id = d.document_id LEFT JOIN {documents} s ON s.uri = d.uri
    WHERE d.collection_id = $1 AND CASE
        WHEN s.uri IS NULL THEN d.chunk_count > 0 AND k.version IS DISTINCT FROM d.version
        ELSE s.seen_version IS DISTINCT FROM d.version
    END
"""
_GONE: Final = """
    SELECT document_id FROM (
        SELECT document_id FROM {kept} UNION ALL
        SELECT document_id FROM {documents} WHERE seen_version IS NOT NULL
    ) AS copied
    WHERE NOT EXISTS (SELECT FROM documents d WHERE d.document_id = copied.document_id)
"""


async def open_import(
    connection: Connection, collection_id: str, files: Sequence[Mapping[str, Any]]
) -> Import:
    """Return the import of these files that was begun, or a new one, as this session's alone until it ends.

    Raises ImportFailedError.
    """
    async with connection.transaction():
        if await connection.fetchval(_SQL["running_reindex"], collection_id):
            raise ImportFailedError(f"{collection_id} is being indexed again: wait for the job, or cancel it")
        partition_id = await connection.fetchval(_SQL["begin"], collection_id, files)
        if partition_id is not None:
            await _create_tables(connection, Import(collection_id, partition_id))
    row = await connection.fetchrow(
        "SELECT partition_id, files FROM imports WHERE collection_id = $1", collection_id
    )
    if row is None:
        raise ImportFailedError(f"the import into {collection_id} was discarded a moment ago")
    if row["files"] != list(files):
        names = ", ".join(file["name"] for file in row["files"])
        raise ImportFailedError(
            f"an import of other files into {collection_id} has not ended ({names}): go on with these, "
            "unchanged, or drop what it has loaded by --discard"
        )
    await _lock(connection, row["partition_id"])
    return Import(collection_id, row["partition_id"])


async def discard_import(connection: Connection, collection_id: str) -> bool:
    """Drop what an import has loaded that has not ended; False if no import has begun.

    Raises ImportFailedError if one is running.
    """
    partition_id = await connection.fetchval(
        "SELECT partition_id FROM imports WHERE collection_id = $1", collection_id
    )
    if partition_id is None:
        return False
    await _lock(connection, partition_id)
    target = Import(collection_id, partition_id)
    async with connection.transaction():
        await withdraw(connection, target)
        await _drop(connection, target)
    return True


async def drop_orphaned_imports(connection: Connection) -> None:
    """Drop data of imports into collections that were deleted; in a transaction."""
    for row in await connection.fetch(_SQL["orphaned"], _LOCKS):
        await _drop(connection, Import(row["collection_id"], row["partition_id"]))


# The revisions that are replaced; documents that were only queued so far have none.
_REPLACED: Final = f"""
    SELECT document_id, {current_revision("d")} AS revision
    FROM {{documents}} s JOIN documents d USING (document_id) WHERE d.ingestion_hash <> ''::bytea
"""
_ITEMS: Final = f"""
    INSERT INTO ingestion_items
        (job_id, item_index, collection_id, uri, document_id, state, outcome, attempts,
         parsed_count, embedded_count, stored_count, revision, replaced_revision, start_time, end_time)
    SELECT $1::uuid, row_number() OVER (ORDER BY d.uri) - 1, d.collection_id, d.uri, d.document_id, 'done',
           CASE WHEN o.document_id IS NULL THEN 'created' ELSE 'updated' END, 1,
           d.chunk_count, d.chunk_count, d.chunk_count, {current_revision("d")}, o.revision,
           clock_timestamp(), clock_timestamp()
    FROM {{documents}} s JOIN documents d USING (document_id) LEFT JOIN {{replaced}} o USING (document_id)
"""


class OpenImport:
    """An open import. The connection has only the transactions that are begun here."""

    def __init__(self, connection: Connection, lexical: LexicalIndex, opened: Import) -> None:
        self._connection = connection
        self._lexical = lexical
        self._import = opened

    async def used(self) -> tuple[int, int]:
        """Return how many documents the collection has, and their bytes as handed in."""
        row = await self._connection.fetchrow(
            "SELECT count(*), coalesce(sum(size_bytes), 0)::bigint FROM documents WHERE collection_id = $1",
            self._import.collection_id,
        )
        assert row is not None, "aggregates have a row"
        return row[0], row[1]

    async def loaded(self) -> frozenset[int]:
        """Return the numbers of the batches that are stored."""
        rows = await self._connection.fetch(
            "SELECT batch FROM import_batches WHERE collection_id = $1", self._import.collection_id
        )
        return frozenset(row["batch"] for row in rows)

    async def total(self) -> BatchResult:
        """Return the sums over all batches that are stored."""
        row = await self._connection.fetchrow(_SQL["totals"], self._import.collection_id)
        assert row is not None, "aggregates have a row"
        failures = await self._connection.fetch(_SQL["failures"], self._import.collection_id)
        return BatchResult(**row, failures=[RecordFailure(**failure) for failure in failures])

    async def unchanged(self, versions: Sequence[DocumentVersion]) -> frozenset[str]:
        """Return the uris of versions that the collection has unchanged."""
        known = await self._known([version.uri for version in versions])
        return frozenset(
            version.uri
            for version in versions
            if (row := known.get(version.uri)) is not None
            and row["chunk_count"] > 0
            and row["ingestion_hash"] == version.ingestion_hash
            and row["metadata"] == version.metadata
            and row["allowed_principals"] == list(version.allowed_principals)
        )

    async def store(
        self,
        batch: int,
        versions: Sequence[ReadyDocument],
        unchanged_count: int,
        failures: Sequence[RecordFailure],
    ) -> BatchResult:
        """Write a batch, whose uris differ, and record it. Of two documents of one uri the one of the later
        batch stays. Raises ImportFailedError if the import was discarded meanwhile."""
        connection, target = self._connection, self._import
        async with connection.transaction():
            if not await connection.fetchval(
                "SELECT true FROM imports WHERE (collection_id, partition_id) = ($1, $2) FOR KEY SHARE",
                *target,
            ):
                raise ImportFailedError("the import was discarded meanwhile")
            versions = await self._without_earlier(batch, versions)
            known = await self._known([new.version.uri for new in versions])
            await self._copy(batch, versions, known)
            result = BatchResult(
                len(versions),
                len(versions) - len(known),
                sum(new.version.size_bytes for new in versions)
                - sum(row["size_bytes"] for row in known.values()),
                sum(len(new.chunks) for new in versions),
                unchanged_count,
                failures,
            )
            await connection.execute(
                "INSERT INTO import_batches VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
                target.collection_id,
                batch,
                *astuple(result)[:-2],
                [failure.as_json() for failure in failures],
            )
        return result

    async def _copy(
        self, batch: int, versions: Sequence[ReadyDocument], known: Mapping[str, asyncpg.Record]
    ) -> None:
        """Write documents with their texts and chunks."""
        if not versions:
            return
        connection, target = self._connection, self._import
        now = await connection.fetchval("SELECT clock_timestamp()")
        rows = [_row(target.collection_id, batch, new, known.get(new.version.uri), now) for new in versions]
        stored = list(zip(versions, rows, strict=True))
        await connection.copy_records_to_table(
            target.documents, records=[list(row.values()) for row in rows], columns=list(rows[0])
        )
        await connection.copy_records_to_table(
            target.texts,
            records=[
                part for new, row in stored for part in text_parts(row["document_id"], new.segments, [])
            ],
            columns=("document_id", "part", "text", "headings"),
        )
        kind = await self._kind()
        into = Destination(target.partition_id, target.collection_id, kind["language"])
        await connection.copy_records_to_table(
            target.chunks,
            records=(record for new, row in stored for record in chunk_records(into, new, row)),
            columns=CHUNK_COLUMNS,
        )

    async def copy_others(self) -> None:
        """Copy the chunks of documents that the import does not replace, unless that was done."""
        connection, target = self._connection, self._import
        async with connection.transaction(isolation="repeatable_read"):
            source = await connection.fetchval(_SQL["source"], target.collection_id)
            if source is None:
                return
            await connection.execute(f"ANALYZE {target.documents}")
            await connection.execute(
                f"""
                INSERT INTO {target.kept} SELECT document_id, version FROM documents d
                WHERE collection_id = $1 AND chunk_count > 0
                  AND NOT EXISTS (SELECT FROM {target.documents} s WHERE s.uri = d.uri)
                """,
                target.collection_id,
            )
            await copy_partition(
                connection,
                target.collection_id,
                source,
                target.partition_id,
                f"document_id IN (SELECT document_id FROM {target.kept})",
            )
            await connection.execute(
                "UPDATE imports SET copied_from = $2 WHERE collection_id = $1", target.collection_id, source
            )

    async def build_keys(self) -> None:
        """Create the indexes that every partition has, unless they exist, so that attaching finds them."""
        table = self._import.chunks
        if not await self._connection.fetchval(
            "SELECT true FROM pg_constraint WHERE conrelid = $1::text::regclass AND contype = 'p'", table
        ):
            await self._connection.execute(f"ALTER TABLE {table} ADD PRIMARY KEY (partition_id, chunk_id)")
        await self._connection.execute(
            f"""
            CREATE INDEX IF NOT EXISTS {table}_metadata ON {table} USING gin (metadata jsonb_path_ops);
            CREATE INDEX IF NOT EXISTS {table}_principals ON {table} USING gin (allowed_principals)
            """
        )

    async def build_keyword_index(self) -> None:
        """Create the keyword index unless it exists."""
        connection, target = self._connection, self._import
        async with connection.transaction():
            if await connection.fetchval(_SQL["has_keyword_index"], target.chunks):
                return
            # Read before the build: after a crash the index will be known to be older.
            await connection.execute(
                f"UPDATE imports SET lexical_built_after = {LAST_RECOVERY} WHERE collection_id = $1",
                target.collection_id,
            )
            kind = await self._kind()
            await self._lexical.create_index(connection, target.chunks, kind["language"])

    async def build_vector_index(self, maximum_bytes: int = 0) -> None:
        """Create the vector index unless it exists or a search needs none; `maximum_bytes` as the function of
        that name takes it."""
        if await is_vector_index_due(self._connection, self._import.partition_id):
            kind = await self._kind()
            await build_vector_index(
                self._connection, self._import.partition_id, kind["dimensions"], maximum_bytes,
                is_quantized=kind["is_quantized"],
            )  # fmt: skip
        await self._connection.execute(f"ANALYZE {self._import.chunks}")

    async def attach(self) -> None:
        """Make the table a partition, which no search reads yet, unless that was done.

        From here on a search index outside PostgreSQL is filled with it.
        """
        connection, target = self._connection, self._import
        async with connection.transaction():
            is_new = await connection.fetchval(_SQL["attach"], target.collection_id)
            if is_new:
                await attach_partition(connection, target.partition_id)
                await connection.execute("SELECT pg_notify('groundline_search_index', '')")

    async def missing_in_index(self) -> int:
        """Estimate how many of its chunks a search index that is fed still lacks; 0 if none is fed."""
        if not await is_feed_behind(self._connection, self._import.partition_id):
            return 0
        missing: int = await self._connection.fetchval(_SQL["missing"], self._import.partition_id)
        return max(missing, 1)

    async def offer(self) -> None:
        """Let searches that ask for the candidate find the attached table. Raises ImportFailedError."""
        await offer(self._connection, self._import)

    async def withdraw(self) -> None:
        """Take an offer back."""
        async with self._connection.transaction():
            await withdraw(self._connection, self._import)

    async def switch(self, grace_seconds: float) -> str:
        """Replace the collection's partition by the attached table, with all its documents, at once; return
        the id of the job that tells what became of each document.

        Searches continue; documents wait to be stored meanwhile. Raises ImportFailedError.
        """
        connection, target = self._connection, self._import
        async with connection.transaction():
            held = await connection.fetchrow(_SQL["hold"], target.collection_id)
            if held is None:
                raise ImportFailedError(f"the collection {target.collection_id} was deleted meanwhile")
            in_use, source = held
            if in_use != source and not await has_moved(connection, target.collection_id, source, in_use):
                raise ImportFailedError(
                    f"{target.collection_id} was indexed again meanwhile: start anew after --discard"
                )
            await self._catch_up(in_use)
            job_id = str(uuid.uuid4())
            await self._take_documents(in_use, job_id)
            await connection.execute(
                "DELETE FROM reindexed_documents WHERE partition_id = $1", target.partition_id
            )
            await leave_partition(connection, target.collection_id, in_use, grace_seconds)
            await _drop(connection, target, with_chunks=False)
        return job_id

    async def _known(self, uris: Sequence[str]) -> Mapping[str, asyncpg.Record]:
        """Return the collection's documents of these uris, as they are now."""
        rows = await self._connection.fetch(_SQL["known"], self._import.collection_id, list(uris))
        return {row["uri"]: row for row in rows}

    async def _without_earlier(
        self, batch: int, versions: Sequence[ReadyDocument]
    ) -> Sequence[ReadyDocument]:
        """Leave out versions that a later batch has stored; delete those that an earlier one has."""
        rows = await self._connection.fetch(
            f"SELECT uri, document_id, batch FROM {self._import.documents} WHERE uri = ANY($1::text[])",
            [new.version.uri for new in versions],
        )
        later = {row["uri"] for row in rows if row["batch"] > batch}
        await self._delete([row["document_id"] for row in rows if row["batch"] < batch])
        return [new for new in versions if new.version.uri not in later]

    async def _delete(self, document_ids: Sequence[str]) -> None:
        """Delete documents from the import's tables."""
        if document_ids:
            for table in (self._import.documents, self._import.texts, self._import.chunks):
                await self._connection.execute(
                    f"DELETE FROM {table} WHERE document_id = ANY($1::uuid[])", document_ids
                )

    async def _kind(self) -> asyncpg.Record:
        kind = await self._connection.fetchrow(_SQL["kind"], self._import.collection_id)
        if kind is None:
            raise ImportFailedError(f"the collection {self._import.collection_id} was deleted meanwhile")
        return kind

    async def _catch_up(self, in_use: int) -> None:
        """Apply the changes of the collection's documents while the import ran."""
        connection, target = self._connection, self._import
        names = {"kept": target.kept, "documents": target.documents}
        changed = await connection.fetch(_CHANGED.format(**names), target.collection_id)
        gone = await connection.fetch(_GONE.format(**names))
        await self._delete([row["document_id"] for row in (*changed, *gone)])
        await self._delete([row["imported_id"] for row in changed if row["imported_id"]])
        if changed:
            await copy_partition(
                connection,
                target.collection_id,
                in_use,
                target.partition_id,
                "document_id = ANY($2::uuid[])",
                [row["document_id"] for row in changed],
            )

    async def _take_documents(self, in_use: int, job_id: str) -> None:
        """Use the table. Move the documents and their texts from where they wait into the collection, chunks
        that they replace into its past, and write down what became of each, as the job of a hand-in does, so
        that it can be taken back."""
        connection, target = self._connection, self._import
        replaced = f"SELECT document_id FROM {target.documents} WHERE seen_version IS NOT NULL"
        rows = await connection.fetch(replaced)
        await keep_revisions(connection, [row["document_id"] for row in rows])
        # Now: what is replaced goes from candidates, which this one no longer is.
        await connection.execute(_SQL["use"], *target)
        for table in ("document_texts", "document_pages", "document_originals"):
            await connection.execute(f"DELETE FROM {table} WHERE document_id IN ({replaced})")
        await clear_elsewhere(connection, target.collection_id, f"document_id IN ({replaced})")
        uris = await connection.fetch(f"SELECT uri FROM {target.documents} WHERE seen_version IS NOT NULL")
        await forget_handed_in(connection, target.collection_id, [row["uri"] for row in uris])
        await connection.execute(
            f"CREATE TABLE {target.replaced} AS {_REPLACED.format(documents=target.documents)}"
        )
        columns = [row["name"] for row in await connection.fetch(_SQL["columns"], target.documents)]
        taken = ["$1::jsonb" if name == "provenance" else name for name in columns]
        changed = [f"{name} = excluded.{name}" for name in columns if name not in _IDENTITY]
        await connection.execute(
            f"""
            INSERT INTO documents ({", ".join(columns)})
            SELECT {", ".join(taken)} FROM {target.documents}
            ON CONFLICT (collection_id, uri) DO UPDATE SET {", ".join(changed)}
            """,
            {"jobId": job_id},
        )
        await connection.execute(_SQL["insert_job"], job_id, target.collection_id)
        items = _ITEMS.format(documents=target.documents, replaced=target.replaced)
        await connection.execute(items, job_id)
        await connection.execute(f"DROP TABLE {target.replaced}")
        if rows and (past := await past_partition(connection, target.collection_id)) is not None:
            await retire(connection, in_use, past, f"c.document_id IN ({replaced})")
        await connection.execute(
            f"INSERT INTO document_texts ({_TEXT_COLUMNS}) SELECT {_TEXT_COLUMNS} FROM {target.texts}"
        )
        await settle_revisions(connection, [row["document_id"] for row in rows])


_TEXT_COLUMNS: Final = "document_id, part, text, headings"


async def _create_tables(connection: Connection, target: Import) -> None:
    table = await create_chunk_table(connection, target.partition_id)
    await connection.execute(
        f"""
        CREATE INDEX ON {table} (document_id, chunk_index);
        CREATE TABLE {target.documents}
            (LIKE documents INCLUDING DEFAULTS, batch integer NOT NULL, seen_version bigint, UNIQUE (uri));
        CREATE INDEX ON {target.documents} (document_id);
        CREATE TABLE {target.texts} (LIKE document_texts);
        CREATE INDEX ON {target.texts} (document_id);
        CREATE TABLE {target.kept} (document_id uuid PRIMARY KEY, version bigint NOT NULL);
        """
    )


async def _drop(connection: Connection, target: Import, *, with_chunks: bool = True) -> None:
    await connection.execute(f"DROP TABLE {target.documents}, {target.texts}, {target.kept}")
    if with_chunks:
        # Once attached, it is dropped with its collection.
        await connection.execute(f"DROP TABLE IF EXISTS {target.chunks}")
        await connection.execute("DELETE FROM chunk_partitions WHERE partition_id = $1", target.partition_id)
    await connection.execute("DELETE FROM imports WHERE collection_id = $1", target.collection_id)


async def _lock(connection: Connection, partition_id: int) -> None:
    """Lock the import until the session ends. Raises ImportFailedError."""
    if not await connection.fetchval("SELECT pg_try_advisory_lock($1, $2)", _LOCKS, partition_id):
        raise ImportFailedError("another process runs this import")


def _row(
    collection_id: str, batch: int, new: ReadyDocument, known: "asyncpg.Record | None", now: datetime
) -> Mapping[str, Any]:
    """Return a document's values by column."""
    return {
        **document_values(collection_id, new),
        "document_id": known["document_id"] if known else str(uuid.uuid4()),
        "state": "done",
        "chunk_count": len(new.chunks),
        "token_count": new.token_count,
        "version": known["version"] + 1 if known else 1,
        "create_time": known["create_time"] if known else now,
        "update_time": now,
        "batch": batch,
        "seen_version": known["version"] if known else None,
    }
