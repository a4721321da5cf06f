"""Contract of every SearchIndex, as tests, and the index that they are run on.

Subclass in a test module and give the class an `index` fixture, made of `corpus`, that is a `SearchedIndex`:

    class TestMyIndex(SearchIndexContract):
        @pytest.fixture(scope="module")
        async def index(self, corpus): ...
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pytest
from groundline.v1 import options_pb2
from groundline_filters import parse
from groundline_retriever.domain import Hits, Selection
from groundline_retriever.ports import ChunkStore, SearchIndex
from groundline_tests.retriever.corpus import Corpus

LIMIT: Final = 10
ARMS: Final = ("keyword", "semantic")


@dataclass(frozen=True, slots=True)
class SearchedIndex:
    """An index with its corpus. `settle` waits until it knows everything that was written."""

    corpus: Corpus
    store: ChunkStore
    index: SearchIndex
    settle: Callable[[], Awaitable[None]]

    async def find(
        self,
        arm: str,
        query: str,
        *collection_ids: str,
        principals: Sequence[str] = (),
        filtered: Mapping[str, Any] | None = None,
        limit: int = LIMIT,
    ) -> Hits:
        """Return the results of one arm in the collections."""
        collections = await self.store.collections(collection_ids, principals)
        assert len(collections) == len(collection_ids)
        selection = Selection(principals, None if filtered is None else parse(dict(filtered)))
        if arm == "keyword":
            return await self.index.keyword(collections, query, limit=limit, selection=selection)
        return await self.index.semantic(
            collections,
            await self.corpus.embedder.embed_query(query),
            limit=limit,
            ef_search=100,
            iterative_scan=options_pb2.ITERATIVE_SCAN_STRICT_ORDER,
            selection=selection,
        )

    async def ids(self, arm: str, query: str, *collection_ids: str, **options: Any) -> list[int]:
        """Return the ids of the results, in the order of rank if there is one list."""
        hits = await self.find(arm, query, *collection_ids, **options)
        assert not hits.behind
        assert not hits.unsound
        return [hit.chunk_id for found in hits.lists for hit in found]


def numbered(count: int, word: str = "lease") -> list[str]:
    """Return texts that all match, the first one best."""
    return [f"The {word} of replica {number}" + " and its followers" * number for number in range(count)]


@pytest.mark.parametrize("arm", ARMS)
class SearchIndexContract:
    async def test_what_the_index_still_has_and_the_database_has_not_is_never_found(
        self, index: SearchedIndex, arm: str
    ) -> None:
        name = f"deleted-{arm}"
        chunk_ids = await index.corpus.collection(name, numbered(30))
        await index.settle()
        best = await index.ids(arm, "lease", name)
        await index.corpus.connection.execute(
            "DELETE FROM chunks WHERE chunk_id = ANY ($1::bigint[])", best[: LIMIT - 2]
        )
        found = await index.ids(arm, "lease", name)
        assert not set(found) & set(best[: LIMIT - 2])
        assert len(set(found)) == LIMIT
        assert set(found) <= set(chunk_ids)

    async def test_what_was_hidden_a_moment_ago_is_never_found(self, index: SearchedIndex, arm: str) -> None:
        name = f"hidden-{arm}"
        await index.corpus.collection(name, numbered(30))
        await index.settle()
        best = await index.ids(arm, "lease", name)
        await index.corpus.connection.execute(
            "UPDATE chunks SET allowed_principals = '{ann}' WHERE chunk_id = ANY ($1::bigint[])", best
        )
        assert not set(await index.ids(arm, "lease", name, principals=["bob"])) & set(best)
        assert len(await index.ids(arm, "lease", name, principals=["bob"])) == LIMIT

    async def test_what_may_not_be_read_takes_no_place(self, index: SearchedIndex, arm: str) -> None:
        name = f"access-{arm}"
        await index.corpus.collection(name)
        secret = await index.corpus.add(name, numbered(40), allowed_principals=["group:board"])
        public = await index.corpus.add(name, numbered(12))
        await index.settle()
        assert set(await index.ids(arm, "lease", name, principals=["bob"])) <= set(public)
        assert len(await index.ids(arm, "lease", name)) == LIMIT
        everything = await index.ids(arm, "lease", name, principals=["group:board"], limit=100)
        assert set(everything) == {*secret, *public}

    @pytest.mark.parametrize(
        ("filtered", "expected"),
        [
            ({"team": "hr"}, 3),
            ({"team": {"$ne": "hr"}}, LIMIT),
            ({"team": {"$in": ["hr", "it"]}, "rank": {"$gte": 1}}, 5),
            ({"tags": {"$contains": "new"}}, 3),
            ({"tags": "new"}, 3),
            ({"tags": {"$nin": ["old", "x"]}}, LIMIT),
            ({"tags": {"$regex": "^n.w$"}}, 3),
            ({"team": {"$prefix": "i"}}, 2),
            ({"team": {"$not": {"$regex": "^(hr|it)$"}}}, LIMIT),
            ({"rank": {"$lt": 0}}, 0),
            ({"$title": "Handbook"}, 3),
            ({"$not": {"$uri": {"$prefix": "notes/"}}}, 0),
        ],
        ids=str,
    )
    async def test_a_filter_holds_and_leaves_no_list_short(
        self, index: SearchedIndex, arm: str, filtered: Mapping[str, Any], expected: int
    ) -> None:
        name = f"filtered-{arm}"
        if not await index.store.collections([name], ()):
            await index.corpus.collection(name, numbered(60))
            hr = {"team": "hr", "rank": 1, "tags": ["new", "old"]}
            await index.corpus.add(name, numbered(3), metadata=hr, title="Handbook")
            await index.corpus.add(name, numbered(2), metadata={"team": "it", "rank": 2.5})
            await index.settle()
        found = await index.find(arm, "lease", name, filtered=filtered)
        assert [len(hits) for hits in found.lists] in ([expected], [expected, 0])
        assert not found.is_incomplete

    async def test_of_a_shared_partition_only_the_collections_named_are_searched(
        self, index: SearchedIndex, arm: str
    ) -> None:
        names = [f"shared-{arm}-{number}" for number in range(4)]
        chunk_ids = {name: await index.corpus.collection(name, numbered(3), is_shared=True) for name in names}
        await index.corpus.collection(f"beside-{arm}", numbered(3))
        await index.settle()
        alone = await index.ids(arm, "lease", names[0])
        assert set(alone) == set(chunk_ids[names[0]])
        found = await index.ids(arm, "lease", names[1], names[2])
        assert set(found) == {*chunk_ids[names[1]], *chunk_ids[names[2]]}
        beside = await index.ids(arm, "lease", names[0], f"beside-{arm}")
        assert len(beside) == 6

    async def test_the_best_come_first_with_what_ranking_needs(self, index: SearchedIndex, arm: str) -> None:
        name = f"ranked-{arm}"
        texts = ["Bread is baked at noon", "The replica renews its lease", "A lease", "Noon"]
        chunk_ids = await index.corpus.collection(name, texts)
        await index.settle()
        [hits] = (await index.find(arm, "renews its lease", name)).lists
        assert hits[0].chunk_id == chunk_ids[1]
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        assert hits[0].collection_id == name
        assert hits[0].signature
        assert hits[0].update_seconds > 0

    async def test_what_a_reindex_builds_is_found_once_the_collection_is_there(
        self, index: SearchedIndex, arm: str
    ) -> None:
        name, built = f"moved-{arm}", f"built-{arm}"
        old = await index.corpus.collection(name, numbered(3))
        new = await index.corpus.collection(built, numbered(3))
        await index.settle()
        assert set(await index.ids(arm, "lease", name)) == set(old)
        async with index.corpus.connection.transaction():
            await index.corpus.connection.execute(
                "UPDATE chunks SET collection_id = $1 WHERE collection_id = $2", name, built
            )
            await index.corpus.connection.execute(
                """
                UPDATE collections SET partition_id = other.partition_id
                FROM collections other WHERE collections.collection_id = $1 AND other.collection_id = $2
                """,
                name,
                built,
            )
        assert set(await index.ids(arm, "lease", name)) == set(new)


class KeywordContract:
    """Contract of words, for the keyword arm."""

    async def test_a_query_of_stop_words_finds_nothing(self, index: SearchedIndex) -> None:
        await index.corpus.collection("stop", ["What is the lease"])
        await index.settle()
        assert await index.ids("keyword", "what is the", "stop") == []

    async def test_inflections_and_parts_of_names_are_found(self, index: SearchedIndex) -> None:
        texts = ["All policies apply", "parseConfig reads it", "Nothing else"]
        [policies, name, _] = await index.corpus.collection("words", texts)
        await index.settle()
        assert await index.ids("keyword", "Which policy?", "words") == [policies]
        assert await index.ids("keyword", "the config", "words") == [name]

    async def test_a_language_has_its_own_stems(self, index: SearchedIndex) -> None:
        [chunk_id] = await index.corpus.collection("deutsch", ["Die Häuser der Stadt"], language="german")
        await index.corpus.collection("english-too", ["The policies of towns"])
        await index.settle()
        assert await index.ids("keyword", "Haus", "deutsch", "english-too") == [chunk_id]
