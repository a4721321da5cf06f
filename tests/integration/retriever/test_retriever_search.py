"""The retriever over gRPC, on real PostgreSQL."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import asyncpg
import grpc
import pytest
from google.protobuf import json_format
from google.protobuf.struct_pb2 import Struct
from groundline.v1 import (
    candidate_pb2,
    error_pb2,
    options_pb2,
    passage_pb2,
    reranker_service_pb2,
    retriever_service_pb2,
)
from groundline_database import is_readable_document
from groundline_ranking import rank, ranked_with_texts, read_passages
from groundline_retriever.adapters import postgres
from groundline_runtime.context import PRINCIPALS_KEY
from groundline_runtime.errors import (
    FailedPreconditionError,
    GroundlineError,
    InvalidArgumentError,
    NotFoundError,
    UnavailableError,
)
from groundline_runtime.status import from_rpc_error
from groundline_signatures import SIGNATURE_BYTES, signature

LEASES = "A replica that lost its lease stops serving reads."
LEADER = "The leader renews the lease of every replica."
BREAD = "Bake the bread until the crust is dark brown."
SECRET = "The merger lease closes on Friday, says the board."

Options = options_pb2.RetrievalOptions
Response = retriever_service_pb2.RetrieveResponse
KEYWORD, SEMANTIC = candidate_pb2.SEARCH_ARM_KEYWORD, candidate_pb2.SEARCH_ARM_SEMANTIC


@dataclass(frozen=True)
class Found:
    """What was found, with the chunks as they were read afterwards; each with what the arms said of it."""

    response: Response
    candidates: Sequence[passage_pb2.Passage]

    @property
    def degraded(self) -> Sequence[passage_pb2.Degradation]:
        return self.response.degraded


class Client:
    """Calls Retrieve and FetchChunks as a caller with given principals; errors arrive as the suite's own."""

    def __init__(self, stub: Any) -> None:
        self._stub = stub

    async def __call__(
        self,
        query: str = "lease of a replica",
        collections: Iterable[str] = (),
        options: Options | None = None,
        *,
        principals: str = "",
        seconds: float = 20,
        **fields: Any,
    ) -> Found:
        request = retriever_service_pb2.RetrieveRequest(
            query=query, collection_ids=collections, options=options, **fields
        )
        metadata = ((PRINCIPALS_KEY, principals),) if principals else ()
        try:
            response: Response = await self._stub.Retrieve(request, timeout=seconds, metadata=metadata)
            selections = retriever_service_pb2.FetchChunksRequest(selections=selections_of(response))
            fetched = await self._stub.FetchChunks(selections, timeout=seconds, metadata=metadata)
        except grpc.aio.AioRpcError as error:
            raise from_rpc_error(error) from None
        passages = [
            passage_pb2.Passage(
                chunk=each.chunk,
                adjacent_chunks=each.adjacent_chunks,
                explanation=passage_pb2.ScoreExplanation(
                    keyword=arm_score(response, KEYWORD, int(each.chunk.chunk_id)),
                    semantic=arm_score(response, SEMANTIC, int(each.chunk.chunk_id)),
                ),
            )
            for each in fetched.chunks
        ]
        return Found(response, passages)


def selections_of(response: Response) -> list[candidate_pb2.CollectionChunks]:
    features = response.features
    chunks: dict[str, list[int]] = {}
    for chunk_id, position in zip(features.chunk_ids, features.collections, strict=True):
        chunks.setdefault(features.collection_ids[position], []).append(chunk_id)
    return [
        candidate_pb2.CollectionChunks(
            collection_id=name, chunk_ids=ids, adjacent_chunks=response.adjacent_chunks.get(name, 0)
        )
        for name, ids in chunks.items()
    ]


def arm_score(response: Response, arm: int, chunk_id: int) -> passage_pb2.ArmScore | None:
    for ranked in response.lists:
        if ranked.arm == arm and chunk_id in ranked.chunk_ids:
            place = list(ranked.chunk_ids).index(chunk_id)
            return passage_pb2.ArmScore(rank=place + 1, score=ranked.scores[place])
    return None


def texts(response: Found) -> set[str]:
    return {candidate.chunk.text for candidate in response.candidates}


def struct(filter: dict[str, Any]) -> Struct:  # noqa: A002
    message = Struct()
    message.update(filter)
    return message


