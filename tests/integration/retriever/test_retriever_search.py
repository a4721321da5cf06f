"""The retriever over gRPC, on real PostgreSQL."""

from collections.abc import Iterable
from typing import Any, cast

import asyncpg
import grpc
import pytest
from google.protobuf import json_format
from google.protobuf.struct_pb2 import Struct
from groundline.v1 import error_pb2, options_pb2, passage_pb2
from groundline.v1 import retriever_service_pb2 as pb
from groundline_database import DatabaseSettings
from groundline_retriever.adapters.postgres.indexes import Index, RowCondition
from groundline_retriever.adapters.postgres.semantic import _nearest_sql
from groundline_retriever.adapters.postgres.store import SERVER_SETTINGS, open_chunk_store
from groundline_retriever.domain import Selection
from groundline_retriever.passages import Wanted
from groundline_runtime.context import PRINCIPALS_KEY
from groundline_runtime.errors import (
    FailedPreconditionError,
    GroundlineError,
    InvalidArgumentError,
    NotFoundError,
    UnavailableError,
)
from groundline_runtime.status import from_rpc_error
from groundline_signatures import signature
from pydantic import SecretStr

LEASES = "A replica that lost its lease stops serving reads."
LEADER = "The leader renews the lease of every replica."
BREAD = "Bake the bread until the crust is dark brown."
SECRET = "The merger lease closes on Friday, says the board."

Options = options_pb2.RetrievalOptions
Response = pb.SearchResponse


class Client:
    """Searches as a caller with given principals, and keeps all that is found; errors arrive as the
    suite's own."""

    def __init__(self, stub: Any) -> None:
        self._stub = stub

    async def __call__(
        self,
        query: str = "lease of a replica",
        collections: Iterable[str] = (),
        options: Options | None = None,
        *,
        rerank: options_pb2.RerankOptions | None = None,
        principals: str = "",
        seconds: float = 20,
        **fields: Any,
    ) -> Response:
        everything = options_pb2.RerankOptions(top_k=100, deduplication_threshold=0)
        request = pb.SearchRequest(
            query=query,
            collection_ids=collections,
            options=options_pb2.SearchOptions(retrieval=options, rerank=rerank or everything),
            **fields,
        )
        metadata = ((PRINCIPALS_KEY, principals),) if principals else ()
        try:
            response: Response = await self._stub.Search(request, timeout=seconds, metadata=metadata)
        except grpc.aio.AioRpcError as error:
            raise from_rpc_error(error) from None
        return response


def texts(response: Response) -> set[str]:
    return {candidate.chunk.text for candidate in response.passages}


def struct(filter: dict[str, Any]) -> Struct:  # noqa: A002
    message = Struct()
    message.update(filter)
    return message


def scores(response: Response, arm: str) -> dict[str, float]:
    """Return the arm's scores by chunk id."""
    return {
        candidate.chunk.chunk_id: getattr(candidate.explanation, arm).score
        for candidate in response.passages
        if candidate.explanation.HasField(cast("Any", arm))
    }


def stages(found: Response) -> set[int]:
    return {timing.stage for timing in found.timings}


@pytest.fixture(scope="module")
async def library(corpus: Any) -> None:
    """Collections for all (one with a hidden document), and one for group:board that user:clerk writes."""
    await corpus.collection("guides", [LEASES, LEADER, BREAD])
    await corpus.collection("board", [SECRET], readers=["group:board"], writers=["user:clerk"])
    await corpus.collection("drafts", [LEASES])
    await corpus.add("drafts", [SECRET], allowed_principals=["group:board"])
    await corpus.collection("empty")


@pytest.fixture
def retrieve(stub: Any, library: None) -> Client:
    return Client(stub)


# Bad input


