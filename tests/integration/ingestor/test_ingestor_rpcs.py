"""The ingestor over gRPC on PostgreSQL: statuses, what is stored, what both search arms find afterwards."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from google.protobuf import json_format
from google.protobuf.struct_pb2 import Struct
from groundline.v1 import collection_pb2, document_pb2, error_pb2, job_pb2
from groundline.v1 import ingestor_service_pb2 as pb
from groundline_database import Pool, acquire
from groundline_lexical import LexicalIndex
from groundline_runtime.context import LAST_EVENT_ID_KEY
from groundline_runtime.errors import InvalidArgumentError
from groundline_tests.embedding import FakeEmbedder
from groundline_tests.ingestor.messages import EVERYONES_ACCESS, settings_of
from groundline_tests.ingestor.replica import replica
from groundline_tests.runtime import refusal
from pgvector import HalfVector

EMBEDDER = FakeEmbedder()
ANN = (("x-groundline-principals", "user:ann"),)
BOB = (("x-groundline-principals", "user:bob"),)
NOBODY_ID = "6f1c1d9e-9d3e-4c55-8a52-0d7d2f1f5c11"


@pytest.fixture(scope="module")
async def stub(pool: Pool, database_url: str) -> AsyncIterator[Any]:
    async with replica(pool, database_url, max_document_bytes=8_000_000) as stub:
        yield stub


@pytest.fixture
async def collection_id(stub: Any, request: pytest.FixtureRequest) -> AsyncIterator[str]:
    name = request.node.name.split("[")[0]
    created = await stub.CreateCollection(pb.CreateCollectionRequest(name=name[:60], settings=everyones()))
    yield created.collection.collection_id
    await stub.DeleteCollection(
        pb.DeleteCollectionRequest(collection_id=created.collection.collection_id), metadata=ANN
    )


def everyones() -> collection_pb2.CollectionSettings:
    """Return the request of a collection that callers without principals may use."""
    return settings_of({"access": EVERYONES_ACCESS})


def document(uri: str, text: str, **fields: Any) -> document_pb2.DocumentInput:
    return json_format.ParseDict({"uri": uri, "text": text, **fields}, document_pb2.DocumentInput())


async def ingest(
    stub: Any, collection_id: str, *documents: document_pb2.DocumentInput, **options: Any
) -> Any:
    """Hand in as Ann, and wait; the job that has ended, with its items."""
    request = pb.IngestDocumentsRequest(collection_id=collection_id, documents=documents, **options)
    return await ended(stub, (await stub.IngestDocuments(request, metadata=ANN)).job.job_id)


async def ended(stub: Any, job_id: str, caller: Any = ANN) -> Any:
    """Return the job and its items as the caller sees them, when it has ended."""
    async for _ in stub.WatchJob(pb.WatchJobRequest(job_id=job_id), metadata=caller):
        pass
    return await stub.GetJob(pb.GetJobRequest(job_id=job_id, page_size=1000), metadata=caller)


def condition(**fields: Any) -> Struct:
    struct = Struct()
    struct.update({name.replace("_", "$", 1): value for name, value in fields.items()})
    return struct


async def search(
    pool: Pool, lexical: LexicalIndex, collection_id: str, query: str
) -> tuple[set[str], set[str]]:
    """Return texts that BM25 finds, and the nearest ones that the vector index finds."""
    async with acquire(pool) as connection:
        row = await connection.fetchrow(
            """
            SELECT partition_id, p.language FROM collections JOIN chunk_partitions p USING (partition_id)
            WHERE collections.collection_id = $1
            """,
            collection_id,
        )
        assert row is not None
        partition, language = row
        table = f"chunks_p{partition}"
        by_words = await connection.fetch(
            lexical.search_sql(table, language, limit=10, columns="original_text"),
            lexical.prepare_query(query, language),
        )
        vector = HalfVector(await EMBEDDER.embed_query(query))
        by_vector = await connection.fetch(
            f"SELECT original_text FROM {table} "
            f"ORDER BY (embedding::halfvec({EMBEDDER.dimensions})) <=> $1 LIMIT 10",
            vector,
        )
    return {row["original_text"] for row in by_words}, {row["original_text"] for row in by_vector}


async def test_every_wrong_field_is_in_one_error(stub: Any) -> None:
    settings = collection_pb2.CollectionSettings()
    settings.chunking.chunk_size = 7
    settings.rerank.top_k = 0
    error = await refusal(
        stub.CreateCollection(pb.CreateCollectionRequest(collection_id="NO", settings=settings))
    )
    assert (error.code.name, error.reason) == ("INVALID_ARGUMENT", "INVALID_REQUEST")
    assert {violation.field for violation in error.violations} == {
        "collection_id",
        "settings.chunking.chunk_size",
        "settings.rerank.top_k",
    }


async def test_a_language_that_is_not_known_is_simple_and_shown_as_such(stub: Any) -> None:
    settings = everyones()
    settings.lexical.language = "klingon"
    request = pb.CreateCollectionRequest(collection_id="qonos", settings=settings)
    created = (await stub.CreateCollection(request)).collection
    await stub.DeleteCollection(pb.DeleteCollectionRequest(collection_id="qonos"))
    assert created.settings.lexical.language == "simple"


@pytest.mark.parametrize(
    ("language", "query", "is_found"),
    [
        ("german", "Haus", True),
        ("german", "runs", False),
        ("english", "runs", True),
        ("english", "Haus", False),
        ("simple", "Häuser", True),
        ("simple", "Haus", False),
    ],
)
async def test_words_are_found_by_the_stems_of_the_collections_language(
    stub: Any, pool: Pool, lexical: LexicalIndex, language: str, query: str, is_found: bool
) -> None:
    settings = everyones()
    settings.lexical.language = language
    await stub.CreateCollection(pb.CreateCollectionRequest(collection_id="stems", settings=settings))
    await ingest(stub, "stems", document("a", "Die Häuser am Fluss. Running water."))
    by_words, _ = await search(pool, lexical, "stems", query)
    await stub.DeleteCollection(pb.DeleteCollectionRequest(collection_id="stems"))
    assert bool(by_words) is is_found


async def test_an_estimate_counts_chunks_and_stores_nothing(
    stub: Any, collection_id: str, pool: Pool
) -> None:
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


async def test_unknown_things_are_not_found(stub: Any, collection_id: str) -> None:
    for call, reason in (
        (stub.GetCollection(pb.GetCollectionRequest(collection_id="none")), "COLLECTION_NOT_FOUND"),
        (stub.DeleteCollection(pb.DeleteCollectionRequest(collection_id="none")), "COLLECTION_NOT_FOUND"),
        (stub.UpdateCollection(pb.UpdateCollectionRequest(collection_id="none")), "COLLECTION_NOT_FOUND"),
        (ingest(stub, "none", document("a", "text")), "COLLECTION_NOT_FOUND"),
        (
            stub.DeleteDocuments(pb.DeleteDocumentsRequest(collection_id="none", filter=condition(a=1))),
            "COLLECTION_NOT_FOUND",
        ),
        (stub.ListDocuments(pb.ListDocumentsRequest(collection_id="none")), "COLLECTION_NOT_FOUND"),
        (
            stub.GetDocument(pb.GetDocumentRequest(collection_id=collection_id, document_id=NOBODY_ID)),
            "DOCUMENT_NOT_FOUND",
        ),
        (stub.GetJob(pb.GetJobRequest(job_id=NOBODY_ID)), "JOB_NOT_FOUND"),
        (anext(aiter(stub.WatchJob(pb.WatchJobRequest(job_id=NOBODY_ID)))), "JOB_NOT_FOUND"),
    ):
        error = await refusal(call)
        assert (error.code.name, error.reason) == ("NOT_FOUND", reason)


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


async def test_a_document_that_a_caller_may_not_read_is_not_overwritten(
    stub: Any, pool: Pool, collection_id: str
) -> None:
    given = document("plan.md", "The secret plan.", allowedPrincipals=["user:ann"])
    [before] = (await ingest(stub, collection_id, given)).items

    async def failed(job_id: str) -> Any:
        [item] = (await ended(stub, job_id, BOB)).items
        return item

    attempt = pb.IngestDocumentsRequest(collection_id=collection_id, documents=[document("plan.md", "Mine.")])
    over = await failed((await stub.IngestDocuments(attempt, metadata=BOB)).job.job_id)
    part = pb.UploadDocumentRequest(collection_id=collection_id, uri="plan.md")
    part.content.data = b"Mine."
    uploaded = await failed((await stub.UploadDocument(iter([part]), metadata=BOB)).job.job_id)
    for item in (over, uploaded):
        assert item.failure.reason == error_pb2.DOCUMENT_NOT_WRITABLE
        assert not item.document_id
    key = pb.GetDocumentRequest(collection_id=collection_id, document_id=before.document_id)
    kept = (await stub.GetDocument(key, metadata=ANN)).document
    assert (kept.state, list(kept.allowed_principals)) == (
        document_pb2.INGESTION_STATE_DONE,
        ["user:ann"],
    )
    async with acquire(pool) as connection:
        rows = await connection.fetch(
            "SELECT original_text FROM chunks WHERE document_id = $1::uuid", before.document_id
        )
    assert [row["original_text"] for row in rows] == ["The secret plan."]


async def test_a_collection_is_its_creators_until_it_is_shared(stub: Any) -> None:
    request = pb.CreateCollectionRequest(collection_id="anns", request_id="r")
    created = (await stub.CreateCollection(request, metadata=ANN)).collection
    assert created.settings.access == collection_pb2.AccessSettings(
        readers=["user:ann"], writers=["user:ann"], admins=["user:ann"]
    )
    get = pb.GetCollectionRequest(collection_id="anns")
    assert (await refusal(stub.GetCollection(get, metadata=BOB))).code.name == "NOT_FOUND"
    # Bob's request_id is another one than Ann's.
    error = await refusal(stub.CreateCollection(request, metadata=BOB))
    assert (error.code.name, error.reason) == ("ALREADY_EXISTS", "COLLECTION_EXISTS")

    change = pb.UpdateCollectionRequest(collection_id="anns")
    change.settings.access.readers.append("*")
    await stub.UpdateCollection(change, metadata=ANN)
    assert (await stub.GetCollection(get)).collection.collection_id == "anns"
    for call in (
        stub.UpdateCollection(change, metadata=BOB),
        stub.DeleteCollection(pb.DeleteCollectionRequest(collection_id="anns"), metadata=BOB),
        stub.ReindexCollection(pb.ReindexCollectionRequest(collection_id="anns"), metadata=BOB),
    ):
        error = await refusal(call)
        assert (error.code.name, error.reason) == ("PERMISSION_DENIED", "COLLECTION_NOT_ADMINISTRABLE")
    await stub.DeleteCollection(pb.DeleteCollectionRequest(collection_id="anns"), metadata=ANN)


async def test_a_collection_has_its_lexical_index_at_once_and_goes_without_trace(
    stub: Any, pool: Pool
) -> None:
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


async def test_long_documents_are_stored_whole_with_exact_offsets(
    stub: Any, pool: Pool, collection_id: str
) -> None:
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


async def test_metadata_and_principals_are_on_document_and_chunks(
    stub: Any, pool: Pool, collection_id: str
) -> None:
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


async def test_front_matter_becomes_metadata_and_what_is_given_goes_before_it(
    stub: Any, collection_id: str
) -> None:
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


async def test_the_same_uri_ingested_at_once_holds_one_version_whole(
    stub: Any, pool: Pool, collection_id: str
) -> None:
    texts = [f"{word} " * 1500 for word in ("alpha", "beta", "gamma", "delta")]
    responses = await asyncio.gather(*(ingest(stub, collection_id, document("same", text)) for text in texts))
    [document_id] = {response.items[0].document_id for response in responses}
    async with acquire(pool) as connection:
        rows = await connection.fetch(
            "SELECT original_text FROM chunks WHERE document_id = $1::uuid", document_id
        )
    words = {word for row in rows for word in row["original_text"].split()}
    assert len(words) == 1
    assert len(rows) in {response.items[0].chunks.stored for response in responses}


def without_position(job: job_pb2.IngestionJob) -> job_pb2.IngestionJob:
    """Clear the position, which moves with every write to the database."""
    same = job_pb2.IngestionJob()
    same.CopyFrom(job)
    same.ClearField("position")
    return same


async def test_a_job_can_be_read_listed_and_watched(stub: Any, collection_id: str) -> None:
    documents = [document("good", "text"), document("empty", " "), document("better", "more")]
    response = await ingest(stub, collection_id, *documents, request_id="once")
    job = without_position(response.job)
    assert response.job.position
    replayed = await ingest(stub, collection_id, *documents, request_id="once")
    assert without_position(replayed.job) == job
    got = await stub.GetJob(pb.GetJobRequest(job_id=response.job.job_id, page_size=2))
    rest = await stub.GetJob(
        pb.GetJobRequest(job_id=response.job.job_id, page_size=2, page_token=got.next_page_token)
    )
    assert without_position(got.job) == job
    assert [item.uri for item in [*got.items, *rest.items]] == ["good", "empty", "better"]
    assert not rest.next_page_token
    listed = await stub.ListJobs(pb.ListJobsRequest(collection_id=collection_id))
    assert list(map(without_position, listed.jobs)) == [job]
    watched = [state async for state in stub.WatchJob(pb.WatchJobRequest(job_id=response.job.job_id))]
    assert [without_position(state.job) for state in watched] == [job]
    [failed] = watched[0].items
    assert (failed.uri, failed.failure.reason) == ("empty", error_pb2.EMPTY_TEXT)
    assert failed.failure.stage == document_pb2.INGESTION_STATE_EXTRACTING


async def test_watching_goes_on_after_the_last_state_that_arrived(stub: Any, collection_id: str) -> None:
    response = await ingest(stub, collection_id, document("good", "text"), document("empty", " "))
    request = pb.WatchJobRequest(job_id=response.job.job_id)
    [seen] = [state async for state in stub.WatchJob(request)]
    metadata = ((LAST_EVENT_ID_KEY, seen.event_id),)

    [state] = [state async for state in stub.WatchJob(request, metadata=metadata)]

    assert without_position(state.job) == without_position(response.job)
    assert [item.uri for item in state.items] == ["good", "empty"]


@pytest.mark.parametrize("event_id", ["x", "-1", "1" * 40])
async def test_watching_begins_anew_after_a_state_that_is_not_known(
    stub: Any, collection_id: str, event_id: str
) -> None:
    response = await ingest(stub, collection_id, document("good", "text"))
    request = pb.WatchJobRequest(job_id=response.job.job_id)

    [state] = [state async for state in stub.WatchJob(request, metadata=((LAST_EVENT_ID_KEY, event_id),))]

    assert without_position(state.job) == without_position(response.job)
    assert not state.items


async def test_lists_are_paged_by_tokens(stub: Any, collection_id: str) -> None:
    await ingest(stub, collection_id, *(document(uri, uri) for uri in ("c", "ä", "b")))
    uris, token = [], ""
    for _ in range(3):
        page = await stub.ListDocuments(
            pb.ListDocumentsRequest(collection_id=collection_id, page_size=1, page_token=token)
        )
        uris += [one.uri for one in page.documents]
        token = page.next_page_token
    assert uris == ["b", "c", "ä"]
    assert not token


async def test_a_page_token_is_good_with_every_replica_until_the_key_is_changed(
    pool: Pool, database_url: str, stub: Any, collection_id: str
) -> None:
    await ingest(stub, collection_id, document("a", "a"), document("b", "b"))
    request = pb.ListDocumentsRequest(collection_id=collection_id, page_size=1)
    request.page_token = (await stub.ListDocuments(request)).next_page_token

    async with replica(pool, database_url, workers=0) as other:
        assert [one.uri for one in (await other.ListDocuments(request)).documents] == ["b"]
    async with acquire(pool) as connection:
        await connection.execute("UPDATE ingestor_page_token_key SET key = sha256(key)")
    async with replica(pool, database_url, workers=0) as restarted:
        error = await refusal(restarted.ListDocuments(request))
    assert isinstance(error, InvalidArgumentError)
    assert [violation.field for violation in error.violations] == ["page_token"]


@pytest.mark.parametrize(
    ("filter_fields", "field"),
    [
        ({}, "filter"),
        ({"_or": [{}]}, "filter"),
        ({"year": {"$above": 3}}, "filter.year.$above"),
        ({"_nothing": "a"}, "filter.$nothing"),
        ({"_document_id": "a"}, "filter.$document_id.$eq"),
    ],
)
async def test_a_filter_that_says_nothing_or_is_wrong_deletes_nothing(
    stub: Any, collection_id: str, filter_fields: dict[str, Any], field: str
) -> None:
    await ingest(stub, collection_id, document("a", "text"))
    request = pb.DeleteDocumentsRequest(collection_id=collection_id, filter=condition(**filter_fields))
    error = await refusal(stub.DeleteDocuments(request))
    assert error.code.name == "INVALID_ARGUMENT"
    assert [violation.field for violation in error.violations] == [field]
    found = await stub.ListDocuments(pb.ListDocumentsRequest(collection_id=collection_id))
    assert len(found.documents) == 1


async def test_deleting_by_a_filter_takes_a_writer(stub: Any) -> None:
    settings = collection_pb2.CollectionSettings()
    settings.access.readers.append("*")
    theirs = pb.CreateCollectionRequest(collection_id="theirs", settings=settings)
    await stub.CreateCollection(theirs, metadata=ANN)
    for dry_run in (True, False):
        request = pb.DeleteDocumentsRequest(
            collection_id="theirs", filter=condition(_source_type="file"), dry_run=dry_run
        )
        error = await refusal(stub.DeleteDocuments(request, metadata=BOB))
        assert (error.code.name, error.reason) == ("PERMISSION_DENIED", "COLLECTION_NOT_WRITABLE")
    await stub.DeleteCollection(pb.DeleteCollectionRequest(collection_id="theirs"), metadata=ANN)


async def test_neither_arm_finds_what_was_deleted_by_a_filter(
    stub: Any, pool: Pool, lexical: LexicalIndex, collection_id: str
) -> None:
    await ingest(
        stub,
        collection_id,
        document("old.md", "the ancient aqueduct", metadata={"year": 1999}),
        document("new.md", "the modern pipeline", metadata={"year": 2024}),
        document("secret.md", "the hidden spring", metadata={"year": 1999}, allowedPrincipals=["user:ann"]),
    )
    request = pb.DeleteDocumentsRequest(
        collection_id=collection_id, filter=condition(year={"$lt": 2000}), request_id="once", dry_run=True
    )
    assert (await stub.DeleteDocuments(request)).deleted_count == 1
    assert (await stub.DeleteDocuments(request, metadata=ANN)).deleted_count == 2
    request.dry_run = False
    assert (await stub.DeleteDocuments(request)).deleted_count == 1
    by_words, by_vector = await search(pool, lexical, collection_id, "the ancient aqueduct")
    assert "the ancient aqueduct" not in by_words | by_vector
    assert by_vector == {"the modern pipeline", "the hidden spring"}
    # What comes between a deletion and its retry stays.
    await ingest(stub, collection_id, document("old.md", "the ancient aqueduct", metadata={"year": 1999}))
    assert (await stub.DeleteDocuments(request)).deleted_count == 1
    by_words, _ = await search(pool, lexical, collection_id, "aqueduct")
    assert by_words == {"the ancient aqueduct"}


# --- uploads ---

PART = b"A paragraph of a long text that comes in parts.\n\n" * 20_000


async def parts_of(
    collection_id: str, *data: bytes, **fields: Any
) -> AsyncIterator[pb.UploadDocumentRequest]:
    first, *others = data
    described = {"uri": "large.md", **fields}
    yield pb.UploadDocumentRequest(collection_id=collection_id, content={"data": first}, **described)
    for part in others:
        yield pb.UploadDocumentRequest(content={"data": part})


async def test_a_document_comes_in_parts_and_is_found(
    stub: Any, pool: Pool, lexical: LexicalIndex, collection_id: str
) -> None:
    fields = {"metadata_json": '{"year": 2024}', "title": "Tome", "request_id": "once"}
    data = [b"# Tome\n\nThe quokka smil", b"es.\n\n", PART]
    response = await stub.UploadDocument(parts_of(collection_id, *data, **fields))
    assert response.item.uri == "large.md"
    again = await stub.UploadDocument(parts_of(collection_id, b"anything", **fields))
    assert again.job.job_id == response.job.job_id
    done = await ended(stub, response.job.job_id)
    [item] = done.items
    assert item.state == document_pb2.INGESTION_STATE_DONE, item
    stored = await stub.GetDocument(
        pb.GetDocumentRequest(collection_id=collection_id, document_id=item.document_id)
    )
    assert stored.document.size_bytes == sum(map(len, data))
    assert (stored.document.title, stored.document.mime_type) == ("Tome", "text/markdown")
    assert json_format.MessageToDict(stored.document.metadata) == {"year": 2024}
    by_words, _ = await search(pool, lexical, collection_id, "quokka")
    assert any("quokka smiles" in text for text in by_words)


async def test_an_upload_is_refused_by_every_wrong_field_and_before_its_content_is_taken(
    stub: Any, pool: Pool, collection_id: str
) -> None:
    wrong = parts_of("NO ID", PART, metadata_json="[1]", uri="x" * 3000)
    error = await refusal(stub.UploadDocument(wrong))
    assert {violation.field for violation in error.violations} >= {"collection_id", "metadata_json", "uri"}
    error = await refusal(stub.UploadDocument(parts_of("nowhere", PART, PART)))
    assert error.reason == "COLLECTION_NOT_FOUND"
    error = await refusal(stub.UploadDocument(iter([])))
    assert "collection_id" in {violation.field for violation in error.violations}


async def test_an_upload_that_is_too_large_or_breaks_off_leaves_nothing(
    stub: Any, pool: Pool, collection_id: str
) -> None:
    error = await refusal(stub.UploadDocument(parts_of(collection_id, *[PART] * 9)))
    assert error.reason == "DOCUMENT_TOO_LARGE"

    sent = asyncio.Event()

    async def breaks_off() -> AsyncIterator[pb.UploadDocumentRequest]:
        async for part in parts_of(collection_id, PART, PART):
            yield part
        sent.set()
        await asyncio.Event().wait()

    call = stub.UploadDocument(breaks_off())
    await sent.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    async with acquire(pool) as connection:
        jobs = await connection.fetchval(
            "SELECT count(*) FROM ingestion_jobs WHERE collection_id = $1", collection_id
        )
    assert jobs == 0


@pytest.mark.parametrize("whole_collection", [False, True])
async def test_caches_forget_deleted_documents(
    stub: Any, pool: Pool, collection_id: str, whole_collection: bool
) -> None:
    # A process has vectors of its own, too: what it has once made it does not put into the cache again.
    text = f"A text to be forgotten with {whole_collection}."
    gone = document("gone.md", text, metadata={"word": "gone"})
    kept = document("kept.md", "A text to be kept.")
    other = await stub.CreateCollection(
        pb.CreateCollectionRequest(name=f"other {collection_id}"[:60], settings=everyones())
    )
    await ingest(stub, collection_id, gone)
    await ingest(stub, other.collection.collection_id, kept)
    context = await pool.fetchval("SELECT context_annotation FROM chunks WHERE original_text = $1", text)
    await pool.execute(
        "INSERT INTO context_cache (cache_key, context) VALUES ('a', $1), ('b', 'of another')", context
    )
    vectors = await pool.fetchval("SELECT count(*) FROM embedding_cache")

    if whole_collection:
        await stub.DeleteCollection(pb.DeleteCollectionRequest(collection_id=collection_id), metadata=ANN)
        await stub.CreateCollection(
            pb.CreateCollectionRequest(collection_id=collection_id, settings=everyones())
        )
    else:
        await stub.DeleteDocuments(
            pb.DeleteDocumentsRequest(collection_id=collection_id, filter=condition(word="gone")),
            metadata=ANN,
        )

    assert await pool.fetchval("SELECT count(*) FROM embedding_cache") == vectors - 1
    contexts = await pool.fetch("DELETE FROM context_cache RETURNING context")
    assert [row["context"] for row in contexts] == ["of another"]
    inputs = await pool.fetch("SELECT input::text FROM ingestion_items WHERE uri IN ('gone.md', 'kept.md')")
    assert not any("word" in row["input"] for row in inputs)
    await stub.DeleteCollection(
        pb.DeleteCollectionRequest(collection_id=other.collection.collection_id), metadata=ANN
    )