def scores(response: Found, arm: str) -> dict[str, float]:
    """The arm's scores by chunk id."""
    return {
        candidate.chunk.chunk_id: getattr(candidate.explanation, arm).score
        for candidate in response.candidates
        if candidate.explanation.HasField(cast("Any", arm))
    }


def stages(found: Found) -> set[int]:
    return {timing.stage for timing in found.response.timings}


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
        )  # fmt: skip
    assert {violation.field for violation in caught.value.violations} == {
        "query", "collection_ids[1]", "options.mode", "options.keyword_limit", "options.semantic_limit",
        "options.ef_search", "options.iterative_scan", "options.min_similarity", "options.min_bm25",
        "options.adjacent_chunks",
    }  # fmt: skip


async def test_a_ranking_that_asks_a_model_is_refused(retrieve: Client) -> None:
    by_a_model = options_pb2.RerankOptions(strategy=options_pb2.RERANK_STRATEGY_LLM, top_k=0)
    with pytest.raises(InvalidArgumentError) as caught:
        await retrieve(ranking=retriever_service_pb2.Ranking(options=by_a_model, weak_similarity=2))
    assert {violation.field for violation in caught.value.violations} == {
        "ranking.options.strategy", "ranking.options.top_k", "ranking.weak_similarity"
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
    assert (degradation.component, degradation.reason) == (
        passage_pb2.COMPONENT_KEYWORD_ARM,
        error_pb2.INTERNAL,
    )
    assert degradation.message == "keyword search failed"
    with pytest.raises(GroundlineError) as caught:
        await retrieve(
            collections=["torn"],
            options=Options(mode=options_pb2.RETRIEVAL_MODE_KEYWORD),
            principals="user:archivist",
        )
    assert caught.value.error_id
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
    assert ("board" in {candidate.chunk.collection_id for candidate in found.candidates}) is sees


@pytest.mark.parametrize("mode", ["HYBRID", "SEMANTIC", "KEYWORD"])
async def test_a_hidden_document_takes_no_place_and_leaves_no_gap(retrieve: Client, mode: str) -> None:
    options = Options(
        mode=options_pb2.RetrievalMode.Value(f"RETRIEVAL_MODE_{mode}"), keyword_limit=1, semantic_limit=1
    )
    # For this query the hidden document is the best; with a limit of 1 the other one must still be found.
    query = "merger lease board Friday"
    hidden = await retrieve(query, ["drafts"], options)
    assert texts(hidden) == {LEASES}
    for candidate in hidden.candidates:
        assert {
            arm.rank for arm in (candidate.explanation.keyword, candidate.explanation.semantic) if arm.rank
        } == {1}
    shown = await retrieve(query, ["drafts"], options, principals="group:board")
    assert texts(shown) == {SECRET}


async def test_scores_do_not_tell_of_access(retrieve: Client) -> None:
    scores = []
    for principals in ("", "group:board"):
        found = await retrieve(collections=["drafts"], principals=principals)
        [candidate] = [each for each in found.candidates if each.chunk.text == LEASES]
        scores.append((candidate.explanation.keyword.score, candidate.explanation.semantic.score))
    assert scores[0] == pytest.approx(scores[1])


# Searching


async def test_hybrid_is_the_union_with_each_arms_rank_and_score(retrieve: Client) -> None:
    found = await retrieve(collections=["guides"])
    by_text = {candidate.chunk.text: candidate for candidate in found.candidates}
    assert set(by_text) == {LEASES, LEADER, BREAD}
    assert {by_text[LEASES].explanation.keyword.rank, by_text[LEADER].explanation.keyword.rank} == {1, 2}
    assert by_text[LEASES].explanation.keyword.score > 0
    assert not by_text[BREAD].explanation.HasField("keyword")
    assert by_text[BREAD].explanation.semantic.rank == 3
    assert stages(found) == {
        passage_pb2.STAGE_EMBEDDING,
        passage_pb2.STAGE_KEYWORD_SEARCH,
        passage_pb2.STAGE_SEMANTIC_SEARCH,
    }
    assert not found.degraded


@pytest.mark.parametrize(
    "options",
    [
        options_pb2.RerankOptions(top_k=2, include_cut=True),
        options_pb2.RerankOptions(
            strategy=options_pb2.RERANK_STRATEGY_WEIGHTED,
            weights=options_pb2.RerankWeights(keyword=1),
            deduplication_threshold=0,
        ),
    ],
    ids=["fused", "weighted"],
)
async def test_ranked_in_one_call_the_passages_are_those_of_two(
    stub: Any, retrieve: Client, options: options_pb2.RerankOptions
) -> None:
    async def fetch(
        selections: Sequence[candidate_pb2.CollectionChunks],
    ) -> Sequence[candidate_pb2.FetchedChunk]:
        request = retriever_service_pb2.FetchChunksRequest(selections=selections)
        response: retriever_service_pb2.FetchChunksResponse = await stub.FetchChunks(request, timeout=20)
        return response.chunks

    query, collections = "lease of a replica", ["guides", "drafts"]
    found = (await retrieve(query, collections, Options(adjacent_chunks=1))).response
    candidates = candidate_pb2.CandidateSet(query=query, lists=found.lists, features=found.features)
    request = reranker_service_pb2.RerankRequest(query=query, candidate_sets=[candidates], options=options)
    expected = await ranked_with_texts(rank, request, fetch)
    passages = await read_passages(expected.ranked, found.adjacent_chunks, fetch)

    ranking = retriever_service_pb2.Ranking(options=options)
    once = (await retrieve(query, collections, Options(adjacent_chunks=1), ranking=ranking)).response
    assert list(once.ranked.passages) == passages
    assert list(once.ranked.cut) == list(expected.cut)
    assert SECRET not in {passage.chunk.text for passage in once.ranked.passages}
    assert not once.features.chunk_ids


async def test_the_semantic_score_is_the_cosine_similarity(corpus: Any, retrieve: Client) -> None:
    query = "lease of a replica"
    found = await retrieve(query, ["guides"], Options(mode=options_pb2.RETRIEVAL_MODE_SEMANTIC))
    vector = await corpus.embedder.embed_query(query)
    for candidate in found.candidates:
        [document] = await corpus.embedder.embed_documents([candidate.chunk.text])
        assert candidate.explanation.semantic.score == pytest.approx(float(vector @ document), abs=2e-3)
        assert not candidate.explanation.HasField("keyword")


async def test_keyword_mode_does_not_embed(retrieve: Client) -> None:
    found = await retrieve(collections=["guides"], options=Options(mode=options_pb2.RETRIEVAL_MODE_KEYWORD))
    assert texts(found) == {LEASES, LEADER}
    assert stages(found) == {passage_pb2.STAGE_KEYWORD_SEARCH}


async def test_limits_and_thresholds_hold_per_arm(retrieve: Client) -> None:
    limited = await retrieve(collections=["guides"], options=Options(keyword_limit=1, semantic_limit=2))
    assert sum(candidate.explanation.HasField("keyword") for candidate in limited.candidates) == 1
    assert sum(candidate.explanation.HasField("semantic") for candidate in limited.candidates) == 2
    strict = await retrieve(collections=["guides"], options=Options(min_similarity=0.99, min_bm25=1000))
    assert not strict.candidates
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
    assert len(found.candidates) == 1
    assert not found.candidates[0].explanation.HasField("semantic")
    found = await retrieve(
        collections=["tuned"],
        options=Options(mode=options_pb2.RETRIEVAL_MODE_HYBRID, keyword_limit=2),
        principals="user:archivist",
    )
    assert len(found.candidates) == 3


async def test_several_collections_are_searched_and_each_has_its_own_ranks(retrieve: Client) -> None:
    found = await retrieve(collections=["guides", "drafts", "empty", "guides"])
    firsts = {
        candidate.chunk.collection_id
        for candidate in found.candidates
        if candidate.explanation.keyword.rank == 1
    }
    assert firsts == {"guides", "drafts"}
    assert len({candidate.chunk.chunk_id for candidate in found.candidates}) == len(found.candidates)


async def test_an_empty_collection_has_nothing(retrieve: Client) -> None:
    found = await retrieve(collections=["empty"])
    assert not found.candidates
    assert not found.degraded


async def test_a_chunk_carries_what_its_document_says(corpus: Any, retrieve: Client) -> None:
    await corpus.collection("atlas", readers=["user:archivist"])
    [chunk_id] = await corpus.add(
        "atlas", [LEASES], title="Leases", metadata={"team": "red", "pages": [1, 2], "draft": False}
    )
    [candidate] = (await retrieve(collections=["atlas"], principals="user:archivist")).candidates
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


async def test_a_filter_changes_no_score(retrieve: Client, shelf: list[int]) -> None:
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
        for arm in ("keyword", "semantic"):
            known, kept = scores(everything, arm), scores(found, arm)
            assert kept
            assert all(score == pytest.approx(known[key]) for key, score in kept.items() if key in known)


async def test_filters_reach_documents_by_id_and_see_no_more_than_the_caller(
    corpus: Any, retrieve: Client
) -> None:
    everything = await retrieve(collections=["drafts"], principals="group:board")
    assert texts(everything) == {LEASES, SECRET}
    for candidate in everything.candidates:
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
    [hit] = (await retrieve("leases", ["novel"], options, principals="user:reader")).candidates
    assert [chunk.chunk_index for chunk in hit.adjacent_chunks] == [1, 3]
    before, after = hit.adjacent_chunks
    assert before.text + hit.chunk.text + after.text == text[17:78]
    assert (before.start_offset, after.end_offset) == (17, 78)
    options.adjacent_chunks = 10
    [hit] = (await retrieve("leases", ["novel"], options, principals="user:reader")).candidates
    whole = sorted([hit.chunk, *hit.adjacent_chunks], key=lambda chunk: chunk.chunk_index)
    assert "".join(chunk.text for chunk in whole) == text


async def test_a_chunk_of_a_parent_comes_with_the_rest_of_it_and_nothing_else(corpus: Any, stub: Any) -> None:
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

    async def fetched(**selection: Any) -> list[int]:
        request = retriever_service_pb2.FetchChunksRequest(
            selections=[
                candidate_pb2.CollectionChunks(
                    collection_id="parents", chunk_ids=[rows[2]["chunk_id"]], **selection
                )
            ]
        )
        response = await stub.FetchChunks(request, timeout=20, metadata=((PRINCIPALS_KEY, "user:reader"),))
        [found] = response.chunks
        return [chunk.chunk_index for chunk in found.adjacent_chunks]

    assert await fetched() == []
    assert await fetched(with_parents=True) == [1, 3]
    assert await fetched(with_parents=True, adjacent_chunks=2) == [0, 1, 3, 4]


async def test_passages_come_with_the_versions_of_their_collections_as_they_are_read(
    corpus: Any, retrieve: Client
) -> None:
    async def versions() -> dict[str, int]:
        rows = await corpus.connection.fetch("SELECT collection_id, xmin FROM collections")
        return {name: version for name, version in rows if name in ("guides", "drafts")}

    before = await versions()

    async def told() -> dict[str, int]:
        found = await retrieve(
            collections=before,
            collection_versions=before.values(),
            ranking=retriever_service_pb2.Ranking(),
        )
        return dict(found.response.ranked.collection_versions)

    assert await told() == before
    await corpus.connection.execute(
        "UPDATE collections SET settings = settings WHERE collection_id = 'guides'"
    )
    assert await told() == await versions() != before


async def test_both_indexes_are_used(corpus: Any, database_url: str) -> None:
    """On a few thousand chunks, where PostgreSQL's default costs would choose a full scan."""
    await corpus.collection("many", [f"{BREAD} Loaf number {n} of {n % 97}." for n in range(3000)])
    table = f"chunks_p{await corpus.partition('many')}"
    await corpus.connection.execute(f"ANALYZE {table}")
    connection = await asyncpg.connect(database_url, server_settings=dict(postgres.SERVER_SETTINGS))
    try:
        plans = await _plans(connection, corpus, table)
    finally:
        await connection.close()
    assert f"Index Scan using {table}_hnsw" in plans["semantic"]
    assert "TopNScanExecState" in plans["keyword"]
    assert all("Seq Scan" not in plan for plan in plans.values())


async def _plans(connection: Any, corpus: Any, table: str) -> dict[str, str]:
    vector = await corpus.embedder.embed_query("bread")
    literal = "[" + ",".join(f"{value:.3f}" for value in vector) + "]"
    dimensions = corpus.embedder.dimensions
    visible = is_readable_document("$2")
    distance = f"(embedding::halfvec({dimensions})) <=> $1::halfvec({dimensions})"
    semantic = postgres._NEAREST.format(
        partition_id=0,
        table=table,
        distance=distance,
        selected=visible,
        scanned=50,
        limit=50,
        features=postgres._FEATURE_NAMES,
        features_sql=f"collection_id, {postgres._FEATURES}",
    )
    keyword = corpus.lexical.search_sql(table, "english", limit=50, columns=f"{visible} AS selected")
    found = {}
    for name, hits, argument in (("semantic", semantic, literal), ("keyword", keyword, "loaf 42")):
        rows = await connection.fetch(f"EXPLAIN (ANALYZE, COSTS OFF) {hits}", argument, ["user:eve"])
        found[name] = "\n".join(row[0] for row in rows)
    return found


async def test_what_changed_or_was_hidden_since_the_search_is_not_read(corpus: Any, stub: Any) -> None:
    """The index proposes, PostgreSQL decides."""
    await corpus.collection("minutes", [LEASES, LEADER, BREAD], readers=["user:clerk", "user:eve"])
    metadata = ((PRINCIPALS_KEY, "user:eve"),)

    async def read() -> set[str]:
        request = retriever_service_pb2.FetchChunksRequest(selections=selections_of(found))
        fetched = await stub.FetchChunks(request, timeout=20, metadata=metadata)
        return {each.chunk.text for each in fetched.chunks}

    request = retriever_service_pb2.RetrieveRequest(query="lease of a replica", collection_ids=["minutes"])
    found = await stub.Retrieve(request, timeout=20, metadata=metadata)
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
    selection = candidate_pb2.CollectionChunks(collection_id="rebuilt", chunk_ids=[chunk_id])
    request = retriever_service_pb2.FetchChunksRequest(selections=[selection])
    assert len((await stub.FetchChunks(request, timeout=20)).chunks) == 1
    await corpus.collection("spare")
    old, new = await corpus.partition("rebuilt"), await corpus.partition("spare")
    await corpus.connection.execute(
        "UPDATE collections SET partition_id = $1 WHERE collection_id = 'rebuilt'", new
    )
    assert not (await stub.FetchChunks(request, timeout=20)).chunks
    await corpus.connection.execute(f"UPDATE chunks SET partition_id = {new} WHERE partition_id = {old}")
    assert len((await stub.FetchChunks(request, timeout=20)).chunks) == 1


async def test_a_collection_in_a_version_that_is_known_is_not_read_again(corpus: Any, stub: Any) -> None:
    await corpus.collection("known", [LEASES], readers=["user:clerk"])

    async def lists(version: int, principal: str = "user:clerk") -> int:
        request = retriever_service_pb2.RetrieveRequest(
            query="lease", collection_ids=["known"], collection_versions=[version]
        )
        metadata = ((PRINCIPALS_KEY, principal),)
        return len((await stub.Retrieve(request, timeout=20, metadata=metadata)).lists)

    async def version() -> int:
        found: int = await corpus.connection.fetchval(
            "SELECT xmin FROM collections WHERE collection_id = 'known'"
        )
        return found

    first = await version()
    assert await lists(first) == 2
    await corpus.connection.execute(
        """UPDATE collections SET settings = '{"retrieval": {"mode": "RETRIEVAL_MODE_KEYWORD"}}'
        WHERE collection_id = 'known'"""
    )
    assert await lists(first) == 2, "the version that the caller has read"
    assert await lists(await version()) == 1
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await lists(first, "user:eve")
    assert refused.value.code() is grpc.StatusCode.NOT_FOUND


async def test_every_hit_has_what_ranking_needs(corpus: Any, stub: Any) -> None:
    chunk_ids = await corpus.collection("ranked", [LEASES, LEADER])
    request = retriever_service_pb2.RetrieveRequest(query="lease", collection_ids=["ranked"])
    features = (await stub.Retrieve(request, timeout=20)).features
    assert sorted(features.chunk_ids) == chunk_ids
    assert [features.collection_ids[position] for position in features.collections] == ["ranked"] * 2
    assert set(features.source_types) == {passage_pb2.SOURCE_TYPE_FILE}
    assert all(seconds > 1_700_000_000 for seconds in features.update_seconds)
    signatures = {signature(LEASES), signature(LEADER)}
    assert {features.signatures[:SIGNATURE_BYTES], features.signatures[SIGNATURE_BYTES:]} == signatures