async def test_every_wrong_field_is_named(retrieve: Client) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        await retrieve(
            " \n ",
            ["guides", "Not An Id"],
            Options(
                mode=cast("Any", 77), keyword_limit=0, semantic_limit=1001, ef_search=-1,
                iterative_scan=cast("Any", 9),
                min_similarity=1.5, min_bm25=float("nan"), adjacent_chunks=11,
            ),
            rerank=options_pb2.RerankOptions(top_k=0), weak_similarity=2, additional_queries=["a", " "],
        )  # fmt: skip
    assert {violation.field for violation in caught.value.violations} == {
        "query", "collection_ids[1]", "options.retrieval.mode", "options.retrieval.keyword_limit",
        "options.retrieval.semantic_limit", "options.retrieval.ef_search", "options.retrieval.iterative_scan",
        "options.retrieval.min_similarity", "options.retrieval.min_bm25", "options.retrieval.adjacent_chunks",
        "options.rerank.top_k", "weak_similarity", "additional_queries[1]",
    }  # fmt: skip


async def test_a_query_has_8000_characters_and_a_request_100_collections_at_most(retrieve: Client) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        await retrieve("x" * 8001, ["guides"] * 101)
    assert [violation.field for violation in caught.value.violations] == ["query", "collection_ids"]
    await retrieve("x" * 8000, ["guides"] * 100)


async def test_a_wrong_filter_is_refused_with_the_paths_of_its_mistakes(retrieve: Client) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        await retrieve("", filter=struct({"year": {"$above": 1}, "$or": [{"a": {"$in": 2}}]}))
    assert [violation.field for violation in caught.value.violations] == [
        "query", "filter.$or[0].a.$in", "filter.year.$above"
    ]  # fmt: skip


@pytest.mark.parametrize("query", ["'", "lease AND (", "🙂", "%s $1", "the of"])
async def test_any_text_is_a_query(retrieve: Client, query: str) -> None:
    assert not (await retrieve(query, ["guides"])).degraded


async def test_an_unknown_collection_and_one_that_may_not_be_read_look_the_same(retrieve: Client) -> None:
    seen = []
    for unseen in ("nowhere", "board"):
        with pytest.raises(NotFoundError) as caught:
            await retrieve(collections=["guides", unseen], principals="user:eve")
        seen.append((caught.value.reason, caught.value.message.replace(unseen, "X")))
    assert seen[0] == seen[1] == ("COLLECTION_NOT_FOUND", "no such collection: X")


async def test_another_embedding_model_is_refused_with_both_names(corpus: Any, retrieve: Client) -> None:
    await corpus.collection("old", [LEASES], model="acme/old-model", readers=["user:archivist"])
    for mode in (options_pb2.RETRIEVAL_MODE_HYBRID, options_pb2.RETRIEVAL_MODE_SEMANTIC):
        with pytest.raises(FailedPreconditionError) as caught:
            await retrieve(collections=["old"], options=Options(mode=mode), principals="user:archivist")
        assert caught.value.reason == "EMBEDDING_MODEL_MISMATCH"
        assert "acme/old-model" in caught.value.message
        assert corpus.embedder.model in caught.value.message
    keyword = Options(mode=options_pb2.RETRIEVAL_MODE_KEYWORD)
    found = await retrieve(collections=["old"], options=keyword, principals="user:archivist")
    assert texts(found) == {LEASES}


# Faults


async def test_a_collection_of_another_lexical_backend_is_searched_by_vector_only(
    corpus: Any, retrieve: Client
) -> None:
    await corpus.collection("foreign", [LEASES], lexical_backend="elsewhere", readers=["user:archivist"])
    found = await retrieve(collections=["foreign"], principals="user:archivist")
    assert texts(found) == {LEASES}
    [degradation] = found.degraded
    assert (degradation.component, degradation.reason) == (
        passage_pb2.COMPONENT_KEYWORD_ARM,
        error_pb2.LEXICAL_BACKEND_MISMATCH,
    )
    with pytest.raises(FailedPreconditionError, match="indexed with elsewhere"):
        await retrieve(
            collections=["foreign"],
            options=Options(mode=options_pb2.RETRIEVAL_MODE_KEYWORD),
            principals="user:archivist",
        )


