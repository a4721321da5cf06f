"""Taking back what a job did to its documents."""

import signal
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import pytest
from groundline.v1 import document_pb2, error_pb2, job_pb2
from groundline.v1 import ingestor_service_pb2 as pb
from groundline_database import Pool, acquire
from groundline_extraction.documents import GivenDocument
from groundline_runtime.context import Caller
from groundline_runtime.errors import FailedPreconditionError, NotFoundError, PermissionDeniedError
from groundline_tests.ingestor.killed import COMMITTED, killed
from groundline_tests.ingestor.services import ANN, ANYBODY, BOB, Services, chunks_of, new

KEEPING: Final[Mapping[str, Any]] = {"history": {"everything": True}}
RESTORE, DELETE, NONE = pb.REVERT_ACTION_RESTORE, pb.REVERT_ACTION_DELETE, pb.REVERT_ACTION_NONE
CHANGED_SINCE, NOT_KEPT = pb.REVERT_ACTION_CHANGED_SINCE, pb.REVERT_ACTION_NOT_KEPT


def documents(**texts: str) -> Sequence[GivenDocument]:
    return [GivenDocument(text, uri=uri) for uri, text in texts.items()]


async def begun(services: Services, settings: Mapping[str, Any] = KEEPING) -> None:
    """Make a collection with the documents a, b and c."""
    await services.collections.create(ANYBODY, new(settings=settings))
    await services.ingest(*documents(a="Alpha one.", b="Beta one.", c="Gamma one."))


async def job_of(services: Services, *given: GivenDocument, caller: Caller = ANYBODY) -> str:
    job, items = await services.ingest_job(*given, caller=caller)
    assert all(item.state == document_pb2.INGESTION_STATE_DONE for item in items)
    return job.job_id


async def revert(
    services: Services, job_id: str, *, caller: Caller = ANYBODY, **fields: Any
) -> pb.RevertJobResponse:
    return await services.ingestion.revert(caller, pb.RevertJobRequest(job_id=job_id, **fields))


async def reverted(services: Services, job_id: str, **fields: Any) -> Sequence[job_pb2.IngestionItem]:
    """Take a job back, and work until that is done; return the items."""
    response = await revert(services, job_id, **fields)
    _, items = await services.ended(response.job)
    return items


async def texts(services: Services) -> dict[str, str]:
    """Return the texts of all documents that are there, by uri."""
    listed = await services.documents.list(ANYBODY, pb.ListDocumentsRequest(collection_id="docs"))
    return {
        each.uri: " ".join([chunk.text for chunk in await chunks_of(services, each.document_id)])
        for each in listed.documents
    }


def actions(response: pb.RevertJobResponse) -> dict[str, int]:
    return {each.uri: each.action for each in response.documents}


async def test_what_was_changed_comes_back_and_what_was_created_goes(services: Services) -> None:
    await begun(services)
    before = await texts(services)
    job_id = await job_of(services, *documents(a="Alpha two.", b="Beta one.", d="Delta."))

    told = await revert(services, job_id, dry_run=True)
    assert actions(told) == {"a": RESTORE, "d": DELETE}
    assert {each.action: each.document_count for each in told.counts} == {RESTORE: 1, DELETE: 1}
    assert not told.HasField("job")
    assert (await texts(services))["a"] == "Alpha two."

    [item] = await reverted(services, job_id)

    assert (item.uri, item.outcome) == ("a", job_pb2.INGESTION_OUTCOME_UPDATED)
    assert await texts(services) == before
    again = await revert(services, job_id)
    assert actions(again) == {"a": NONE}
    assert not again.HasField("job")


async def test_taking_back_can_be_taken_back(services: Services) -> None:
    await begun(services)
    job_id = await job_of(services, *documents(a="Alpha two."))
    response = await revert(services, job_id)
    await services.ended(response.job)
    await reverted(services, response.job.job_id)
    assert (await texts(services))["a"] == "Alpha two."


