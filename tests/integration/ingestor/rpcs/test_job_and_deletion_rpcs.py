"""The port of the ingestor: jobs, lists, uploads, and deletion by filters."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from google.protobuf import json_format
from groundline.v1 import document_pb2, error_pb2, job_pb2
from groundline.v1 import ingestor_service_pb2 as pb
from groundline_database import Pool, acquire
from groundline_lexical import LexicalIndex
from groundline_runtime.context import LAST_EVENT_ID_KEY
from groundline_runtime.errors import InvalidArgumentError
from groundline_tests.ingestor.replica import replica
from groundline_tests.ingestor.rpcs import ANN, condition, document, ended, everyones, ingest, search
from groundline_tests.runtime import refusal


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
async def test_watching_begins_anew_after_unknown_ids(stub: Any, collection_id: str, event_id: str) -> None:
    response = await ingest(stub, collection_id, document("good", "text"))
    request = pb.WatchJobRequest(job_id=response.job.job_id)

    [state] = [state async for state in stub.WatchJob(request, metadata=((LAST_EVENT_ID_KEY, event_id),))]

    assert without_position(state.job) == without_position(response.job)
    assert not state.items


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
    # A document that is stored between a deletion and its retry is kept.
    await ingest(stub, collection_id, document("old.md", "the ancient aqueduct", metadata={"year": 1999}))
    assert (await stub.DeleteDocuments(request)).deleted_count == 1
    by_words, _ = await search(pool, lexical, collection_id, "aqueduct")
    assert by_words == {"the ancient aqueduct"}


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


async def test_an_upload_too_large_or_cut_leaves_nothing(stub: Any, pool: Pool, collection_id: str) -> None:
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
