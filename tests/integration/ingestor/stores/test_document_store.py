"""Documents, their texts and their chunks, as they are stored."""

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from google.protobuf import json_format
from groundline.v1 import collection_pb2, document_pb2, job_pb2
from groundline_contracts.times import moment
from groundline_database import Pool, acquire
from groundline_extraction.documents import GivenDocument
from groundline_extraction.texts import TextSegment
from groundline_filters import parse
from groundline_indexing.collections import StoredCollection
from groundline_indexing.documents import HandedIn
from groundline_indexing.partitions import chunk_table
from groundline_indexing.texts import PreparedChunk, Section
from groundline_ingestor.adapters.postgres.stores import Stores
from groundline_ingestor.domain.documents import DocumentKey, DocumentOrder
from groundline_ingestor.domain.work import NewVersion
from groundline_runtime.errors import AbortedError, NotFoundError, PermissionDeniedError, UnavailableError
from groundline_tests.ingestor.messages import a_version
from groundline_tests.ingestor.stores import (
    CRAWL,
    DIMENSIONS,
    a_hand_in,
    a_new,
    create,
    lease,
    listed,
    refusal,
    store,
    texts_of,
)


async def test_a_document_of_a_collection_that_is_gone_is_refused(stores: Stores) -> None:
    collection = await create(stores, "gone")
    await stores.collections.delete("gone")
    for call in (
        store(stores, collection, "a.md", "text"),
        stores.versions.refresh(collection, a_version("a.md", "text"), ()),
        stores.documents.delete(collection, str(uuid.uuid4())),
        stores.jobs.enqueue(collection, [a_hand_in("a.md")], (), ""),
        stores.crawls.enqueue(collection, CRAWL, (), ""),
    ):
        assert await refusal(call) is NotFoundError


async def test_chunks_for_a_partition_no_longer_in_use_are_refused(stores: Stores) -> None:
    collection = await create(stores, "reindexed")
    old = replace(collection, partition_id=collection.partition_id + 1000)
    assert await refusal(store(stores, old, "a.md", "text")) is AbortedError


async def test_a_document_is_created_and_then_replaced(stores: Stores, pool: Pool) -> None:
    collection = await create(stores, "docs")
    created_id, created = await store(stores, collection, "a.md", "one", "two", "three")
    before = await stores.documents.find("docs", created_id)
    updated_id, updated = await store(stores, collection, "a.md", "four", "five")
    after = await stores.documents.find("docs", created_id)
    assert (created, updated) == (job_pb2.INGESTION_OUTCOME_CREATED, job_pb2.INGESTION_OUTCOME_UPDATED)
    assert updated_id == created_id
    assert before is not None
    assert after is not None
    assert (after.chunk_count, after.state) == (2, document_pb2.INGESTION_STATE_DONE)
    assert after.create_time == before.create_time
    assert moment(after.update_time) > moment(before.update_time)
    assert await texts_of(pool, collection, created_id) == ["four", "five"]


async def test_the_same_uri_stored_at_once_holds_one_of_the_texts(stores: Stores, pool: Pool) -> None:
    collection = await create(stores, "race")
    texts = [[f"{letter}{number}" for number in range(3)] for letter in "abcdef"]
    stored = await asyncio.gather(*(store(stores, collection, "same.md", *text) for text in texts))
    assert len({document_id for document_id, _ in stored}) == 1
    assert [outcome for _, outcome in stored].count(job_pb2.INGESTION_OUTCOME_CREATED) == 1
    assert await texts_of(pool, collection, stored[0][0]) in texts


async def test_nothing_is_refreshed_of_another_content(stores: Stores) -> None:
    collection = await create(stores, "other")
    assert await stores.versions.refresh(collection, a_version("a.md", "old"), ()) is None
    await store(stores, collection, "a.md", "old")
    assert await stores.versions.refresh(collection, a_version("a.md", "new"), ()) is None