async def test_a_lost_bm25_index_degrades_and_is_not_shown(corpus: Any, retrieve: Client) -> None:
    await corpus.collection("torn", [LEASES], readers=["user:archivist"])
    table = f"chunks_p{await corpus.partition('torn')}"
    await corpus.connection.execute(f"DROP INDEX {table}_bm25")
    found = await retrieve(collections=["torn"], principals="user:archivist")
    assert texts(found) == {LEASES}
    [degradation] = found.degraded
    assert degradation.component == passage_pb2.COMPONENT_KEYWORD_ARM
    # It fails until the next check finds that the index is gone.
    assert degradation.reason in (error_pb2.INTERNAL, error_pb2.LEXICAL_INDEX_UNSOUND)
    assert table not in degradation.message
    with pytest.raises(GroundlineError) as caught:
        await retrieve(
            collections=["torn"],
            options=Options(mode=options_pb2.RETRIEVAL_MODE_KEYWORD),
            principals="user:archivist",
        )
    assert table not in caught.value.message


async def test_a_collection_deleted_during_the_search_may_be_asked_for_again(
    corpus: Any, retrieve: Client
) -> None:
    await corpus.collection("gone", [LEASES], readers=["user:archivist"])
    await corpus.connection.execute(f"DROP TABLE chunks_p{await corpus.partition('gone')}")
    with pytest.raises(UnavailableError) as caught:
        await retrieve(collections=["gone"], principals="user:archivist")
    assert caught.value.reason == "COLLECTION_CHANGED"


# Access


async def test_without_principals_only_what_is_unrestricted_is_found(retrieve: Client) -> None:
    assert texts(await retrieve(collections=["drafts"])) == {LEASES}
    assert SECRET not in texts(await retrieve("merger board Friday"))


@pytest.mark.parametrize(
    ("principals", "sees"),
    [
        ("user:eve", False),
        ("group:boards", False),
        ("user:eve,group:board", True),
        ("user:clerk", True),
    ],
)
async def test_readers_and_writers_read_a_collection(retrieve: Client, principals: str, sees: bool) -> None:
    found = await retrieve("merger board Friday", principals=principals)
    assert ("board" in {candidate.chunk.collection_id for candidate in found.passages}) is sees


@pytest.mark.parametrize("mode", ["HYBRID", "SEMANTIC", "KEYWORD"])
async def test_a_hidden_document_takes_no_place_and_leaves_no_gap(retrieve: Client, mode: str) -> None:
    options = Options(
        mode=options_pb2.RetrievalMode.Value(f"RETRIEVAL_MODE_{mode}"), keyword_limit=1, semantic_limit=1
    )
    # For this query the hidden document is the best; with a limit of 1 the other one must still be found.
    query = "merger lease board Friday"
    hidden = await retrieve(query, ["drafts"], options)
    assert texts(hidden) == {LEASES}
    for candidate in hidden.passages:
        assert {
            arm.rank for arm in (candidate.explanation.keyword, candidate.explanation.semantic) if arm.rank
        } == {1}
    shown = await retrieve(query, ["drafts"], options, principals="group:board")
    assert texts(shown) == {SECRET}


async def test_scores_do_not_tell_what_may_not_be_read(retrieve: Client, corpus: Any) -> None:
    query = "A replica that lost its lease"

    async def shown() -> list[tuple[str, float, float]]:
        found = await retrieve(query, ["half-hidden"])
        return [
            (each.chunk.text, each.explanation.keyword.score, each.explanation.semantic.score)
            for each in found.passages
        ]

    await corpus.collection("half-hidden", [LEASES, LEADER, BREAD])
    await corpus.add("half-hidden", [BREAD], allowed_principals=["group:board"])
    before = await shown()
    assert before[0][0] == LEASES
    await corpus.add("half-hidden", [f"{LEASES} {n}" for n in range(40)], allowed_principals=["group:board"])
    assert await shown() == before
    all_of_it = await retrieve(query, ["half-hidden"], principals="group:board")
    assert len(all_of_it.passages) > len(before)


