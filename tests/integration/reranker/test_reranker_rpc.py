"""The reranker over gRPC."""

from collections.abc import AsyncIterator
from typing import Any, cast

import grpc
import pytest
from groundline.v1 import options_pb2, passage_pb2, reranker_service_pb2, reranker_service_pb2_grpc
from groundline_reranker.__main__ import wire
from groundline_reranker.settings import RerankerSettings
from groundline_runtime.errors import InvalidArgumentError
from groundline_runtime.status import from_rpc_error
from groundline_tests.runtime import serve

Options = options_pb2.RerankOptions
Request = reranker_service_pb2.RerankRequest


@pytest.fixture(scope="module")
async def stub() -> AsyncIterator[Any]:
    async with (
        wire(RerankerSettings.model_construct()) as application,
        serve(application) as target,
        grpc.aio.insecure_channel(target) as channel,
    ):
        yield reranker_service_pb2_grpc.RerankerServiceStub(channel)


async def call(stub: Any, request: Request) -> reranker_service_pb2.RerankResponse:
    try:
        return cast("reranker_service_pb2.RerankResponse", await stub.Rerank(request, timeout=20))
    except grpc.aio.AioRpcError as error:
        raise from_rpc_error(error) from None


def candidate(
    chunk_id: str, keyword: int | None = None, semantic: int | None = None, text: str = ""
) -> passage_pb2.Candidate:
    return passage_pb2.Candidate(
        chunk=passage_pb2.Chunk(
            chunk_id=chunk_id, collection_id="guides", text=text or f"text of {chunk_id}", title="Leases"
        ),
        keyword=None if keyword is None else passage_pb2.ArmScore(rank=keyword, score=10 / keyword),
        semantic=None if semantic is None else passage_pb2.ArmScore(rank=semantic, score=1 / semantic),
        neighbours=[passage_pb2.Chunk(chunk_id=f"{chunk_id}9", text="beside it")],
    )


def request(*candidates: passage_pb2.Candidate, options: Options | None = None) -> Request:
    found = reranker_service_pb2.CandidateSet(query="lease", candidates=candidates)
    return Request(query="lease", candidate_sets=[found], options=options)


async def test_every_wrong_field_is_named(stub: Any) -> None:
    nan = float("nan")
    wrong = Request(
        query="  ",
        candidate_sets=[
            reranker_service_pb2.CandidateSet(
                query="lease",
                candidates=[
                    candidate("1", keyword=1),
                    candidate("1", keyword=2),
                    candidate("07", keyword=3),
                    candidate("9" * 19, semantic=1),
                    candidate("4"),
                    passage_pb2.Candidate(
                        chunk=passage_pb2.Chunk(chunk_id="5"),
                        semantic=passage_pb2.ArmScore(rank=0, score=nan),
                    ),
                ],
            )
        ],
        options=Options(
            top_k=0, rrf_k=1001, keyword_weight=0, semantic_weight=0, fold_similarity=1.1, mmr_lambda=-1,
            min_score=nan, fusion=cast("Any", 9), strategy=cast("Any", 9),
            weights=options_pb2.RerankWeights(recency=-1), type_priorities={"tape": 1, "web": 2},
        ),
    )  # fmt: skip
    with pytest.raises(InvalidArgumentError) as caught:
        await call(stub, wrong)
    assert {violation.field for violation in caught.value.violations} == {
        "query", "candidate_sets[0].candidates[1].chunk.chunk_id",
        "candidate_sets[0].candidates[2].chunk.chunk_id", "candidate_sets[0].candidates[3].chunk.chunk_id",
        "candidate_sets[0].candidates[4]", "candidate_sets[0].candidates[5].semantic.rank",
        "candidate_sets[0].candidates[5].semantic.score", "options.top_k", "options.rrf_k",
        "options.semantic_weight", "options.fold_similarity", "options.mmr_lambda", "options.min_score",
        "options.fusion", "options.strategy", "options.weights.recency", "options.type_priorities[tape]",
        "options.type_priorities[web]",
    }  # fmt: skip


async def test_sets_are_counted(stub: Any) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        await call(stub, Request(query="lease", candidate_sets=[reranker_service_pb2.CandidateSet()] * 11))
    assert [violation.field for violation in caught.value.violations] == ["candidate_sets"]