async def test_a_document_that_the_caller_may_not_read_is_not_replaced(stores: Stores, pool: Pool) -> None:
    collection = await create(stores, "restricted")
    secret = replace(a_version("a.md", "secret"), allowed_principals=("user:ann",))
    [(document_id, _)] = await stores.versions.store(collection, [a_new(secret, "secret")])
    before = await stores.documents.find("restricted", document_id)
    for principals in ((), ("user:bob",)):
        other = replace(a_new(a_version("a.md", "mine"), "mine"), principals=principals)
        for call in (
            stores.versions.store(collection, [a_new(a_version("b.md", "b"), "b"), other]),
            stores.versions.refresh(collection, a_version("a.md", "mine"), principals),
            stores.versions.refresh(collection, a_version("a.md", "secret"), principals),
        ):
            assert await refusal(call) is PermissionDeniedError
    assert await stores.documents.find("restricted", document_id) == before
    assert await texts_of(pool, collection, document_id) == ["secret"]
    assert [one.uri for one in await listed(stores, collection.collection_id)] == []

    own = replace(a_new(a_version("a.md", "open"), "open"), principals=("user:ann",))
    assert await stores.versions.store(collection, [own]) == [
        (document_id, job_pb2.INGESTION_OUTCOME_UPDATED)
    ]


async def test_a_deleted_document_leaves_nothing(stores: Stores, pool: Pool) -> None:
    collection = await create(stores, "deleting")
    other_id, _ = await store(stores, collection, "b.md", "stays")
    document_id, _ = await store(stores, collection, "a.md", "one", "two")
    assert await stores.documents.delete(collection, document_id)
    assert not await stores.documents.delete(collection, document_id)
    assert await stores.documents.find("deleting", document_id) is None
    assert await texts_of(pool, collection, document_id) == []
    assert await texts_of(pool, collection, other_id) == ["stays"]


async def test_what_a_filter_selects_is_deleted_and_nothing_else(stores: Stores) -> None:
    collection = await create(stores, "selecting")
    other = await create(stores, "other-selecting")
    metadata: dict[str, dict[str, Any]] = {
        "a": {"year": 2020, "team": {"name": "red"}, "tags": ["draft", 1]},
        "b": {"year": 2021, "team": {"name": "blue"}, "tags": []},
        "c": {"year": "2021"},
        "d": {},
    }
    for into in (collection, other):
        for uri, values in metadata.items():
            version = replace(a_version(uri, uri), metadata=values)
            await stores.versions.store(into, [a_new(version, uri)])

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
    assert [one.uri for one in await listed(stores, collection.collection_id)] == ["d"]
    [left] = await listed(stores, collection.collection_id)
    assert await delete({"$document_id": left.document_id}) == 1
    assert len(await listed(stores, other.collection_id)) == 4


async def test_a_filter_selects_only_what_the_caller_may_read(stores: Stores) -> None:
    collection = await create(stores, "private-selecting")
    version = replace(a_version("a", "a"), allowed_principals=("user:ann",))
    await stores.versions.store(collection, [a_new(version, "a")])
    everything = parse({"$source_type": "file"})
    for principals, count in (((), 0), (("user:bob",), 0), (("user:ann",), 1)):
        assert await stores.documents.count_selected(collection, everything, principals) == count
        assert await stores.documents.delete_selected(collection, everything, principals, "") == count


async def test_the_same_request_deletes_once(stores: Stores) -> None:
    collection = await create(stores, "deleting-once")
    files = parse({"$source_type": "file"})
    await store(stores, collection, "a", "one")
    deletions = [stores.documents.delete_selected(collection, files, (), "same") for _ in range(3)]
    assert list(await asyncio.gather(*deletions)) == [1, 1, 1]
    await store(stores, collection, "b", "two")
    assert await stores.documents.delete_selected(collection, files, (), "same") == 1
    assert len(await listed(stores, collection.collection_id)) == 1
    assert await stores.documents.delete_selected(collection, files, (), "another") == 1


