"""One collection of a backup brought back into a suite that runs.

The backup's tables are restored into a server of this process's own, which a release of another schema is
migrated in, and which takes no rights on the suite's server. From there the collection's rows are copied in
one transaction: nobody sees a part of it.
"""

# ruff: noqa: S608 - what is put into SQL here are constants, quoted names and numbers

import re
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import asyncpg
from groundline_database import (
    Connection,
    database_errors,
    is_held_document,
    open_pool,
    require_schema,
)
from groundline_indexing.partitions import (
    MAXIMUM_SHARED_CHUNKS,
    PartitionKind,
    attach_partition,
    chunk_table,
    create_chunk_table,
    find_partition,
    note_quantized,
)
from groundline_indexing.vector_indexes import VectorIndexes
from groundline_ingestor.migrate import SCHEMA
from groundline_ingestor.settings import IngestorSettings
from groundline_lexical import LexicalIndex, LexicalIndexError, detect_lexical_index
from pydantic import SecretStr

from groundline_cli.backups.manifest import Manifest
from groundline_cli.backups.programs import OnProgress
from groundline_cli.backups.restoring import migrate_restored, restore_rows, watch_builds
from groundline_cli.backups.writing import LONG_SECONDS, settings_of
from groundline_cli.errors import CommandFailedError
from groundline_cli.stack.postgres import EmbeddedPostgres

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")

_OF_DOCUMENTS: Final = (
    "documents",
    "document_texts",
    "document_originals",
    "document_pages",
    "document_revisions",
    "revision_segments",
    "revision_texts",
    "revision_layouts",
    "revision_pages",
    "revision_originals",
    "document_tables",
)
_OF_TABLES: Final = ("document_table_rows", "document_table_keys")
_NEEDED: Final = frozenset({"collections", "chunk_partitions", "legal_holds", *_OF_DOCUMENTS, *_OF_TABLES})
"""Tables whose rows are restored, beside the collection's chunks."""

# Erasures since the backup. Those of earlier releases tell no document ids, only hashes of contents.
_ERASED: Final = """
    WITH later AS (
        SELECT document_ids AS ids,
            CASE WHEN document_ids IS NULL AND collection_id = $2 THEN content_hashes END AS hashes
        FROM erasures WHERE create_time > $1::text::timestamptz AND NOT is_collection
    )
    SELECT ARRAY(SELECT unnest(ids) FROM later) AS ids, ARRAY(SELECT unnest(hashes) FROM later) AS hashes
"""
_LEAVE_OUT: Final = f"""
    DELETE FROM documents
    WHERE collection_id = $1 AND ingestion_hash <> ''::bytea AND NOT {is_held_document("documents")}
      AND (document_id = ANY($2::uuid[]) OR content_hash = ANY($3::bytea[]))
    RETURNING document_id
"""
# Ids stay what they were, by which answers cite documents, unless those documents are there.
_CHOSEN: Final = """
    CREATE TABLE chosen AS SELECT document_id, document_id AS new_id FROM documents
    WHERE collection_id = $1 AND ingestion_hash <> ''::bytea
"""
_CHOSEN_TABLES: Final = """
    ALTER TABLE chosen ADD PRIMARY KEY (document_id);
    CREATE TABLE chosen_tables AS
    SELECT table_id, row_number() OVER (ORDER BY table_id) AS new_id
    FROM document_tables JOIN chosen USING (document_id);
    ALTER TABLE chosen_tables ADD PRIMARY KEY (table_id);
"""
_TAKEN: Final = "SELECT EXISTS (SELECT FROM documents WHERE document_id = ANY($1::uuid[]))"
_NEW_TABLES: Final = """
    SELECT nextval(pg_get_serial_sequence('document_tables', 'table_id')) FROM generate_series(1, $1)
"""
_COLUMNS: Final = """
    SELECT attname::text AS name FROM pg_attribute
    WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
    ORDER BY attnum
"""
_COLLECTION: Final = """
    SELECT c.name, c.settings, c.readers, c.writers, c.admins, c.creator,
        p.partition_id, p.embedding_model, p.dimensions, p.language
    FROM collections c JOIN chunk_partitions p USING (partition_id) WHERE c.collection_id = $1
"""
_INSERT: Final = """
    INSERT INTO collections (collection_id, name, settings, readers, writers, admins, creator, partition_id)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
"""
_HOLDS: Final = """
    SELECT new_id::text, reason, create_time FROM legal_holds h LEFT JOIN chosen USING (document_id)
    WHERE collection_id = $1 AND (h.document_id IS NULL OR new_id IS NOT NULL)
"""
_HOLD: Final = (
    "INSERT INTO legal_holds (collection_id, document_id, reason, create_time) VALUES ($1, $2, $3, $4)"
)


