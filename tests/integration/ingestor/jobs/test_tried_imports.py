"""Imports that have to pass before they are used, and the way back."""

from pathlib import Path

import pytest
from groundline.v1 import ingestor_service_pb2 as pb
from groundline.v1 import job_pb2
from groundline_database import Pool, acquire
from groundline_indexing.collections import StoredCollection
from groundline_indexing.imports.loading import discard
from groundline_indexing.imports.records import ImportFailedError
from groundline_ingestor.adapters.postgres.stores import Stores
from groundline_ingestor.settings import IngestorSettings
from groundline_tests.indexing.imports import DIMENSIONS, imported, leftovers, record, texts, version, written
from groundline_tests.ingestor.messages import a_collection
from pydantic import SecretStr


@pytest.fixture(scope="module")
def settings(database_url: str) -> IngestorSettings:
    return IngestorSettings(database_url=SecretStr(database_url), reindex_grace_seconds=0)


@pytest.fixture
async def collection(stores: Stores) -> StoredCollection:
    return await stores.collections.create(a_collection("docs", dimensions=DIMENSIONS), "", "")


async def test_an_import_that_does_not_pass_changes_nothing(
    settings: IngestorSettings, stores: Stores, collection: StoredCollection, pool: Pool, tmp_path: Path
) -> None:
    for uri in ("changed", "other"):
        await stores.versions.store(collection, [version(record(uri, "Before."), collection)])
    path = written(tmp_path / "new.jsonl", [record("changed"), record("new")])
    as_candidate = """
        SELECT d.uri FROM collections k
        JOIN reindexed_documents r ON r.partition_id = k.candidate_partition_id
        JOIN documents d USING (document_id, version) WHERE k.collection_id = 'docs' ORDER BY d.uri
    """
    tried: list[list[str]] = []

    async def fails() -> bool:
        async with acquire(pool) as connection:
            tried.append([row["uri"] for row in await connection.fetch(as_candidate)])
        return False

    async def breaks_off() -> bool:
        raise ImportFailedError("no answer")

    with pytest.raises(ImportFailedError, match="no answer"):
        await imported(settings, path, passes=breaks_off)
    async with acquire(pool) as connection:
        assert await connection.fetch(as_candidate) == []
        assert await connection.fetchval("SELECT count(*) FROM documents") == 2
    assert await leftovers(pool) != []

    refused = await imported(settings, path, passes=fails)

    assert tried == [["changed", "new", "other"]]
    assert (refused.added_count, refused.job_id) == (1, "")
    assert await texts(pool) == {"changed": ["Before."], "other": ["Before."]}
    assert await leftovers(pool) == []
    async with acquire(pool) as connection:
        assert await connection.fetchval("SELECT count(*) FROM documents") == 2
        assert await connection.fetchval("SELECT count(*) FROM ingestion_jobs WHERE kind = 'ingest'") == 0


async def test_an_import_that_passes_is_switched_to_with_what_was_handed_in_meanwhile(
    settings: IngestorSettings, stores: Stores, collection: StoredCollection, pool: Pool, tmp_path: Path
) -> None:
    await stores.versions.store(collection, [version(record("changed", "Before."), collection)])

    async def passes() -> bool:
        await stores.versions.store(collection, [version(record("meanwhile", "Since."), collection)])
        return True

    path = written(tmp_path / "new.jsonl", [record("changed"), record("new"), record("meanwhile")])
    await imported(settings, path, passes=passes)

    mill = [record("")["text"]]
    assert await texts(pool) == {"changed": mill, "meanwhile": ["Since."], "new": mill}
    async with acquire(pool) as connection:
        assert await connection.fetchval("SELECT count(*) FROM reindexed_documents") == 0
        assert await connection.fetchval("SELECT count(candidate_partition_id) FROM collections") == 0
    assert await leftovers(pool) == []


async def test_a_held_collection_takes_no_import_that_may_have_to_go_again(
    settings: IngestorSettings, stores: Stores, collection: StoredCollection, tmp_path: Path
) -> None:
    async def passes() -> bool:
        return True

    await stores.holds.change(collection, (), (), "Case 12/2026")
    path = written(tmp_path / "new.jsonl", [record("new")])
    with pytest.raises(ImportFailedError, match="legal hold"):
        await imported(settings, path, passes=passes)
    assert await discard(settings, "docs")


async def test_an_import_is_taken_back_as_a_job(
    settings: IngestorSettings, stores: Stores, collection: StoredCollection, pool: Pool, tmp_path: Path
) -> None:
    collection.message.settings.history.everything = True
    assert await stores.collections.update(collection.message)
    for uri in ("changed", "again", "other"):
        await stores.versions.store(collection, [version(record(uri, "Before."), collection)])
    path = written(tmp_path / "new.jsonl", [record(uri) for uri in ("changed", "again", "new")])

    job_id = (await imported(settings, path)).job_id

    after = await stores.collections.find("docs")
    assert after is not None
    await stores.versions.store(after, [version(record("again", "Since."), after)])
    job = await stores.jobs.find(job_id, ())
    assert job is not None
    assert (job.state, job.item_count, job.chunks.stored) == (job_pb2.JOB_STATE_DONE, 3, 3)
    planned = await stores.reverts.plan("docs", job_id, (), overwrite=False)
    assert {each.uri: each.action for each in planned.listed} == {
        "changed": pb.REVERT_ACTION_RESTORE,
        "again": pb.REVERT_ACTION_CHANGED_SINCE,
        "new": pb.REVERT_ACTION_DELETE,
    }
    anyway = await stores.reverts.plan("docs", job_id, (), overwrite=True)
    assert anyway.counts[pb.REVERT_ACTION_RESTORE] == 2
    [changed] = [each for each in planned.listed if each.uri == "changed"]
    [stored, _] = await stores.revisions.list_readable("docs", changed.document_id, (), after=None, limit=2)
    assert stored.provenance.job_id == job_id