async def test_documents_are_listed_by_uri_to_those_who_may_read_them(stores: Stores) -> None:
    collection = await create(stores, "listed")
    for uri, principals in (("c", ()), ("a", ("user:ann",)), ("b", ())):
        version = replace(a_version(uri, uri), allowed_principals=principals)
        await stores.versions.store(collection, [a_new(version, uri)])

    async def seen(*principals: str, after: DocumentKey | None = None, limit: int = 10) -> list[str]:
        found = await listed(stores, "listed", *principals, after=after, limit=limit)
        return [document.uri for document in found]

    assert await seen() == ["b", "c"]
    assert await seen("user:ann") == ["a", "b", "c"]
    assert await seen("user:ann", after=("a", "a"), limit=1) == ["b"]


async def test_documents_are_listed_in_the_order_asked_for_page_by_page(stores: Stores) -> None:
    collection = await create(stores, "ordered")
    for uri, title, content in (("1", "b", "xx"), ("2", "a", "xxx"), ("3", "b", "x")):
        version = replace(a_version(uri, content), title=title)
        await stores.versions.store(collection, [a_new(version, content)])

    async def seen(order_by: str) -> str:
        order, place, uris = DocumentOrder.of(order_by), None, ""
        while found := await listed(stores, "ordered", order=order, after=place, limit=2):
            uris += "".join(document.uri for document in found)
            place = order.key_of(found[-1])
        return uris

    assert await seen("title") == "213"
    assert await seen("title desc") == "312"
    assert await seen("size_bytes") == "312"
    assert await seen("create_time desc") == await seen("update_time desc") == "321"
    assert await seen("mime_type") == await seen("uri") == "123"


async def test_documents_are_listed_by_what_names_them(stores: Stores) -> None:
    collection = await create(stores, "named")
    for uri, title, mime_type in (
        ("leave/annual.md", "Annual", "text/markdown"),
        ("leave/sick.pdf", "Sick", "application/pdf"),
        ("leave_old.pdf", "Annual", "application/pdf"),
    ):
        version = replace(a_version(uri, uri), title=title, mime_type=mime_type)
        await stores.versions.store(collection, [a_new(version, uri)])

    async def seen(**conditions: Any) -> list[str]:
        selection = parse({f"${name}": condition for name, condition in conditions.items()})
        return [one.uri for one in await listed(stores, "named", selection=selection)]

    assert await seen(uri="leave/sick.pdf") == ["leave/sick.pdf"]
    assert await seen(uri={"$prefix": "leave/"}) == ["leave/annual.md", "leave/sick.pdf"]
    assert await seen(uri={"$prefix": "leave_"}) == ["leave_old.pdf"]
    assert await seen(title="Annual", mime_type={"$ne": "text/markdown"}) == ["leave_old.pdf"]
    assert await seen(mime_type={"$nin": ["application/pdf", "text/markdown"]}) == []
    assert await seen(create_time={"$gt": "2000-01-01"}, uri={"$in": ["leave_old.pdf", "x"]}) == [
        "leave_old.pdf"
    ]
    assert await seen(create_time={"$lt": "2000-01-01"}) == []


async def test_a_part_of_a_text_is_counted_in_code_points(stores: Stores) -> None:
    collection = await create(stores, "texts")
    parts = [TextSegment("ä😀b"), TextSegment("cd", 3), TextSegment("é", 5)]
    new = replace(a_new(a_version("a", "a"), "ä😀b"), segments=parts)
    [(document_id, _)] = await stores.versions.store(collection, [new])

    async def read(start: int, limit: int, *principals: str) -> tuple[str, int]:
        part = await stores.revisions.text("texts", document_id, principals, "", start=start, limit=limit)
        return part.text, part.character_count

    assert await read(0, 100) == ("ä😀bcdé", 6)
    assert await read(1, 3) == ("😀bc", 6)
    assert await read(3, 1) == ("c", 6)
    assert await read(5, 2**31 - 1) == ("é", 6)
    assert await read(6, 5) == await read(2**31 - 1, 5) == ("", 6)


