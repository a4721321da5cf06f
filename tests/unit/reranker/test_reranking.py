"""Order of fused candidates: weighted components, diversity, models, and their failures."""

import asyncio
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from groundline.v1 import error_pb2, options_pb2, passage_pb2
from groundline.v1 import reranker_service_pb2 as pb
from groundline_ranking import INLINE_CANDIDATES
from groundline_reranker.service import RankingService
from groundline_runtime.context import deadline_at
from groundline_runtime.errors import ResourceExhaustedError
from groundline_tests.retriever.candidates import Found, request_of

Options = options_pb2.RerankOptions
WEIGHTED = options_pb2.RERANK_STRATEGY_WEIGHTED
CROSS_ENCODER = options_pb2.RERANK_STRATEGY_CROSS_ENCODER
API, LLM = options_pb2.RERANK_STRATEGY_API, options_pb2.RERANK_STRATEGY_LLM
TOP_K = passage_pb2.CUT_RULE_TOP_K

NEWEST = 1_772_323_200
DAY = 86_400


class ScriptedScorer:
    """Implements Scorer: scores by chunk id, or an error, after a time."""

    def __init__(
        self, scores: Mapping[Any, float] | None = None, error: Exception | None = None, seconds: float = 0.0
    ) -> None:
        self._scores = {str(chunk_id): score for chunk_id, score in (scores or {}).items()}
        self._error = error
        self._seconds = seconds
        self.asked: list[tuple[str, list[str], str | None]] = []
        self.began = asyncio.Event()
        self.cancelled = False

    async def score(
        self, query: str, chunks: Sequence[passage_pb2.Chunk], model: str | None
    ) -> Sequence[float]:
        chunk_ids = [chunk.chunk_id for chunk in chunks]
        self.asked.append((query, chunk_ids, model))
        self.began.set()
        try:
            await asyncio.sleep(self._seconds)
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        if self._error:
            raise self._error
        return [self._scores[chunk_id] for chunk_id in chunk_ids if chunk_id in self._scores]


def candidate(
    chunk_id: int, keyword: int | None = None, semantic: float | None = None, **fields: Any
) -> Found:
    """Return a chunk at this rank of the keyword arm, and with this similarity."""
    return Found(chunk_id, None if keyword is None else 10.0 / keyword, semantic, **fields)


def ids(response: pb.RerankResponse) -> list[int]:
    return [int(each.chunk_id) for each in response.ranked]


def cuts(response: pb.RerankResponse) -> list[tuple[int, int]]:
    return [(int(cut.chunk_id), cut.rule) for cut in response.cut]


def reasons(response: pb.RerankResponse) -> list[int]:
    return [degraded.reason for degraded in response.degraded]


def components(ranked: Any) -> list[tuple[str, Any, Any]]:
    return [
        (each.name, pytest.approx(each.value), pytest.approx(each.weight))
        for each in ranked.explanation.components
    ]


def only(**weights: float) -> Options:
    """Return the weighted strategy with these components alone."""
    none = {"semantic": 0.0, "vector": 0.0, "position": 0.0}
    return Options(strategy=WEIGHTED, weights=options_pb2.RerankWeights(**{**none, **weights}))


async def rank(service: RankingService, found: Sequence[Found], options: Options) -> pb.RerankResponse:
    return await service.rank(request_of(found, options))


async def values(found: list[Found], options: Options, query: str = "lease") -> dict[int, float]:
    response = await RankingService({}).rank(request_of(found, options, query=query))
    return {int(each.chunk_id): each.score for each in response.ranked}


# Models that fail