# Searching


async def test_hybrid_is_the_union_with_each_arms_rank_and_score(retrieve: Client) -> None:
    found = await retrieve(collections=["guides"])
    by_text = {candidate.chunk.text: candidate for candidate in found.passages}
    assert set(by_text) == {LEASES, LEADER, BREAD}
    assert {by_text[LEASES].explanation.keyword.rank, by_text[LEADER].explanation.keyword.rank} == {1, 2}
    assert by_text[LEASES].explanation.keyword.score > 0
    assert not by_text[BREAD].explanation.HasField("keyword")
    assert by_text[BREAD].explanation.semantic.rank == 3
    assert stages(found) == {
        passage_pb2.STAGE_EMBEDDING,
        passage_pb2.STAGE_KEYWORD_SEARCH,
        passage_pb2.STAGE_SEMANTIC_SEARCH,
        *RANKED,
    }
    assert not found.degraded


RANKED = (passage_pb2.STAGE_RETRIEVING, passage_pb2.STAGE_RERANKING, passage_pb2.STAGE_FETCHING)


async def test_a_model_orders_what_was_found(retrieve: Client) -> None:
    by_a_model = options_pb2.RerankOptions(strategy=options_pb2.RERANK_STRATEGY_CROSS_ENCODER, top_k=2)
    found = await retrieve("replica", ["guides", "drafts"], rerank=by_a_model)
    assert [passage.score for passage in found.passages] == [1.0, 1.0]
    assert [each.name for each in found.passages[0].explanation.components] == ["cross_encoder"]
    assert not found.degraded


async def test_several_queries_are_one_search(retrieve: Client) -> None:
    one = await retrieve("bread", ["guides"])
    assert not next(each for each in one.passages if each.chunk.text == LEADER).explanation.HasField(
        "keyword"
    )
    both = await retrieve("bread", ["guides"], additional_queries=["leader lease"])
    found = next(each for each in both.passages if each.chunk.text == LEADER)
    assert found.explanation.keyword.rank == 1


async def test_the_semantic_score_is_the_cosine_similarity(corpus: Any, retrieve: Client) -> None:
    query = "lease of a replica"
    found = await retrieve(query, ["guides"], Options(mode=options_pb2.RETRIEVAL_MODE_SEMANTIC))
    vector = await corpus.embedder.embed_query(query)
    for candidate in found.passages:
        [document] = await corpus.embedder.embed_documents([candidate.chunk.text])
        assert candidate.explanation.semantic.score == pytest.approx(float(vector @ document), abs=2e-3)
        assert not candidate.explanation.HasField("keyword")


async def test_vectors_come_where_they_are_asked_for_and_with_the_passages_alone(
    corpus: Any, retrieve: Client
) -> None:
    options = Options(mode=options_pb2.RETRIEVAL_MODE_KEYWORD, adjacent_chunks=1)
    assert not any(each.vector for each in (await retrieve("leases", ["guides"], options)).passages)
    found = await retrieve("leases", ["guides"], options, include_vectors=True)
    assert found.passages
    for passage in found.passages:
        [vector] = await corpus.embedder.embed_documents([passage.chunk.text])
        assert list(passage.vector) == pytest.approx(list(map(float, vector)), abs=2e-3)


async def test_keyword_mode_does_not_embed(retrieve: Client) -> None:
    found = await retrieve(collections=["guides"], options=Options(mode=options_pb2.RETRIEVAL_MODE_KEYWORD))
    assert texts(found) == {LEASES, LEADER}
    assert stages(found) == {passage_pb2.STAGE_KEYWORD_SEARCH, *RANKED}


