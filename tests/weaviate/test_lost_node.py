"""One of three nodes is killed: no search fails or shows what it must not, and nothing is missing later."""

import asyncio
from collections.abc import AsyncIterator

import numpy as np
import pytest
from groundline_indexing.feed.weaviate import WeaviateIndex
from groundline_lexical import searched_words
from groundline_tests.ingestor.search_index import a_chunk, a_partition
from groundline_tests.retriever.search_index import ARMS, SearchedIndex, numbered
from groundline_tests.weaviate.nodes import Cluster
from groundline_tests.weaviate.search import searched_weaviate
from groundline_weaviate import Extent, Space, Weaviate, condition_of, open_weaviate
from pydantic import AnyHttpUrl

CLIENTS = 4
SEARCHES = 15
"""Searches of each client, while the node is killed, after that, and when it is back."""

CAUGHT_UP_SECONDS = 180
"""A bound on hanging: a node that is back has what was written without it in some 30 s."""


@pytest.fixture
async def index(database_url: str, three_nodes: Cluster) -> AsyncIterator[SearchedIndex]:
    async with searched_weaviate(database_url, three_nodes.settings("LostNode")) as searched:
        yield searched


async def test_no_search_fails_or_shows_what_it_must_not_while_a_node_is_lost(
    index: SearchedIndex, three_nodes: Cluster
) -> None:
    public = await index.corpus.collection("lost", numbered(40))
    await index.corpus.add("lost", numbered(20), allowed_principals=["group:board"])
    await index.settle()
    deleted, kept = set(public[:10]), set(public[10:])
    found: list[set[int]] = []

    async def search() -> None:
        for number in range(SEARCHES):
            chunk_ids = await index.ids(ARMS[number % 2], "lease", "lost", principals=["bob"])
            assert len(chunk_ids) == 10
            found.append(set(chunk_ids))

    async def searched(*work: asyncio.Task[None]) -> None:
        async with asyncio.TaskGroup() as clients:
            for _ in range(CLIENTS):
                clients.create_task(search())
        await asyncio.gather(*work)

    lost = three_nodes.nodes[1]
    # The index is not told: whoever answers, the database decides.
    await index.corpus.connection.execute("DELETE FROM chunks WHERE chunk_id = ANY ($1::bigint[])", deleted)
    await searched(asyncio.create_task(lost.kill()))
    await searched()
    await lost.start()
    await lost.ready()
    await searched()

    assert len(found) == 3 * CLIENTS * SEARCHES
    assert set.union(*found) <= kept


async def test_a_leader_that_comes_back_is_given_what_was_written_without_it(three_nodes: Cluster) -> None:
    partition, lost = a_partition(1), await three_nodes.leader()
    other = next(node for node in three_nodes.nodes if node is not lost)
    settings = three_nodes.settings("CameBack").model_copy(
        # As behind an address of ready nodes.
        update={"http_url": AnyHttpUrl(f"http://127.0.0.1:{other.http_port}")}
    )
    own = settings.model_copy(update={"grpc_target": f"127.0.0.1:{lost.grpc_port}"})
    async with open_weaviate(settings) as cluster, open_weaviate(own) as node:
        index = WeaviateIndex(cluster)
        assert not await index.write(partition, [a_chunk(partition, chunk_id) for chunk_id in range(1, 61)])
        async with lost.killed():
            assert not await index.write(
                partition, [a_chunk(partition, chunk_id) for chunk_id in range(61, 101)]
            )

        # Killed as it was, it has what it had; the rest follows.
        assert await fewest_found(node) >= 60
        async with asyncio.timeout(CAUGHT_UP_SECONDS):
            while await fewest_found(node) < 100:  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0.2)


async def fewest_found(node: Weaviate) -> int:
    """Return the smaller number of chunks that an arm finds."""
    space, condition = Space(a_partition(1).embedding_model, 8), condition_of(Extent([1]), [], None)
    words = searched_words("river", "english")
    return min(
        len(await node.keyword(space, words, condition, limit=200)),
        len(await node.semantic(space, np.ones(8, np.float32), condition, limit=200)),
    )