async def test_what_was_changed_again_stays_unless_told(services: Services) -> None:
    await begun(services)
    job_id = await job_of(services, *documents(a="Alpha two.", b="Beta two.", d="Delta."))
    await services.ingest(*documents(a="Alpha three.", d="Delta two."))

    told = await revert(services, job_id, dry_run=True)
    assert actions(told) == {"a": CHANGED_SINCE, "b": RESTORE, "d": CHANGED_SINCE}
    await reverted(services, job_id)
    assert await texts(services) == {
        "a": "Alpha three.",
        "b": "Beta one.",
        "c": "Gamma one.",
        "d": "Delta two.",
    }

    await reverted(services, job_id, overwrite=True)
    assert await texts(services) == {"a": "Alpha one.", "b": "Beta one.", "c": "Gamma one."}


async def test_a_revision_that_is_not_kept_cannot_come_back_and_the_others_do(services: Services) -> None:
    await begun(services, {"history": {"revisions": 1}})
    job_id = await job_of(services, *documents(a="Alpha two.", b="Beta two."))
    await services.ingest(*documents(a="Alpha three."))
    # The collection keeps one revision: the second text of the document a.
    told = await revert(services, job_id, dry_run=True, overwrite=True)
    assert actions(told) == {"a": NOT_KEPT, "b": RESTORE}
    await reverted(services, job_id, overwrite=True)
    assert (await texts(services))["a"] == "Alpha three."
    assert (await texts(services))["b"] == "Beta one."


async def test_a_document_twice_in_a_job_gets_what_it_was_before_the_first(services: Services) -> None:
    await begun(services)
    given = [*documents(a="Alpha two.", d="One."), *documents(a="Alpha three.", d="Two.")]
    job_id = await job_of(services, *given)
    await reverted(services, job_id)
    assert await texts(services) == {"a": "Alpha one.", "b": "Beta one.", "c": "Gamma one."}


async def test_metadata_and_access_come_back_too(services: Services) -> None:
    await services.collections.create(ANYBODY, new(settings=KEEPING))
    first = GivenDocument("Alpha.", uri="a", metadata={"year": 2024})
    [item] = await services.ingest(first)
    job_id = await job_of(services, replace(first, metadata={"year": 2026}))
    await reverted(services, job_id)
    found = await services.documents.get(ANYBODY, "docs", item.document_id)
    assert dict(found.metadata) == {"year": 2024}


async def test_what_changes_before_its_turn_comes_is_left_alone(services: Services, pool: Pool) -> None:
    await begun(services)
    job_id = await job_of(services, *documents(a="Alpha two.", b="Beta two."))
    response = await revert(services, job_id)
    async with acquire(pool) as connection:
        await connection.execute("UPDATE documents SET title = 'Changed' WHERE uri = 'a'")
    _, items = await services.ended(response.job)
    assert {item.uri: item.failure.reason for item in items} == {"a": error_pb2.DOCUMENT_CHANGED, "b": 0}
    assert (await texts(services))["a"] == "Alpha two."
    assert (await texts(services))["b"] == "Beta one."


async def test_a_job_that_goes_on_is_not_taken_back(services: Services) -> None:
    await begun(services)
    taken = await services.ingestion.ingest(ANYBODY, "docs", documents(a="Alpha two."), "")
    with pytest.raises(FailedPreconditionError) as raised:
        await revert(services, taken.job.job_id)
    assert raised.value.reason == "JOB_UNDER_WAY"


