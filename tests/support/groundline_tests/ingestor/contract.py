"""What every implementation of the repositories must do, as tests.

Subclass in a test module and give the class a `stores` fixture that begins empty:

    class TestMyStores(StoreContract):
        @pytest.fixture
        async def stores(self): ...
"""

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

import numpy as np
from google.protobuf import json_format
from groundline.v1 import chat_pb2, collection_pb2, document_pb2, error_pb2, job_pb2
from groundline.v1 import ingestor_service_pb2 as pb
from groundline_filters import Filter, parse
from groundline_ingestor.domain.collections import StoredCollection
from groundline_ingestor.domain.documents import (
    DocumentOrder,
    DocumentPlace,
    DocumentVersion,
    GivenDocument,
    Member,
)
from groundline_ingestor.domain.quotas import CallerUse, CollectionUse
from groundline_ingestor.domain.texts import PreparedChunk, Section, TextSegment, Vectors
from groundline_ingestor.domain.times import moment
from groundline_ingestor.domain.work import LeasedItem, NewVersion, OrderedCrawl
from groundline_ingestor.ports import (
    ClaimLostError,
    CollectionRepository,
    CrawlRepository,
    DocumentRepository,
    HandedIn,
    JobRepository,
    QuotaRepository,
    StoredOutcome,
    WorkQueue,
)
from groundline_runtime.errors import (
    AbortedError,
    AlreadyExistsError,
    GroundlineError,
    NotFoundError,
    PermissionDeniedError,
)
from groundline_signatures import signature

from groundline_tests.ingestor.messages import a_collection, a_version

__all__ = ["DIMENSIONS", "StoreContract", "Stores"]

DIMENSIONS: Final = 8
MAXIMUM_ATTEMPTS: Final = 3
CRAWL = OrderedCrawl(pb.WebCrawl(start_url="https://a.test/"))
FAILURE: Final = document_pb2.IngestionFailure(
    stage=document_pb2.INGESTION_STATE_EXTRACTING,
    reason=error_pb2.EMPTY_TEXT,
    message="the document holds no text",
)


class Stores(Protocol):
    """The repositories over one store, and a look at its chunks."""

    @property
    def collections(self) -> CollectionRepository: ...

    @property
    def documents(self) -> DocumentRepository: ...

    @property
    def jobs(self) -> JobRepository: ...

    @property
    def queue(self) -> WorkQueue: ...

    @property
    def crawls(self) -> CrawlRepository: ...

    @property
    def quotas(self) -> QuotaRepository: ...

    async def texts_of(self, collection: StoredCollection, document_id: str) -> Sequence[str]:
        """The stored chunks of a document, in order."""


