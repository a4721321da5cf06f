"""The stores of collections."""

import uuid
from dataclasses import replace

from groundline.v1 import collection_pb2
from groundline_contracts.times import moment
from groundline_indexing.collections import StoredCollection
from groundline_ingestor.adapters.postgres.stores import Stores
from groundline_tests.ingestor.messages import a_collection, a_version
from groundline_tests.ingestor.stores import DIMENSIONS, a_hand_in, a_new, create, store


def renamed(collection: StoredCollection, name: str) -> collection_pb2.Collection:
    renamed = collection_pb2.Collection()
    renamed.CopyFrom(collection.message)
    renamed.name = name
    return renamed


async def test_what_was_never_stored_is_not_found(stores: Stores) -> None:
    nobody = str(uuid.uuid4())
    assert await stores.collections.find("none") is None
    assert await stores.documents.find("none", nobody) is None
    assert await stores.jobs.find(nobody) is None
    assert not await stores.collections.delete("none")


async def test_who_may_use_a_collection_is_kept(stores: Stores) -> None:
    everyone, ann, bob = ["*"], ["user:ann"], ["user:bob", "group:staff"]
    for number, (readers, writers, admins) in enumerate(
        [(everyone, everyone, everyone), (everyone, ann, bob), (bob, ann, ann), (everyone, everyone, ann)]
    ):
        new = a_collection(f"access-{number}", dimensions=DIMENSIONS)
        access = collection_pb2.AccessSettings(readers=readers, writers=writers, admins=admins)
        new.settings.access.CopyFrom(access)
        created = await stores.collections.create(new, "", "")
        assert created.settings.access == access
        created.settings.access.CopyFrom(collection_pb2.AccessSettings(readers=ann, writers=bob, admins=ann))
        assert await stores.collections.update(created.message)
        changed = await stores.collections.find(f"access-{number}")
        assert changed is not None
        assert changed.settings.access == created.settings.access


async def test_an_update_of_something_older_is_refused(stores: Stores) -> None:
    before = await create(stores, "moving")
    assert await stores.collections.update(renamed(before, "b"))
    assert not await stores.collections.update(renamed(before, "c"))
    after = await stores.collections.find("moving")
    assert after is not None
    assert (after.message.name, after.message.create_time) == ("b", before.message.create_time)
    assert moment(after.message.update_time) > moment(before.message.update_time)


async def test_collections_are_listed_by_id_to_those_who_may_read_them(stores: Stores) -> None:
    await create(stores, "c-open")
    await create(stores, "a-readers", readers=("user:ann",), writers=("user:bob",))
    await create(stores, "b-public", writers=("user:bob",))

    async def seen(*principals: str, after: str = "", limit: int = 10) -> list[str]:
        found = await stores.collections.list_readable(principals, after=after, limit=limit)
        return [collection.collection_id for collection in found]

    assert await seen() == ["b-public", "c-open"]
    assert await seen("user:ann") == await seen("user:bob") == ["a-readers", "b-public", "c-open"]
    assert await seen("user:ann", after="a-readers", limit=1) == ["b-public"]


async def test_counts_are_of_searchable_documents(stores: Stores) -> None:
    collection = await create(stores, "counted")
    await store(stores, collection, "a.md", "one", "two")
    await store(stores, collection, "b.md", "three")
    await stores.jobs.enqueue(collection, [a_hand_in("c.md")], (), "")
    found = await stores.collections.find("counted")
    assert found is not None
    assert (found.message.document_count, found.message.chunk_count) == (2, 3)


async def test_counts_are_of_what_the_caller_may_read(stores: Stores) -> None:
    collection = await create(stores, "counted-for")
    await store(stores, collection, "a.md", "one", "two")
    secret = replace(a_version("b.md", "three"), allowed_principals=("user:ann",))
    await stores.versions.store(collection, [a_new(secret, "three")])

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


async def test_a_deleted_collection_leaves_nothing(stores: Stores) -> None:
    collection = await create(stores, "ending")
    document_id, _ = await store(stores, collection, "a.md", "text")
    job = await stores.jobs.enqueue(collection, [a_hand_in("b.md")], (), "request")
    assert await stores.collections.delete("ending")
    assert await stores.documents.find("ending", document_id) is None
    assert await stores.jobs.find(job.job_id) is None
    again = await create(stores, "ending")
    assert again.message.document_count == 0
