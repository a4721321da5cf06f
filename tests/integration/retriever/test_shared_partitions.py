"""Small collections share a partition: a search finds what is theirs, shows nothing of others, and is one."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from groundline.v1 import reranker_service_pb2
from groundline.v1 import retriever_service_pb2 as pb
from groundline_database import DatabaseSettings
from groundline_ranking import ArmHits
from groundline_retriever.adapters.postgres import semantic, terms
from groundline_retriever.adapters.postgres.indexes import EXACT_COLLECTIONS, Index, RowCondition
from groundline_retriever.adapters.postgres.store import open_chunk_store
from groundline_retriever.domain import Selection
from pydantic import SecretStr

LEASES = "A replica that lost its lease stops serving reads."
LEADER = "The leader renews the lease of every replica."
BREAD = "Bake the bread until the crust is dark brown."
SECRET = "The lease of the merger closes on Friday."

KEYWORD, SEMANTIC = reranker_service_pb2.SEARCH_ARM_KEYWORD, reranker_service_pb2.SEARCH_ARM_SEMANTIC
SMALL = 120
"""Collections beside; more than are searched exactly."""


@pytest.fixture(scope="module", autouse=True)
async def library(corpus: Any) -> None:
    await corpus.collection("leases", [LEASES, LEADER], is_shared=True)
    await corpus.collection("bread", [BREAD], is_shared=True)
    await corpus.collection("board", [SECRET], readers=["group:board"], is_shared=True)
    await corpus.collection("alone", [f"{LEASES} Alone."])
    for number in range(SMALL):
        await corpus.collection(f"small-{number}", [f"Lease number {number} of a replica."], is_shared=True)


def collections_found(found: Sequence[ArmHits], arm: int) -> set[str]:
    return {hit.collection_id for each in found if each.arm == arm for hit in each.hits}


async def test_a_collection_that_may_not_be_read_is_never_found_beside_others(search_arms: Any) -> None:
    for principals, expected in (("user:eve", False), ("group:board", True)):
        everything = await search_arms(query="merger closes on Friday", principals=[principals])
        assert ("board" in collections_found(everything, KEYWORD)) is expected
        assert ("board" in collections_found(everything, SEMANTIC)) is expected


async def test_only_the_collections_named_are_found(search_arms: Any) -> None:
    one = await search_arms("leases")
    assert collections_found(one, KEYWORD) == collections_found(one, SEMANTIC) == {"leases"}
    some = await search_arms("leases", "bread", "small-7")
    assert collections_found(some, KEYWORD) == {"leases", "small-7"}
    assert collections_found(some, SEMANTIC) == {"leases", "bread", "small-7"}
    none_of_it = await search_arms("bread")
    assert collections_found(none_of_it, KEYWORD) == set()


async def test_everything_is_searched_at_the_cost_of_its_partitions(search_arms: Any) -> None:
    everything = await search_arms()
    expected = {"leases", "alone", *(f"small-{number}" for number in range(SMALL))}
    assert collections_found(everything, KEYWORD) == expected
    assert collections_found(everything, SEMANTIC) == expected | {"bread"}
    arms = [each.arm for each in everything]
    assert (arms.count(KEYWORD), arms.count(SEMANTIC)) == (2, 2), "one list for each partition"


@pytest.mark.parametrize("collection_ids", [("leases",), ()], ids=["one", "all"])
async def test_the_limit_is_filled_by_the_findable(search_arms: Any, collection_ids: tuple[str, ...]) -> None:
    found = await search_arms(*collection_ids, limit=2)
    assert all(len(each.hits) <= 2 for each in found)
    assert sum(len(each.hits) == 2 for each in found) >= 2


type Shown = list[tuple[int, float]]


@pytest.fixture
async def keyword_hits(database_url: str, corpus: Any) -> Callable[..., Awaitable[Shown]]:
    """Return a function that searches one collection by keyword on a store without caches."""

    async def search(collection_id: str, query: str, principals: Sequence[str] = ()) -> Shown:
        settings = DatabaseSettings(database_url=SecretStr(database_url))
        async with open_chunk_store(settings) as store:
            collections = await store.collections([collection_id], principals)
            found = await store.keyword(collections, query, limit=50, selection=Selection(list(principals)))
        assert not found.is_incomplete
        return [(hit.chunk_id, hit.score) for hits in found.lists for hit in hits]

    return search


@pytest.mark.parametrize("counted", [terms.FEW_CHUNKS, 2], ids=["all scored", "proposals scored"])
async def test_what_others_store_changes_neither_scores_nor_order(
    corpus: Any, keyword_hits: Any, monkeypatch: pytest.MonkeyPatch, counted: int
) -> None:
    monkeypatch.setattr(terms, "FEW_CHUNKS", counted)
    name, other = f"mine-{counted}", f"theirs-{counted}"
    texts = [f"Zyxwonk {LEASES}", f"Quxflim {LEADER}", BREAD, "The lease of the Zyxwonk mill.", SECRET]
    await corpus.collection(name, texts, is_shared=True)
    before = await keyword_hits(name, "lease of Zyxwonk or Quxflim")
    assert len(before) == 4
    await corpus.collection(
        other,
        ["Zyxwonk baked a loaf."] * 40 + [f"{LEASES} {SECRET}"] * 40,
        readers=["user:x"],
        is_shared=True,
    )
    assert await keyword_hits(name, "lease of Zyxwonk or Quxflim") == before


async def test_a_word_is_as_rare_as_it_is_in_what_the_caller_searches(corpus: Any, keyword_hits: Any) -> None:
    await corpus.collection("probe", ["Zyxwonk", "Quxflim"], is_shared=True)
    [(_, hidden_word)] = await keyword_hits("probe", "Zyxwonk")
    [(_, unknown_word)] = await keyword_hits("probe", "Quxflim")
    assert hidden_word == unknown_word


async def test_rows_of_an_earlier_release_are_found_by_the_index(corpus: Any, keyword_hits: Any) -> None:
    ids = await corpus.collection("of-before", [LEASES, BREAD], is_shared=True)
    await corpus.connection.execute(
        "UPDATE chunks SET lexical_terms = NULL WHERE chunk_id = ANY ($1::bigint[])", ids
    )
    found = await keyword_hits("of-before", "lease of a replica")
    assert [chunk_id for chunk_id, _ in found] == ids[:1]


async def test_chunks_of_several_collections_of_a_partition_are_read_together(
    stub: Any, search_arms: Any, corpus: Any
) -> None:
    wanted: dict[str, list[int]] = {}
    for hit in {
        hit.chunk_id: hit for each in await search_arms("leases", "bread", "small-1") for hit in each.hits
    }.values():
        wanted.setdefault(hit.collection_id, []).append(hit.chunk_id)
    hidden = await corpus.connection.fetchval("SELECT chunk_id FROM chunks WHERE collection_id = 'board'")
    wanted["board"] = [hidden]
    wanted["bread"].append(hidden)
    request = pb.FetchChunksRequest(
        selections=[
            pb.CollectionChunks(collection_id=name, chunk_ids=map(str, ids)) for name, ids in wanted.items()
        ]
    )
    for _ in range(2):  # as it is, and with the partitions remembered
        fetched = await stub.FetchChunks(request, timeout=20)
        assert {(one.collection_id, one.text) for one in fetched.chunks} == {
            ("leases", LEASES),
            ("leases", LEADER),
            ("bread", BREAD),
            ("small-1", "Lease number 1 of a replica."),
        }


async def test_many_collections_are_searched_by_hnsw_and_few_by_their_rows(corpus: Any, stub: Any) -> None:
    partition_id = await corpus.partition("leases")
    dimensions = corpus.embedder.dimensions
    vector = await corpus.embedder.embed_query("lease")
    plans: dict[int, list[str]] = {}
    async with corpus.connection.transaction():
        await corpus.connection.execute(
            "SET LOCAL enable_seqscan = off; SET LOCAL plan_cache_mode = 'force_generic_plan'"
        )
        for count in (1, EXACT_COLLECTIONS + 1):
            names = [f"small-{number}" for number in range(count)]
            index = Index(partition_id, True, dimensions, "english", names)
            condition = RowCondition("true", (), 2)
            for scan in (
                semantic._nearest_sql(index, condition, 5, 10),
                semantic._filtered_sql(index, condition, 5),
                semantic._exact_sql(index, condition, 5),
            ):
                rows = await corpus.connection.fetch(f"EXPLAIN {scan}", vector, names)
                plans.setdefault(count, []).append("\n".join(row[0] for row in rows))
    by_rows, by_hnsw = f"chunks_p{partition_id}_collection", f"chunks_p{partition_id}_hnsw"
    few, many = plans.values()
    assert [by_rows in few[0], by_rows in few[2]] == [True, True]
    assert [by_hnsw in plan for plan in many] == [True, True, False]
