"""Bulk loads: beside what is searched, all at once, and never twice."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
from groundline.v1 import job_pb2
from groundline_database import Pool, acquire
from groundline_database.spending import SpendingLedger
from groundline_embedding import create_embedder
from groundline_extraction.documents import GivenDocument
from groundline_indexing.collections import StoredCollection
from groundline_indexing.feed.changes import FedPartition
from groundline_indexing.feed.feeding import Comparison, Feeding, compare
from groundline_indexing.feed.state import IndexFeed
from groundline_indexing.imports.files import fingerprints
from groundline_indexing.imports.loading import discard
from groundline_indexing.imports.records import BatchResult, ImportFailedError, ImportProgress
from groundline_indexing.imports.tables import OpenImport, open_import
from groundline_indexing.partitions import chunk_table
from groundline_indexing.preparation import identify
from groundline_indexing.revisions.past import past_partition
from groundline_ingestor.adapters.postgres.stores import Stores
from groundline_ingestor.settings import IngestorSettings
from groundline_lexical import LexicalIndex
from groundline_runtime.errors import ResourceExhaustedError
from groundline_runtime.quotas import Budgets
from groundline_tests.embedding.provider import serving, settings_for
from groundline_tests.indexing.imports import (
    DIMENSIONS,
    VECTOR,
    imported,
    leftovers,
    record,
    texts,
    version,
    written,
)
from groundline_tests.ingestor.messages import a_collection
from groundline_tests.ingestor.search_index import MemoryIndex
from pydantic import SecretStr

KILLED_SECONDS = 60.0


@pytest.fixture(scope="module")
def settings(database_url: str) -> IngestorSettings:
    return IngestorSettings(database_url=SecretStr(database_url), reindex_grace_seconds=0)


@pytest.fixture
async def collection(stores: Stores) -> StoredCollection:
    return await stores.collections.create(a_collection("docs", dimensions=DIMENSIONS), "", "")


async def test_passages_with_vectors_are_a_documents_chunks_as_the_pipeline_writes_them(
    settings: IngestorSettings, stores: Stores, collection: StoredCollection, pool: Pool, tmp_path: Path
) -> None:
    passages = ["The mill's wheelHouse burnt.", "It was built again."]
    given = {
        "uri": "mill.txt",
        "title": "The Mill",
        "chunks": [{"text": text, "vector": VECTOR} for text in passages],
        "metadata": {"year": 1901},
        "allowedPrincipals": ["group:mill"],
    }
    result = await imported(settings, written(tmp_path / "one.jsonl", [given]))
    assert (result.added_count, result.chunk_count, list(result.failures)) == (1, 2, [])
    after = await stores.collections.find("docs")
    assert after is not None
    async with acquire(pool) as connection:
        rows = await connection.fetch(
            f"""
            SELECT c.*, t.text, d.title, d.chunk_count FROM {chunk_table(after.partition_id)} c
            JOIN documents d USING (document_id) JOIN document_texts t USING (document_id)
            ORDER BY chunk_index
            """
        )
    for row, passage in zip(rows, passages, strict=True):
        assert row["text"][row["start_offset"] : row["end_offset"]] == row["original_text"] == passage
        assert row["metadata"] == {"year": 1901}
        assert row["allowed_principals"] == ["group:mill"]
        assert row["title"] == "The Mill"
        assert "the mill" in row["lexical_text"]
        assert len(row["signature"]) == 136
        assert np.allclose(row["embedding"].to_numpy(), VECTOR)
    assert "wheel house" in rows[0]["lexical_text"]
    assert await leftovers(pool) == []


async def test_a_text_without_a_vector_becomes_what_ingesting_makes_of_it(
    settings: IngestorSettings, stores: Stores, pool: Pool, tmp_path: Path
) -> None:
    async with create_embedder(settings.embedding) as embedder:
        model, dimensions = embedder.model, embedder.dimensions
    await stores.collections.create(a_collection("docs", model=model, dimensions=dimensions), "", "")
    given = {"uri": "mill.md", "text": "# The mill\n\nIt stands by the river.\n", "mimeType": "text/markdown"}
    await imported(settings, written(tmp_path / "texts.jsonl", [given]))
    after = await stores.collections.find("docs")
    assert after is not None
    handed_in = GivenDocument(given["text"], uri=given["uri"], mime_type=given["mimeType"])
    refreshed = await stores.versions.refresh(after, identify(handed_in, after).version, ())
    assert refreshed is not None
    assert refreshed[1] == job_pb2.INGESTION_OUTCOME_UNCHANGED
    assert await texts(pool) == {"mill.md": [given["text"].rstrip()]}


async def test_what_an_import_has_a_provider_embed_counts_for_the_collections_creator(
    settings: IngestorSettings, stores: Stores, pool: Pool, tmp_path: Path
) -> None:
    await stores.collections.create(
        a_collection("docs", model="encoder-1", dimensions=256), "user:miller", ""
    )
    given = {"uri": "mill.md", "text": "It stands by the river."}
    with serving("openai") as provider:
        embedding = settings_for(provider, usd_per_million_tokens=1000.0)
        hosted = settings.model_copy(update={"embedding": embedding})
        await imported(hosted, written(tmp_path / "texts.jsonl", [given]))
    spent = await SpendingLedger(pool, Budgets(day_usd=1)).spent("user:miller")
    calls = len(provider.requests)
    assert calls == 2, "one tells the model's dimensions"
    assert spent.day_usd == pytest.approx(calls * 7 * 1000 / 1_000_000)


async def test_others_stay_and_a_replaced_document_keeps_its_id(
    settings: IngestorSettings, stores: Stores, collection: StoredCollection, pool: Pool, tmp_path: Path
) -> None:
    before = await stores.versions.store(
        collection, [version(record(uri, "As it was."), collection) for uri in ("a", "b")]
    )
    result = await imported(settings, written(tmp_path / "new.jsonl", [record("b"), record("c")]))
    assert (result.added_count, result.document_count) == (1, 2)
    mill = [record("")["text"]]
    assert await texts(pool) == {"a": ["As it was."], "b": mill, "c": mill}
    replaced = await stores.documents.find("docs", before[1][0])
    assert replaced is not None
    assert replaced.uri == "b"


async def test_of_one_uri_the_last_record_stays_and_what_is_unchanged_is_not_loaded_again(
    settings: IngestorSettings, collection: StoredCollection, pool: Pool, tmp_path: Path
) -> None:
    first = written(tmp_path / "first.jsonl", [record("a", "One."), record("b"), record("a", "Two.")])
    second = written(tmp_path / "second.jsonl", [record("b", "Three.")])
    await imported(settings, first, second)
    assert await texts(pool) == {"a": ["Two."], "b": ["Three."]}
    again = await imported(settings, second)
    assert (again.document_count, again.unchanged_count) == (0, 1)
    assert await leftovers(pool) == []


async def test_what_is_written_or_deleted_meanwhile_counts_more_than_the_import(
    stores: Stores, collection: StoredCollection, pool: Pool, lexical: LexicalIndex, tmp_path: Path
) -> None:
    for uri in ("kept", "changed", "deleted", "replaced", "overtaken"):
        await stores.versions.store(collection, [version(record(uri, "Before."), collection)])
    path = written(tmp_path / "new.jsonl", [])
    async with acquire(pool) as connection:
        running = OpenImport(connection, lexical, await open_import(connection, "docs", fingerprints([path])))
        new = [version(record(uri, "Imported."), collection) for uri in ("replaced", "overtaken", "taken")]
        await running.store(0, new, 0, ())
        await running.copy_others()
        for uri in ("changed", "overtaken"):
            await stores.versions.store(collection, [version(record(uri, "Since."), collection)])
        await running.build_keys()
        await running.build_keyword_index()
        await running.build_vector_index()
        await running.attach()
        for uri in ("taken", "new"):
            await stores.versions.store(collection, [version(record(uri, "Since."), collection)])
        async with acquire(pool) as other:
            deleted = await other.fetchval("SELECT document_id FROM documents WHERE uri = 'deleted'")
        assert await stores.documents.delete(collection, deleted)
        await running.switch(0)
        await connection.execute("SELECT pg_advisory_unlock_all()")
    assert await texts(pool) == {
        "kept": ["Before."],
        "changed": ["Since."],
        "replaced": ["Imported."],
        "overtaken": ["Since."],
        "taken": ["Since."],
        "new": ["Since."],
    }


async def test_wrong_records_are_named_and_change_nothing_until_they_are_left_out(
    settings: IngestorSettings, collection: StoredCollection, pool: Pool, tmp_path: Path
) -> None:
    path = tmp_path / "some.jsonl"
    lines = [
        json.dumps(record("a")),
        "{not JSON",
        json.dumps(record("b", vector=[1.0])),
        json.dumps(record("c", vector=[0.0] * DIMENSIONS)),
        json.dumps({**record("d"), "colour": "red", "uri": 7}),
        json.dumps({"uri": "e", "text": "x", "chunks": [{"text": " ", "vector": VECTOR}]}),
        json.dumps({"uri": "f", "text": ""}),
    ]
    path.write_text("\n\n".join(lines))
    result = await imported(settings, path)
    assert [(failure.line, failure.field) for failure in result.failures] == [
        (3, ""),
        (5, "vector"),
        (7, "vector"),
        (9, "colour"),
        (9, ""),
        (11, "text"),
        (11, "chunks[0].text"),
        (13, "text"),
    ]
    assert str(result.failures[1]) == "some.jsonl:5: vector: must be a list of 8 numbers"
    assert await texts(pool) == {}
    with pytest.raises(ImportFailedError, match="an import of other files"):
        await imported(settings, written(tmp_path / "other.jsonl", []))
    assert len((await imported(settings, path, skip_invalid=True)).failures) == 8
    assert list(await texts(pool)) == ["a"]


async def test_quotas_hold_and_what_was_loaded_can_be_dropped(
    settings: IngestorSettings, collection: StoredCollection, pool: Pool, tmp_path: Path
) -> None:
    path = written(tmp_path / "two.jsonl", [record("a"), record("b")])
    few = settings.model_copy(update={"max_documents_per_collection": 1})
    with pytest.raises(ResourceExhaustedError, match="quota of documents"):
        await imported(few, path)
    assert len(await leftovers(pool)) == 4
    assert await discard(settings, "docs")
    assert not await discard(settings, "docs")
    assert await leftovers(pool) == []


async def test_an_import_into_a_collection_that_is_deleted_leaves_nothing(
    settings: IngestorSettings, stores: Stores, collection: StoredCollection, pool: Pool, tmp_path: Path
) -> None:
    await imported(settings, written(tmp_path / "some.jsonl", [record("a"), {"wrong": 1}]))
    assert await leftovers(pool)
    await stores.collections.delete("docs")
    await stores.reindex.settle(0)
    assert await leftovers(pool) == []
    with pytest.raises(ImportFailedError, match="no collection 'docs'"):
        await imported(settings, tmp_path / "some.jsonl")


async def test_a_killed_import_goes_on_where_it_was_and_loads_nothing_twice(
    settings: IngestorSettings, collection: StoredCollection, pool: Pool, tmp_path: Path
) -> None:
    count = 600
    text = " ".join(f"word{number}" for number in range(700))
    path = tmp_path / "many.jsonl"
    # With spaces at the ends of its lines it is four batches: when the first is stored, others are missing.
    path.write_text("".join(f"{json.dumps(record(str(n), text)):<11000}\n" for n in range(count)))
    command = (sys.executable, "-m", "groundline_cli", "import", str(path), "-c", "docs", "--processes", "1")
    url = settings.database_url.get_secret_value()
    process = await asyncio.create_subprocess_exec(
        *command, env={**os.environ, "GROUNDLINE_DATABASE_URL": url}, stderr=asyncio.subprocess.DEVNULL
    )
    async with asyncio.timeout(KILLED_SECONDS):
        while not (loaded := await batches(pool)):
            assert process.returncode is None, "it ended before it was killed"
            await asyncio.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        await process.wait()
        # Its processes end with it, and their sessions.
        while await sessions(pool):  # noqa: ASYNC110 (another process ends)
            await asyncio.sleep(0.02)
    before = await batches(pool)
    assert loaded.items() <= before.items()
    assert await texts(pool) == {}
    progress: list[ImportProgress] = []
    result = await imported(settings, path, on_progress=progress.append)
    assert (result.added_count, result.chunk_count) == (count, count)
    assert progress[0].done > 0
    found = await texts(pool)
    assert len(found) == count
    assert all(chunks == [text] for chunks in found.values())


async def test_a_fed_index_has_all_of_an_import_before_searches_look_there(
    settings: IngestorSettings, stores: Stores, collection: StoredCollection, pool: Pool, tmp_path: Path
) -> None:
    feed, index = IndexFeed(pool), MemoryIndex()
    feeding = Feeding(feed, index)
    await stores.versions.store(collection, [version(record("old"), collection)])
    await drain(feeding)
    waiting = asyncio.Event()
    importing = asyncio.create_task(waiting_import(settings, tmp_path, waiting))

    await waiting.wait()
    before = await texts(pool)
    await drain(feeding)
    await importing
    after = await stores.collections.find("docs")
    assert after is not None
    fed = await feed.state()
    partition = FedPartition(after.partition_id, after.settings.embedding.model, DIMENSIONS)
    compared = [counts async for counts in compare(feed, index, partition)][-1]
    await feed.end()

    assert before.keys() == {"old"}
    assert (await texts(pool)).keys() == {"old", "new"}
    assert (fed.pending_count, compared) == (0, Comparison(compared=2))


@pytest.mark.parametrize("dropped_with", ["--discard", "its collection"])
async def test_an_import_that_waits_for_a_fed_index_can_be_dropped(
    dropped_with: str,
    settings: IngestorSettings,
    stores: Stores,
    collection: StoredCollection,
    pool: Pool,
    tmp_path: Path,
) -> None:
    feed, index = IndexFeed(pool), MemoryIndex()
    feeding = Feeding(feed, index)
    await drain(feeding)
    waiting = asyncio.Event()
    importing = asyncio.create_task(waiting_import(settings, tmp_path, waiting))
    await waiting.wait()
    importing.cancel()
    await asyncio.gather(importing, return_exceptions=True)
    await drain(feeding)
    entries_before = await index_entries(feed, index)

    if dropped_with == "--discard":
        assert await discard(settings, "docs")
    else:
        await stores.collections.delete("docs")
        await stores.reindex.settle(0)
    await drain(feeding)
    entries_after = await index_entries(feed, index)
    async with acquire(pool) as connection:
        own = await connection.fetchval("SELECT count(*) FROM chunk_partitions WHERE collection_id = 'docs'")
    await feed.end()

    assert await leftovers(pool) == []
    assert (entries_before, entries_after, own) == (1, 0, 0)


async def waiting_import(settings: IngestorSettings, folder: Path, waiting: asyncio.Event) -> BatchResult:
    """Import one record; set `waiting` when only the index is missing."""

    def show(progress: ImportProgress) -> None:
        if progress.stage == "filling the search index":
            waiting.set()

    return await imported(settings, written(folder / "new.jsonl", [record("new")]), on_progress=show)


async def drain(feeding: Feeding) -> None:
    while await feeding.round():
        pass


async def index_entries(feed: IndexFeed, index: MemoryIndex) -> int:
    """Return the objects of all partitions in the index."""
    return sum(
        [len(await index.entries(each.partition, after=0, limit=10)) for each in await feed.partitions()]
    )


async def batches(pool: Pool) -> dict[int, str]:
    """Return the stored batches, with the transaction that stored them."""
    async with acquire(pool) as connection:
        rows = await connection.fetch("SELECT batch, xmin::text AS writer FROM import_batches")
    return {row["batch"]: row["writer"] for row in rows}


async def sessions(pool: Pool) -> int:
    """Return the sessions of imports."""
    async with acquire(pool) as connection:
        count: int = await connection.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'groundline-ingestor/%' "
            "AND datname = current_database()"
        )
    return count


async def test_parquet_is_read_by_row_groups(
    settings: IngestorSettings, collection: StoredCollection, pool: Pool, tmp_path: Path
) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    table = pa.table(
        {
            "uri": ["a", "b", "c"],
            "text": ["One.", "Two.", "Three."],
            "title": ["First", None, None],
            "metadata": ['{"n": 1}', None, "{"],
            "vector": pa.array([VECTOR] * 3, pa.list_(pa.float32())),
        }
    )
    path = tmp_path / "some.parquet"
    parquet.write_table(table, path, row_group_size=2)
    result = await imported(settings, path, skip_invalid=True)
    assert [str(failure) for failure in result.failures] == ["some.parquet:3: metadata is text, but not JSON"]
    assert await texts(pool) == {"a": ["One."], "b": ["Two."]}


async def test_what_an_import_replaces_is_kept_as_the_collection_says(
    settings: IngestorSettings, stores: Stores, pool: Pool, collection: StoredCollection, tmp_path: Path
) -> None:
    collection.message.settings.history.everything = True
    collection.message.settings.history.searchable = True
    assert await stores.collections.update(collection.message)
    [(document_id, _)] = await stores.versions.store(collection, [version(record("a"), collection)])
    await imported(settings, written(tmp_path / "one.jsonl", [record("a", "A new mill."), record("b")]))
    found = await stores.revisions.list_readable("docs", document_id, (), after=None, limit=10)
    texts_kept = [
        (await stores.revisions.text("docs", document_id, (), each.revision)).text for each in found
    ]
    assert texts_kept == ["A new mill.", "An old mill by the river."]
    async with acquire(pool) as connection:
        past = await past_partition(connection, "docs")
        assert past is not None
        chunks = await connection.fetch(f"SELECT original_text, valid_to FROM {chunk_table(past)}")
        document = await connection.fetchrow("SELECT update_time FROM documents WHERE uri = 'a'")
    assert document is not None
    expected = [("An old mill by the river.", document["update_time"])]
    assert [tuple(chunk) for chunk in chunks] == expected