class StoreContract:
    """Collected through its subclasses."""

    async def test_what_was_never_stored_is_not_found(self, stores: Stores) -> None:
        nobody = str(uuid.uuid4())
        assert await stores.collections.find("none") is None
        assert await stores.documents.find("none", nobody) is None
        assert await stores.jobs.find(nobody) is None
        assert not await stores.collections.delete("none")

    async def test_a_taken_collection_id_is_refused(self, stores: Stores) -> None:
        await _collection(stores, "taken", request_id="one")
        for request_id in ("", "two"):
            assert await _refusal(_collection(stores, "taken", request_id=request_id)) is AlreadyExistsError

    async def test_what_is_taken_is_counted_by_creator_and_collection(self, stores: Stores) -> None:
        mine = await _collection(stores, "mine", creator="user:ann", request_id="one")
        await _collection(stores, "theirs", creator="user:bob")
        await _store(stores, mine, "a", "12345")
        await _store(stores, mine, "b", "123")
        assert await stores.quotas.used_by("user:ann") == CallerUse(1, 0)
        assert await stores.quotas.used_by("user:ann", request_id="one") == CallerUse(0, 0)
        assert await stores.quotas.used_by("user:ann", request_id="two") == CallerUse(1, 0)
        assert await stores.quotas.used_in("mine") == CollectionUse(2, 8)
        assert await stores.quotas.used_in("mine", uris=["a", "c"]) == CollectionUse(1, 3)
        assert await stores.quotas.used_in("theirs") == CollectionUse(0, 0)

    async def test_the_same_request_creates_one_collection(self, stores: Stores) -> None:
        first = await _collection(stores, "first", request_id="same")
        assert await _collection(stores, "first", request_id="same") == first
        assert await _collection(stores, "second", request_id="same") == first
        assert await stores.collections.find("second") is None

    async def test_anothers_request_id_is_not_known(self, stores: Stores) -> None:
        await _collection(stores, "anns", creator="user:ann", request_id="same")
        bobs = await _collection(stores, "bobs", creator="user:bob", request_id="same")
        assert bobs.collection_id == "bobs"
        taken = _collection(stores, "anns", creator="user:bob", request_id="other")
        assert await _refusal(taken) is AlreadyExistsError

    async def test_who_may_use_a_collection_is_kept(self, stores: Stores) -> None:
        everyone, ann, bob = ["*"], ["user:ann"], ["user:bob", "group:staff"]
        for number, (readers, writers, admins) in enumerate(
            [(everyone, everyone, everyone), (everyone, ann, bob), (bob, ann, ann), (everyone, everyone, ann)]
        ):
            new = a_collection(f"access-{number}", dimensions=DIMENSIONS)
            access = collection_pb2.AccessSettings(readers=readers, writers=writers, admins=admins)
            new.settings.access.CopyFrom(access)
            created = await stores.collections.create(new, "", "")
            assert created.settings.access == access
            created.settings.access.CopyFrom(
                collection_pb2.AccessSettings(readers=ann, writers=bob, admins=ann)
            )
            assert await stores.collections.update(created.message)
            changed = await stores.collections.find(f"access-{number}")
            assert changed is not None
            assert changed.settings.access == created.settings.access

    async def test_an_update_of_something_older_is_refused(self, stores: Stores) -> None:
        before = await _collection(stores, "moving")
        assert await stores.collections.update(_renamed(before, "b"))
        assert not await stores.collections.update(_renamed(before, "c"))
        after = await stores.collections.find("moving")
        assert after is not None
        assert (after.message.name, after.message.create_time) == ("b", before.message.create_time)
        assert moment(after.message.update_time) > moment(before.message.update_time)

    async def test_collections_are_listed_by_id_to_those_who_may_read_them(self, stores: Stores) -> None:
        await _collection(stores, "c-open")
        await _collection(stores, "a-readers", readers=("user:ann",), writers=("user:bob",))
        await _collection(stores, "b-public", writers=("user:bob",))

        async def seen(*principals: str, after: str = "", limit: int = 10) -> list[str]:
            found = await stores.collections.list_readable(principals, after=after, limit=limit)
            return [collection.collection_id for collection in found]

        assert await seen() == ["b-public", "c-open"]
        assert await seen("user:ann") == await seen("user:bob") == ["a-readers", "b-public", "c-open"]
        assert await seen("user:ann", after="a-readers", limit=1) == ["b-public"]

    async def test_a_document_of_a_collection_that_is_gone_is_refused(self, stores: Stores) -> None:
        collection = await _collection(stores, "gone")
        await stores.collections.delete("gone")
        for call in (
            _store(stores, collection, "a.md", "text"),
            stores.documents.refresh(collection, a_version("a.md", "text"), ()),
            stores.documents.delete(collection, str(uuid.uuid4())),
            stores.jobs.enqueue(collection, [_handed_in("a.md")], (), ""),
            stores.crawls.enqueue(collection, CRAWL, (), ""),
        ):
            assert await _refusal(call) is NotFoundError

    async def test_chunks_for_a_partition_no_longer_in_use_are_refused(self, stores: Stores) -> None:
        collection = await _collection(stores, "reindexed")
        old = replace(collection, partition_id=collection.partition_id + 1000)
        assert await _refusal(_store(stores, old, "a.md", "text")) is AbortedError

    async def test_a_document_is_created_and_then_replaced(self, stores: Stores) -> None:
        collection = await _collection(stores, "docs")
        created_id, created = await _store(stores, collection, "a.md", "one", "two", "three")
        before = await stores.documents.find("docs", created_id)
        updated_id, updated = await _store(stores, collection, "a.md", "four", "five")
        after = await stores.documents.find("docs", created_id)
        assert (created, updated) == (job_pb2.INGESTION_OUTCOME_CREATED, job_pb2.INGESTION_OUTCOME_UPDATED)
        assert updated_id == created_id
        assert before is not None
        assert after is not None
        assert (after.chunk_count, after.state) == (2, document_pb2.INGESTION_STATE_DONE)
        assert after.create_time == before.create_time
        assert moment(after.update_time) > moment(before.update_time)
        assert await stores.texts_of(collection, created_id) == ["four", "five"]

    async def test_the_same_uri_stored_at_once_holds_one_of_the_texts(self, stores: Stores) -> None:
        collection = await _collection(stores, "race")
        texts = [[f"{letter}{number}" for number in range(3)] for letter in "abcdef"]
        stored = await asyncio.gather(*(_store(stores, collection, "same.md", *text) for text in texts))
        assert len({document_id for document_id, _ in stored}) == 1
        assert [outcome for _, outcome in stored].count(job_pb2.INGESTION_OUTCOME_CREATED) == 1
        assert await stores.texts_of(collection, stored[0][0]) in texts

    async def test_nothing_is_refreshed_of_another_content(self, stores: Stores) -> None:
        collection = await _collection(stores, "other")
        assert await stores.documents.refresh(collection, a_version("a.md", "old"), ()) is None
        await _store(stores, collection, "a.md", "old")
        assert await stores.documents.refresh(collection, a_version("a.md", "new"), ()) is None

    async def test_a_document_that_the_caller_may_not_read_is_not_replaced(self, stores: Stores) -> None:
        collection = await _collection(stores, "restricted")
        secret = replace(a_version("a.md", "secret"), allowed_principals=("user:ann",))
        [(document_id, _)] = await stores.documents.store(collection, [_new(secret, "secret")])
        before = await stores.documents.find("restricted", document_id)
        for principals in ((), ("user:bob",)):
            other = replace(_new(a_version("a.md", "mine"), "mine"), principals=principals)
            for call in (
                stores.documents.store(collection, [_new(a_version("b.md", "b"), "b"), other]),
                stores.documents.refresh(collection, a_version("a.md", "mine"), principals),
                stores.documents.refresh(collection, a_version("a.md", "secret"), principals),
            ):
                assert await _refusal(call) is PermissionDeniedError
        assert await stores.documents.find("restricted", document_id) == before
        assert await stores.texts_of(collection, document_id) == ["secret"]
        assert [one.uri for one in await _documents(stores, collection)] == []

        own = replace(_new(a_version("a.md", "open"), "open"), principals=("user:ann",))
        assert await stores.documents.store(collection, [own]) == [
            (document_id, job_pb2.INGESTION_OUTCOME_UPDATED)
        ]

    async def test_a_writer_may_hand_in_what_only_others_may_read(self, stores: Stores) -> None:
        collection = await _collection(stores, "for-others")
        given, version = _handed_in("a.md")
        given = replace(given, allowed_principals=("user:ann",))
        version = replace(version, allowed_principals=("user:ann",))
        await stores.jobs.enqueue(collection, [(given, version)], ("user:bob",), "")
        [item] = await _lease(stores)
        assert list(item.principals) == ["user:bob"]
        new = replace(_new(version, "text"), claim=item.claim, principals=item.principals)
        [(_, outcome)] = await stores.documents.store(collection, [new])
        assert outcome == job_pb2.INGESTION_OUTCOME_CREATED

    async def test_a_failed_attempt_to_replace_marks_nothing(self, stores: Stores) -> None:
        collection = await _collection(stores, "unmarked")
        secret = replace(a_version("a.md", "secret"), allowed_principals=("user:ann",))
        [(document_id, _)] = await stores.documents.store(collection, [_new(secret, "secret")])
        before = await stores.documents.find("unmarked", document_id)
        job = await stores.jobs.enqueue(collection, [_handed_in("a.md")], ("user:bob",), "")
        crawl_id = await stores.crawls.enqueue(collection, CRAWL, ("user:bob",), "")
        leased = await _lease_crawl(stores)
        assert leased is not None
        [item] = await _lease(stores)
        await stores.queue.fail(item.claim, FAILURE, job_pb2.ChunkCounts())
        await stores.crawls.add_page(leased[0].claim, collection, _handed_in("a.md"))
        [page] = await _lease(stores)
        await stores.queue.fail(page.claim, FAILURE, job_pb2.ChunkCounts())
        assert (item.document_id, page.document_id) == ("", "")
        assert (page.claim.job_id, page.principals[0]) == (crawl_id, "user:bob")
        assert await stores.documents.find("unmarked", document_id) == before
        [seen] = await stores.jobs.items(job.job_id, ("user:bob",), after=-1, limit=10)
        assert (seen.state, seen.document_id) == (document_pb2.INGESTION_STATE_FAILED, "")
        assert await stores.jobs.items(job.job_id, ("user:carl",), after=-1, limit=10) == []

    async def test_the_same_document_is_unchanged(self, stores: Stores) -> None:
        collection = await _collection(stores, "same")
        document_id, _ = await _store(stores, collection, "a.md", "text")
        before = await stores.documents.find("same", document_id)
        again = await stores.documents.refresh(collection, a_version("a.md", "text"), ())
        assert again == (document_id, job_pb2.INGESTION_OUTCOME_UNCHANGED)
        assert await stores.documents.find("same", document_id) == before

    async def test_metadata_and_principals_change_in_place(self, stores: Stores) -> None:
        collection = await _collection(stores, "meta")
        document_id, _ = await _store(stores, collection, "a.md", "text")
        version = replace(
            a_version("a.md", "text"),
            metadata={"team": ["ops", 1, 2.5, None]},
            allowed_principals=("user:ann",),
        )
        refreshed = await stores.documents.refresh(collection, version, ())
        document = await stores.documents.find("meta", document_id)
        assert refreshed == (document_id, job_pb2.INGESTION_OUTCOME_UPDATED)
        assert document is not None
        assert json_format.MessageToDict(document.metadata) == {"team": ["ops", 1, 2.5, None]}
        assert document.allowed_principals == ["user:ann"]
        assert await stores.texts_of(collection, document_id) == ["text"]

    async def test_a_deleted_document_leaves_nothing(self, stores: Stores) -> None:
        collection = await _collection(stores, "deleting")
        other_id, _ = await _store(stores, collection, "b.md", "stays")
        document_id, _ = await _store(stores, collection, "a.md", "one", "two")
        assert await stores.documents.delete(collection, document_id)
        assert not await stores.documents.delete(collection, document_id)
        assert await stores.documents.find("deleting", document_id) is None
        assert await stores.texts_of(collection, document_id) == []
        assert await stores.texts_of(collection, other_id) == ["stays"]

    async def test_what_a_filter_selects_is_deleted_and_nothing_else(self, stores: Stores) -> None:
        collection = await _collection(stores, "selecting")
        other = await _collection(stores, "other-selecting")
        metadata: dict[str, dict[str, Any]] = {
            "a": {"year": 2020, "team": {"name": "red"}, "tags": ["draft", 1]},
            "b": {"year": 2021, "team": {"name": "blue"}, "tags": []},
            "c": {"year": "2021"},
            "d": {},
        }
        for into in (collection, other):
            for uri, values in metadata.items():
                version = replace(a_version(uri, uri), metadata=values)
                await stores.documents.store(into, [_new(version, uri)])

        async def selected(condition: dict[str, Any]) -> int:
            return await stores.documents.count_selected(collection, parse(condition), ())

        assert await selected({"year": {"$gte": 2021}}) == 1
        assert await selected({"year": {"$ne": 2021}}) == 3
        assert await selected({"year": {"$exists": False}}) == 1
        assert await selected({"$or": [{"team.name": "red"}, {"year": {"$in": ["2021", True]}}]}) == 2
        assert await selected({"tags": {"$contains": 1}, "$not": {"year": 2021}}) == 1
        assert await selected({"$source_type": "file", "$update_time": {"$lt": "2000-01-01"}}) == 0

        async def delete(condition: dict[str, Any]) -> int:
            return await stores.documents.delete_selected(collection, parse(condition), (), "")

        assert await delete({"year": {"$lt": 2000}}) == 0
        assert await delete({"year": {"$exists": True}}) == 3
        assert [one.uri for one in await _documents(stores, collection)] == ["d"]
        [left] = await _documents(stores, collection)
        assert await delete({"$document_id": left.document_id}) == 1
        assert len(await _documents(stores, other)) == 4

    async def test_a_filter_selects_only_what_the_caller_may_read(self, stores: Stores) -> None:
        collection = await _collection(stores, "private-selecting")
        version = replace(a_version("a", "a"), allowed_principals=("user:ann",))
        await stores.documents.store(collection, [_new(version, "a")])
        everything = parse({"$source_type": "file"})
        for principals, count in (((), 0), (("user:bob",), 0), (("user:ann",), 1)):
            assert await stores.documents.count_selected(collection, everything, principals) == count
            assert await stores.documents.delete_selected(collection, everything, principals, "") == count

    async def test_the_same_request_deletes_once(self, stores: Stores) -> None:
        collection = await _collection(stores, "deleting-once")
        files = parse({"$source_type": "file"})
        await _store(stores, collection, "a", "one")
        deletions = [stores.documents.delete_selected(collection, files, (), "same") for _ in range(3)]
        assert list(await asyncio.gather(*deletions)) == [1, 1, 1]
        await _store(stores, collection, "b", "two")
        assert await stores.documents.delete_selected(collection, files, (), "same") == 1
        assert len(await _documents(stores, collection)) == 1
        assert await stores.documents.delete_selected(collection, files, (), "another") == 1

    async def test_what_is_within_a_document_joins_its_job_when_it_is_stored(self, stores: Stores) -> None:
        collection = await _collection(stores, "containers")
        item = await _leased(stores, collection, "a.zip")
        assert await _names(stores, collection) == ["a.zip"]
        encrypted = _member("a.zip!/secret.pdf", failure=_failure(error_pb2.ENCRYPTED_DOCUMENT))
        broken = _member("a.zip!/broken.txt", failure=_failure(error_pb2.CORRUPT_DOCUMENT))
        await _store_container(
            stores, collection, item, [_member("a.zip!/b.txt", "inside"), encrypted, broken]
        )
        job = await stores.jobs.find(item.claim.job_id)
        assert job is not None
        assert (job.state, job.item_count) == (job_pb2.JOB_STATE_RUNNING, 4)
        assert (job.done_count, job.skipped_count, job.failed_count) == (2, 1, 1)
        container, member, skipped, failed = await stores.jobs.items(job.job_id, None, after=-1, limit=9)
        assert (container.member_count, container.container_uri) == (3, "")
        assert {one.container_uri for one in (member, skipped, failed)} == {"a.zip"}
        assert skipped.outcome == job_pb2.INGESTION_OUTCOME_SKIPPED
        assert skipped.failure.reason == error_pb2.ENCRYPTED_DOCUMENT
        assert (skipped.uri, failed.uri) == ("a.zip!/secret.pdf", "a.zip!/broken.txt")
        assert failed.state == document_pb2.INGESTION_STATE_FAILED
        [leased] = await _lease(stores)
        assert (leased.uri, leased.container_uri) == ("a.zip!/b.txt", "a.zip")
        given = leased.given or await stores.queue.given(leased)
        assert (given.content, given.container_uri) == (b"inside", "a.zip")
        assert await _names(stores, collection) == ["a.zip", "a.zip!/b.txt"]

    async def test_a_worker_that_lost_its_container_adds_nothing_of_it(self, stores: Stores) -> None:
        collection = await _collection(stores, "lost-containers")
        item = await _leased(stores, collection, "a.zip")
        await stores.queue.release([item.claim.lease_id])
        storing = _store_container(stores, collection, item, [_member("a.zip!/b.txt", "inside")])
        assert await _refusal_of_claim(storing)
        assert await _names(stores, collection) == ["a.zip"]
        assert len(await stores.jobs.items(item.claim.job_id, None, after=-1, limit=9)) == 1

    async def test_a_cancelled_job_takes_in_nothing_within_its_documents(self, stores: Stores) -> None:
        collection = await _collection(stores, "cancelled-containers")
        item = await _leased(stores, collection, "a.zip")
        await stores.jobs.cancel(item.claim.job_id)
        storing = _store_container(stores, collection, item, [_member("a.zip!/b.txt", "inside")])
        assert await _refusal_of_claim(storing)
        assert await _lease(stores) == []

    async def test_what_has_gone_from_a_container_goes_when_that_is_replaced(self, stores: Stores) -> None:
        collection = await _collection(stores, "replaced-containers")
        item = await _leased(stores, collection, "a.zip")
        kept, gone = _member("a.zip!/kept.txt", "kept"), _member("a.zip!/gone.zip", "gone")
        deeper = _member("a.zip!/gone.zip!/deep.txt", "deep", container="a.zip!/gone.zip")
        await _store_container(stores, collection, item, [kept, gone, deeper])
        for member in await _lease(stores):
            await _store_container(stores, collection, member, None)
        everything = ["a.zip", "a.zip!/gone.zip", "a.zip!/gone.zip!/deep.txt", "a.zip!/kept.txt"]
        assert await _names(stores, collection) == everything
        item = await _leased(stores, collection, "a.zip")
        await _store_container(stores, collection, item, [kept])
        assert await _names(stores, collection) == ["a.zip", "a.zip!/kept.txt"]
        item = await _leased(stores, collection, "a.zip")
        await _store_container(stores, collection, item, [])
        assert await _names(stores, collection) == ["a.zip"]

    async def test_who_may_read_a_container_may_read_what_is_within_it(self, stores: Stores) -> None:
        collection = await _collection(stores, "restricted-containers")
        item = await _leased(stores, collection, "a.zip")
        await _store_container(stores, collection, item, [_member("a.zip!/b.txt", "inside")])
        [member] = await _lease(stores)
        await _store_container(stores, collection, member, None)
        # Of a writer that is not among those who may read it from now on.
        item = await _leased(stores, collection, "a.zip")
        inside = _member("a.zip!/b.txt", "changed")
        await _store_container(stores, collection, item, [inside], readers=("user:bob",))
        assert await _names(stores, collection, "user:ann") == [], "changes in the same moment"
        assert await _names(stores, collection, "user:bob") == ["a.zip", "a.zip!/b.txt"]
        [member] = await _lease(stores)
        await _store_container(stores, collection, member, None, readers=("user:bob",))
        job = await stores.jobs.find(member.claim.job_id)
        assert job is not None
        assert (job.state, job.failed_count) == (job_pb2.JOB_STATE_DONE, 0)

    async def test_a_container_is_deleted_with_all_that_is_within_it(self, stores: Stores) -> None:
        collection = await _collection(stores, "deleted-containers")
        await _store(stores, collection, "other", "text")
        for item in [await _leased(stores, collection, uri) for uri in ("a.zip", "b.zip")]:
            uri = item.uri
            inner, deeper = f"{uri}!/b.zip", f"{uri}!/b.zip!/c.txt"
            await _store_container(
                stores,
                collection,
                item,
                [_member(inner, "list", container=uri), _member(deeper, "deep", container=inner)],
            )
        leased = {item.uri: item.claim for item in await _lease(stores)}
        [document] = await _listed(stores, collection.collection_id, selection=parse({"$uri": "a.zip"}))
        assert await stores.documents.delete(collection, document.document_id)
        assert await _names(stores, collection) == ["b.zip", "b.zip!/b.zip", "b.zip!/b.zip!/c.txt", "other"]
        assert await _refusal_of_claim(stores.queue.require(leased["a.zip!/b.zip!/c.txt"])), "is cancelled"
        await stores.queue.require(leased["b.zip!/b.zip!/c.txt"])
        selection = parse({"$uri": "b.zip"})
        assert await stores.documents.count_selected(collection, selection, []) == 3
        assert await stores.documents.delete_selected(collection, selection, [], "") == 3
        assert await _names(stores, collection) == ["other"]

    async def test_a_container_is_refreshed_only_while_all_within_it_is_done(self, stores: Stores) -> None:
        collection = await _collection(stores, "refreshed-containers")
        item = await _leased(stores, collection, "a.zip")
        await _store_container(stores, collection, item, [_member("a.zip!/b.txt", "inside")])
        version = a_version("a.zip", "a.zip")
        assert await stores.documents.refresh(collection, version, []) is None
        [member] = await _lease(stores)
        await _store_container(stores, collection, member, None)
        refreshed = await stores.documents.refresh(collection, version, [])
        assert refreshed is not None
        assert refreshed[1] == job_pb2.INGESTION_OUTCOME_UNCHANGED
        changed = replace(version, metadata={"year": 2026})
        assert await stores.documents.refresh(collection, changed, []) is None, "so would what is within"

    async def test_documents_are_listed_by_what_they_are_within(self, stores: Stores) -> None:
        collection = await _collection(stores, "listed-containers")
        item = await _leased(stores, collection, "a.zip")
        await _store_container(stores, collection, item, [_member("a.zip!/b.txt", "inside")])
        selected = parse({"$container_uri": "a.zip"})
        [member] = await _listed(stores, collection.collection_id, selection=selected)
        assert (member.uri, member.container_uri) == ("a.zip!/b.txt", "a.zip")
        selected = parse({"$container_uri": ""})
        [container] = await _listed(stores, collection.collection_id, selection=selected)
        assert container.uri == "a.zip"

    async def test_a_skipped_item_leaves_no_document_and_fails_nothing(self, stores: Stores) -> None:
        collection = await _collection(stores, "skipped-members")
        item = await _leased(stores, collection, "a.zip")
        await _store_container(stores, collection, item, [_member("a.zip!/logo.png", "pixels")])
        [member] = await _lease(stores)
        await stores.queue.skip(member.claim, FAILURE)
        assert await _names(stores, collection) == ["a.zip"]
        job = await stores.jobs.find(item.claim.job_id)
        assert job is not None
        assert (job.state, job.skipped_count, job.failed_count) == (job_pb2.JOB_STATE_DONE, 1, 0)
        [_, skipped] = await stores.jobs.items(job.job_id, None, after=-1, limit=9)
        assert (skipped.outcome, skipped.failure) == (job_pb2.INGESTION_OUTCOME_SKIPPED, FAILURE)
        assert await _refusal_of_claim(stores.queue.skip(member.claim, FAILURE))
        assert await stores.jobs.retry(job.job_id) == 0

    async def test_counts_are_of_searchable_documents(self, stores: Stores) -> None:
        collection = await _collection(stores, "counted")
        await _store(stores, collection, "a.md", "one", "two")
        await _store(stores, collection, "b.md", "three")
        await stores.jobs.enqueue(collection, [_handed_in("c.md")], (), "")
        found = await stores.collections.find("counted")
        assert found is not None
        assert (found.message.document_count, found.message.chunk_count) == (2, 3)

    async def test_counts_are_of_what_the_caller_may_read(self, stores: Stores) -> None:
        collection = await _collection(stores, "counted-for")
        await _store(stores, collection, "a.md", "one", "two")
        secret = replace(a_version("b.md", "three"), allowed_principals=("user:ann",))
        await stores.documents.store(collection, [_new(secret, "three")])

        async def seen(*principals: str) -> list[tuple[int, int]]:
            found = await stores.collections.find("counted-for", principals)
            assert found is not None
            [listed] = await stores.collections.list_readable(principals, after="", limit=10)
            stats = await stores.documents.stats(collection, principals)
            return [
                (found.message.document_count, found.message.chunk_count),
                (listed.message.document_count, listed.message.chunk_count),
                (sum(state.document_count for state in stats.states), stats.chunk_count),
                (int(stats.document_bytes), int(stats.text_bytes)),
            ]

        assert await seen() == await seen("user:bob") == [(1, 2), (1, 2), (1, 2), (7, 6)]
        assert await seen("user:ann") == [(2, 3), (2, 3), (2, 3), (12, 11)]
        everything = await stores.documents.stats(collection, ("user:ann",))
        part = await stores.documents.stats(collection, ())
        assert part.storage_bytes < everything.storage_bytes

    async def test_documents_are_listed_by_uri_to_those_who_may_read_them(self, stores: Stores) -> None:
        collection = await _collection(stores, "listed")
        for uri, principals in (("c", ()), ("a", ("user:ann",)), ("b", ())):
            version = replace(a_version(uri, uri), allowed_principals=principals)
            await stores.documents.store(collection, [_new(version, uri)])

        async def seen(*principals: str, after: DocumentPlace | None = None, limit: int = 10) -> list[str]:
            found = await _listed(stores, "listed", *principals, after=after, limit=limit)
            return [document.uri for document in found]

        assert await seen() == ["b", "c"]
        assert await seen("user:ann") == ["a", "b", "c"]
        assert await seen("user:ann", after=("a", "a"), limit=1) == ["b"]

    async def test_documents_are_listed_in_the_order_asked_for_page_by_page(self, stores: Stores) -> None:
        collection = await _collection(stores, "ordered")
        for uri, title, content in (("1", "b", "xx"), ("2", "a", "xxx"), ("3", "b", "x")):
            version = replace(a_version(uri, content), title=title)
            await stores.documents.store(collection, [_new(version, content)])

        async def seen(order_by: str) -> str:
            order, place, uris = DocumentOrder.of(order_by), None, ""
            while found := await _listed(stores, "ordered", order=order, after=place, limit=2):
                uris += "".join(document.uri for document in found)
                place = order.place_of(found[-1])
            return uris

        assert await seen("title") == "213"
        assert await seen("title desc") == "312"
        assert await seen("size_bytes") == "312"
        assert await seen("create_time desc") == await seen("update_time desc") == "321"
        assert await seen("mime_type") == await seen("uri") == "123"

    async def test_documents_are_listed_by_what_names_them(self, stores: Stores) -> None:
        collection = await _collection(stores, "named")
        for uri, title, mime_type in (
            ("leave/annual.md", "Annual", "text/markdown"),
            ("leave/sick.pdf", "Sick", "application/pdf"),
            ("leave_old.pdf", "Annual", "application/pdf"),
        ):
            version = replace(a_version(uri, uri), title=title, mime_type=mime_type)
            await stores.documents.store(collection, [_new(version, uri)])

        async def seen(**conditions: Any) -> list[str]:
            selection = parse({f"${name}": condition for name, condition in conditions.items()})
            return [one.uri for one in await _listed(stores, "named", selection=selection)]

        assert await seen(uri="leave/sick.pdf") == ["leave/sick.pdf"]
        assert await seen(uri={"$prefix": "leave/"}) == ["leave/annual.md", "leave/sick.pdf"]
        assert await seen(uri={"$prefix": "leave_"}) == ["leave_old.pdf"]
        assert await seen(title="Annual", mime_type={"$ne": "text/markdown"}) == ["leave_old.pdf"]
        assert await seen(mime_type={"$nin": ["application/pdf", "text/markdown"]}) == []
        assert await seen(create_time={"$gt": "2000-01-01"}, uri={"$in": ["leave_old.pdf", "x"]}) == [
            "leave_old.pdf"
        ]
        assert await seen(create_time={"$lt": "2000-01-01"}) == []

    async def test_a_part_of_a_text_is_counted_in_code_points(self, stores: Stores) -> None:
        collection = await _collection(stores, "texts")
        parts = [TextSegment("ä😀b"), TextSegment("cd", 3), TextSegment("é", 5)]
        new = replace(_new(a_version("a", "a"), "ä😀b"), segments=parts)
        [(document_id, _)] = await stores.documents.store(collection, [new])

        async def read(start: int, limit: int, *principals: str) -> tuple[str, int]:
            part = await stores.documents.text("texts", document_id, principals, start=start, limit=limit)
            return part.text, part.character_count

        assert await read(0, 100) == ("ä😀bcdé", 6)
        assert await read(1, 3) == ("😀bc", 6)
        assert await read(3, 1) == ("c", 6)
        assert await read(5, 2**31 - 1) == ("é", 6)
        assert await read(6, 5) == await read(2**31 - 1, 5) == ("", 6)

    async def test_an_original_is_kept_where_the_collection_says_so(self, stores: Stores) -> None:
        collection = await _collection(stores, "originals")
        keeping = collection_pb2.Collection()
        keeping.CopyFrom(collection.message)
        keeping.settings.keep_originals = True
        keeping_collection = StoredCollection(keeping, collection.partition_id)
        version = replace(a_version("a.md", "a.md"), allowed_principals=("user:ann",))

        async def ingested(into: StoredCollection) -> document_pb2.Document:
            await stores.jobs.enqueue(into, [(GivenDocument("a.md", uri="a.md"), version)], ("user:ann",), "")
            [item] = await _lease(stores)
            stored = await stores.documents.refresh(into, version, ("user:ann",), item.claim)
            if stored is None:
                new = replace(_new(version, "text"), claim=item.claim, principals=("user:ann",))
                [stored] = await stores.documents.store(into, [new])
            found = await stores.documents.find("originals", stored[0])
            assert found is not None
            return found

        async def part(document: document_pb2.Document, *principals: str, number: int = 0) -> bytes | None:
            return await stores.documents.original(document, principals, part=number)

        document = await ingested(collection)
        assert not document.has_original
        document = await ingested(keeping_collection)  # unchanged, but kept from now on
        assert document.has_original
        assert await part(document) is None
        assert await part(document, "user:ann") == b"a.md"
        assert await part(document, "user:ann", number=1) is None
        replaced = _new(replace(version, content_hash=b"b", ingestion_hash=b"b"), "b")
        await stores.documents.store(collection, [replace(replaced, principals=("user:ann",))])
        assert await part(document, "user:ann") is None
        found = await stores.documents.find("originals", document.document_id)
        assert found is not None
        assert not found.has_original

    async def test_texts_and_chunks_are_read_by_those_who_may_read_the_document(self, stores: Stores) -> None:
        collection = await _collection(stores, "private")
        version = replace(a_version("a", "a"), allowed_principals=("user:ann",), metadata={"year": 2024})
        [(document_id, _)] = await stores.documents.store(collection, [_new(version, "one", "two", "three")])

        async def chunks(*principals: str, after: int = -1) -> list[tuple[int, str]]:
            found = await stores.documents.chunks(collection, document_id, principals, after=after, limit=2)
            return [(chunk.chunk_index, chunk.text) for chunk in found]

        assert await chunks() == []
        assert (
            await stores.documents.text("private", document_id, (), start=0, limit=9)
        ).character_count == 0
        assert await chunks("user:ann") == [(0, "one"), (1, "two")]
        assert await chunks("user:ann", after=1) == [(2, "three")]
        [chunk, *_] = await stores.documents.chunks(collection, document_id, ("user:ann",), after=-1, limit=1)
        assert (chunk.document_id, chunk.uri, chunk.collection_id) == (document_id, "a", "private")
        assert json_format.MessageToDict(chunk.metadata) == {"year": 2024}
        assert (chunk.start_offset, chunk.end_offset) == (0, 3)

    async def test_a_deleted_collection_leaves_nothing(self, stores: Stores) -> None:
        collection = await _collection(stores, "ending")
        document_id, _ = await _store(stores, collection, "a.md", "text")
        job = await stores.jobs.enqueue(collection, [_handed_in("b.md")], (), "request")
        assert await stores.collections.delete("ending")
        assert await stores.documents.find("ending", document_id) is None
        assert await stores.jobs.find(job.job_id) is None
        again = await _collection(stores, "ending")
        assert again.message.document_count == 0

    async def test_owners_are_passed_over_whatever_they_have_waiting(self, stores: Stores) -> None:
        collection = await _collection(stores, "jobs")
        for owner, uris in (("a", ("1", "2")), ("b", ("3",)), ("a", ("4",)), ("", ("5",)), ("c", ("6",))):
            handed_in = [_handed_in(uri) for uri in uris]
            await stores.jobs.enqueue(collection, handed_in, (owner,) if owner else (), "")
        options: dict[str, Any] = {"model": "model", "seconds": 60}

        async def lease(limit: int, *passed_over: str) -> list[tuple[str, str]]:
            leased = await stores.queue.lease(
                str(uuid.uuid4()), limit=limit, passed_over=passed_over, **options
            )
            return [(item.uri, item.owner) for item in leased]

        assert not await lease(10, "a", "b", "c", "")
        assert await lease(2, "a") == [("3", "b"), ("5", "")]
        assert await lease(2) == [("1", "a"), ("2", "a")]

    async def test_an_item_is_leased_once_and_ends_with_its_document(self, stores: Stores) -> None:
        collection = await _collection(stores, "jobs")
        job = await stores.jobs.enqueue(collection, [_handed_in("a.md"), _handed_in("b.md")], (), "")
        assert (job.state, job.item_count) == (job_pb2.JOB_STATE_QUEUED, 2)
        # Not by workers of another model, which is being rolled out or going.
        options: dict[str, Any] = {"limit": 10, "seconds": 60}
        assert not await stores.queue.lease(str(uuid.uuid4()), model="another", **options)
        first, second = await _lease(stores)
        assert await _lease(stores) == []
        assert (await stores.queue.given(first)).content == "a.md"
        assert first.given == await stores.queue.given(first)
        await stores.queue.require(first.claim)
        new = replace(_new(a_version("a.md", "text"), "one", "two"), claim=first.claim)
        [(document_id, outcome)] = await stores.documents.store(collection, [new])
        assert outcome == job_pb2.INGESTION_OUTCOME_CREATED
        await stores.queue.fail(second.claim, FAILURE, job_pb2.ChunkCounts(parsed=1))
        found = await stores.jobs.find(job.job_id)
        assert found is not None
        assert (found.state, found.done_count, found.failed_count) == (job_pb2.JOB_STATE_DONE, 1, 1)
        assert found.chunks == job_pb2.ChunkCounts(parsed=3, contextualized=2, embedded=2, stored=2)
        items = await stores.jobs.items(job.job_id, None, after=-1, limit=10)
        assert [(item.document_id == document_id, item.failure == FAILURE) for item in items] == [
            (True, False),
            (False, True),
        ]
        assert await stores.jobs.items(job.job_id, None, after=0, limit=1) == items[1:]
        assert await stores.jobs.items(job.job_id, None, after=-1, limit=10, only_failed=True) == items[1:]

    async def test_a_lease_tells_whether_a_version_of_the_document_is_stored(self, stores: Stores) -> None:
        collection = await _collection(stores, "first")
        await stores.jobs.enqueue(collection, [_handed_in("a.md"), _handed_in("b.md")], (), "")
        first, second = await _lease(stores)
        assert first.is_first
        assert second.is_first
        new = replace(_new(a_version("a.md", "text"), "one"), claim=first.claim)
        await stores.documents.store(collection, [new])
        await stores.queue.fail(second.claim, FAILURE, job_pb2.ChunkCounts())
        await stores.jobs.enqueue(collection, [_handed_in("a.md"), _handed_in("b.md")], (), "")
        assert [(item.uri, item.is_first) for item in await _lease(stores)] == [
            ("a.md", False),
            ("b.md", True),
        ]

    async def test_tokens_add_up_on_the_items_that_are_held(self, stores: Stores) -> None:
        collection = await _collection(stores, "tokens")
        job = await stores.jobs.enqueue(collection, [_handed_in("a.md"), _handed_in("b.md")], (), "")
        first, second = await _lease(stores)
        lost = replace(second.claim, lease_id=str(uuid.uuid4()))
        written = chat_pb2.Usage(prompt_tokens=5, cached_tokens=4, output_tokens=3)
        await stores.queue.spend([(first.claim, written), (lost, written)])
        await stores.queue.spend([(first.claim, chat_pb2.Usage(embedding_tokens=7))])
        items = await stores.jobs.items(job.job_id, None, after=-1, limit=10)
        all_of_first = chat_pb2.Usage(prompt_tokens=5, cached_tokens=4, output_tokens=3, embedding_tokens=7)
        assert [item.usage for item in items] == [all_of_first, chat_pb2.Usage()]
        found = await stores.jobs.find(job.job_id)
        assert found is not None
        assert found.usage == all_of_first

    async def test_a_lost_claim_changes_nothing(self, stores: Stores) -> None:
        collection = await _collection(stores, "lost")
        job = await stores.jobs.enqueue(collection, [_handed_in("a.md")], (), "")
        [item] = await _lease(stores)
        await stores.jobs.cancel(job.job_id)
        new = replace(_new(a_version("a.md", "text"), "text"), claim=item.claim)
        for call in (
            stores.documents.store(collection, [new]),
            stores.queue.given(item),
            stores.queue.fail(item.claim, FAILURE, job_pb2.ChunkCounts()),
        ):
            try:
                await call
            except ClaimLostError:
                continue
            raise AssertionError("the claim is void")
        found = await stores.jobs.find(job.job_id)
        assert found is not None
        assert found.state == job_pb2.JOB_STATE_CANCELLED
        assert item.document_id
        assert await stores.texts_of(collection, item.document_id) == []

    async def test_items_of_a_uri_are_leased_one_after_the_other(self, stores: Stores) -> None:
        collection = await _collection(stores, "order")
        await stores.jobs.enqueue(collection, [_handed_in("a.md"), _handed_in("a.md")], (), "")
        [first] = await _lease(stores)
        assert first.claim.item_index == 0
        await stores.queue.fail(first.claim, FAILURE, job_pb2.ChunkCounts())
        [second] = await _lease(stores)
        assert second.claim.item_index == 1

    async def test_what_is_released_or_failed_can_be_leased_again(self, stores: Stores) -> None:
        collection = await _collection(stores, "again")
        job = await stores.jobs.enqueue(collection, [_handed_in("a.md")], (), "")
        [item] = await _lease(stores)
        await stores.queue.release([item.claim.lease_id])
        [item] = await _lease(stores)
        assert item.attempts == 1
        await stores.queue.fail(item.claim, FAILURE, job_pb2.ChunkCounts())
        assert await stores.jobs.retry(job.job_id) == 1
        assert [item.uri for item in await _lease(stores)] == ["a.md"]

    async def test_items_of_a_lost_worker_are_suspects_which_are_leased_one_by_one(
        self, stores: Stores
    ) -> None:
        collection = await _collection(stores, "suspects")
        await stores.jobs.enqueue(collection, [_handed_in("a.md"), _handed_in("b.md")], (), "")
        lost = await _lease(stores, seconds=0.01)
        await _expired(stores)
        await stores.jobs.enqueue(collection, [_handed_in("c.md")], (), "")
        assert await stores.queue.has_suspects("model")
        assert not await stores.queue.has_suspects("another")
        assert [item.uri for item in await _lease(stores)] == ["c.md"]
        for item in lost:
            assert await _refusal_of_claim(stores.queue.require(item.claim))
        first, second = await _lease(stores, suspect=True)
        assert [first.uri, second.uri] == ["a.md", "b.md"]
        assert (first.attempts, second.attempts) == (1, 1)
        assert not await stores.queue.has_suspects("model")

    async def test_only_a_suspect_that_is_lost_alone_is_charged_and_fails_in_the_end(
        self, stores: Stores
    ) -> None:
        collection = await _collection(stores, "charged")
        job = await stores.jobs.enqueue(collection, [_handed_in("a.md")], (), "")
        await _lease(stores, seconds=0.01)
        await _expired(stores)
        for attempt in range(MAXIMUM_ATTEMPTS):
            [suspect] = await _lease(stores, seconds=0.01, suspect=True)
            assert suspect.attempts == attempt + 1
            await _expired(stores)
        assert not await stores.queue.has_suspects("model")
        [item] = await stores.jobs.items(job.job_id, None, after=-1, limit=1)
        assert (item.state, item.failure.reason) == (
            document_pb2.INGESTION_STATE_FAILED,
            error_pb2.ATTEMPTS_EXHAUSTED,
        )
        document = await stores.documents.find("charged", item.document_id)
        assert document
        assert document.failure == item.failure

    async def test_a_forgiven_postponement_does_not_count(self, stores: Stores) -> None:
        collection = await _collection(stores, "forgiven")
        await stores.jobs.enqueue(collection, [_handed_in("a.md")], (), "")
        counted = []
        for forgiven in (True, False, False):
            [item] = await _lease(stores)
            counted.append(item.attempts)
            await stores.queue.postpone(item.claim, 0, FAILURE, forgiven=forgiven)
        assert counted == [1, 1, 2]

    async def test_a_lease_that_is_extended_is_not_lost(self, stores: Stores) -> None:
        collection = await _collection(stores, "extended")
        await stores.jobs.enqueue(collection, [_handed_in("a.md")], (), "")
        [item] = await _lease(stores, seconds=0.5)
        for _ in range(10):
            await stores.queue.extend([item.claim.lease_id])
            assert await stores.queue.expire(MAXIMUM_ATTEMPTS) == 0
            await asyncio.sleep(0.1)
        await stores.queue.require(item.claim)

    async def test_a_deleted_documents_item_is_cancelled(self, stores: Stores) -> None:
        collection = await _collection(stores, "cancelling")
        job = await stores.jobs.enqueue(collection, [_handed_in("a.md")], (), "")
        [item] = await _lease(stores)
        assert item.document_id
        assert await stores.documents.delete(collection, item.document_id)
        [ended] = await stores.jobs.items(job.job_id, None, after=-1, limit=10)
        assert ended.state == document_pb2.INGESTION_STATE_CANCELLED

    async def test_items_of_unreadable_documents_are_neither_shown_nor_counted(self, stores: Stores) -> None:
        collection = await _collection(stores, "private")
        given, version = _handed_in("a.md")
        secret = (
            replace(given, allowed_principals=("user:ann",)),
            replace(version, allowed_principals=("user:ann",)),
        )
        handed_in = [secret, _handed_in("b.md")]
        job = await stores.jobs.enqueue(collection, handed_in, ("user:bob", "group:staff"), "")

        async def seen(*principals: str) -> tuple[int, int]:
            items = await stores.jobs.items(job.job_id, principals, after=-1, limit=10)
            found = await stores.jobs.find(job.job_id, principals)
            [listed] = await stores.jobs.list_readable(
                principals, collection_id="private", before=None, limit=10
            )
            assert found == listed
            assert found is not None
            return len(items), found.item_count

        assert await seen() == await seen("user:carl") == await seen("group:staff") == (1, 1)
        assert await seen("user:ann") == (2, 2)
        # Who handed it in sees what becomes of it.
        assert await seen("user:bob") == (2, 2)
        [item, other] = await _lease(stores)
        assert await stores.documents.delete(collection, item.document_id)
        assert await seen("user:bob") == (2, 2)
        assert await seen("user:carl") == (1, 1)
        assert other.uri == "b.md"

    async def test_a_request_has_one_job_in_its_collection(self, stores: Stores) -> None:
        one = await _collection(stores, "one")
        two = await _collection(stores, "two")
        first = await stores.jobs.enqueue(one, [_handed_in("a.md")], (), "same")
        assert await stores.jobs.enqueue(one, [_handed_in("a.md")], (), "same") == first
        assert await stores.jobs.find_by_request_id("one", "same") == first
        assert await stores.jobs.find_by_request_id("two", "same") is None
        missing = str(uuid.UUID(int=1))
        assert await stores.jobs.find_all([first.job_id, missing], ()) == {first.job_id: first}
        assert (await stores.jobs.enqueue(two, [_handed_in("a.md")], (), "same")).job_id != first.job_id

    async def test_a_crawl_is_leased_by_itself_and_its_pages_as_documents(self, stores: Stores) -> None:
        collection = await _collection(stores, "site")
        asked = pb.WebCrawl(
            start_url="https://a.test/",
            max_pages=5,
            max_depth=0,
            include_paths=["/docs/**"],
            exclude_paths=["/old"],
            delay_seconds=0.5,
        )
        job_id = await stores.crawls.enqueue(collection, OrderedCrawl(asked), (), "same")
        assert await stores.crawls.enqueue(collection, replace(CRAWL, is_dry_run=True), (), "same") == job_id
        assert await _lease(stores) == []
        leased = await _lease_crawl(stores)
        assert leased is not None
        item, ordered = leased
        assert ordered == OrderedCrawl(asked)
        assert (item.collection_id, item.uri) == ("site", asked.start_url)
        assert await _lease_crawl(stores) is None
        await stores.crawls.add_page(item.claim, collection, _handed_in("https://a.test/"))
        assert [page.uri for page in await _lease(stores)] == ["https://a.test/"]
        await stores.crawls.finish(item.claim)
        assert not await stores.crawls.is_held(item.claim)
        items = await stores.jobs.items(job_id, None, after=-1, limit=10)
        assert [(one.uri, one.is_crawl, one.state) for one in items] == [
            (asked.start_url, True, document_pb2.INGESTION_STATE_DONE),
            ("https://a.test/", False, document_pb2.INGESTION_STATE_EXTRACTING),
        ]

    async def test_a_dry_crawl_notes_what_would_become_of_pages_and_takes_none_in(
        self, stores: Stores
    ) -> None:
        collection = await _collection(stores, "dry")
        known, changed, refused = (f"https://a.test/{name}" for name in ("known", "changed", "refused"))
        for uri, principals in ((known, ()), (changed, ()), (refused, ("user:bob",))):
            version = replace(a_version(uri, "text"), allowed_principals=principals)
            new = replace(_new(version, "text"), principals=principals)
            await stores.documents.store(collection, [new])
        ordered = OrderedCrawl(pb.WebCrawl(start_url="https://a.test/"), is_dry_run=True)
        job_id = await stores.crawls.enqueue(collection, ordered, ("user:ann",), "")
        leased = await _lease_crawl(stores)
        assert leased is not None
        assert leased[1] == ordered
        claim = leased[0].claim
        for uri, text in (
            (known, "text"),
            (changed, "other"),
            (refused, "other"),
            ("https://a.test/new", "x"),
        ):
            await stores.crawls.add_preview(claim, a_version(uri, text))
        await stores.crawls.add_preview(claim, a_version(known, "text"))
        await stores.crawls.finish(claim)
        assert await _refusal_of_claim(stores.crawls.add_preview(claim, a_version(known, "text")))
        items = await stores.jobs.items(job_id, None, after=0, limit=10)
        assert [(one.uri, one.outcome, one.failure.reason) for one in items] == [
            (known, job_pb2.INGESTION_OUTCOME_UNCHANGED, 0),
            (changed, job_pb2.INGESTION_OUTCOME_UPDATED, 0),
            (refused, job_pb2.INGESTION_OUTCOME_UNSPECIFIED, error_pb2.DOCUMENT_NOT_WRITABLE),
            ("https://a.test/new", job_pb2.INGESTION_OUTCOME_CREATED, 0),
        ]
        assert items[2].document_id == ""
        job = await stores.jobs.find(job_id)
        assert job is not None
        assert (job.is_dry_run, job.state, job.done_count, job.unchanged_count, job.failed_count) == (
            True,
            job_pb2.JOB_STATE_DONE,
            3,
            1,
            1,
        )
        assert await _lease(stores) == []
        assert await stores.jobs.retry(job_id) == 0

    async def test_a_job_is_under_way_until_its_crawl_and_its_pages_have_ended(self, stores: Stores) -> None:
        collection = await _collection(stores, "underway")
        job_id, item = await _begun_crawl(stores, collection)

        async def seen() -> tuple[int, int, int, int]:
            job = await stores.jobs.find(job_id)
            assert job is not None
            return job.state, job.item_count, job.done_count, job.failed_count

        assert await seen() == (job_pb2.JOB_STATE_RUNNING, 0, 0, 0)
        await stores.crawls.add_page(item.claim, collection, _handed_in("https://a.test/one"))
        [page] = await _lease(stores)
        new = replace(_new(a_version(page.uri, "text"), "text"), claim=page.claim)
        await stores.documents.store(collection, [new])
        assert (await seen())[0] == job_pb2.JOB_STATE_RUNNING
        await stores.crawls.add_failure(item.claim, "https://a.test/two", FAILURE)
        await stores.crawls.finish(item.claim)
        assert await seen() == (job_pb2.JOB_STATE_DONE, 2, 1, 1)

    async def test_a_crawl_that_begins_again_doubles_no_page(self, stores: Stores) -> None:
        collection = await _collection(stores, "again-crawl")
        job_id, first = await _begun_crawl(stores, collection)
        await stores.crawls.add_page(first.claim, collection, _handed_in("https://a.test/kept"))
        await stores.crawls.add_failure(first.claim, "https://a.test/late", FAILURE)
        await stores.queue.release([first.claim.lease_id])
        leased = await _lease_crawl(stores)
        assert leased is not None
        second, _ = leased
        for claim, is_lost in ((first.claim, True), (second.claim, False)):
            try:
                await stores.crawls.add_page(claim, collection, _handed_in("https://a.test/kept"))
                await stores.crawls.add_page(claim, collection, _handed_in("https://a.test/late"))
                await stores.crawls.add_failure(claim, "https://a.test/kept", FAILURE)
                assert not is_lost
            except ClaimLostError:
                assert is_lost
        items = await stores.jobs.items(job_id, None, after=0, limit=10)
        assert [(one.item_index, one.uri, one.state, one.HasField("failure")) for one in items] == [
            (1, "https://a.test/kept", document_pb2.INGESTION_STATE_QUEUED, False),
            (2, "https://a.test/late", document_pb2.INGESTION_STATE_QUEUED, False),
        ]

    async def test_a_cancelled_crawl_takes_no_more_pages_and_counts(self, stores: Stores) -> None:
        collection = await _collection(stores, "cancelled-crawl")
        job_id, item = await _begun_crawl(stores, collection)
        await stores.crawls.add_page(item.claim, collection, _handed_in("https://a.test/one"))
        assert await stores.crawls.is_held(item.claim)
        await stores.jobs.cancel(job_id)
        assert not await stores.crawls.is_held(item.claim)
        for call in (
            stores.crawls.add_page(item.claim, collection, _handed_in("https://a.test/two")),
            stores.crawls.add_failure(item.claim, "https://a.test/two", FAILURE),
            stores.crawls.finish(item.claim),
        ):
            try:
                await call
            except ClaimLostError:
                continue
            raise AssertionError("the claim is void")
        job = await stores.jobs.find(job_id)
        assert job is not None
        assert (job.state, job.item_count, job.cancelled_count) == (job_pb2.JOB_STATE_CANCELLED, 2, 2)

    async def test_a_crawl_that_missed_pages_can_be_retried(self, stores: Stores) -> None:
        collection = await _collection(stores, "retried-crawl")
        job_id, item = await _begun_crawl(stores, collection)
        await stores.crawls.finish(item.claim)
        assert await stores.jobs.retry(job_id) == 0
        job_id, item = await _begun_crawl(stores, collection)
        await stores.crawls.add_failure(item.claim, "https://a.test/one", FAILURE)
        await stores.crawls.finish(item.claim)
        assert await stores.jobs.retry(job_id) == 1
        assert await _lease_crawl(stores) is not None

    async def test_a_crawl_whose_worker_was_lost_is_tried_alone_charged_and_fails_in_the_end(
        self, stores: Stores
    ) -> None:
        collection = await _collection(stores, "charged-crawl")
        job_id = await stores.crawls.enqueue(collection, CRAWL, (), "")
        assert await _lease_crawl(stores, seconds=0.01) is not None
        await _expired(stores)
        assert await _lease_crawl(stores, alone=False) is None
        for attempt in range(MAXIMUM_ATTEMPTS):
            leased = await _lease_crawl(stores, seconds=0.01)
            assert leased is not None
            assert leased[0].attempts == attempt + 1
            await _expired(stores)
        assert await _lease_crawl(stores) is None
        [crawl] = await stores.jobs.items(job_id, None, after=-1, limit=1)
        assert (crawl.state, crawl.failure.reason) == (
            document_pb2.INGESTION_STATE_FAILED,
            error_pb2.ATTEMPTS_EXHAUSTED,
        )
        job = await stores.jobs.find(job_id)
        assert job is not None
        assert (job.state, job.failed_count) == (job_pb2.JOB_STATE_FAILED, 1)

    async def test_jobs_are_listed_newest_first(self, stores: Stores) -> None:
        opened = await _collection(stores, "open")
        closed = await _collection(stores, "closed", readers=("user:ann",), writers=("user:ann",))
        old, new = [await stores.jobs.enqueue(opened, [_handed_in(uri)], (), "") for uri in ("a", "b")]
        hidden = await stores.jobs.enqueue(closed, [_handed_in("c")], (), "")

        async def seen(*principals: str, **narrowed: Any) -> list[job_pb2.IngestionJob]:
            options = {"collection_id": None, "before": None, "limit": 10, **narrowed}
            return list(await stores.jobs.list_readable(principals, **options))

        assert await seen() == [new, old]
        assert await seen("user:ann") == [hidden, new, old]
        assert await seen("user:ann", collection_id="closed") == [hidden]
        assert await seen(before=(moment(new.create_time), new.job_id)) == [old]
        assert await seen("user:ann", limit=1) == [hidden]