async def test_limits_and_thresholds_hold_per_arm(retrieve: Client) -> None:
    limited = await retrieve(collections=["guides"], options=Options(keyword_limit=1, semantic_limit=2))
    assert sum(candidate.explanation.HasField("keyword") for candidate in limited.passages) == 1
    assert sum(candidate.explanation.HasField("semantic") for candidate in limited.passages) == 2
    strict = await retrieve(collections=["guides"], options=Options(min_similarity=0.99, min_bm25=1000))
    assert not strict.passages
    loose = await retrieve(collections=["guides"], options=Options(min_similarity=-1, min_bm25=0))
    assert texts(loose) == {LEASES, LEADER, BREAD}


async def test_search_list_and_scan_can_be_set_for_one_request(retrieve: Client) -> None:
    for scan in ("OFF", "STRICT_ORDER", "RELAXED_ORDER"):
        options = Options(
            ef_search=7,
            semantic_limit=3,
            iterative_scan=options_pb2.IterativeScan.Value(f"ITERATIVE_SCAN_{scan}"),
        )
        assert texts(await retrieve(collections=["guides"], options=options)) == {LEASES, LEADER, BREAD}


async def test_a_collections_defaults_hold_where_the_request_sets_nothing(
    corpus: Any, retrieve: Client
) -> None:
    await corpus.collection(
        "tuned",
        [LEASES, LEADER, BREAD],
        readers=["user:archivist"],
        settings={"retrieval": {"mode": "RETRIEVAL_MODE_KEYWORD", "keywordLimit": 1, "later": True}},
    )
    found = await retrieve(collections=["tuned"], principals="user:archivist")
    assert len(found.passages) == 1
    assert not found.passages[0].explanation.HasField("semantic")
    found = await retrieve(
        collections=["tuned"],
        options=Options(mode=options_pb2.RETRIEVAL_MODE_HYBRID, keyword_limit=2),
        principals="user:archivist",
    )
    assert len(found.passages) == 3


async def test_several_collections_are_searched_and_each_has_its_own_ranks(retrieve: Client) -> None:
    found = await retrieve(collections=["guides", "drafts", "empty", "guides"])
    firsts = {
        candidate.chunk.collection_id
        for candidate in found.passages
        if candidate.explanation.keyword.rank == 1
    }
    assert firsts == {"guides", "drafts"}
    assert len({candidate.chunk.chunk_id for candidate in found.passages}) == len(found.passages)


async def test_an_empty_collection_has_nothing(retrieve: Client) -> None:
    found = await retrieve(collections=["empty"])
    assert not found.passages
    assert not found.degraded


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


async def test_filters_reach_documents_by_id_and_see_no_more_than_the_caller(
    corpus: Any, retrieve: Client
) -> None:
    everything = await retrieve(collections=["drafts"], principals="group:board")
    assert texts(everything) == {LEASES, SECRET}
    for candidate in everything.passages:
        only = struct({"$document_id": candidate.chunk.document_id})
        found = await retrieve(collections=["drafts"], filter=only, principals="group:board")
        assert texts(found) == {candidate.chunk.text}
        hidden = await retrieve(collections=["drafts"], filter=only)
        assert texts(hidden) == {candidate.chunk.text} - {SECRET}


async def test_adjacent_chunks_stand_in_document_order_without_repeating_text(
    corpus: Any, retrieve: Client
) -> None:
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


async def test_chunks_of_a_partition_that_was_replaced_are_looked_for_in_the_new_one(
    corpus: Any, stub: Any
) -> None:
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


async def test_a_collection_that_is_named_again_is_searched_as_it_is_now(
    corpus: Any, retrieve: Client
) -> None:
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
    hits = {hit.chunk_id: hit for _, found in await search_arms("ranked", query="lease") for hit in found}
    assert sorted(hits) == chunk_ids
    assert {hit.collection_id for hit in hits.values()} == {"ranked"}
    assert {hit.source_type for hit in hits.values()} == {passage_pb2.SOURCE_TYPE_FILE}
    assert all(hit.update_seconds > 1_700_000_000 for hit in hits.values())
    assert {hit.signature for hit in hits.values()} == {signature(LEASES), signature(LEADER)}
