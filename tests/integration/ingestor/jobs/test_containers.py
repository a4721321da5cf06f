import io
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from email.message import EmailMessage

import pytest
from groundline.v1 import document_pb2, error_pb2, job_pb2, passage_pb2
from groundline_database import Pool, acquire
from groundline_extraction.documents import GivenDocument
from groundline_filters import parse
from groundline_indexing.collections import StoredCollection
from groundline_ingestor.__main__ import working
from groundline_ingestor.domain.documents import DocumentOrder
from groundline_tests.ingestor.workers import SMALLER_CHUNKS, Ingestor, chunks_of, stuck_worker


def archive(parts: Mapping[str, str | bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in parts.items():
            file.writestr(zipfile.ZipInfo(name), content)  # without the time, so that equal ones are equal
    return out.getvalue()


def offer(**attachments: str | bytes) -> bytes:
    """Return a mail; in an attachment's name the underscore stands for a dot."""
    message = EmailMessage()
    message["From"], message["Subject"] = "ann@example.org", "Our offer"
    message.set_content("Please find the prices attached.\n")
    for name, content in attachments.items():
        data = content.encode() if isinstance(content, str) else content
        message.add_attachment(
            data, maintype="application", subtype="octet-stream", filename=name.replace("_", ".")
        )
    return message.as_bytes()


PARTS: Mapping[str, str | bytes] = {
    "guide.md": "---\nteam: red\nyear: 1999\n---\n# Valve\n\nOpens at 41 degrees.",
    "tool.bin": b"\x7fELF",
    "offer.eml": offer(prices_csv="Part,Price\nValve,5\n"),
}


async def documents_of(ingestor: Ingestor, collection_id: str) -> dict[str, document_pb2.Document]:
    """Return documents by uri."""
    found = await ingestor.stores.documents.list_readable(
        collection_id, (), selection=parse({}), order=DocumentOrder(), after=None, limit=100
    )
    return {one.uri: one for one in found}


@pytest.mark.parametrize("stage", ["leased", "embedding", "storing"])
async def test_a_worker_killed_over_a_container_leaves_none_of_it_out_and_none_twice(
    pool: Pool, database_url: str, idle: Ingestor, collection: StoredCollection, stage: str
) -> None:
    job = await idle.hand_in(collection.collection_id, GivenDocument(archive(PARTS), uri="a.zip"))
    async with acquire(pool) as connection, connection.transaction():
        if stage == "storing":  # waits for this lock, with its chunks written and its items added
            await connection.execute("LOCK TABLE ingestion_payloads IN EXCLUSIVE MODE")
        async with stuck_worker(database_url, stage):
            pass
    async with working(idle.worker, idle.settings):
        job, items = await idle.ended(job)
    assert (job.state, job.done_count, job.skipped_count) == (job_pb2.JOB_STATE_DONE, 5, 1)
    assert [(item.uri, item.container_uri) for item in items] == [
        ("a.zip", ""),
        ("a.zip!/guide.md", "a.zip"),
        ("a.zip!/tool.bin", "a.zip"),
        ("a.zip!/offer.eml", "a.zip"),
        ("a.zip!/offer.eml!/prices.csv", "a.zip!/offer.eml"),
    ]
    assert (items[0].attempts, items[0].member_count) == (2, 4)
    assert items[2].failure.reason == error_pb2.UNSUPPORTED_TYPE
    assert "program" in items[2].failure.message, "names the format"
    assert await chunks_of(pool, collection.collection_id) == [
        ("a.zip", 0, "- guide.md\n- tool.bin\n- offer.eml"),
        ("a.zip!/guide.md", 0, "---\nteam: red\nyear: 1999\n---\n# Valve\n\nOpens at 41 degrees."),
        (
            "a.zip!/offer.eml",
            0,
            "# Our offer\n\nFrom: ann@example.org\n\nPlease find the prices attached.\n\n"
            "Attachments: prices.csv",
        ),
        ("a.zip!/offer.eml!/prices.csv", 0, "Part: Valve\nPrice: 5"),
    ]


async def test_what_is_within_has_what_was_said_of_all(busy: Ingestor, collection: StoredCollection) -> None:
    given = GivenDocument(
        archive(PARTS), uri="a.zip", metadata={"year": 2026}, allowed_principals=("user:ann",)
    )
    given = replace(given, source_type=passage_pb2.SOURCE_TYPE_WEB)
    await busy.ingest(collection.collection_id, replace(given, allowed_principals=()))
    documents = await documents_of(busy, collection.collection_id)
    assert {name: dict(one.metadata) for name, one in documents.items()} == {
        "a.zip": {"year": 2026},
        "a.zip!/guide.md": {"year": 2026, "team": "red"},
        "a.zip!/offer.eml": {"year": 2026},
        "a.zip!/offer.eml!/prices.csv": {"year": 2026},
    }
    titles = {name: (one.title, one.mime_type) for name, one in documents.items()}
    assert titles["a.zip!/guide.md"] == ("Valve", "text/markdown")
    assert titles["a.zip!/offer.eml"] == ("Our offer", "message/rfc822")
    assert titles["a.zip!/offer.eml!/prices.csv"] == ("prices.csv", "text/csv")
    assert {one.source_type for one in documents.values()} == {passage_pb2.SOURCE_TYPE_WEB}
    busy.embedder.texts.clear()
    await busy.ingest(collection.collection_id, replace(given, metadata={"year": 2027}))
    assert await documents_of(busy, collection.collection_id) == {}, "only others may read them"
    found = await busy.stores.documents.list_readable(
        collection.collection_id,
        ["user:ann"],
        selection=parse({"year": 2027}),
        order=DocumentOrder(),
        after=None,
        limit=100,
    )
    assert {one.uri for one in found} == set(documents)
    assert not busy.embedder.texts, "what is said of a document is not embedded"


async def test_a_container_that_has_changed_costs_what_has_changed_in_it(
    pool: Pool, busy: Ingestor, collection: StoredCollection
) -> None:
    async def ingest(parts: Mapping[str, str | bytes]) -> list[tuple[str, str]]:
        busy.embedder.texts.clear()
        given = GivenDocument(archive(parts), uri="a.zip")
        job, items = await busy.ended(await busy.hand_in(collection.collection_id, given))
        assert job.state == job_pb2.JOB_STATE_DONE
        return [(item.uri, job_pb2.IngestionOutcome.Name(item.outcome)[18:]) for item in items]

    await ingest(PARTS)
    assert await ingest(PARTS) == [("a.zip", "UNCHANGED")]
    assert not busy.embedder.texts
    changed = {**PARTS, "guide.md": "# Valve\n\nOpens at 42 degrees.", "offer.eml": offer(new_txt="New.")}
    assert await ingest(changed) == [
        ("a.zip", "UPDATED"),
        ("a.zip!/guide.md", "UPDATED"),
        ("a.zip!/tool.bin", "SKIPPED"),
        ("a.zip!/offer.eml", "UPDATED"),
        ("a.zip!/offer.eml!/new.txt", "CREATED"),
    ]
    assert "a.zip!/offer.eml!/prices.csv" not in await documents_of(busy, collection.collection_id)
    assert await ingest({**changed, "more.txt": "More."}) == [
        ("a.zip", "UPDATED"),
        ("a.zip!/guide.md", "UNCHANGED"),
        ("a.zip!/tool.bin", "SKIPPED"),
        ("a.zip!/offer.eml", "UNCHANGED"),
        ("a.zip!/offer.eml!/new.txt", "UNCHANGED"),
        ("a.zip!/more.txt", "CREATED"),
    ]
    assert len(busy.embedder.texts) == 2, "the list and the new one"
    job, _ = await busy.ended(await busy.reindexing(collection.collection_id, SMALLER_CHUNKS))
    assert (job.state, job.done_count) == (job_pb2.JOB_STATE_DONE, 5)
    assert len(await chunks_of(pool, collection.collection_id)) == 5


async def test_a_member_that_can_be_read_no_more_goes_and_a_failed_one_is_tried_again(
    pool: Pool, busy: Ingestor, collection: StoredCollection
) -> None:
    given = GivenDocument(archive({"a.rtf": rb"{\rtf1 Hello.}", "b.txt": "Hello."}), uri="a.zip")
    await busy.ingest(collection.collection_id, given)
    emptied = replace(given, content=archive({"a.rtf": rb"{\rtf1 }", "b.txt": "Hello."}))
    job, items = await busy.ended(await busy.hand_in(collection.collection_id, emptied))
    assert (job.failed_count, job.skipped_count) == (0, 1)
    assert items[1].failure.reason == error_pb2.EMPTY_TEXT
    assert set(await documents_of(busy, collection.collection_id)) == {"a.zip", "a.zip!/b.txt"}
    await pool.execute("UPDATE documents SET state = 'failed' WHERE uri = 'a.zip!/b.txt'")
    job, items = await busy.ended(await busy.hand_in(collection.collection_id, emptied))
    assert len(items) == 3, "an unchanged container is looked into again"
    assert all(
        one.state == document_pb2.INGESTION_STATE_DONE
        for one in (await documents_of(busy, collection.collection_id)).values()
    )


async def test_a_request_takes_a_container_in_once(busy: Ingestor, collection: StoredCollection) -> None:
    given = GivenDocument(archive(PARTS), uri="a.zip")
    jobs = [await busy.hand_in(collection.collection_id, given, request_id="same") for _ in range(2)]
    assert jobs[0].job_id == jobs[1].job_id
    _, items = await busy.ended(jobs[0])
    again = await busy.hand_in(collection.collection_id, given, request_id="same")
    assert (again.job_id, again.item_count) == (jobs[0].job_id, len(items))


async def test_a_members_original_is_kept_with_it(busy: Ingestor, collection: StoredCollection) -> None:
    collection.message.settings.keep_originals = True
    assert await busy.stores.collections.update(collection.message)
    await busy.ingest(collection.collection_id, GivenDocument(archive(PARTS), uri="a.zip"))
    document = (await documents_of(busy, collection.collection_id))["a.zip!/offer.eml!/prices.csv"]
    assert document.has_original
    assert await busy.stores.documents.original(document, (), part=0) == b"Part,Price\nValve,5\n"