async def _expired(stores: Stores) -> None:
    async with asyncio.timeout(10):
        expired = 0
        while not expired:
            await asyncio.sleep(0.005)
            expired = await stores.queue.expire(MAXIMUM_ATTEMPTS)


async def _refusal_of_claim(call: Any) -> bool:
    try:
        await call
    except ClaimLostError:
        return True
    return False


async def _documents(stores: Stores, collection: StoredCollection) -> Sequence[document_pb2.Document]:
    return await _listed(stores, collection.collection_id)


async def _listed(
    stores: Stores,
    collection_id: str,
    *principals: str,
    selection: Filter | None = None,
    order: DocumentOrder | None = None,
    after: DocumentPlace | None = None,
    limit: int = 100,
) -> Sequence[document_pb2.Document]:
    return await stores.documents.list_readable(
        collection_id,
        principals,
        selection=selection or parse({}),
        order=order or DocumentOrder(),
        after=after,
        limit=limit,
    )


async def _lease_crawl(
    stores: Stores, *, seconds: float = 60, alone: bool = True
) -> tuple[LeasedItem, OrderedCrawl] | None:
    return await stores.crawls.lease(str(uuid.uuid4()), seconds=seconds, alone=alone)


async def _begun_crawl(stores: Stores, collection: StoredCollection) -> tuple[str, LeasedItem]:
    """Id of the job, and the item that was leased."""
    job_id = await stores.crawls.enqueue(collection, CRAWL, (), "")
    leased = await _lease_crawl(stores)
    assert leased is not None
    return job_id, leased[0]


