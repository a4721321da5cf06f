"""Passages: found by filters, read as they are now, and shown with their surroundings."""

from typing import Any

import asyncpg
import pytest
from google.protobuf import json_format
from groundline.v1 import options_pb2, passage_pb2
from groundline.v1 import retriever_service_pb2 as pb
from groundline_database import DatabaseSettings
from groundline_retriever.adapters.postgres.indexes import Index, RowCondition
from groundline_retriever.adapters.postgres.semantic import _nearest_sql
from groundline_retriever.adapters.postgres.store import SERVER_SETTINGS, open_chunk_store
from groundline_retriever.domain import Selection
from groundline_retriever.passages import Wanted
from groundline_runtime.context import PRINCIPALS_KEY
from groundline_runtime.errors import InvalidArgumentError, NotFoundError
from groundline_signatures import signature
from groundline_tests.retriever.library import (
    BREAD,
    LEADER,
    LEASES,
    SECRET,
    Client,
    Options,
    scores,
    struct,
    texts,
)
from pydantic import SecretStr


async def test_a_chunk_carries_what_its_document_says(corpus: Any, retrieve: Client) -> None:
    await corpus.collection("atlas", readers=["user:archivist"])
    [chunk_id] = await corpus.add(
        "atlas", [LEASES], title="Leases", metadata={"team": "red", "pages": [1, 2], "draft": False}
    )
    [candidate] = (await retrieve(collections=["atlas"], principals="user:archivist")).passages
    chunk = candidate.chunk
    assert chunk.chunk_id == str(chunk_id)
    assert (chunk.title, chunk.mime_type, chunk.collection_id) == ("Leases", "text/markdown", "atlas")
    assert chunk.uri.startswith("notes/")
    assert (chunk.start_offset, chunk.end_offset) == (0, len(LEASES))
    assert chunk.metadata["team"] == "red"
    assert json_format.MessageToDict(chunk.metadata)["pages"] == [1, 2]
    assert chunk.update_time.seconds > 0


@pytest.fixture(scope="module")
async def shelf(corpus: Any) -> list[int]:
    """3000 chunks, of which every hundredth is rare; ids in order."""
    chunk_ids: list[int] = await corpus.collection(
        "shelf", [f"{BREAD} Loaf number {n} of {n % 97}." for n in range(3000)], readers=["user:baker"]
    )
    table = f"chunks_p{await corpus.partition('shelf')}"
    await corpus.connection.execute(
        f"""UPDATE {table} SET metadata = jsonb_build_object('rare', chunk_id % 100 = 0, 'n', chunk_id,
            'tags', jsonb_build_array('bread', chunk_id % 7))"""
    )
    await corpus.connection.execute(f"VACUUM ANALYZE {table}")
    return chunk_ids


@pytest.mark.parametrize("arm", ["keyword", "semantic"])
async def test_a_filter_that_keeps_one_in_a_hundred_still_finds_as_many_as_there_are(
    retrieve: Client, shelf: list[int], arm: str
) -> None:
    rare = {str(chunk_id) for chunk_id in shelf if chunk_id % 100 == 0}
    options = Options(mode=options_pb2.RetrievalMode.Value(f"RETRIEVAL_MODE_{arm.upper()}"))
    for limit, expected in ((20, 20), (50, len(rare))):
        options.keyword_limit = options.semantic_limit = limit
        found = await retrieve(
            "loaf of bread", ["shelf"], options, filter=struct({"rare": True}), principals="user:baker"
        )
        assert len(scores(found, arm)) == expected
        assert scores(found, arm).keys() <= rare


async def test_few_of_many_are_found_by_a_search_of_the_vectors_that_ends_early(
    retrieve: Client, shelf: list[int], corpus: Any
) -> None:
    """The scan of the HNSW index gives up after a number of rows; what it missed is searched exactly."""
    name = await corpus.connection.fetchval("SELECT current_database()")
    await corpus.connection.execute(f"ALTER DATABASE {name} SET hnsw.max_scan_tuples = 100")
    last = struct({"n": {"$in": shelf[-3:]}})
    found = await retrieve("bread", ["shelf"], filter=last, principals="user:baker")
    assert scores(found, "semantic").keys() == {str(chunk_id) for chunk_id in shelf[-3:]}


