"""The retriever's index on a real node of Weaviate, whose proposals PostgreSQL decides about."""

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from groundline_retriever.adapters.weaviate import open_weaviate_search
from groundline_retriever.domain import Selection
from groundline_runtime.errors import FailedPreconditionError, UnavailableError
from groundline_tests.retriever.search_index import (
    KeywordContract,
    SearchedIndex,
    SearchIndexContract,
    numbered,
)
from groundline_tests.weaviate.nodes import Cluster
from groundline_tests.weaviate.search import LAG_SECONDS, searched_weaviate
from pydantic import SecretStr


@pytest.fixture(scope="module")
async def index(database_url: str, one_node: Cluster) -> AsyncIterator[SearchedIndex]:
    async with searched_weaviate(database_url, one_node.settings("Index")) as searched:
        yield searched


@asynccontextmanager
async def waiting_changes(index: SearchedIndex, seconds: Mapping[str, float]) -> AsyncIterator[None]:
    """Record a change in each of the collections that has waited this long."""
    connection = index.corpus.connection
    for name, waited in seconds.items():
        await connection.execute(
            "INSERT INTO search_index_changes (partition_id, chunk_id, change_time) "
            "VALUES ($1, 1, clock_timestamp() - make_interval(secs => $2))",
            await index.corpus.partition(name),
            waited,
        )
    yield
    await connection.execute("DELETE FROM search_index_changes")


class TestWeaviateSearch(SearchIndexContract):
    pass


class TestWeaviateKeywords(KeywordContract):
    pass


@pytest.mark.parametrize("arm", ["keyword", "semantic"])
class TestLateness:
    async def test_a_collection_that_is_not_fed_is_behind(self, index: SearchedIndex, arm: str) -> None:
        await index.corpus.collection(f"unfed-{arm}", numbered(2))
        found = await index.find(arm, "lease", f"unfed-{arm}")
        assert found.behind == [f"unfed-{arm}"]
        assert not any(found.lists)

    async def test_what_waits_longer_than_allowed_makes_its_collection_behind(
        self, index: SearchedIndex, arm: str
    ) -> None:
        late, prompt = f"late-{arm}", f"prompt-{arm}"
        for name in (late, prompt):
            await index.corpus.collection(name, numbered(2))
        await index.settle()
        async with waiting_changes(index, {late: LAG_SECONDS + 60, prompt: LAG_SECONDS - 1}):
            found = await index.find(arm, "lease", late, prompt)
        assert found.behind == [late]
        assert sum(map(len, found.lists)) == 4

    async def test_a_collection_that_was_complete_is_behind_when_a_change_has_waited_too_long_since(
        self, index: SearchedIndex, arm: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        name = f"complete-{arm}"
        await index.corpus.collection(name, numbered(2))
        await index.settle()
        assert not (await index.find(arm, "lease", name)).behind
        async with waiting_changes(index, {name: LAG_SECONDS + 60}):
            later = SimpleNamespace(monotonic=lambda: time.monotonic() + LAG_SECONDS)
            monkeypatch.setattr("groundline_retriever.adapters.weaviate.time", later)
            assert (await index.find(arm, "lease", name)).behind == [name]
        assert not (await index.find(arm, "lease", name)).behind

    async def test_who_names_a_position_is_told_of_any_change_that_waits(
        self, index: SearchedIndex, arm: str
    ) -> None:
        name = f"position-{arm}"
        await index.corpus.collection(name, numbered(2))
        await index.settle()
        collections = await index.store.collections([name], ())
        if arm == "keyword":
            selection = Selection((), min_position="0/1")
            find = partial(index.index.keyword, collections, "lease", limit=5, selection=selection)
            assert not (await find()).behind
            async with waiting_changes(index, {name: 0}):
                assert (await find()).behind == [name]

    async def test_more_that_may_be_there_is_said(
        self, index: SearchedIndex, arm: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        name = f"short-{arm}"
        await index.corpus.collection(name, numbered(40))
        await index.settle()
        monkeypatch.setattr("groundline_retriever.adapters.weaviate.MAX_PROPOSALS", 20)
        found = await index.find(arm, "lease", name, filtered={"rank": {"$gt": 1}})
        assert found.is_incomplete


async def test_without_an_engine_searches_are_unavailable_and_say_when_to_try_again(
    index: SearchedIndex, one_node: Cluster
) -> None:
    await index.corpus.collection("engine", numbered(2))
    gone = one_node.settings().model_copy(update={"grpc_target": "127.0.0.1:1"})
    store: Any = index.store
    async with open_weaviate_search(gone, store, max_lag_seconds=LAG_SECONDS) as lost:
        for arm in ("keyword", "semantic"):
            with pytest.raises(UnavailableError) as caught:
                await SearchedIndex(index.corpus, store, lost, index.settle).find(arm, "lease", "engine")
            assert caught.value.reason == "SEARCH_INDEX_UNAVAILABLE"
            assert caught.value.retry_after_seconds


async def test_a_wrong_key_is_told_at_the_start(index: SearchedIndex, one_node: Cluster) -> None:
    wrong = one_node.settings().model_copy(update={"api_key": SecretStr("wrong")})
    store: Any = index.store
    with pytest.raises(FailedPreconditionError, match="refused"):
        async with open_weaviate_search(wrong, store, max_lag_seconds=LAG_SECONDS):
            pass