async def restore_collection(
    url: str,
    backup: Path,
    manifest: Manifest,
    collection_id: str,
    new_name: str,
    *,
    with_erased: bool,
    on_progress: OnProgress,
) -> Mapping[str, int]:
    """Bring a collection back under a name that is free; return the numbers of its documents and chunks, and
    of the documents that were left out because they had been erased since.

    Raises CommandFailedError, GroundlineError, StackError.
    """
    manifest.require_known_schemas()
    if (of_backup := manifest.collections.get(collection_id)) is None:
        raise CommandFailedError(
            f"the backup has no collection {collection_id!r}, but {', '.join(manifest.collections) or 'none'}"
        )
    settings = IngestorSettings(database_url=SecretStr(url))
    async with AsyncExitStack() as stack:
        pool = await stack.enter_async_context(open_pool(settings_of(url)))
        live = await stack.enter_async_context(pool.acquire())
        stack.enter_context(database_errors())
        await require_schema(pool, SCHEMA)
        lexical = await _engine(live, settings.lexical_backend)
        await _require_free(live, new_name)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="groundline-restore-")))
        server = await stack.enter_async_context(EmbeddedPostgres(folder / "postgres"))
        needed = {*_NEEDED, chunk_table(of_backup["partition_id"])}
        scratch_pool = await stack.enter_async_context(open_pool(settings_of(server.dsn)))
        await restore_rows(
            scratch_pool, server.dsn, backup, manifest, on_progress, "--no-privileges", tables=needed
        )
        scratch = await stack.enter_async_context(scratch_pool.acquire())
        async with scratch.transaction():
            await migrate_restored(scratch, manifest)
        erased = 0 if with_erased else await _leave_out(live, scratch, manifest.create_time, collection_id)
        on_progress("copying")
        async with live.transaction():
            copying = _Copying(live, scratch, folder, collection_id, new_name)
            documents, chunks = await copying.run(lexical)
            if documents + erased != of_backup["documents"]:
                raise CommandFailedError(
                    f"the backup has {documents + erased} documents of the collection in place of the "
                    f"{of_backup['documents']} of its manifest"
                )
        vectors = VectorIndexes(pool, maximum_bytes=settings.vector_index_memory_bytes)
        await watch_builds(pool, vectors.build_due, on_progress)
    return {"documents": documents, "chunks": chunks, "erased": erased}


async def _engine(connection: Connection, backend: str | None) -> LexicalIndex:
    try:
        return await detect_lexical_index(connection, backend)
    except LexicalIndexError as error:
        raise CommandFailedError(str(error)) from error


async def _require_free(connection: Connection, name: str) -> None:
    if not _NAME.fullmatch(name):
        raise CommandFailedError(
            f"{name!r} is not a name for a collection: 1 to 63 of a-z, 0-9, _ and -, beginning with a letter "
            "or digit"
        )
    if await connection.fetchval("SELECT EXISTS (SELECT FROM collections WHERE collection_id = $1)", name):
        raise CommandFailedError(f"the collection {name!r} exists: give another name by --as")


async def _leave_out(live: Connection, scratch: Connection, since: str, collection_id: str) -> int:
    """Delete from the backup's tables what was erased since; return the number of documents."""
    row = await live.fetchrow(_ERASED, since, collection_id)
    assert row is not None, "aggregates have a row"
    return len(await scratch.fetch(_LEAVE_OUT, collection_id, row["ids"], row["hashes"]))


