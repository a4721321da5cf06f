"""Legal holds: what is held cannot be deleted, by whomever."""

import asyncio
import io
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any, Final

import asyncpg
import pytest
from groundline.v1 import document_pb2
from groundline.v1 import ingestor_service_pb2 as pb
from groundline_database import Pool, acquire
from groundline_extraction.documents import GivenDocument
from groundline_runtime.context import Caller
from groundline_runtime.errors import FailedPreconditionError, NotFoundError, PermissionDeniedError
from groundline_tests.ingestor.services import ANN, ANYBODY, BOB, Services, new

THREAD: Final = "5b0d2a52-7c1d-4f6e-9a43-0c8a6f1b2e90"
KEEPING: Final[Mapping[str, Any]] = {"history": {"revisions": 1}}


async def stored(services: Services, *uris: str, caller: Caller = ANYBODY) -> dict[str, str]:
    """Ingest documents; return their ids by uri."""
    items = await services.ingest(
        *(GivenDocument(f"The text of {uri}.", uri=uri) for uri in uris), caller=caller
    )
    return {item.uri: item.document_id for item in items}


async def hold(
    services: Services, *document_ids: str, reason: str = "case 7", caller: Caller = ANYBODY
) -> int:
    request = pb.SetLegalHoldRequest(collection_id="docs", document_ids=document_ids, reason=reason)
    return (await services.documents.holds.change(caller, request)).changed_count


async def hold_thread(services: Services, thread_id: str, reason: str = "case 9") -> int:
    request = pb.SetLegalHoldRequest(collection_id="docs", thread_ids=[thread_id], reason=reason)
    return (await services.documents.holds.change(ANYBODY, request)).changed_count


async def listed(services: Services, **page: Any) -> pb.ListLegalHoldsResponse:
    request = pb.ListLegalHoldsRequest(collection_id="docs", **page)
    return await services.documents.holds.list(ANYBODY, request)


async def uris(services: Services) -> Sequence[str]:
    found = await services.documents.list(ANYBODY, pb.ListDocumentsRequest(collection_id="docs"))
    return [each.uri for each in found.documents]


async def refused(deletion: Any) -> str:
    with pytest.raises(FailedPreconditionError) as raised:
        await deletion
    assert raised.value.reason == "LEGAL_HOLD"
    return raised.value.message


async def test_a_held_document_is_not_deleted_until_it_is_released(services: Services) -> None:
    await services.collections.create(ANYBODY, new())
    ids = await stored(services, "a", "b")
    assert await hold(services, ids["a"]) == 1

    assert ids["a"] in await refused(services.documents.delete(ANYBODY, "docs", ids["a"]))
    selection = pb.DeleteDocumentsRequest(collection_id="docs")
    selection.filter.update({"$uri": {"$in": ["a", "b"]}})
    await refused(services.documents.delete_selected(ANYBODY, selection))
    await refused(services.collections.delete(ANYBODY, "docs"))
    assert await uris(services) == ["a", "b"]

    assert await hold(services, ids["a"], reason="") == 1
    await services.documents.delete(ANYBODY, "docs", ids["a"])
    assert await uris(services) == ["b"]
    await services.collections.delete(ANYBODY, "docs")


async def test_a_hold_of_a_collection_is_one_of_all_its_documents(services: Services) -> None:
    await services.collections.create(ANYBODY, new())
    assert await hold(services) == 1
    ids = await stored(services, "later")
    await refused(services.documents.delete(ANYBODY, "docs", ids["later"]))
    await refused(services.collections.delete(ANYBODY, "docs"))
    assert await hold(services, reason=" ") == 1
    await services.documents.delete(ANYBODY, "docs", ids["later"])


