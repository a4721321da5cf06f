"""Putting a revision of a document back."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from groundline.v1 import document_pb2, error_pb2, job_pb2, quota_pb2
from groundline.v1 import ingestor_service_pb2 as pb
from groundline_database import Pool, acquire
from groundline_extraction.documents import GivenDocument
from groundline_ingestor.service import revisions as revision_service
from groundline_runtime.context import Caller
from groundline_runtime.errors import AbortedError, NotFoundError, OutOfRangeError, PermissionDeniedError
from groundline_tests.ingestor.messages import settings_of
from groundline_tests.ingestor.services import ANN, ANYBODY, BOB, Services, chunks_of, new

KEEPING: Mapping[str, Any] = {
    "history": {"everything": True},
    "keepOriginals": True,
    "chunking": {"chunkSize": 800},
}
PAGE = f"<h1>Hatches</h1><p>{'Mind the hatch. ' * 40}</p><h2>Torque</h2><p>{'It takes 1.8 Nm. ' * 90}</p>"
FIRST = GivenDocument(PAGE.encode(), uri="a.html", mime_type="text/html", metadata={"year": 2024})


async def ingested(services: Services) -> document_pb2.Document:
    await services.collections.create(ANYBODY, new(settings=KEEPING))
    [item] = await services.ingest(FIRST)
    return await services.documents.get(ANYBODY, "docs", item.document_id)


async def replaced(services: Services) -> tuple[document_pb2.Document, document_pb2.Document]:
    """Ingest a document and replace it; return it as it was, and as it is."""
    was = await ingested(services)
    await services.ingest(replace(FIRST, content=b"<p>It takes 2.4 Nm.</p>", title="Now", metadata={}))
    return was, await services.documents.get(ANYBODY, "docs", was.document_id)


def restoring(
    document: document_pb2.Document, revision: str, request_id: str = ""
) -> pb.RestoreRevisionRequest:
    return pb.RestoreRevisionRequest(
        collection_id="docs", document_id=document.document_id, revision=revision, request_id=request_id
    )


async def restored(
    services: Services, document: document_pb2.Document, revision: str, caller: Caller = ANYBODY
) -> job_pb2.IngestionItem:
    response = await services.ingestion.restore(caller, restoring(document, revision))
    _, [item] = await services.ended(response.job, caller)
    return item


async def revisions(services: Services, document: document_pb2.Document) -> list[str]:
    request = pb.ListRevisionsRequest(collection_id="docs", document_id=document.document_id)
    return [each.revision for each in (await services.documents.revisions.list(ANYBODY, request)).revisions]


async def test_what_there_is_not_cannot_be_put_back(services: Services) -> None:
    _, now = await replaced(services)
    for revision in ("0" * 32, now.revision):
        with pytest.raises(NotFoundError) as raised:
            await services.ingestion.restore(ANYBODY, restoring(now, revision))
        assert raised.value.reason == "REVISION_NOT_FOUND"


async def test_only_who_may_write_puts_back(services: Services) -> None:
    await services.collections.create(ANN, new(readers=["*"], writers=["user:ann"], settings=KEEPING))
    [item] = await services.ingest(GivenDocument("one", uri="a"), caller=ANN)
    was = await services.documents.get(ANN, "docs", item.document_id)
    await services.ingest(GivenDocument("two", uri="a"), caller=ANN)
    with pytest.raises(PermissionDeniedError):
        await services.ingestion.restore(BOB, restoring(was, was.revision))
    assert (await restored(services, was, was.revision, ANN)).outcome == job_pb2.INGESTION_OUTCOME_UPDATED


async def test_a_revision_comes_back_as_it_was(services: Services) -> None:
    was = await ingested(services)
    before = [(chunk.text, chunk.context) for chunk in await chunks_of(services, was.document_id)]
    await services.ingest(replace(FIRST, content=b"<p>It takes 2.4 Nm.</p>", title="Now", metadata={}))
    now = await services.documents.get(ANYBODY, "docs", was.document_id)
    item = await restored(services, was, was.revision)
    assert (item.outcome, item.state) == (
        job_pb2.INGESTION_OUTCOME_UPDATED,
        document_pb2.INGESTION_STATE_DONE,
    )
    again = await services.documents.get(ANYBODY, "docs", was.document_id)
    assert (again.revision, again.title, again.content_hash) == (was.revision, was.title, was.content_hash)
    assert dict(again.metadata) == {"year": 2024}
    # Its headings place its chunks, as they did.
    assert any("Torque" in context for _, context in before)
    chunks = [(chunk.text, chunk.context) for chunk in await chunks_of(services, was.document_id)]
    assert chunks == before
    assert await revisions(services, was) == [was.revision, now.revision]
    # So does what was handed in.
    for document in (now, again):
        request = ("docs", document.document_id, document.revision)
        original = await services.documents.with_original(ANYBODY, *request)
        content = b"".join([part async for part in services.documents.original(ANYBODY, original)])
        assert content == (FIRST.content if document is again else b"<p>It takes 2.4 Nm.</p>")
    # Who hands it in again has the same revision.
    [item] = await services.ingest(FIRST)
    assert item.outcome == job_pb2.INGESTION_OUTCOME_UNCHANGED


async def test_the_same_request_puts_back_once(services: Services) -> None:
    was, _ = await replaced(services)
    jobs = [
        (await services.ingestion.restore(ANYBODY, restoring(was, was.revision, "once"))).job.job_id
        for _ in range(2)
    ]
    assert jobs[0] == jobs[1]


async def test_a_revision_dropped_meanwhile_fails_and_changes_nothing(services: Services, pool: Pool) -> None:
    was, now = await replaced(services)
    response = await services.ingestion.restore(ANYBODY, restoring(was, was.revision))
    async with acquire(pool) as connection:
        await connection.execute("DELETE FROM document_revisions")
    _, [item] = await services.ended(response.job)
    assert item.failure.reason == error_pb2.REVISION_NOT_FOUND
    again = await services.documents.get(ANYBODY, "docs", was.document_id)
    assert (again.revision, again.chunk_count) == (now.revision, now.chunk_count)


async def test_a_long_text_comes_back_segment_by_segment(services: Services) -> None:
    lines = [f"Section {number}: pump {number % 7} takes {number} litres.\n" for number in range(300)]
    await services.collections.create(ANYBODY, new(settings={**KEEPING, "chunking": {"chunkSize": 4000}}))
    [item] = await services.ingest(GivenDocument("".join(lines), uri="a"))
    was = await services.documents.get(ANYBODY, "docs", item.document_id)
    before = [chunk.text for chunk in await chunks_of(services, was.document_id)]
    lines[150] = "Something else.\n"
    await services.ingest(GivenDocument("".join(lines), uri="a"))
    await restored(services, was, was.revision)
    assert [chunk.text for chunk in await chunks_of(services, was.document_id)] == before


async def test_whole_texts_beyond_the_limits_are_refused_by_them_and_a_part_is_compared(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(revision_service, "MAX_COMPARED", 1_000)
    was, now = await replaced(services)
    request = pb.CompareRevisionsRequest(
        collection_id="docs", document_id=was.document_id, revision=was.revision, other_revision=now.revision
    )
    with pytest.raises(OutOfRangeError, match=r"more than 1,000 characters or 20,000 lines") as raised:
        await services.documents.revisions.compare(ANYBODY, request)
    assert raised.value.reason == "DOCUMENT_TOO_LARGE"
    request.end_offset = 10
    found = await services.documents.revisions.compare(ANYBODY, request)
    assert found.fate == document_pb2.TEXT_FATE_GONE


async def test_the_bytes_of_replaced_contents_count_towards_the_quota(services: Services) -> None:
    was, now = await replaced(services)

    async def used() -> int:
        stats = await services.documents.stats(ANYBODY, "docs")
        [usage] = [each for each in stats.quotas if each.quota == quota_pb2.QUOTA_BYTES]
        return int(usage.used)

    assert await used() == was.size_bytes + now.size_bytes
    # Metadata alone keeps no content again.
    await services.ingest(
        replace(FIRST, content=b"<p>It takes 2.4 Nm.</p>", title="Now", metadata={"year": 2026})
    )
    assert await used() == was.size_bytes + now.size_bytes
    await services.documents.delete(ANYBODY, "docs", was.document_id)
    assert await used() == 0


async def test_an_original_of_a_revision_is_for_those_who_might_read_that(services: Services) -> None:
    await services.collections.create(ANYBODY, new(settings=KEEPING))
    secret = GivenDocument(b"Only for Ann.", uri="a.txt", allowed_principals=("user:ann",))
    [item] = await services.ingest(secret, caller=ANN)
    was = await services.documents.get(ANN, "docs", item.document_id)
    await services.ingest(replace(secret, content=b"For all.", allowed_principals=()), caller=ANN)
    kept = await services.documents.with_original(ANN, "docs", was.document_id, was.revision)
    assert [part async for part in services.documents.original(ANN, kept)] == [b"Only for Ann."]
    with pytest.raises(NotFoundError) as raised:
        await services.documents.with_original(BOB, "docs", was.document_id, was.revision)
    assert raised.value.reason == "REVISION_NOT_FOUND"
    # Nor by a document that was looked up for another.
    with pytest.raises(AbortedError):
        assert [part async for part in services.documents.original(BOB, kept)]


async def test_originals_are_for_those_whom_the_collection_names_and_for_writers(services: Services) -> None:
    settings = {**KEEPING, "originalReaders": ["user:bob"]}
    await services.collections.create(ANN, new(readers=["*"], writers=["user:ann"], settings=settings))
    [item] = await services.ingest(FIRST, caller=ANN)

    async def downloaded(caller: Caller) -> str:
        found = await services.documents.downloadable(caller, "docs", item.document_id, "")
        return found.uri

    assert await downloaded(ANN) == await downloaded(BOB) == "a.html"
    cid = Caller(("user:cid",))
    with pytest.raises(PermissionDeniedError) as raised:
        await downloaded(cid)
    assert raised.value.reason == "ORIGINAL_NOT_READABLE"
    # Its text and the pictures of its pages are for every reader.
    request = pb.GetDocumentTextRequest(collection_id="docs", document_id=item.document_id)
    assert "Torque" in (await services.documents.revisions.text(cid, request)).text
    assert (await services.documents.with_original(cid, "docs", item.document_id, "")).uri == "a.html"

    everyone = settings_of({"originalReaders": ["*"]})
    await services.collections.update(
        ANN, pb.UpdateCollectionRequest(collection_id="docs", settings=everyone)
    )
    assert await downloaded(cid) == "a.html"


async def made(services: Services, document: document_pb2.Document) -> list[document_pb2.Provenance]:
    """Return who stored each revision, and how, the one in use first."""
    request = pb.ListRevisionsRequest(collection_id="docs", document_id=document.document_id)
    listed = (await services.documents.revisions.list(ANN, request)).revisions
    assert all(each.HasField("provenance") for each in listed)
    return [each.provenance for each in listed]


async def test_a_revision_says_who_stored_it_and_what_made_it(services: Services) -> None:
    access = {"access": {"readers": ["*"], "writers": ["*"]}}
    await services.collections.create(ANN, new(settings={**KEEPING, **access}))
    first, [item] = await services.ingest_job(FIRST, caller=ANN)
    document = await services.documents.get(ANN, "docs", item.document_id)
    [one] = await made(services, document)
    assert (one.stored_by, one.job_id) == (ANN.principals[0], first.job_id)
    assert one.reader.startswith("web.html ")
    assert one.chunking.chunk_size == 800
    assert one.pipeline_version > 0

    # Another's change of its metadata alone, and then of its text, which needs no reader.
    second, _ = await services.ingest_job(replace(FIRST, metadata={"year": 2026}), caller=BOB)
    text = GivenDocument("It takes 2.4 Nm.", uri="a.html", mime_type="text/plain")
    third, _ = await services.ingest_job(text, caller=BOB)
    [three, two, again] = await made(services, document)
    assert again == one
    assert (two.stored_by, two.job_id, two.reader) == (BOB.principals[0], second.job_id, one.reader)
    assert (three.stored_by, three.job_id, three.reader) == (BOB.principals[0], third.job_id, "")

    # Whoever puts it back stored it now.
    response = await services.ingestion.restore(ANN, restoring(document, document.revision))
    await services.ended(response.job, ANN)
    [back, *_] = await made(services, document)
    assert (back.stored_by, back.job_id, back.reader) == (ANN.principals[0], response.job.job_id, "")


async def test_an_index_that_is_built_anew_says_how_documents_are_cut(services: Services) -> None:
    document = await ingested(services)
    settings = settings_of({"chunking": {"chunkSize": 900}})
    request = pb.ReindexCollectionRequest(collection_id="docs", settings=settings)
    job, items = await services.ended(await services.reindex.begin(ANYBODY, request))
    assert job.state == job_pb2.JOB_STATE_DONE, items

    [one] = await made(services, document)

    assert one.chunking.chunk_size == 900
    assert one.reader.startswith("web.html ")


async def test_what_an_earlier_release_writes_says_nothing_false(services: Services, pool: Pool) -> None:
    document = await ingested(services)
    async with acquire(pool) as connection:
        await connection.execute(
            "UPDATE documents SET title = 'Another' WHERE document_id = $1::uuid", document.document_id
        )
    request = pb.GetRevisionRequest(collection_id="docs", document_id=document.document_id)
    found = await services.documents.revisions.get(ANYBODY, request)
    assert not found.HasField("provenance")