class _Copying:
    """Copy of one collection's rows from a scratch database, in a transaction of the suite's database."""

    def __init__(
        self, live: Connection, scratch: Connection, folder: Path, collection_id: str, new_name: str
    ) -> None:
        self._live = live
        self._scratch = scratch
        self._folder = folder
        self._old = collection_id
        self._new = new_name

    async def run(self, lexical: LexicalIndex) -> tuple[int, int]:
        """Copy everything; return the numbers of documents and chunks. Raises CommandFailedError."""
        row = await self._scratch.fetchrow(_COLLECTION, self._old)
        assert row is not None, "the manifest names it"
        *values, old_partition, model, dimensions, language = row
        await self._choose()
        kind = PartitionKind(model, dimensions, language)
        chunks = await self._scratch.fetchval(
            "SELECT coalesce(sum(chunk_count), 0) FROM documents JOIN chosen USING (document_id)"
        )
        if chunks <= MAXIMUM_SHARED_CHUNKS:
            partition_id = await find_partition(self._live, lexical, self._new, kind)
            await self._add_collection(values, partition_id)
            stored = await self._chunks(old_partition, partition_id)
        else:
            partition_id = await self._own_partition(lexical, kind)
            await self._add_collection(values, partition_id)
            stored = await self._chunks(old_partition, partition_id)
            await self._build(lexical, partition_id, language)
        documents = await self._documents()
        for hold in await self._scratch.fetch(_HOLDS, self._old):
            await self._live.execute(_HOLD, self._new, *hold)
        await self._live.execute("SELECT pg_notify('groundline_search_index', '')")
        return documents, stored

    async def _choose(self) -> None:
        """Choose which documents come back, and ids that are free."""
        scratch, live = self._scratch, self._live
        await scratch.execute(_CHOSEN, self._old)
        await scratch.execute(_CHOSEN_TABLES)
        ids = [row["document_id"] for row in await scratch.fetch("SELECT document_id FROM chosen")]
        if await live.fetchval(_TAKEN, ids):
            await scratch.execute("UPDATE chosen SET new_id = gen_random_uuid()")
        count = await scratch.fetchval("SELECT count(*)::int FROM chosen_tables")
        tables = await live.fetch(_NEW_TABLES, count)
        await scratch.execute(
            "UPDATE chosen_tables SET new_id = ($1::bigint[])[new_id]", [row["nextval"] for row in tables]
        )

    async def _add_collection(self, values: Sequence[Any], partition_id: int) -> None:
        try:
            await self._live.execute(_INSERT, self._new, *values, partition_id)
        except asyncpg.UniqueViolationError:
            raise CommandFailedError(f"the collection {self._new!r} was created meanwhile") from None
        await note_quantized(self._live, self._new)

    async def _own_partition(self, lexical: LexicalIndex, kind: PartitionKind) -> int:
        """Create a table that becomes a partition later, so that nobody waits for its indexes; return its
        id."""
        partition_id: int = await self._live.fetchval(
            """
            INSERT INTO chunk_partitions
                (collection_id, embedding_model, dimensions, language, lexical_backend)
            VALUES ($1, $2, $3, $4, $5) RETURNING partition_id
            """,
            self._new,
            *kind,
            lexical.name,
        )
        await create_chunk_table(self._live, partition_id)
        return partition_id

    async def _build(self, lexical: LexicalIndex, partition_id: int, language: str) -> None:
        """Build the indexes that every partition has, and make the table one."""
        table = chunk_table(partition_id)
        await self._live.execute(
            f"""
            ALTER TABLE {table} ADD PRIMARY KEY (partition_id, chunk_id);
            CREATE INDEX ON {table} (document_id, chunk_index);
            CREATE INDEX ON {table} USING gin (metadata jsonb_path_ops);
            CREATE INDEX ON {table} USING gin (allowed_principals);
            ANALYZE {table};
            """,
            timeout=LONG_SECONDS,
        )
        await lexical.create_index(self._live, table, language)
        await attach_partition(self._live, partition_id)

    async def _chunks(self, source: int, target: int) -> int:
        """Copy the chunks, which get new ids; return their number."""
        return await self._copy(
            chunk_table(target),
            f"{chunk_table(source)} AS t JOIN chosen USING (document_id) ORDER BY t.chunk_id",
            {
                "partition_id": f"{target:d}::bigint",
                "collection_id": f"'{self._new}'",
                "document_id": "new_id",
            },
            without="chunk_id",
        )

    async def _documents(self) -> int:
        """Copy documents with all that belongs to them; return their number."""
        copied = {}
        for table in _OF_DOCUMENTS:
            given = {"document_id": "chosen.new_id", "table_id": "chosen_tables.new_id"}
            source = f"{table} AS t JOIN chosen USING (document_id)"
            if table == "document_tables":
                source += " JOIN chosen_tables USING (table_id)"
            if table == "documents":
                # Jobs that were under way do not come with it.
                done = "CASE t.state WHEN 'failed' THEN t.state ELSE 'done' END"
                given |= {"collection_id": f"'{self._new}'", "state": done}
            copied[table] = await self._copy(table, source, given)
        for table in _OF_TABLES:
            await self._copy(
                table,
                f"{table} AS t JOIN chosen_tables USING (table_id)",
                {"table_id": "chosen_tables.new_id"},
            )
        return copied["documents"]

    async def _copy(self, table: str, source: str, given: Mapping[str, str], without: str = "") -> int:
        """Copy rows of a source, some columns of which are given by expressions; return their number."""
        columns = [row["name"] for row in await self._scratch.fetch(_COLUMNS, "chunks" if without else table)]
        columns.remove(without) if without else None
        selected = ", ".join(given.get(name, f't."{name}"') for name in columns)
        rows = self._folder / "rows"
        await self._scratch.copy_from_query(
            f"SELECT {selected} FROM {source}", output=rows, format="binary", timeout=LONG_SECONDS
        )
        done = await self._live.copy_to_table(
            table, source=rows, columns=columns, format="binary", timeout=LONG_SECONDS
        )
        rows.unlink()
        return int(done.split()[1])