async def _lease(stores: Stores, *, seconds: float = 60, suspect: bool = False) -> Sequence[LeasedItem]:
    return list(
        await stores.queue.lease(str(uuid.uuid4()), model="model", limit=10, seconds=seconds, suspect=suspect)
    )


def _handed_in(uri: str) -> HandedIn:
    return GivenDocument(uri, uri=uri), a_version(uri, uri)


def _new(version: DocumentVersion, *texts: str) -> NewVersion:
    return NewVersion(
        version, [_chunk(text) for text in texts], _vectors(len(texts)), [TextSegment(" ".join(texts))]
    )


async def _leased(stores: Stores, collection: StoredCollection, uri: str) -> LeasedItem:
    """A document that is handed in by itself."""
    await stores.jobs.enqueue(collection, [_handed_in(uri)], ["user:ann"], "")
    found = [item for item in await _lease(stores) if item.uri == uri]
    return found[0]


def _member(
    uri: str,
    content: str = "",
    *,
    container: str = "a.zip",
    failure: document_pb2.IngestionFailure | None = None,
) -> Member:
    version = replace(a_version(uri, content), container_uri=container)
    return Member(GivenDocument(content.encode(), uri=uri, container_uri=container), version, failure)


def _failure(reason: error_pb2.ErrorReason.ValueType) -> document_pb2.IngestionFailure:
    return document_pb2.IngestionFailure(stage=document_pb2.INGESTION_STATE_EXTRACTING, reason=reason)