async def test_a_filter_changes_no_similarity_and_no_best_hit(retrieve: Client, shelf: list[int]) -> None:
    options = Options(keyword_limit=500, semantic_limit=500, ef_search=1000)
    everything = await retrieve("loaf number 42", ["shelf"], options, principals="user:baker")
    conditions: list[dict[str, Any]] = [
        {"rare": True},
        {"tags": {"$contains": 3}},
        {"n": {"$lte": shelf[1500]}, "$not": {"tags": {"$contains": "cake"}}},
        {"$source_type": "file", "$update_time": {"$gt": "2020-01-01"}},
    ]
    for condition in conditions:
        found = await retrieve(
            "loaf number 42", ["shelf"], options, filter=struct(condition), principals="user:baker"
        )
        known, kept = scores(everything, "semantic"), scores(found, "semantic")
        assert kept
        assert all(score == pytest.approx(known[key]) for key, score in kept.items() if key in known)
        # Few chunks are scored by themselves, with statistics of a sample.
        known, kept = scores(everything, "keyword"), scores(found, "keyword")
        assert kept
        common = kept.keys() & known.keys()
        assert max(common, key=kept.__getitem__, default="") == max(common, key=known.__getitem__, default="")


async def test_filters_reach_documents_by_id_and_see_as_the_caller(corpus: Any, retrieve: Client) -> None:
    everything = await retrieve(collections=["drafts"], principals="group:board")
    assert texts(everything) == {LEASES, SECRET}
    for candidate in everything.passages:
        only = struct({"$document_id": candidate.chunk.document_id})
        found = await retrieve(collections=["drafts"], filter=only, principals="group:board")
        assert texts(found) == {candidate.chunk.text}
        hidden = await retrieve(collections=["drafts"], filter=only)
        assert texts(hidden) == {candidate.chunk.text} - {SECRET}


async def test_adjacent_chunks_are_in_order_without_repeating_text(corpus: Any, retrieve: Client) -> None:
    text = "One is the first. Two is the second. Leases come third. Four is the fourth. Five ends it."
    spans = [(0, 20), (17, 40), (36, 58), (55, 78), (75, len(text))]
    await corpus.collection("novel", readers=["user:reader"])
    await corpus.document("novel", [(text[start:end], start) for start, end in spans])
    options = Options(mode=options_pb2.RETRIEVAL_MODE_KEYWORD, adjacent_chunks=1)
    [hit] = (await retrieve("leases", ["novel"], options, principals="user:reader")).passages
    assert [chunk.chunk_index for chunk in hit.adjacent_chunks] == [1, 3]
    before, after = hit.adjacent_chunks
    assert before.text + hit.chunk.text + after.text == text[17:78]
    assert (before.start_offset, after.end_offset) == (17, 78)
    options.adjacent_chunks = 10
    [hit] = (await retrieve("leases", ["novel"], options, principals="user:reader")).passages
    whole = sorted([hit.chunk, *hit.adjacent_chunks], key=lambda chunk: chunk.chunk_index)
    assert "".join(chunk.text for chunk in whole) == text


