"""The use cases over the stores: what is refused, what is isolated, what is left alone."""

import asyncio

import pytest
from google.protobuf import json_format
from groundline.v1 import document_pb2, error_pb2, job_pb2
from groundline.v1 import ingestor_service_pb2 as pb
from groundline_database import Pool, acquire
from groundline_extraction.documents import GivenDocument
from groundline_indexing import preparation
from groundline_runtime.errors import InvalidArgumentError, NotFoundError
from groundline_tests.ingestor.services import (
    ANN,
    ANYBODY,
    BOB,
    POISON,
    Services,
    Start,
    change,
    chunks_of,
    listed,
    new,
)
from structlog.testing import capture_logs


async def test_a_failing_document_does_not_touch_the_others(services: Services) -> None:
    await services.collections.create(ANYBODY, new(settings={"chunking": {"chunkSize": 50}}))
    job, items = await services.ingest_job(
        *[
            GivenDocument("good one", uri="1"),
            GivenDocument("", uri="2"),
            GivenDocument("nul \x00", uri="3"),
            GivenDocument(f"a {POISON} word", uri="4"),
            GivenDocument("x" * 20_001, uri="5"),
            GivenDocument("word " * 200, uri="6"),
            GivenDocument(b"%PDF-", uri="7"),
            GivenDocument("good two", uri="8"),
        ]
    )
    assert [(item.uri, item.failure.reason or item.outcome) for item in items] == [
        ("1", job_pb2.INGESTION_OUTCOME_CREATED),
        ("2", error_pb2.EMPTY_TEXT),
        ("3", error_pb2.INVALID_TEXT),
        ("4", error_pb2.INTERNAL),
        ("5", error_pb2.DOCUMENT_TOO_LARGE),
        ("6", error_pb2.TOO_MANY_CHUNKS),
        ("7", error_pb2.CORRUPT_DOCUMENT),
        ("8", job_pb2.INGESTION_OUTCOME_CREATED),
    ]
    stages = [item.failure.stage for item in items if item.HasField("failure")]
    assert stages[2] == document_pb2.INGESTION_STATE_EMBEDDING
    assert stages[4] == document_pb2.INGESTION_STATE_CHUNKING
    assert (job.state, job.done_count, job.failed_count) == (job_pb2.JOB_STATE_DONE, 2, 6)
    assert items[3].chunks.parsed == 1
    assert items[3].chunks.embedded == 0


async def test_no_text_of_a_document_is_logged(services: Services) -> None:
    await services.collections.create(ANYBODY, new())
    with capture_logs() as logs:
        await services.ingest(
            GivenDocument(f"a {POISON} secret", uri="private.md", title="confidential"),
            GivenDocument("another secret"),
        )
    [failed] = [entry for entry in logs if entry["event"] == "document_failed"]
    assert failed["error"] == "ValueError"
    for word in (POISON, "secret", "private", "confidential"):
        assert word not in str(logs)


async def test_a_request_has_no_more_documents_than_the_setting_allows(start: Start) -> None:
    services = start(max_documents_per_request=3)
    with pytest.raises(InvalidArgumentError) as raised:
        await services.ingest(*[GivenDocument("x")] * 4)
    assert [violation.field for violation in raised.value.violations] == ["documents"]