async def test_a_process_that_is_killed_while_it_takes_a_job_back_leaves_all_or_nothing(
    services: Services, database_url: str
) -> None:
    await begun(services)
    before = await texts(services)
    job_id = await job_of(services, *documents(a="Alpha two.", b="Beta two.", d="Delta."))
    changed = await texts(services)

    for step in ("insert_job", "delete_documents"):
        assert await killed(database_url, step, "revert", "docs", job_id) == -signal.SIGKILL
        assert await texts(services) == changed
    assert await killed(database_url, COMMITTED, "revert", "docs", job_id) == -signal.SIGKILL
    assert "d" not in await texts(services)

    # Asked again, the same job puts back what is not yet.
    response = await revert(services, job_id, request_id="once")
    await services.ended(response.job)
    assert await texts(services) == before


async def test_the_same_request_takes_back_once(services: Services) -> None:
    await begun(services)
    job_id = await job_of(services, *documents(a="Alpha two.", d="Delta."))
    jobs = [(await revert(services, job_id, request_id="once")).job.job_id for _ in range(2)]
    assert jobs[0] == jobs[1] != ""


async def test_only_who_may_write_takes_back_and_only_what_may_be_read(services: Services) -> None:
    cid = Caller(("user:cid",))
    open_to_two = new(readers=["*"], writers=["user:ann", "user:cid"], settings=KEEPING)
    await services.collections.create(ANN, open_to_two)
    secret = GivenDocument("Secret one.", uri="s", allowed_principals=("user:ann",))
    await services.ingest(secret, *documents(a="Alpha one."), caller=ANN)
    changed = [replace(secret, content="Secret two."), *documents(a="Alpha two.")]
    job_id = await job_of(services, *changed, caller=ANN)
    with pytest.raises(PermissionDeniedError):
        await revert(services, job_id, caller=BOB)
    told = await revert(services, job_id, caller=cid, dry_run=True)
    assert actions(told) == {"a": RESTORE}
    assert [each.document_count for each in told.counts] == [1]
    response = await revert(services, job_id, caller=cid)
    _, items = await services.ended(response.job, ANN)
    assert [item.uri for item in items] == ["a"]
    assert actions(await revert(services, job_id, caller=ANN, dry_run=True)) == {"a": NONE, "s": RESTORE}


async def test_a_job_that_there_is_not_cannot_be_taken_back(services: Services) -> None:
    with pytest.raises(NotFoundError) as raised:
        await revert(services, "123e4567-e89b-12d3-a456-426614174000")
    assert raised.value.reason == "JOB_NOT_FOUND"


async def test_a_reindex_changes_no_document_that_could_come_back(services: Services) -> None:
    await begun(services)
    request = pb.ReindexCollectionRequest(collection_id="docs")
    job, _ = await services.ended(await services.reindex.begin(ANYBODY, request))
    told = await revert(services, job.job_id)
    assert (list(told.documents), list(told.counts)) == ([], [])


async def test_a_job_of_an_earlier_release_knows_not_what_it_replaced(services: Services, pool: Pool) -> None:
    await begun(services)
    job_id = await job_of(services, *documents(a="Alpha two.", d="Delta."))
    async with acquire(pool) as connection:
        await connection.execute("UPDATE ingestion_items SET revision = NULL, replaced_revision = NULL")
    told = await revert(services, job_id)
    assert actions(told) == {"a": NOT_KEPT, "d": NOT_KEPT}
    assert (await texts(services))["d"] == "Delta."


async def test_it_is_done_whole_or_not_at_all(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    await begun(services)
    job_id = await job_of(services, *documents(a="Alpha two.", d="Delta."))

    async def fails(*_: Any, **__: Any) -> int:
        raise ZeroDivisionError

    before = await services.jobs.list(ANYBODY, pb.ListJobsRequest())
    with monkeypatch.context() as patched:
        patched.setattr("groundline_ingestor.adapters.postgres.documents.reverting.delete_documents", fails)
        with pytest.raises(ZeroDivisionError):
            await revert(services, job_id)
    after = await services.jobs.list(ANYBODY, pb.ListJobsRequest())
    assert [job.job_id for job in after.jobs] == [job.job_id for job in before.jobs]
    assert (await texts(services))["d"] == "Delta."