async def _store_container(
    stores: Stores,
    collection: StoredCollection,
    item: LeasedItem,
    members: Sequence[Member] | None,
    *,
    readers: tuple[str, ...] = (),
) -> None:
    """The item's document with what was found within it; None where nothing was looked for."""
    version = replace(
        a_version(item.uri, item.uri), container_uri=item.container_uri, allowed_principals=readers
    )
    new = replace(_new(version, "text"), claim=item.claim, principals=item.principals, members=members)
    await stores.documents.store(collection, [new])


async def _names(stores: Stores, collection: StoredCollection, *principals: str) -> list[str]:
    return [one.uri for one in await _listed(stores, collection.collection_id, *principals)]


async def _refusal(call: Any) -> type[GroundlineError] | None:
    try:
        await call
    except GroundlineError as error:
        return type(error)
    return None


async def _collection(
    stores: Stores,
    collection_id: str,
    *,
    readers: tuple[str, ...] = ("*",),
    writers: tuple[str, ...] = ("*",),
    creator: str = "",
    request_id: str = "",
) -> StoredCollection:
    new = a_collection(collection_id, dimensions=DIMENSIONS, readers=readers, writers=writers)
    return await stores.collections.create(new, creator, request_id)


async def _store(stores: Stores, collection: StoredCollection, uri: str, *texts: str) -> StoredOutcome:
    [stored] = await stores.documents.store(collection, [_new(a_version(uri, " ".join(texts)), *texts)])
    return stored


def _chunk(text: str) -> PreparedChunk:
    return PreparedChunk(Section(text, 0, len(text)), "", text, signature(text))


def _vectors(count: int) -> Vectors:
    return np.ones((count, DIMENSIONS), np.float16)


def _renamed(collection: StoredCollection, name: str) -> collection_pb2.Collection:
    renamed = collection_pb2.Collection()
    renamed.CopyFrom(collection.message)
    renamed.name = name
    return renamed