async def test_a_chunk_of_a_parent_comes_with_the_rest_of_it_and_nothing_else(
    corpus: Any, retrieve: Client, stub: Any
) -> None:
    text = "One is before. Two begins it. Leases are within. Four ends it. Five is after."
    spans = [(0, 14), (15, 29), (28, 48), (49, 62), (63, len(text))]
    await corpus.collection("parents", readers=["user:reader"])
    await corpus.document("parents", [(text[start:end], start) for start, end in spans])
    rows = await corpus.connection.fetch(
        "SELECT chunk_id, chunk_index FROM chunks WHERE collection_id = 'parents' ORDER BY chunk_index"
    )
    for row in rows[1:4]:
        await corpus.connection.execute(
            "UPDATE chunks SET siblings_before = $2, siblings_after = $3 WHERE chunk_id = $1",
            row["chunk_id"], row["chunk_index"] - 1, 3 - row["chunk_index"],
        )  # fmt: skip

    async def found(**options: Any) -> list[int]:
        by_words = Options(mode=options_pb2.RETRIEVAL_MODE_KEYWORD, **options)
        [hit] = (await retrieve("leases", ["parents"], by_words, principals="user:reader")).passages
        return [chunk.chunk_index for chunk in hit.adjacent_chunks]

    assert await found() == [1, 3]
    assert await found(adjacent_chunks=2) == [0, 1, 3, 4]
    selection = pb.CollectionChunks(collection_id="parents", chunk_ids=[str(rows[2]["chunk_id"])])
    request = pb.FetchChunksRequest(selections=[selection])
    response = await stub.FetchChunks(request, timeout=20, metadata=((PRINCIPALS_KEY, "user:reader"),))
    assert [chunk.chunk_index for chunk in response.chunks] == [2]


async def test_chunks_are_read_with_the_versions_of_their_collections(corpus: Any, database_url: str) -> None:
    [chunk_id] = await corpus.collection("versions", [LEASES])

    async def version() -> int:
        found: int = await corpus.connection.fetchval(
            "SELECT xmin FROM collections WHERE collection_id = 'versions'"
        )
        return found

    async with open_chunk_store(DatabaseSettings(database_url=SecretStr(database_url))) as store:

        async def told() -> int:
            [fetched] = await store.fetch([Wanted("versions", [chunk_id])], ())
            return fetched.collection_version

        before = await version()
        assert await told() == before
        await corpus.connection.execute(
            "UPDATE collections SET settings = settings WHERE collection_id = 'versions'"
        )
        assert await told() == await version() != before


async def test_both_indexes_are_used(corpus: Any, database_url: str) -> None:
    """On a few thousand chunks, where PostgreSQL's default costs would choose a full scan."""
    await corpus.collection("many", [f"{BREAD} Loaf number {n} of {n % 97}." for n in range(3000)])
    index = Index(await corpus.partition("many"), False, corpus.embedder.dimensions, "english", ["many"])
    table = index.table
    await corpus.connection.execute(f"ANALYZE {table}")
    connection = await asyncpg.connect(database_url, server_settings=dict(SERVER_SETTINGS))
    try:
        plans = await _plans(connection, corpus, index)
    finally:
        await connection.close()
    assert f"Index Scan using {table}_hnsw" in plans["semantic"]
    assert "TopNScanExecState" in plans["keyword"]
    assert all("Seq Scan" not in plan for plan in plans.values())


async def _plans(connection: Any, corpus: Any, index: Index) -> dict[str, str]:
    vector = await corpus.embedder.embed_query("bread")
    literal = "[" + ",".join(f"{value:.3f}" for value in vector) + "]"
    condition = RowCondition.of(Selection(["user:eve"]), first_parameter=2)
    semantic = _nearest_sql(index, condition, 50, 50)
    columns = f"{condition.text} AS selected"
    keyword = corpus.lexical.search_sql(index.table, "english", limit=50, columns=columns)
    found = {}
    for name, hits, argument in (("semantic", semantic, literal), ("keyword", keyword, "loaf 42")):
        rows = await connection.fetch(f"EXPLAIN (ANALYZE, COSTS OFF) {hits}", argument, ["user:eve"])
        found[name] = "\n".join(row[0] for row in rows)
    return found


