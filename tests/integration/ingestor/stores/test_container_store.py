"""Documents within documents, as they are stored."""

from dataclasses import replace

from groundline.v1 import document_pb2, error_pb2, job_pb2
from groundline_filters import parse
from groundline_ingestor.adapters.postgres.stores import Stores
from groundline_tests.ingestor.messages import a_version
from groundline_tests.ingestor.stores import (
    FAILURE,
    a_member,
    create,
    job_of,
    lease,
    lease_alone,
    listed,
    loses_claim,
    store,
    store_container,
    uris,
)


def failure(reason: error_pb2.ErrorReason.ValueType) -> document_pb2.IngestionFailure:
    return document_pb2.IngestionFailure(stage=document_pb2.INGESTION_STATE_EXTRACTING, reason=reason)


async def test_what_is_within_a_document_joins_its_job_when_it_is_stored(stores: Stores) -> None:
    collection = await create(stores, "containers")
    item = await lease_alone(stores, collection, "a.zip")
    assert await uris(stores, collection) == ["a.zip"]
    encrypted = a_member("a.zip!/secret.pdf", failure=failure(error_pb2.ENCRYPTED_DOCUMENT))
    broken = a_member("a.zip!/broken.txt", failure=failure(error_pb2.CORRUPT_DOCUMENT))
    await store_container(stores, collection, item, [a_member("a.zip!/b.txt", "inside"), encrypted, broken])
    job = await job_of(stores, item.claim.job_id)
    assert (job.state, job.item_count) == (job_pb2.JOB_STATE_RUNNING, 4)
    assert (job.done_count, job.skipped_count, job.failed_count) == (2, 1, 1)
    container, member, skipped, failed = await stores.jobs.items(job.job_id, None, after=-1, limit=9)
    assert (container.member_count, container.container_uri) == (3, "")
    assert {one.container_uri for one in (member, skipped, failed)} == {"a.zip"}
    assert skipped.outcome == job_pb2.INGESTION_OUTCOME_SKIPPED
    assert skipped.failure.reason == error_pb2.ENCRYPTED_DOCUMENT
    assert (skipped.uri, failed.uri) == ("a.zip!/secret.pdf", "a.zip!/broken.txt")
    assert failed.state == document_pb2.INGESTION_STATE_FAILED
    [leased] = await lease(stores)
    assert (leased.uri, leased.container_uri) == ("a.zip!/b.txt", "a.zip")
    given = leased.given or await stores.queue.given(leased)
    assert (given.content, given.container_uri) == (b"inside", "a.zip")
    assert await uris(stores, collection) == ["a.zip", "a.zip!/b.txt"]


async def test_a_worker_that_lost_its_container_adds_nothing_of_it(stores: Stores) -> None:
    collection = await create(stores, "lost-containers")
    item = await lease_alone(stores, collection, "a.zip")
    await stores.queue.release([item.claim.lease_id])
    storing = store_container(stores, collection, item, [a_member("a.zip!/b.txt", "inside")])
    assert await loses_claim(storing)
    assert await uris(stores, collection) == ["a.zip"]
    assert len(await stores.jobs.items(item.claim.job_id, None, after=-1, limit=9)) == 1


async def test_a_cancelled_job_takes_in_nothing_within_its_documents(stores: Stores) -> None:
    collection = await create(stores, "cancelled-containers")
    item = await lease_alone(stores, collection, "a.zip")
    await stores.jobs.cancel(item.claim.job_id)
    storing = store_container(stores, collection, item, [a_member("a.zip!/b.txt", "inside")])
    assert await loses_claim(storing)
    assert await lease(stores) == []


async def test_what_has_gone_from_a_container_goes_when_that_is_replaced(stores: Stores) -> None:
    collection = await create(stores, "replaced-containers")
    item = await lease_alone(stores, collection, "a.zip")
    kept, gone = a_member("a.zip!/kept.txt", "kept"), a_member("a.zip!/gone.zip", "gone")
    deeper = a_member("a.zip!/gone.zip!/deep.txt", "deep", container="a.zip!/gone.zip")
    await store_container(stores, collection, item, [kept, gone, deeper])
    for member in await lease(stores):
        await store_container(stores, collection, member, None)
    everything = ["a.zip", "a.zip!/gone.zip", "a.zip!/gone.zip!/deep.txt", "a.zip!/kept.txt"]
    assert await uris(stores, collection) == everything
    item = await lease_alone(stores, collection, "a.zip")
    await store_container(stores, collection, item, [kept])
    assert await uris(stores, collection) == ["a.zip", "a.zip!/kept.txt"]
    item = await lease_alone(stores, collection, "a.zip")
    await store_container(stores, collection, item, [])
    assert await uris(stores, collection) == ["a.zip"]