async def test_a_held_thread_holds_the_documents_of_its_answers(services: Services, pool: Pool) -> None:
    await services.collections.create(ANYBODY, new())
    ids = await stored(services, "cited", "other")
    revision = (await services.documents.get(ANYBODY, "docs", ids["cited"])).revision
    async with acquire(pool) as connection:
        await connection.execute(
            "INSERT INTO threads (thread_id, owner, title) VALUES ($1, 'ann', '')", THREAD
        )
        await connection.execute(
            "INSERT INTO messages (thread_id, message_index, message_id, role, content, document_ids) "
            "VALUES ($1, 1, $1, 'assistant', 'See [1].', ARRAY[$2::uuid])",
            THREAD,
            ids["cited"],
        )
        await connection.execute(
            "INSERT INTO cited_revisions VALUES ($2, $3, $1, 1)", THREAD, ids["cited"], revision
        )
    with pytest.raises(NotFoundError, match=ids["other"]) as missing:
        await hold_thread(services, ids["other"])
    assert missing.value.reason == "THREAD_NOT_FOUND"
    assert await hold_thread(services, THREAD) == 1
    await hold(services, ids["other"])

    assert THREAD in await refused(services.documents.delete(ANYBODY, "docs", ids["cited"]))
    await refused(services.collections.delete(ANYBODY, "docs"))
    for statement in ("DELETE FROM threads", "UPDATE messages SET content = 'Another.'"):
        async with acquire(pool) as connection:
            with pytest.raises(asyncpg.RaiseError, match=THREAD):
                await connection.execute(f"{statement} WHERE thread_id = $1", THREAD)
    # All of its revisions, too.
    await services.ingest(GivenDocument("Another text.", uri="cited"))
    kept = pb.ListRevisionsRequest(collection_id="docs", document_id=ids["cited"])
    assert len((await services.documents.revisions.list(ANYBODY, kept)).revisions) == 2

    pages = [await listed(services, page_size=1)]
    while token := pages[-1].next_page_token:
        pages.append(await listed(services, page_size=1, page_token=token))
    holds = [each for page in pages for each in page.holds]
    assert [(each.document_id, each.thread_id) for each in holds] == [(ids["other"], ""), ("", THREAD)]
    assert await hold_thread(services, THREAD, reason="") == 1
    await hold(services, ids["other"], reason="")
    await services.documents.delete(ANYBODY, "docs", ids["cited"])
    await services.collections.delete(ANYBODY, "docs")


async def test_an_empty_collection_that_is_held_is_not_deleted(services: Services) -> None:
    await services.collections.create(ANYBODY, new())
    await hold(services)
    await refused(services.collections.delete(ANYBODY, "docs"))


async def test_holds_are_listed_with_their_reasons_and_change(services: Services) -> None:
    await services.collections.create(ANYBODY, new())
    ids = await stored(services, "a", "b")
    await hold(services, *ids.values())
    await hold(services, ids["a"], reason="case 8")
    await hold(services, reason="all")

    found = (await listed(services)).holds
    assert found[0].uri == ""
    assert {each.uri: each.reason for each in found} == {"": "all", "a": "case 8", "b": "case 7"}
    assert all(each.create_time.seconds for each in found)
    pages = [await listed(services, page_size=1)]
    while token := pages[-1].next_page_token:
        pages.append(await listed(services, page_size=1, page_token=token))
    assert [hold for page in pages for hold in page.holds] == list(found)


async def test_a_hold_of_a_document_that_there_is_not_changes_nothing(services: Services) -> None:
    await services.collections.create(ANYBODY, new())
    ids = await stored(services, "a")
    missing = "123e4567-e89b-12d3-a456-426614174000"
    with pytest.raises(NotFoundError, match=missing):
        await hold(services, ids["a"], missing)
    assert not (await listed(services)).holds