@pytest.mark.parametrize("strategy", [CROSS_ENCODER, API, LLM])
async def test_a_strategy_that_is_not_set_up_leaves_the_fused_order(
    strategy: options_pb2.RerankStrategy.ValueType,
) -> None:
    found = [candidate(1, 1), candidate(2, 2)]
    ranking = await rank(RankingService({}), found, Options(strategy=strategy))
    assert ids(ranking) == [1, 2]
    [degraded] = ranking.degraded
    assert (degraded.component, degraded.reason) == (
        passage_pb2.COMPONENT_RERANKER,
        error_pb2.STRATEGY_NOT_CONFIGURED,
    )


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ResourceExhaustedError("RERANK_API_QUOTA", "used up"), error_pb2.RERANK_API_QUOTA),
        (RuntimeError("secret of a provider"), error_pb2.INTERNAL),
    ],
)
async def test_a_model_that_fails_leaves_the_fused_order_and_shows_only_what_is_meant_for_clients(
    error: Exception, reason: int
) -> None:
    service = RankingService({API: ScriptedScorer(error=error)})
    ranking = await rank(service, [candidate(2, 2), candidate(1, 1)], Options(strategy=API))
    assert ids(ranking) == [1, 2]
    assert not ranking.ranked[0].explanation.components
    assert reasons(ranking) == [reason]
    assert "secret" not in ranking.degraded[0].message


@pytest.mark.parametrize("scores", [{1: 0.5}, {1: 0.5, 2: math.nan}, {1: 0.5, 2: math.inf}])
async def test_scores_that_are_incomplete_or_no_numbers_are_not_used(scores: dict[int, float]) -> None:
    service = RankingService({LLM: ScriptedScorer(scores)})
    ranking = await rank(service, [candidate(1, 1), candidate(2, 2)], Options(strategy=LLM))
    assert ids(ranking) == [1, 2]
    assert reasons(ranking) == [error_pb2.SCORES_UNUSABLE]


async def test_a_late_model_is_cancelled_while_there_is_time_to_answer() -> None:
    slow = ScriptedScorer({1: 1.0, 2: 2.0}, seconds=60)
    service = RankingService({CROSS_ENCODER: slow})
    deadline = time.monotonic() + 0.5
    with deadline_at(deadline):
        ranking = await rank(service, [candidate(1, 1), candidate(2, 2)], Options(strategy=CROSS_ENCODER))
    assert slow.cancelled
    assert ids(ranking) == [1, 2]
    assert reasons(ranking) == [error_pb2.RERANKER_LATE]


async def test_a_caller_who_goes_away_stops_the_model() -> None:
    slow = ScriptedScorer({1: 1.0}, seconds=60)
    service = RankingService({API: slow})
    task = asyncio.create_task(rank(service, [candidate(1, 1)], Options(strategy=API)))
    await slow.began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert slow.cancelled


# Models


async def test_a_model_orders_the_texts_that_it_is_shown() -> None:
    scorer = ScriptedScorer({1: -3.0, 2: 4.0, 3: 1.0})
    service = RankingService({CROSS_ENCODER: scorer})
    options = Options(strategy=CROSS_ENCODER, top_k=2, model="named", include_cut=True)
    request = request_of([candidate(n, n) for n in range(1, 6)], options)
    for unseen in request.candidates[3:]:
        unseen.text = ""
    ranking = await service.rank(request)
    assert scorer.asked == [("lease", ["1", "2", "3"], "named")]
    assert ids(ranking) == [2, 3]
    assert components(ranking.ranked[0]) == [("cross_encoder", 4.0, 1.0)]
    assert ranking.ranked[0].score == 4.0
    assert cuts(ranking) == [(1, TOP_K)]
    assert not ranking.degraded


async def test_a_model_sees_no_duplicates() -> None:
    scorer = ScriptedScorer(dict.fromkeys(range(1, 6), 1.0))
    service = RankingService({LLM: scorer})
    found = [candidate(n, n) for n in range(1, 5)] + [candidate(5, 5, text="chunk number 1")]
    ranking = await rank(service, found, Options(strategy=LLM, top_k=4))
    assert scorer.asked[0][1] == ["1", "2", "3", "4"]
    assert ids(ranking) == [1, 2, 3, 4]  # of equal scores the better fused one
    assert [duplicate.chunk_id for duplicate in ranking.ranked[0].duplicates] == ["5"]


