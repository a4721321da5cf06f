"""The library on a real node: what is written is found by whom it may be, and nothing else is."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import httpx
import numpy as np
import pytest
from groundline_filters import parse
from groundline_lexical import searched_words
from groundline_runtime.errors import FailedPreconditionError, UnavailableError
from groundline_tests.weaviate.nodes import API_KEY, Cluster
from groundline_weaviate import (
    Entry,
    Extent,
    IndexedChunk,
    Space,
    Weaviate,
    classes,
    condition_of,
    open_weaviate,
)
from groundline_weaviate.client import BATCH
from pydantic import AnyHttpUrl, SecretStr

SPACE = Space("tests/fake", 8)
OTHER_SPACE = Space("tests/fake", 4)
NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
VECTORS = np.random.default_rng(7).normal(size=(12, 8)).astype(np.float32)


def chunk(chunk_id: int, **changes: Any) -> IndexedChunk:
    fields: dict[str, Any] = {
        "partition_id": 1,
        "chunk_id": chunk_id,
        "collection_id": "even" if chunk_id % 2 == 0 else "odd",
        "document_id": UUID(int=chunk_id),
        "lexical_text": f"the policies of number{chunk_id}",
        "language": "english",
        "vector": VECTORS[chunk_id],
        "principals": ("ann",) if chunk_id == 3 else (),
        "source_type": "web" if chunk_id == 4 else "file",
        "update_time": NOON + timedelta(days=chunk_id),
        "metadata": {"number": chunk_id, "tags": ["all", f"t{chunk_id}"]},
    }
    return IndexedChunk(**(fields | changes))


@pytest.fixture(scope="module")
async def weaviate(one_node: Cluster) -> AsyncIterator[Weaviate]:
    """Chunks 0 to 9 in partition 1; partition 2, which is shared, has 10 and 11."""
    async with open_weaviate(one_node.settings("Client")) as client:
        await client.create(SPACE)
        await client.create(SPACE)
        chunks = [chunk(number) for number in range(10)]
        assert not await client.write(SPACE, chunks)
        assert not await client.write(SPACE, chunks)
        assert not await client.write(SPACE, [chunk(number, partition_id=2) for number in (10, 11)])
        yield client


async def found(
    weaviate: Weaviate, scope: Extent, *principals: str, filtered: dict[str, Any] | None = None
) -> Sequence[int]:
    """Return the chunks that both arms propose: every one has the word."""
    condition = condition_of(scope, principals, None if filtered is None else parse(filtered))
    words = searched_words("Which policy?", "english")
    by_keyword = await weaviate.keyword(SPACE, words, condition, limit=50)
    by_vector = await weaviate.semantic(SPACE, VECTORS[0], condition, limit=50)
    assert sorted(each.chunk_id for each in by_keyword) == sorted(each.chunk_id for each in by_vector)
    return sorted(each.chunk_id for each in by_vector)


async def test_a_server_that_is_not_there_is_unavailable(one_node: Cluster) -> None:
    settings = one_node.settings().model_copy(update={"grpc_target": "127.0.0.1:1"})
    async with open_weaviate(settings) as client:
        with pytest.raises(UnavailableError) as caught:
            await client.semantic(SPACE, VECTORS[0], condition_of(Extent([1]), [], None), limit=5)
    assert caught.value.reason == "SEARCH_INDEX_UNAVAILABLE"
    assert caught.value.retry_after_seconds


async def test_a_wrong_key_is_refused(one_node: Cluster, weaviate: Weaviate) -> None:
    settings = one_node.settings("Client").model_copy(update={"api_key": SecretStr("wrong")})
    async with open_weaviate(settings) as client:
        with pytest.raises(FailedPreconditionError, match="refused"):
            await client.semantic(SPACE, VECTORS[0], condition_of(Extent([1]), [], None), limit=5)
        with pytest.raises(FailedPreconditionError, match="refused"):
            await client.create(OTHER_SPACE)


@pytest.mark.parametrize(("replication_factor", "shards"), [(3, 1), (2, 3)])
async def test_only_where_some_node_lacks_objects_a_class_has_several_shards(
    three_nodes: Cluster, replication_factor: int, shards: int
) -> None:
    settings = three_nodes.settings(f"Shards{shards}").model_copy(
        update={"replication_factor": replication_factor}
    )
    async with open_weaviate(settings) as client:
        await client.create(SPACE)
    headers = {"authorization": f"Bearer {API_KEY}"}
    async with httpx.AsyncClient(trust_env=False, headers=headers) as http:
        url = f"{settings.http_url}v1/schema/{SPACE.class_name(settings.class_prefix)}"
        created = (await http.get(url)).json()
    assert created["shardingConfig"]["actualCount"] == shards


async def test_an_object_that_does_not_fit_is_named_and_the_others_are_written(weaviate: Weaviate) -> None:
    wrong = chunk(5, partition_id=7, vector=np.ones(3, dtype=np.float32))
    [failure] = await weaviate.write(SPACE, [wrong, chunk(6, partition_id=7)])
    assert (failure.partition_id, failure.chunk_id) == (7, 5)
    assert [entry.chunk_id for entry in await weaviate.entries(SPACE, 7)] == [6]


async def test_of_a_write_of_several_calls_every_object_that_does_not_fit_is_named(
    weaviate: Weaviate,
) -> None:
    count = 2 * BATCH + 1
    misfits = {0, BATCH, count - 1}
    short = np.ones(3, dtype=np.float32)
    objects = (
        replace(chunk(0, partition_id=8, vector=short if number in misfits else VECTORS[0]), chunk_id=number)
        for number in range(count)
    )
    failures = await weaviate.write(SPACE, objects)
    assert {(failure.partition_id, failure.chunk_id) for failure in failures} == {(8, n) for n in misfits}
    written = [entry.chunk_id for entry in await weaviate.entries(SPACE, 8, limit=count)]
    assert written == [number for number in range(count) if number not in misfits]


async def test_what_a_client_that_went_away_left_without_vectors_is_found_when_it_is_written_again(
    one_node: Cluster, weaviate: Weaviate
) -> None:
    words = " ".join(f"word{number}" for number in range(500))
    first = chunk(0, partition_id=19, lexical_text=words)
    chunks = [replace(first, chunk_id=number) for number in range(1, BATCH + 1)]
    async with open_weaviate(one_node.settings("Client")) as other:
        writing = asyncio.create_task(other.write(SPACE, chunks))
        while not await weaviate.entries(SPACE, 19):
            assert not writing.done()
        # Its connection ends, and the node leaves off between the objects and their vectors.
        writing.cancel()
        with suppress(asyncio.CancelledError):
            await writing
    async with open_weaviate(one_node.settings("Client")) as other:
        assert not await other.write(SPACE, chunks)
    everywhere = condition_of(Extent([19]), [], None)
    assert len(await weaviate.semantic(SPACE, VECTORS[0], everywhere, limit=2 * BATCH)) == BATCH


async def test_a_write_does_not_return_while_nobody_can_say_that_its_vectors_are_found(
    one_node: Cluster, weaviate: Weaviate
) -> None:
    settings = one_node.settings("Client").model_copy(
        update={"http_url": AnyHttpUrl("http://127.0.0.1:1"), "timeout_seconds": 1.0}
    )
    async with open_weaviate(settings) as client:
        with pytest.raises(UnavailableError, match="still taking in"):
            await client.write(SPACE, [chunk(1, partition_id=10)])


async def test_a_space_that_nobody_wrote_into_is_empty(weaviate: Weaviate) -> None:
    condition = condition_of(Extent([1]), [], None)
    assert not await weaviate.semantic(OTHER_SPACE, VECTORS[0][:4], condition, limit=5)
    assert not await weaviate.entries(OTHER_SPACE, 1)
    await weaviate.delete(OTHER_SPACE, 1, [1])


async def test_quantized_vectors_find_the_same_by_the_graph(
    one_node: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(classes, "_EXACT_OBJECTS", 0)
    vectors = np.random.default_rng(3).normal(size=(2_000, 64)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    space, everywhere = Space("tests/quantized", 64, is_quantized=True), condition_of(Extent([1]), [], None)
    async with open_weaviate(one_node.settings("Client")) as client:
        await client.create(space)
        new = [replace(chunk(0, vector=vector), chunk_id=n) for n, vector in enumerate(vectors)]
        assert not await client.write(space, new)
        async with asyncio.timeout(60):
            # A busy node may still be taking the last ones in.
            while len(await client.semantic(space, vectors[0], everywhere, limit=2 * len(new))) < len(new):
                pass
        found = 0
        for query in vectors[::100]:
            nearest = set(np.argsort(vectors @ -query)[:50].tolist())
            found += len(
                nearest & {one.chunk_id for one in await client.semantic(space, query, everywhere, limit=50)}
            )
        await client.drop(space)
    assert found >= 0.98 * 50 * len(vectors[::100])


async def test_a_server_that_does_not_quantize_is_refused_and_holds_no_class_for_it(
    one_node: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As one does that does not know of it.
    monkeypatch.setattr(classes, "QUANTIZATION", {"enabled": False})
    space = Space("tests/unquantized", 8, is_quantized=True)
    async with open_weaviate(one_node.settings("Client")) as client:
        for _ in range(2):
            with pytest.raises(FailedPreconditionError, match=r"Weaviate 1\.32") as caught:
                await client.create(space)
            assert caught.value.reason == "SEARCH_INDEX_REFUSED"


async def test_only_what_is_in_scope_and_may_be_read_is_proposed(weaviate: Weaviate) -> None:
    assert await found(weaviate, Extent([1])) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert await found(weaviate, Extent([1]), "ann", "bob") == list(range(10))
    assert await found(weaviate, Extent([], [2], ["odd"])) == [11]
    assert await found(weaviate, Extent([1], [2], ["even"]), "ann") == [*range(10), 10]
    assert await found(weaviate, Extent([9])) == []


@pytest.mark.parametrize(
    ("filtered", "expected"),
    [
        ({"number": 3}, []),
        ({"number": {"$in": [1, 2, 3]}}, [1, 2]),
        ({"number": {"$ne": 2}}, [0, 1, 4, 5, 6, 7, 8, 9]),
        ({"tags": {"$contains": "t5"}}, [5]),
        ({"tags": {"$in": ["t5", "t6"]}}, [5, 6]),
        ({"tags": {"$not": {"$eq": "all"}}}, []),
        ({"number": {"$exists": False}}, []),
        ({"$source_type": "web"}, [4]),
        ({"$document_id": str(UUID(int=8))}, [8]),
        ({"$update_time": {"$gte": "2026-11-29T12:00:00Z"}}, [7, 8, 9]),
        ({"$or": [{"number": 1}, {"$and": [{"tags": {"$contains": "all"}}, {"number": 9}]}]}, [1, 9]),
    ],
)
async def test_what_can_be_said_of_a_filter_holds(
    weaviate: Weaviate, filtered: dict[str, Any], expected: Sequence[int]
) -> None:
    assert await found(weaviate, Extent([1]), filtered=filtered) == expected


async def test_entries_come_in_order_and_end_with_the_partition(weaviate: Weaviate) -> None:
    listed: list[Entry] = []
    while page := await weaviate.entries(SPACE, 1, after=listed[-1].chunk_id if listed else 0, limit=4):
        listed += page
    assert [(each.chunk_id, each.content_hash) for each in listed] == [
        (number, chunk(number).content_hash) for number in range(1, 10)
    ]


async def test_what_is_deleted_is_gone_and_nothing_else(weaviate: Weaviate) -> None:
    await weaviate.write(SPACE, [chunk(number, partition_id=5) for number in range(1, 6)])
    await weaviate.write(SPACE, [chunk(number, partition_id=6) for number in range(1, 3)])
    await weaviate.delete(SPACE, 5, [2, 3, 1_000])
    assert [each.chunk_id for each in await weaviate.entries(SPACE, 5)] == [1, 4, 5]
    await weaviate.delete_partition(SPACE, 5)
    assert not await weaviate.entries(SPACE, 5)
    assert [each.chunk_id for each in await weaviate.entries(SPACE, 6)] == [1, 2]
