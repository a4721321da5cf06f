"""The reranker over gRPC."""

from collections.abc import AsyncIterator
from typing import Any, cast

import grpc
import pytest
from groundline.v1 import error_pb2, options_pb2, passage_pb2, reranker_service_pb2_grpc
from groundline.v1 import reranker_service_pb2 as pb
from groundline_reranker.__main__ import wire
from groundline_reranker.settings import RerankerSettings
from groundline_runtime.errors import InvalidArgumentError
from groundline_runtime.status import from_rpc_error
from groundline_tests.retriever.candidates import Found, at, request_of
from groundline_tests.runtime import serve

Options = options_pb2.RerankOptions
Request = pb.RerankRequest


@pytest.fixture(scope="module")
async def stub() -> AsyncIterator[Any]:
    async with (
        wire(RerankerSettings.model_construct()) as application,
        serve(application) as target,
        grpc.aio.insecure_channel(target) as channel,
    ):
        yield reranker_service_pb2_grpc.RerankerServiceStub(channel)


async def call(stub: Any, request: Request) -> pb.RerankResponse:
    try:
        return cast("pb.RerankResponse", await stub.Rerank(request, timeout=20))
    except grpc.aio.AioRpcError as error:
        raise from_rpc_error(error) from None


def request(*found: Found, options: Options | None = None) -> Request:
    return request_of(found, options or Options())


def ids(response: pb.RerankResponse) -> list[int]:
    return [int(each.chunk_id) for each in response.ranked]


async def test_every_wrong_field_is_named(stub: Any) -> None:
    nan = float("nan")
    found = request(at(1, 1), at(2, None, 1))
    found.lists.add(arm=pb.SEARCH_ARM_KEYWORD, chunk_ids=["7", "7", ""], scores=[1, nan])
    found.lists.add()
    wrong = Request(
        query="  ",
        candidates=[*found.candidates, passage_pb2.Chunk(chunk_id="1"), passage_pb2.Chunk()],
        lists=found.lists,
        options=Options(
            top_k=0, rrf_k=1001, keyword_weight=0, semantic_weight=0,
            deduplication_threshold=1.1, mmr_lambda=-1, min_score=nan,
            fusion=cast("Any", 9), strategy=cast("Any", 9),
            weights=options_pb2.RerankWeights(recency=-1), type_priorities={"tape": 1, "web": 2},
        ),
    )  # fmt: skip
    with pytest.raises(InvalidArgumentError) as caught:
        await call(stub, wrong)
    assert {violation.field for violation in caught.value.violations} == {
        "query", "candidates[2].chunk_id", "candidates[3].chunk_id", "lists[2].chunk_ids",
        "lists[2].chunk_ids[2]", "lists[2].scores", "lists[2].scores[1]", "lists[3].arm",
        "options.top_k", "options.rrf_k",
        "options.semantic_weight", "options.deduplication_threshold", "options.mmr_lambda",
        "options.min_score",
        "options.fusion", "options.strategy", "options.weights.recency", 'options.type_priorities["tape"]',
        'options.type_priorities["web"]',
    }  # fmt: skip


async def test_a_strategy_that_is_not_set_up_is_named_in_degraded(stub: Any) -> None:
    options = Options(strategy=options_pb2.RERANK_STRATEGY_API)
    response = await call(stub, request(at(1, 1), options=options))
    assert ids(response) == [1]
    assert [(each.component, each.reason) for each in response.degraded] == [
        (passage_pb2.COMPONENT_RERANKER, error_pb2.STRATEGY_NOT_CONFIGURED)
    ]


async def test_components_weights_and_priorities_arrive(stub: Any) -> None:
    found = [at(1, 1), at(2, 2, source_type=passage_pb2.SOURCE_TYPE_WEB)]
    options = Options(
        strategy=options_pb2.RERANK_STRATEGY_WEIGHTED,
        weights=options_pb2.RerankWeights(semantic=0.1, vector=0, position=0, type=2),
        type_priorities={"web": 0.5},
        mmr_lambda=1,
    )
    response = await call(stub, request(*found, options=options))
    best = response.ranked[0]
    assert best.chunk_id == "2"
    components = [(each.name, each.value, each.weight) for each in best.explanation.components]
    assert components == [
        ("fused", 0.5, pytest.approx(0.1)),
        ("type", 0.5, 2.0),
        ("relevance", 1.0, 1.0),
        ("redundancy", 0.0, 0.0),
    ]
    assert best.score == best.explanation.final_score == 1.0


async def test_nothing_in_gives_nothing_out(stub: Any) -> None:
    assert not (await call(stub, Request(query="lease"))).ranked


async def test_chunks_come_best_first_with_their_explanation(stub: Any) -> None:
    response = await call(stub, request(at(3, 2), at(2, 1, 2), at(1, None, 1)))
    assert ids(response) == [2, 1, 3]
    best = response.ranked[0]
    assert (best.explanation.keyword.rank, best.explanation.semantic.rank) == (1, 2)
    assert best.explanation.fused_rank == 1
    assert best.score == best.explanation.fused_score == best.explanation.final_score
    assert best.score == pytest.approx(1 + 0.5)
    assert not response.ranked[1].explanation.HasField("keyword")
    assert not response.cut


async def test_eight_passages_unless_asked_otherwise_and_the_rest_on_request(stub: Any) -> None:
    found = [at(n, keyword=n) for n in range(1, 13)]
    assert len((await call(stub, request(*found))).ranked) == 8
    asked = await call(stub, request(*found, options=Options(top_k=11, include_cut=True)))
    assert len(asked.ranked) == 11
    [cut] = asked.cut
    assert (cut.chunk_id, cut.rule) == ("12", passage_pb2.CUT_RULE_TOP_K)
    assert cut.explanation.keyword.rank == 12


async def test_ids_are_any_text(stub: Any) -> None:
    chunks = [passage_pb2.Chunk(chunk_id=each, text="same") for each in ("a/b", "-1", "²", "9" * 200)]
    response = await call(
        stub, Request(query="lease", candidates=chunks, options=Options(top_k=1, include_cut=True))
    )
    [kept] = response.ranked
    assert (kept.chunk_id, {each.chunk_id for each in kept.duplicates}) == ("a/b", {"-1", "²", "9" * 200})
    assert {each.chunk_id for each in response.cut} <= {"-1", "²", "9" * 200}


async def test_near_duplicates_are_listed_with_their_better(stub: Any) -> None:
    response = await call(stub, request(at(1, 1, text="same"), at(2, 2, text="Same ")))
    [kept] = response.ranked
    assert [(each.chunk_id, each.similarity) for each in kept.duplicates] == [("2", 1.0)]
    off = Options(deduplication_threshold=0)
    response = await call(stub, request(at(1, 1, text="same"), at(2, 2, text="Same "), options=off))
    assert len(response.ranked) == 2


async def test_thousands_of_candidates_are_ranked(stub: Any) -> None:
    found = [at(n, keyword=n, semantic=5001 - n) for n in range(1, 5001)]
    response = await call(stub, request(*found, options=Options(top_k=100)))
    assert len(response.ranked) == 100


async def test_more_candidates_than_a_request_holds_are_refused(stub: Any) -> None:
    found = [at(n, keyword=n + 1) for n in range(10_001)]
    with pytest.raises(InvalidArgumentError) as caught:
        await call(stub, request(*found))
    assert "candidates" in {each.field for each in caught.value.violations}