async def test_no_model_is_asked_about_nothing() -> None:
    scorer = ScriptedScorer()
    ranking = await rank(RankingService({API: scorer}), [], Options(strategy=API))
    assert (ids(ranking), reasons(ranking), scorer.asked) == ([], [], [])


async def test_min_score_looks_at_the_score_of_the_strategy() -> None:
    service = RankingService({API: ScriptedScorer({1: 0.2, 2: 0.9})})
    options = Options(strategy=API, min_score=0.5, include_cut=True)
    ranking = await rank(service, [candidate(1, 1), candidate(2, 2)], options)
    assert ids(ranking) == [2]
    assert cuts(ranking) == [(1, passage_pb2.CUT_RULE_MIN_SCORE)]


# The weighted strategy


async def test_by_default_fused_vector_and_position_count() -> None:
    found = [candidate(1, 1, 0.5, chunk_index=3), candidate(2, 2, 0.25)]
    ranking = await rank(RankingService({}), found, Options(strategy=WEIGHTED))
    # Fused: 1 + 0.5 and 0.5 + 0.25.
    by_id = {int(each.chunk_id): each for each in ranking.ranked}
    assert components(by_id[1]) == [("fused", 1.0, 0.4), ("vector", 0.5, 0.4), ("position", 0.25, 0.2)]
    assert components(by_id[2]) == [("fused", 0.5, 0.4), ("vector", 0.25, 0.4), ("position", 1.0, 0.2)]
    assert by_id[1].score == pytest.approx(0.4 + 0.2 + 0.05)
    assert by_id[2].score == pytest.approx(0.2 + 0.1 + 0.2)


async def test_what_vector_search_did_not_find_is_taken_for_as_near_as_the_last_that_it_found() -> None:
    found = [candidate(1, None, 0.6), candidate(2, None, 0.2), candidate(3, 1)]
    assert await values(found, only(vector=1.0)) == pytest.approx({1: 0.6, 2: 0.2, 3: 0.2})


async def test_recency_halves_every_ninety_days_before_the_newest() -> None:
    found = [
        candidate(1, 1, update_seconds=NEWEST - 180 * DAY),
        candidate(2, 2, update_seconds=NEWEST),
        candidate(3, 3),
    ]
    assert await values(found, only(recency=1.0)) == pytest.approx({1: 0.25, 2: 1.0, 3: 0.0})


async def test_a_source_type_without_priority_has_none() -> None:
    found = [
        candidate(1, 1, source_type=passage_pb2.SOURCE_TYPE_FILE),
        candidate(2, 2, source_type=passage_pb2.SOURCE_TYPE_WEB),
    ]
    options = Options(strategy=WEIGHTED, weights=only(type=1.0).weights, type_priorities={"web": 0.8})
    assert await values(found, options) == pytest.approx({1: 0.0, 2: 0.8})


async def test_of_the_query_rare_words_count_most() -> None:
    found = [
        candidate(1, 1, text="The lease ends."),
        candidate(2, 2, text="The quorum is met."),
        candidate(3, 3, text="The LEASE of the quorum"),
        candidate(4, 4, text="The end of it"),
    ]
    scores = await values(found, only(keyword=1.0), query="the quorum-lease")
    assert scores[3] == pytest.approx(1.0)
    assert scores[1] == pytest.approx(scores[2])
    assert 0 < scores[4] < 0.2 < scores[1] < 1


async def test_neighbouring_words_of_the_query_count_the_more_the_nearer_they_are() -> None:
    found = [
        candidate(1, 1, text="The lease of a replica ends when the timer does."),
        candidate(2, 2, text="The replica lease."),
        candidate(3, 3, text="A lease, and what a long text says of it, is not what it says of a replica."),
        candidate(4, 4, text="The timer of the lease."),
        candidate(5, 5, text="The end of it."),
        candidate(6, 6, text="It is the end."),
        candidate(7, 7, text="The end."),
        candidate(8, 8, text="The beginning."),
    ]
    scores = await values(found, only(proximity=1.0), query="the replica lease")
    assert scores[2] == pytest.approx(1.0)
    assert scores[2] > scores[1] > scores[3] > scores[4] == scores[5] == 0.0