async def test_the_content_is_hashed_once(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    await services.collections.create(ANYBODY, new())
    taken = await services.ingestion.ingest(ANYBODY, "docs", [GivenDocument("text", uri="1")], "")
    monkeypatch.setattr(preparation, "content_hash", lambda content: pytest.fail("it was hashed at hand-in"))
    _, [item] = await services.ended(taken.job)
    assert item.outcome == job_pb2.INGESTION_OUTCOME_CREATED


async def test_the_same_again_is_left_alone(services: Services) -> None:
    await services.collections.create(ANYBODY, new())
    given = [GivenDocument("one", uri="1"), GivenDocument("two")]
    first = await services.ingest(*given)
    services.embedder.calls.clear()
    again = await services.ingest(*given)
    assert [item.outcome for item in again] == [job_pb2.INGESTION_OUTCOME_UNCHANGED] * 2
    assert [item.document_id for item in again] == [item.document_id for item in first]
    assert services.embedder.calls == []


async def test_metadata_and_principals_change_without_embedding(services: Services) -> None:
    await services.collections.create(ANYBODY, new())
    await services.ingest(GivenDocument("one", uri="1"))
    services.embedder.calls.clear()
    metadata = {"team": ["ops", 1, 2.5, None]}
    [item] = await services.ingest(
        GivenDocument("one", uri="1", metadata=metadata, allowed_principals=("user:ann",))
    )
    assert item.outcome == job_pb2.INGESTION_OUTCOME_UPDATED
    assert services.embedder.calls == []
    document = await services.documents.get(ANN, "docs", item.document_id)
    assert json_format.MessageToDict(document.metadata) == metadata
    assert document.allowed_principals == ["user:ann"]
    assert [chunk.text for chunk in await chunks_of(services, item.document_id, ANN)] == ["one"]
    with pytest.raises(NotFoundError):
        await chunks_of(services, item.document_id)


async def test_a_changed_setting_makes_the_same_content_new(services: Services) -> None:
    await services.collections.create(ANYBODY, new())
    await services.ingest(GivenDocument("word " * 60, uri="1"))
    await services.collections.update(ANYBODY, change(chunking={"chunkSize": 100}))
    [item] = await services.ingest(GivenDocument("word " * 60, uri="1"))
    assert item.outcome == job_pb2.INGESTION_OUTCOME_UPDATED
    assert item.chunks.stored > 1


async def test_the_same_request_returns_the_same_job(services: Services) -> None:
    await services.collections.create(ANYBODY, new())
    calls = [
        services.ingestion.ingest(ANYBODY, "docs", [GivenDocument("one", uri="1")], "r") for _ in range(3)
    ]
    at_once = await asyncio.gather(*calls)
    later = await services.ingestion.ingest(ANYBODY, "docs", [GivenDocument("two", uri="2")], "r")
    assert len({taken.job.job_id for taken in [*at_once, later]}) == 1


async def test_small_documents_are_embedded_together(services: Services) -> None:
    await services.collections.create(ANYBODY, new())
    items = await services.ingest(
        *(GivenDocument(f"text {number}", uri=f"{number:03}") for number in range(300))
    )
    assert sum(services.embedder.calls) == 300
    assert max(services.embedder.calls) <= 256
    assert len(services.embedder.calls) < 100
    assert [item.item_index for item in items] == list(range(300))


@pytest.mark.parametrize(
    ("given", "title"),
    [
        (GivenDocument("# *First*\n\n# Second", uri="a/b.md", title="Given"), "Given"),
        (GivenDocument("text\n\n# *First*\n\n# Second", uri="a/b.md"), "First"),
        (GivenDocument("text", uri="a/b.md"), "b.md"),
    ],
)
async def test_a_title_is_given_or_the_first_heading_or_the_last_part_of_the_uri(
    services: Services, given: GivenDocument, title: str
) -> None:
    await services.collections.create(ANYBODY, new())
    [item] = await services.ingest(given)
    assert item.document_id
    assert (await services.documents.get(ANYBODY, "docs", item.document_id)).title == title


async def test_structural_context_is_embedded_and_indexed_but_no_text(services: Services, pool: Pool) -> None:
    await services.collections.create(ANYBODY, new(settings={"chunking": {"chunkSize": 50}}))
    text = "# Guide\n\n## Linux\n\n" + "Install the camelCase package first. " * 3
    [item] = await services.ingest(GivenDocument(text, uri="docs/guide.md"))
    assert item.document_id
    chunk = (await chunks_of(services, item.document_id))[-1]
    assert chunk.context == "docs/guide.md\nGuide > Linux"
    assert text[chunk.start_offset : chunk.end_offset] == chunk.text
    assert f"{chunk.context}\n\n{chunk.text}" in services.embedder.texts
    async with acquire(pool) as connection:
        words = await connection.fetchval(
            "SELECT lexical_text FROM chunks WHERE chunk_id = $1", int(chunk.chunk_id)
        )
    assert "camel" in words.split()


async def test_a_document_for_others_does_not_exist(services: Services) -> None:
    await services.collections.create(ANYBODY, new())
    [item] = await services.ingest(GivenDocument("text", uri="1", allowed_principals=("user:ann",)))
    assert item.document_id
    for call in (
        services.documents.get(BOB, "docs", item.document_id),
        services.documents.delete(BOB, "docs", item.document_id),
    ):
        with pytest.raises(NotFoundError) as raised:
            await call
        assert raised.value.reason == "DOCUMENT_NOT_FOUND"
    await services.documents.delete(ANN, "docs", item.document_id)
    assert not await listed(services)


async def test_a_job_of_an_unreadable_collection_does_not_exist(services: Services) -> None:
    await services.collections.create(ANN, new(readers=("user:ann",)))
    job = (await services.ingestion.ingest(ANN, "docs", [GivenDocument("text")], "")).job
    for call in (
        services.jobs.get(BOB, pb.GetJobRequest(job_id=job.job_id)),
        anext(services.jobs.watch(BOB, job.job_id)),
        services.jobs.cancel(BOB, job.job_id),
        services.jobs.retry(BOB, job.job_id),
    ):
        with pytest.raises(NotFoundError) as raised:
            await call
        assert raised.value.reason == "JOB_NOT_FOUND"
    assert not (await services.jobs.list(BOB, pb.ListJobsRequest())).jobs


async def test_pages_follow_each_other_without_gap(services: Services) -> None:
    await services.collections.create(ANYBODY, new())
    job, _ = await services.ingest_job(*(GivenDocument("x", uri=uri) for uri in "cäb"))
    request = pb.ListDocumentsRequest(collection_id="docs", page_size=2)
    first = await services.documents.list(ANYBODY, request)
    request.page_token = first.next_page_token
    second = await services.documents.list(ANYBODY, request)
    assert [document.uri for document in first.documents] == ["b", "c"]
    assert [document.uri for document in second.documents] == ["ä"]
    assert not second.next_page_token
    begin = await services.jobs.get(ANYBODY, pb.GetJobRequest(job_id=job.job_id, page_size=1))
    rest = pb.GetJobRequest(job_id=job.job_id, page_size=2, page_token=begin.next_page_token)
    found = await services.jobs.get(ANYBODY, rest)
    assert ([item.uri for item in found.items], found.next_page_token) == (["ä", "b"], "")


async def test_an_oversized_page_is_made_smaller(services: Services) -> None:
    await services.collections.create(ANYBODY, new())
    await services.ingest(GivenDocument("x", uri="a"))
    assert len(await listed(services, page_size=5_000_000)) == 1


async def test_a_token_of_another_list_is_refused_by_every_list(services: Services) -> None:
    collection = await services.collections.create(ANYBODY, new())
    for name in ("one", "two"):
        await services.collections.create(ANYBODY, new(name))
    job, [item, *_] = await services.ingest_job(*(GivenDocument("x", uri=uri) for uri in "cab"))
    docs = collection.collection_id
    page = await services.collections.list(ANYBODY, pb.ListCollectionsRequest(page_size=1))
    of_documents = await services.documents.list(
        ANYBODY, pb.ListDocumentsRequest(collection_id=docs, page_size=1)
    )
    other, its_own = page.next_page_token, of_documents.next_page_token
    for call in (
        services.collections.list(ANYBODY, pb.ListCollectionsRequest(page_token=its_own)),
        services.documents.list(ANYBODY, pb.ListDocumentsRequest(collection_id=docs, page_token=other)),
        services.documents.list(
            ANYBODY, pb.ListDocumentsRequest(collection_id=docs, page_token=its_own, order_by="title")
        ),
        services.documents.list(BOB, pb.ListDocumentsRequest(collection_id=docs, page_token=its_own)),
        services.documents.chunks(
            ANYBODY, pb.ListChunksRequest(collection_id=docs, document_id=item.document_id, page_token=other)
        ),
        services.jobs.list(ANYBODY, pb.ListJobsRequest(page_token=other)),
        services.jobs.get(ANYBODY, pb.GetJobRequest(job_id=job.job_id, page_token=other)),
    ):
        with pytest.raises(InvalidArgumentError) as raised:
            await call
        assert [violation.field for violation in raised.value.violations] == ["page_token"]
