"""One of three nodes is killed while searches run: none fails, and none shows what it must not."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from groundline_tests.search_index import ARMS, SearchedIndex, numbered
from groundline_tests.weaviate import Cluster
from groundline_tests.weaviate_search import searched_weaviate

CLIENTS = 4
SEARCHES = 15
"""Of each client, while the node is killed, after that, and when it is back."""


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
    # Until it is ready it may answer with less than it has: a Service sends it no searches before.
    await lost.start()
    await lost.ready()
    await searched()

    assert len(found) == 3 * CLIENTS * SEARCHES
    assert set.union(*found) <= kept