@pytest.mark.parametrize("query", ["lease", "lease lease", "the of", "quorum unknown"])
async def test_without_two_telling_words_nothing_is_near(query: str) -> None:
    found = [candidate(1, 1, text="The lease of the replica."), candidate(2, 2, text="The end of it.")]
    assert set((await values(found, only(proximity=1.0), query=query)).values()) == {0.0}


# Diversity


SAID = "the leader renews its lease before the timer of any replica ends"


async def test_diversity_prefers_what_is_not_said_yet() -> None:
    found = [
        candidate(1, 1, text=SAID),
        candidate(2, 2, text=f"{SAID} and then votes"),
        candidate(3, 3, text="bread is baked until its crust is brown"),
    ]
    options = Options(top_k=2, mmr_lambda=0.5, include_cut=True)
    ranking = await rank(RankingService({}), found, options)
    assert ids(ranking) == [1, 3]
    assert cuts(ranking) == [(2, passage_pb2.CUT_RULE_DIVERSITY)]
    assert [each.name for each in ranking.ranked[1].explanation.components] == ["relevance", "redundancy"]


async def test_with_a_lambda_of_one_relevance_alone_decides() -> None:
    found = [candidate(1, 1, text=SAID), candidate(2, 2, text=f"{SAID} and then votes"), candidate(3, 4)]
    assert ids(await rank(RankingService({}), found, Options(top_k=2, mmr_lambda=0.25))) == [1, 3]
    assert ids(await rank(RankingService({}), found, Options(top_k=2, mmr_lambda=1))) == [1, 2]


# Texts and lists


def text(chunk_id: str, text: str) -> passage_pb2.Chunk:
    return passage_pb2.Chunk(chunk_id=chunk_id, text=text)


async def test_texts_without_lists_are_in_order_until_a_model_scores_them() -> None:
    request = pb.RerankRequest(
        query="lease", candidates=[text("b", "One."), text("a", "Two."), text("c", "One.")]
    )
    ranking = await RankingService({}).rank(request)
    assert [each.chunk_id for each in ranking.ranked] == ["b", "a"]
    assert [each.chunk_id for each in ranking.ranked[0].duplicates] == ["c"]
    assert not ranking.ranked[0].explanation.HasField("semantic")

    request.options.strategy = API
    ranking = await RankingService({API: ScriptedScorer({"b": 0.1, "a": 0.2})}).rank(request)
    assert [each.chunk_id for each in ranking.ranked] == ["a", "b"]
    assert [each.score for each in ranking.ranked] == pytest.approx([0.2, 0.1])


async def test_a_candidate_without_a_text_is_not_scored_and_left_out() -> None:
    service = RankingService({API: ScriptedScorer({"1": 0.1, "2": 0.2})})
    request = request_of([candidate(1, 1), candidate(2, 2)], Options(strategy=API))
    request.candidates[0].text = ""
    assert ids(await service.rank(request)) == [2]


async def test_a_candidate_in_no_list_is_left_out() -> None:
    request = request_of([candidate(1, 1), candidate(2)], Options())
    assert ids(await RankingService({}).rank(request)) == [1]


async def test_many_candidates_leave_the_event_loop_free() -> None:
    found = [candidate(n, n, text=f"text {n} " * 40) for n in range(1, 8 * INLINE_CANDIDATES)]
    request = request_of(found, Options(strategy=WEIGHTED))
    task = asyncio.create_task(RankingService({}).rank(request))
    turns = 0
    while not task.done():
        await asyncio.sleep(0)
        turns += 1
    assert len((await task).ranked) == 8
    assert turns > 10