async def test_a_strategy_that_is_not_set_up_is_named_in_degraded(stub: Any) -> None:
    options = Options(strategy=options_pb2.RERANK_STRATEGY_API)
    response = await call(stub, request(candidate("1", 1), options=options))
    assert [passage.chunk.chunk_id for passage in response.passages] == ["1"]
    assert [(each.component, each.reason) for each in response.degraded] == [
        ("reranker", "STRATEGY_NOT_CONFIGURED")
    ]


async def test_components_weights_and_priorities_arrive(stub: Any) -> None:
    found = [candidate("1", 1), candidate("2", 2)]
    found[1].chunk.source_type = passage_pb2.SOURCE_TYPE_WEB
    options = Options(
        strategy=options_pb2.RERANK_STRATEGY_WEIGHTED,
        weights=options_pb2.RerankWeights(semantic=0.1, vector=0, position=0, type=2),
        type_priorities={"web": 0.5},
        mmr_lambda=1,
    )
    response = await call(stub, request(*found, options=options))
    best = response.passages[0]
    assert best.chunk.chunk_id == "2"
    components = [(each.name, each.value, each.weight) for each in best.explanation.components]
    assert components == [
        ("fused", 0.5, pytest.approx(0.1)),
        ("type", 0.5, 2.0),
        ("relevance", 1.0, 1.0),
        ("redundancy", 0.0, 0.0),
    ]
    assert best.score == best.explanation.final_score == 1.0


async def test_nothing_in_gives_nothing_out(stub: Any) -> None:
    assert not (await call(stub, Request(query="lease"))).passages


async def test_passages_come_best_first_with_chunk_neighbours_and_explanation(stub: Any) -> None:
    response = await call(stub, request(candidate("3", 2), candidate("2", 1, 2), candidate("1", None, 1)))
    assert [passage.chunk.chunk_id for passage in response.passages] == ["2", "1", "3"]
    best = response.passages[0]
    assert best.chunk.title == "Leases"
    assert [chunk.text for chunk in best.neighbours] == ["beside it"]
    assert (best.explanation.keyword.rank, best.explanation.semantic.rank) == (1, 2)
    assert best.explanation.fused_rank == 1
    assert best.score == best.explanation.fused_score == best.explanation.final_score
    assert best.score == pytest.approx(1 + 0.5)
    assert not response.passages[1].explanation.HasField("keyword")
    assert not response.cut


async def test_eight_passages_unless_asked_otherwise_and_the_rest_on_request(stub: Any) -> None:
    found = [candidate(str(n), keyword=n) for n in range(1, 13)]
    assert len((await call(stub, request(*found))).passages) == 8
    asked = await call(stub, request(*found, options=Options(top_k=11, include_cut=True)))
    assert len(asked.passages) == 11
    [cut] = asked.cut
    assert (cut.chunk_id, cut.rule) == ("12", passage_pb2.CUT_RULE_TOP_K)
    assert cut.explanation.keyword.rank == 12


async def test_near_duplicates_are_listed_as_alternatives(stub: Any) -> None:
    response = await call(stub, request(candidate("1", 1, text="same"), candidate("2", 2, text="Same ")))
    [passage] = response.passages
    assert [(each.chunk.chunk_id, each.similarity) for each in passage.alternatives] == [("2", 1.0)]
    off = Options(fold_similarity=0)
    response = await call(
        stub, request(candidate("1", 1, text="same"), candidate("2", 2, text="Same "), options=off)
    )
    assert len(response.passages) == 2


async def test_thousands_of_candidates_are_ranked(stub: Any) -> None:
    found = [candidate(str(n), keyword=n, semantic=5001 - n) for n in range(1, 5001)]
    response = await call(stub, request(*found, options=Options(top_k=100)))
    assert len(response.passages) == 100


async def test_more_candidates_than_a_set_holds_are_refused(stub: Any) -> None:
    found = [passage_pb2.Candidate(chunk=passage_pb2.Chunk(chunk_id=str(n))) for n in range(10_001)]
    with pytest.raises(InvalidArgumentError) as caught:
        await call(stub, request(*found))
    assert [violation.field for violation in caught.value.violations] == ["candidate_sets[0].candidates"]