async def test_only_who_administers_the_collection_holds_and_sees_holds(services: Services) -> None:
    await services.collections.create(ANN, new(readers=["*"], writers=["user:ann"]))
    for caller, error in ((BOB, PermissionDeniedError), (ANN, None)):
        request = pb.ListLegalHoldsRequest(collection_id="docs")
        if error is None:
            await hold(services, caller=caller)
            await services.documents.holds.list(caller, request)
            continue
        with pytest.raises(error):
            await hold(services, caller=caller)
        with pytest.raises(error):
            await services.documents.holds.list(caller, request)


async def test_all_revisions_of_what_is_held_are_kept_until_it_is_released(services: Services) -> None:
    await services.collections.create(ANYBODY, new(settings=KEEPING))
    ids = await stored(services, "a")
    await hold(services, ids["a"])
    for number in range(4):
        await services.ingest(GivenDocument(f"Text {number}.", uri="a"))
    request = pb.ListRevisionsRequest(collection_id="docs", document_id=ids["a"])

    async def count() -> int:
        await services.stores.revisions.prune()
        return len((await services.documents.revisions.list(ANYBODY, request)).revisions)

    assert await count() == 5
    await hold(services, ids["a"], reason="")
    assert await count() == 2


async def test_a_job_that_is_taken_back_leaves_what_is_held(services: Services) -> None:
    await services.collections.create(ANYBODY, new(settings=KEEPING))
    job, items = await services.ingest_job(*(GivenDocument(f"Text {uri}.", uri=uri) for uri in "ab"))
    await hold(services, items[0].document_id)
    response = await services.ingestion.revert(ANYBODY, pb.RevertJobRequest(job_id=job.job_id))
    assert {each.uri: each.action for each in response.documents} == {
        "a": pb.REVERT_ACTION_HELD,
        "b": pb.REVERT_ACTION_DELETE,
    }
    assert await uris(services) == ["a"]


async def test_a_deletion_under_way_and_a_hold_wait_for_each_other(services: Services, pool: Pool) -> None:
    await services.collections.create(ANYBODY, new())
    ids = await stored(services, "a")
    async with acquire(pool) as connection:
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute("SELECT FROM documents WHERE uri = 'a' FOR KEY SHARE")
        deletion = asyncio.create_task(services.documents.delete(ANYBODY, "docs", ids["a"]))
        await asyncio.sleep(0.2)
        await connection.execute(
            "INSERT INTO legal_holds (collection_id, document_id, reason) VALUES ('docs', $1, 'x')", ids["a"]
        )
        await transaction.commit()
    await refused(deletion)


async def test_the_database_refuses_who_does_not_ask(services: Services, pool: Pool) -> None:
    await services.collections.create(ANYBODY, new())
    ids = await stored(services, "a", "b")
    await hold(services, ids["a"])
    async with acquire(pool) as connection:
        for statement in (
            "DELETE FROM documents",
            "DELETE FROM collections",
            "DELETE FROM collections WHERE collection_id = 'docs'",
        ):
            with pytest.raises(asyncpg.RaiseError, match="legal hold"):
                await connection.execute(statement)
        await connection.execute("DELETE FROM documents WHERE uri = 'b'")
    assert await uris(services) == ["a"]


async def test_a_file_that_is_held_stays_when_its_container_no_longer_has_it(services: Services) -> None:
    await services.collections.create(ANYBODY, new())
    items = await services.ingest(_archive("one.md", "two.md"))
    members = {item.uri.rpartition("!/")[2]: item for item in items if item.container_uri}
    await hold(services, members["one.md"].document_id)
    await services.ingest(_archive("three.md"))
    names = [uri.rpartition("!/")[2] for uri in await uris(services)]
    assert "one.md" in names
    assert "two.md" not in names
    found = await services.documents.get(ANYBODY, "docs", members["one.md"].document_id)
    assert found.state == document_pb2.INGESTION_STATE_DONE


def _archive(*names: str) -> GivenDocument:

    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name in names:
            archive.writestr(name, f"The text of {name}.")
    return GivenDocument(content.getvalue(), uri="files.zip", mime_type="application/zip")
