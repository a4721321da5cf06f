"""The ingestor over gRPC on PostgreSQL: statuses, what is stored, what both search arms find afterwards."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from google.protobuf import json_format
from google.protobuf.struct_pb2 import Struct
from groundline.v1 import collection_pb2, error_pb2, job_pb2
from groundline.v1 import ingestor_service_pb2 as pb
from groundline_database import Pool, acquire, transaction
from groundline_lexical import LexicalIndex
from groundline_tests.ingestor.rpcs import ANN, BOB, EMBEDDER, document, ended, everyones, ingest, search
from groundline_tests.runtime import refusal


async def test_a_language_that_is_not_known_is_simple_and_shown_as_such(stub: Any) -> None:
    settings = everyones()
    settings.lexical.language = "klingon"
    request = pb.CreateCollectionRequest(collection_id="qonos", settings=settings)
    created = (await stub.CreateCollection(request)).collection
    await stub.DeleteCollection(pb.DeleteCollectionRequest(collection_id="qonos"))
    assert created.settings.lexical.language == "simple"


@pytest.mark.parametrize(
    ("language", "found"),
    [("german", ["Haus", "Häuser"]), ("english", ["runs", "Häuser"]), ("simple", ["Häuser"])],
)
async def test_words_are_found_by_the_stems_of_the_collections_language(
    stub: Any, pool: Pool, lexical: LexicalIndex, language: str, found: list[str]
) -> None:
    settings = everyones()
    settings.lexical.language = language
    await stub.CreateCollection(pb.CreateCollectionRequest(collection_id="stems", settings=settings))
    await ingest(stub, "stems", document("a", "Die Häuser am Fluss. Running water."))
    queries = ("Haus", "runs", "Häuser")
    assert [each for each in queries if (await search(pool, lexical, "stems", each))[0]] == found
    await stub.DeleteCollection(pb.DeleteCollectionRequest(collection_id="stems"))


@asynccontextmanager
async def faulty(pool: Pool, locked: str) -> AsyncIterator[None]:
    """Keep a table locked, or with "" each process of the server that the replica is connected to stopped."""
    async with transaction(pool) as connection:
        if locked:
            await connection.execute(f"LOCK TABLE {locked}")
            yield
            return
        pids = await connection.fetch(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        for row in pids:
            os.kill(row["pid"], signal.SIGSTOP)
        try:
            yield
        finally:
            for row in pids:
                os.kill(row["pid"], signal.SIGCONT)


@pytest.mark.parametrize("locked", ["collections", "documents", "ingestion_items", ""])
async def test_a_hand_in_does_not_wait_as_long_as_a_table_is_locked_or_the_server_hangs(
    stub: Any, collection_id: str, pool: Pool, locked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = pb.IngestDocumentsRequest(
        collection_id=collection_id, documents=[document("a", "Late.")], request_id="late"
    )
    async with faulty(pool, locked), asyncio.timeout(30):
        monkeypatch.setattr("groundline_database.pool.REQUEST_SECONDS", 0.3)
        error = await refusal(stub.IngestDocuments(given, metadata=ANN))
    monkeypatch.undo()
    again = await stub.IngestDocuments(given, metadata=ANN)

    assert (error.code.name, error.reason) == ("UNAVAILABLE", "DATABASE_BUSY")
    assert error.retry_after_seconds
    assert (await ended(stub, again.job.job_id)).job.state == job_pb2.JOB_STATE_DONE


async def test_an_estimate_counts_chunks_and_keeps_nothing(stub: Any, collection_id: str, pool: Pool) -> None:
    text = "A sentence of a long document. " * 200
    answer = await stub.IngestDocuments(
        pb.IngestDocumentsRequest(
            collection_id=collection_id, documents=[document("a", text), document("b", "")], dry_run=True
        )
    )
    assert answer.job.job_id == ""
    assert (answer.job.item_count, answer.job.failed_count) == (2, 1)
    assert answer.items[0].chunks.parsed > 2
    assert answer.items[1].failure.reason == error_pb2.EMPTY_TEXT
    found = await stub.ListDocuments(pb.ListDocumentsRequest(collection_id=collection_id))
    jobs = await stub.ListJobs(pb.ListJobsRequest(collection_id=collection_id))
    assert not found.documents
    assert not jobs.jobs
    # What was estimated is what then comes about.
    done = await ingest(stub, collection_id, document("a", text))
    assert done.items[0].chunks.stored == answer.items[0].chunks.parsed


async def test_principals_of_the_call_decide(stub: Any) -> None:
    settings = collection_pb2.CollectionSettings()
    settings.access.readers.append("user:bob")
    settings.access.writers.append("user:ann")
    request = pb.CreateCollectionRequest(collection_id="guarded", settings=settings)
    await stub.CreateCollection(request, metadata=ANN)
    delete = pb.DeleteCollectionRequest(collection_id="guarded")
    assert (await refusal(stub.DeleteCollection(delete))).code.name == "NOT_FOUND"
    assert (await refusal(stub.DeleteCollection(delete, metadata=BOB))).code.name == "PERMISSION_DENIED"
    listed = await stub.ListCollections(pb.ListCollectionsRequest())
    assert "guarded" not in [collection.collection_id for collection in listed.collections]
    await stub.DeleteCollection(delete, metadata=ANN)


async def test_a_collection_has_its_lexical_index_at_once_and_goes_whole(stub: Any, pool: Pool) -> None:
    await stub.CreateCollection(pb.CreateCollectionRequest(collection_id="indexed", settings=everyones()))
    async with acquire(pool) as connection:
        partition = await connection.fetchval(
            "SELECT partition_id FROM collections WHERE collection_id = 'indexed'"
        )
        indexes = await connection.fetch(
            "SELECT indexdef FROM pg_indexes WHERE tablename = $1", f"chunks_p{partition}"
        )
        definitions = " ".join(row["indexdef"] for row in indexes)
        assert "USING bm25" in definitions
        await ingest(stub, "indexed", document("a", "An old mill by the river."))
        left = "SELECT count(*) FROM chunks WHERE collection_id = 'indexed'"
        assert await connection.fetchval(left) == 1
        await stub.DeleteCollection(pb.DeleteCollectionRequest(collection_id="indexed"))
        assert await connection.fetchval(left) == 0


async def test_a_collection_is_shown_with_effective_settings_and_changed_by_parts(stub: Any) -> None:
    settings = everyones()
    settings.chunking.chunk_size = 500
    settings.rerank.top_k = 5
    created = await stub.CreateCollection(
        pb.CreateCollectionRequest(name="Parts & Labour", settings=settings, request_id="parts")
    )
    again = await stub.CreateCollection(
        pb.CreateCollectionRequest(name="Parts & Labour", settings=settings, request_id="parts")
    )
    assert created == again
    shown = created.collection
    assert (shown.collection_id, shown.name) == ("parts-labour", "Parts & Labour")
    assert (shown.settings.chunking.chunk_size, shown.settings.chunking.chunk_overlap) == (500, 200)
    assert shown.settings.embedding.model == EMBEDDER.model
    assert shown.settings.embedding.dimensions == EMBEDDER.dimensions
    assert shown.settings.lexical.language == "english"
    assert shown.settings.contextualization.mode == collection_pb2.CONTEXTUALIZATION_MODE_STRUCTURAL
    assert not shown.settings.HasField("retrieval")

    change = pb.UpdateCollectionRequest(collection_id="parts-labour")
    change.settings.rerank.rrf_k = 10
    updated = (await stub.UpdateCollection(change)).collection
    assert (updated.settings.rerank.top_k, updated.settings.rerank.rrf_k) == (5, 10)
    # What is shown can be sent back as it is.
    echo = pb.UpdateCollectionRequest(
        collection_id="parts-labour", name=updated.name, settings=updated.settings
    )
    assert (await stub.UpdateCollection(echo)).collection.settings == updated.settings
    reset = pb.UpdateCollectionRequest(collection_id="parts-labour")
    reset.update_mask.paths.extend(["settings.rerank", "settings.chunking"])
    cleared = (await stub.UpdateCollection(reset)).collection.settings
    assert not cleared.HasField("rerank")
    assert cleared.chunking.chunk_size == 2000


async def test_both_arms_find_what_was_ingested_and_nothing_that_was_replaced_or_deleted(
    stub: Any, pool: Pool, lexical: LexicalIndex, collection_id: str
) -> None:
    response = await ingest(
        stub, collection_id, document("a.md", "walrus habitats"), document("b.md", "otter habits")
    )
    assert response.job.state == job_pb2.JOB_STATE_DONE
    assert [item.outcome for item in response.items] == [job_pb2.INGESTION_OUTCOME_CREATED] * 2
    words, nearest = await search(pool, lexical, collection_id, "walrus")
    assert words == {"walrus habitats"}
    assert nearest == {"walrus habitats", "otter habits"}

    await ingest(stub, collection_id, document("a.md", "penguin colonies"))
    assert await search(pool, lexical, collection_id, "walrus") == (
        set(),
        {"penguin colonies", "otter habits"},
    )

    key = {"collection_id": collection_id, "document_id": response.items[0].document_id}
    await stub.DeleteDocument(pb.DeleteDocumentRequest(**key))
    assert await search(pool, lexical, collection_id, "penguin") == (set(), {"otter habits"})
    assert (await refusal(stub.DeleteDocument(pb.DeleteDocumentRequest(**key)))).code.name == "NOT_FOUND"
    shown = (await stub.GetCollection(pb.GetCollectionRequest(collection_id=collection_id))).collection
    assert (shown.document_count, shown.chunk_count) == (1, 1)


async def test_long_documents_are_whole_with_exact_offsets(stub: Any, pool: Pool, collection_id: str) -> None:
    text = "# Guide\r\n\r\n" + "".join(f"Sentence {number} with 😀 and é.\r\n\r\n" for number in range(3000))
    response = await ingest(stub, collection_id, document("guide.md", text))
    [item] = response.items
    counts = item.chunks
    assert counts.stored == counts.embedded == counts.contextualized == counts.parsed > 40
    async with acquire(pool) as connection:
        rows = await connection.fetch(
            "SELECT * FROM chunks WHERE document_id = $1::uuid ORDER BY chunk_index", item.document_id
        )
    assert [row["chunk_index"] for row in rows] == list(range(counts.stored))
    for row in rows:
        assert text[row["start_offset"] : row["end_offset"]] == row["original_text"]
    assert rows[-1]["context_annotation"] == "guide.md\nGuide"
    assert rows[-1]["embedding"].dimensions() == EMBEDDER.dimensions


async def test_metadata_and_principals_are_on_chunks_too(stub: Any, pool: Pool, collection_id: str) -> None:
    given = document("a", "text", metadata={"team": "ops"}, allowedPrincipals=["user:ann"])
    for metadata, outcome in (
        ({"team": "ops"}, job_pb2.INGESTION_OUTCOME_CREATED),
        ({"team": "ops"}, job_pb2.INGESTION_OUTCOME_UNCHANGED),
        ({"team": "dev", "year": 2024}, job_pb2.INGESTION_OUTCOME_UPDATED),
    ):
        given.metadata.CopyFrom(json_format.ParseDict(metadata, Struct()))
        [item] = (await ingest(stub, collection_id, given)).items
        assert item.outcome == outcome
    key = pb.GetDocumentRequest(collection_id=collection_id, document_id=item.document_id)
    assert (await refusal(stub.GetDocument(key, metadata=BOB))).code.name == "NOT_FOUND"
    shown = (await stub.GetDocument(key, metadata=ANN)).document
    assert json_format.MessageToDict(shown.metadata) == {"team": "dev", "year": 2024.0}
    async with acquire(pool) as connection:
        [row] = await connection.fetch("SELECT * FROM chunks WHERE document_id = $1::uuid", item.document_id)
    assert row["metadata"] == {"team": "dev", "year": 2024}
    assert row["allowed_principals"] == ["user:ann"]
    assert row["update_time"].timestamp() == pytest.approx(shown.update_time.ToNanoseconds() / 1e9)


async def test_front_matter_becomes_metadata_behind_what_is_given(stub: Any, collection_id: str) -> None:
    text = "---\ntitle: Leave\nowner: people\nyear: 2023\nsince: 2024-05-01\n---\n# Days\n27 days of leave\n"
    given = document("leave.md", text, metadata={"year": 2024})
    outcomes = []
    for _ in range(2):
        outcomes.append((await ingest(stub, collection_id, given)).items[0].outcome)
    assert outcomes == [job_pb2.INGESTION_OUTCOME_CREATED, job_pb2.INGESTION_OUTCOME_UNCHANGED]
    request = pb.ListDocumentsRequest(
        collection_id=collection_id, filter_json='{"owner": "people", "since": {"$gte": "2024-01-01"}}'
    )
    [found] = (await stub.ListDocuments(request, metadata=ANN)).documents
    assert found.title == "Leave"
    assert json_format.MessageToDict(found.metadata) == {
        "title": "Leave",
        "owner": "people",
        "year": 2024,
        "since": "2024-05-01",
    }
    changed = document("leave.md", text.replace("owner: people", "owner: board"))
    await ingest(stub, collection_id, changed)
    [found] = (
        await stub.ListDocuments(pb.ListDocumentsRequest(collection_id=collection_id), metadata=ANN)
    ).documents
    assert found.metadata["owner"] == "board"
    assert found.metadata["year"] == 2023