async def test_what_changed_or_was_hidden_since_the_search_is_not_read(corpus: Any, stub: Any) -> None:
    """The index proposes, PostgreSQL decides."""
    chunk_ids = await corpus.collection(
        "minutes", [LEASES, LEADER, BREAD], readers=["user:clerk", "user:eve"]
    )
    metadata = ((PRINCIPALS_KEY, "user:eve"),)

    async def read() -> set[str]:
        selection = pb.CollectionChunks(collection_id="minutes", chunk_ids=map(str, chunk_ids))
        request = pb.FetchChunksRequest(selections=[selection])
        fetched = await stub.FetchChunks(request, timeout=20, metadata=metadata)
        return {each.text for each in fetched.chunks}

    assert await read() == {LEASES, LEADER, BREAD}
    table = f"chunks_p{await corpus.partition('minutes')}"
    await corpus.connection.execute(f"DELETE FROM {table} WHERE original_text = $1", BREAD)
    await corpus.connection.execute(
        f"UPDATE {table} SET allowed_principals = '{{user:clerk}}' WHERE original_text = $1", LEADER
    )
    assert await read() == {LEASES}
    await corpus.connection.execute(
        "UPDATE collections SET readers = '{user:clerk}' WHERE collection_id = 'minutes'"
    )
    assert await read() == set()


async def test_chunks_of_a_replaced_partition_are_looked_for_in_the_new(corpus: Any, stub: Any) -> None:
    [chunk_id] = await corpus.collection("rebuilt", [LEASES])
    selection = pb.CollectionChunks(collection_id="rebuilt", chunk_ids=[str(chunk_id)])
    request = pb.FetchChunksRequest(selections=[selection])
    assert len((await stub.FetchChunks(request, timeout=20)).chunks) == 1
    await corpus.collection("spare")
    old, new = await corpus.partition("rebuilt"), await corpus.partition("spare")
    await corpus.connection.execute(
        "UPDATE collections SET partition_id = $1 WHERE collection_id = 'rebuilt'", new
    )
    assert not (await stub.FetchChunks(request, timeout=20)).chunks
    await corpus.connection.execute(f"UPDATE chunks SET partition_id = {new} WHERE partition_id = {old}")
    assert len((await stub.FetchChunks(request, timeout=20)).chunks) == 1


async def test_a_collection_named_again_is_searched_as_it_is_now(corpus: Any, retrieve: Client) -> None:
    await corpus.collection("known", [LEASES, BREAD], readers=["user:clerk"])

    async def found() -> set[str]:
        return texts(await retrieve("lease", ["known"], principals="user:clerk"))

    assert await found() == await found() == {LEASES, BREAD}
    await corpus.connection.execute(
        """UPDATE collections SET settings = '{"retrieval": {"mode": "RETRIEVAL_MODE_KEYWORD"}}'
        WHERE collection_id = 'known'"""
    )
    assert await found() == {LEASES}
    await corpus.connection.execute(
        """UPDATE collections SET settings = '{"generationLimits": {"maxTopK": 9}}'
        WHERE collection_id = 'known'"""
    )
    with pytest.raises(InvalidArgumentError) as refused:
        await found()
    assert [each.field for each in refused.value.violations] == ["options.rerank.top_k"]
    await corpus.connection.execute(
        "UPDATE collections SET readers = '{user:eve}' WHERE collection_id = 'known'"
    )
    with pytest.raises(NotFoundError):
        await found()


async def test_every_hit_has_what_ranking_needs(corpus: Any, search_arms: Any) -> None:
    chunk_ids = await corpus.collection("ranked", [LEASES, LEADER])
    found = await search_arms("ranked", query="lease")
    hits = {hit.chunk_id: hit for each in found for hit in each.hits}
    assert sorted(hits) == chunk_ids
    assert {hit.collection_id for hit in hits.values()} == {"ranked"}
    assert {hit.source_type for hit in hits.values()} == {passage_pb2.SOURCE_TYPE_FILE}
    assert all(hit.update_seconds > 1_700_000_000 for hit in hits.values())
    assert {hit.signature for hit in hits.values()} == {signature(LEASES), signature(LEADER)}