async def test_an_original_is_kept_where_the_collection_says_so(stores: Stores) -> None:
    collection = await create(stores, "originals")
    keeping = collection_pb2.Collection()
    keeping.CopyFrom(collection.message)
    keeping.settings.keep_originals = True
    keeping_collection = StoredCollection(keeping, collection.partition_id)
    version = replace(a_version("a.md", "a.md"), allowed_principals=("user:ann",))

    async def ingested(into: StoredCollection) -> document_pb2.Document:
        await stores.jobs.enqueue(
            into, [HandedIn(GivenDocument("a.md", uri="a.md"), version)], ("user:ann",), ""
        )
        [item] = await lease(stores)
        stored = await stores.versions.refresh(into, version, ("user:ann",), item.claim)
        if stored is None:
            new = replace(a_new(version, "text"), claim=item.claim, principals=("user:ann",))
            [stored] = await stores.versions.store(into, [new])
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
    replaced = a_new(replace(version, content_hash=b"b", ingestion_hash=b"b"), "b")
    await stores.versions.store(collection, [replace(replaced, principals=("user:ann",))])
    assert await part(document, "user:ann") is None
    found = await stores.documents.find("originals", document.document_id)
    assert found is not None
    assert not found.has_original


async def test_texts_and_chunks_are_read_by_those_who_may_read_the_document(stores: Stores) -> None:
    collection = await create(stores, "private")
    version = replace(a_version("a", "a"), allowed_principals=("user:ann",), metadata={"year": 2024})
    [(document_id, _)] = await stores.versions.store(collection, [a_new(version, "one", "two", "three")])

    async def chunks(*principals: str, after: int = -1) -> list[tuple[int, str]]:
        found = await stores.documents.chunks(collection, document_id, principals, after=after, limit=2)
        return [(chunk.chunk_index, chunk.text) for chunk in found]

    assert await chunks() == []
    assert (await stores.revisions.text("private", document_id, (), "")).character_count == 0
    assert await chunks("user:ann") == [(0, "one"), (1, "two")]
    assert await chunks("user:ann", after=1) == [(2, "three")]
    [chunk, *_] = await stores.documents.chunks(collection, document_id, ("user:ann",), after=-1, limit=1)
    assert (chunk.document_id, chunk.uri, chunk.collection_id) == (document_id, "a", "private")
    assert json_format.MessageToDict(chunk.metadata) == {"year": 2024}
    assert (chunk.start_offset, chunk.end_offset) == (0, 3)


async def test_a_lost_database_is_unavailable_and_names_no_host(pool: Pool) -> None:
    with pytest.raises(UnavailableError) as raised:
        async with acquire(pool) as connection:
            await connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")
    assert raised.value.reason == "DATABASE_UNAVAILABLE"
    assert raised.value.message == "the database cannot be reached (ConnectionDoesNotExistError)"


async def test_a_chunks_page_is_metadata_unless_the_document_has_such(stores: Stores, pool: Pool) -> None:
    collection = await create(stores, "pages")
    version = a_version("a.pdf", "1", mime_type="application/pdf")
    chunks = [PreparedChunk(Section("text", 0, 4), "", "text", b"", page) for page in (1, 2)]

    async def stored_metadata() -> Sequence[object]:
        async with acquire(pool) as connection:
            rows = await connection.fetch(
                f"SELECT metadata FROM {chunk_table(collection.partition_id)} ORDER BY chunk_index"
            )
        return [row["metadata"] for row in rows]

    vectors = np.ones((2, DIMENSIONS), np.float16)
    await stores.versions.store(collection, [NewVersion(version, chunks, vectors, [TextSegment("text")])])
    assert await stored_metadata() == [{"page": 1}, {"page": 2}]
    await stores.versions.refresh(collection, replace(version, metadata={"team": "ops"}), ())
    assert await stored_metadata() == [{"page": 1, "team": "ops"}, {"page": 2, "team": "ops"}]
    await stores.versions.refresh(collection, replace(version, metadata={"page": "cover"}), ())
    assert await stored_metadata() == [{"page": "cover"}] * 2
    await stores.versions.refresh(collection, version, ())
    assert await stored_metadata() == [{}] * 2


async def test_figures_of_a_dropped_partition_are_asked_for_again(stores: Stores, pool: Pool) -> None:
    collection = await create(stores, "dropped")
    gone = replace(collection, partition_id=collection.partition_id + 100_000)
    with pytest.raises(AbortedError) as raised:
        await stores.documents.stats(gone, ())
    assert raised.value.reason == "COLLECTION_CHANGED"
