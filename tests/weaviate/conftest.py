"""Real nodes of Weaviate for the session: one for most tests, three for those of faults."""

from collections.abc import AsyncIterator

import pytest
from groundline_tests.weaviate.nodes import Cluster, weaviate_nodes


@pytest.fixture(scope="session")
async def one_node(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    """Tests keep apart by the prefix of their classes."""
    async with weaviate_nodes(1, tmp_path_factory.mktemp("one-node")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
async def three_nodes(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    """Every object is on all of them. Who kills a node starts it again."""
    async with weaviate_nodes(3, tmp_path_factory.mktemp("three-nodes")) as cluster:
        yield cluster