async def test_who_may_read_a_container_may_read_what_is_within_it(stores: Stores) -> None:
    collection = await create(stores, "restricted-containers")
    item = await lease_alone(stores, collection, "a.zip")
    await store_container(stores, collection, item, [a_member("a.zip!/b.txt", "inside")])
    [member] = await lease(stores)
    await store_container(stores, collection, member, None)
    # Its writer is not among those who may read the archive from now on.
    item = await lease_alone(stores, collection, "a.zip")
    inside = a_member("a.zip!/b.txt", "changed")
    await store_container(stores, collection, item, [inside], readers=("user:bob",))
    assert await uris(stores, collection, "user:ann") == [], "changes in the same moment"
    assert await uris(stores, collection, "user:bob") == ["a.zip", "a.zip!/b.txt"]
    [member] = await lease(stores)
    await store_container(stores, collection, member, None, readers=("user:bob",))
    job = await job_of(stores, member.claim.job_id)
    assert (job.state, job.failed_count) == (job_pb2.JOB_STATE_DONE, 0)


async def test_a_container_is_deleted_with_all_that_is_within_it(stores: Stores) -> None:
    collection = await create(stores, "deleted-containers")
    await store(stores, collection, "other", "text")
    for item in [await lease_alone(stores, collection, uri) for uri in ("a.zip", "b.zip")]:
        uri = item.uri
        inner, deeper = f"{uri}!/b.zip", f"{uri}!/b.zip!/c.txt"
        await store_container(
            stores,
            collection,
            item,
            [a_member(inner, "list", container=uri), a_member(deeper, "deep", container=inner)],
        )
    leased = {item.uri: item.claim for item in await lease(stores)}
    [document] = await listed(stores, collection.collection_id, selection=parse({"$uri": "a.zip"}))
    assert await stores.documents.delete(collection, document.document_id)
    assert await uris(stores, collection) == ["b.zip", "b.zip!/b.zip", "b.zip!/b.zip!/c.txt", "other"]
    assert await loses_claim(stores.queue.require(leased["a.zip!/b.zip!/c.txt"])), "is cancelled"
    await stores.queue.require(leased["b.zip!/b.zip!/c.txt"])
    selection = parse({"$uri": "b.zip"})
    assert await stores.documents.count_selected(collection, selection, []) == 3
    assert await stores.documents.delete_selected(collection, selection, [], "") == 3
    assert await uris(stores, collection) == ["other"]


async def test_a_container_is_refreshed_only_while_all_within_it_is_done(stores: Stores) -> None:
    collection = await create(stores, "refreshed-containers")
    item = await lease_alone(stores, collection, "a.zip")
    await store_container(stores, collection, item, [a_member("a.zip!/b.txt", "inside")])
    version = a_version("a.zip", "a.zip")
    assert await stores.versions.refresh(collection, version, []) is None
    [member] = await lease(stores)
    await store_container(stores, collection, member, None)
    refreshed = await stores.versions.refresh(collection, version, [])
    assert refreshed is not None
    assert refreshed[1] == job_pb2.INGESTION_OUTCOME_UNCHANGED
    changed = replace(version, metadata={"year": 2026})
    assert await stores.versions.refresh(collection, changed, []) is None, "so would what is within"


async def test_documents_are_listed_by_what_they_are_within(stores: Stores) -> None:
    collection = await create(stores, "listed-containers")
    item = await lease_alone(stores, collection, "a.zip")
    await store_container(stores, collection, item, [a_member("a.zip!/b.txt", "inside")])
    selected = parse({"$container_uri": "a.zip"})
    [member] = await listed(stores, collection.collection_id, selection=selected)
    assert (member.uri, member.container_uri) == ("a.zip!/b.txt", "a.zip")
    selected = parse({"$container_uri": ""})
    [container] = await listed(stores, collection.collection_id, selection=selected)
    assert container.uri == "a.zip"


async def test_a_skipped_item_leaves_no_document_and_fails_nothing(stores: Stores) -> None:
    collection = await create(stores, "skipped-members")
    item = await lease_alone(stores, collection, "a.zip")
    await store_container(stores, collection, item, [a_member("a.zip!/logo.png", "pixels")])
    [member] = await lease(stores)
    await stores.queue.skip(member.claim, FAILURE)
    assert await uris(stores, collection) == ["a.zip"]
    job = await job_of(stores, item.claim.job_id)
    assert (job.state, job.skipped_count, job.failed_count) == (job_pb2.JOB_STATE_DONE, 1, 0)
    [_, skipped] = await stores.jobs.items(job.job_id, None, after=-1, limit=9)
    assert (skipped.outcome, skipped.failure) == (job_pb2.INGESTION_OUTCOME_SKIPPED, FAILURE)
    assert await loses_claim(stores.queue.skip(member.claim, FAILURE))
    assert await stores.jobs.retry(job.job_id) == 0
