"""What orders fused candidates: weighted components, diversity, models, and what happens when they fail."""

import asyncio
import math
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from groundline_reranker.domain import (
    ArmScore,
    Candidate,
    Component,
    CutRule,
    Options,
    Ranking,
    Strategy,
    Weights,
)
from groundline_reranker.service import INLINE_CANDIDATES, RankingService
from groundline_runtime.context import deadline_at
from groundline_runtime.errors import ResourceExhaustedError

NEWEST = datetime(2026, 3, 1, tzinfo=UTC)


class ScriptedScorer:
    """Implements Scorer: scores by chunk id, or an error, after a time."""

    def __init__(
        self, scores: dict[int, float] | None = None, error: Exception | None = None, seconds: float = 0.0
    ) -> None:
        self._scores = scores or {}
        self._error = error
        self._seconds = seconds
        self.asked: list[tuple[str, list[int], str | None]] = []
        self.began = asyncio.Event()
        self.cancelled = False

    async def score(self, query: str, candidates: Sequence[Candidate], model: str | None) -> Sequence[float]:
        self.asked.append((query, [candidate.chunk_id for candidate in candidates], model))
        self.began.set()
        try:
            await asyncio.sleep(self._seconds)
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        if self._error:
            raise self._error
        return [self._scores[each.chunk_id] for each in candidates if each.chunk_id in self._scores]


def candidate(
    chunk_id: int,
    keyword: int | None = None,
    semantic: float | None = None,
    *,
    text: str | None = None,
    embedding: Sequence[float] = (),
    chunk_index: int = 0,
    source_type: str = "",
    update_time: datetime | None = None,
) -> Candidate:
    return Candidate(
        chunk_id,
        "guides",
        f"chunk number {chunk_id}" if text is None else text,
        None if keyword is None else ArmScore(keyword, 10.0 / keyword),
        None if semantic is None else ArmScore(1, semantic),
        embedding,
        chunk_index=chunk_index,
        source_type=source_type,
        update_time=update_time,
    )


def ids(ranking: Ranking) -> list[int]:
    return [passage.chunk_id for passage in ranking.passages]


def only(**weights: float) -> Options:
    """The weighted strategy with these components alone."""
    none = {"semantic": 0.0, "vector": 0.0, "position": 0.0}
    return Options(strategy=Strategy.WEIGHTED, weights=Weights(**{**none, **weights}))


async def values(found: list[Candidate], options: Options, query: str = "lease") -> dict[int, float]:
    ranking = await RankingService({}).rank(query, [found], options)
    return {passage.chunk_id: passage.final_score for passage in ranking.passages}


# Models that fail


@pytest.mark.parametrize("strategy", [Strategy.CROSS_ENCODER, Strategy.API, Strategy.LLM])
async def test_a_strategy_that_is_not_set_up_leaves_the_fused_order(strategy: Strategy) -> None:
    found = [candidate(1, 1), candidate(2, 2)]
    ranking = await RankingService({}).rank("lease", [found], Options(strategy=strategy))
    assert ids(ranking) == [1, 2]
    [degraded] = ranking.degraded
    assert (degraded.component, degraded.reason) == ("reranker", "STRATEGY_NOT_CONFIGURED")
    assert strategy.value in degraded.message


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ResourceExhaustedError("RERANK_API_QUOTA", "used up"), "RERANK_API_QUOTA"),
        (RuntimeError("secret of a provider"), "INTERNAL"),
    ],
)
async def test_a_model_that_fails_leaves_the_fused_order_and_shows_only_what_is_meant_for_clients(
    error: Exception, reason: str
) -> None:
    service = RankingService({Strategy.API: ScriptedScorer(error=error)})
    ranking = await service.rank(
        "lease", [[candidate(2, 2), candidate(1, 1)]], Options(strategy=Strategy.API)
    )
    assert ids(ranking) == [1, 2]
    assert ranking.passages[0].components == ()
    assert [degraded.reason for degraded in ranking.degraded] == [reason]
    assert "secret" not in ranking.degraded[0].message


@pytest.mark.parametrize("scores", [{1: 0.5}, {1: 0.5, 2: math.nan}, {1: 0.5, 2: math.inf}])
async def test_scores_that_are_incomplete_or_no_numbers_are_not_used(scores: dict[int, float]) -> None:
    service = RankingService({Strategy.LLM: ScriptedScorer(scores)})
    ranking = await service.rank(
        "lease", [[candidate(1, 1), candidate(2, 2)]], Options(strategy=Strategy.LLM)
    )
    assert ids(ranking) == [1, 2]
    assert [degraded.reason for degraded in ranking.degraded] == ["SCORES_UNUSABLE"]


async def test_a_late_model_is_cancelled_while_there_is_time_to_answer() -> None:
    slow = ScriptedScorer({1: 1.0, 2: 2.0}, seconds=60)
    service = RankingService({Strategy.CROSS_ENCODER: slow})
    deadline = time.monotonic() + 0.5
    with deadline_at(deadline):
        ranking = await service.rank(
            "lease", [[candidate(1, 1), candidate(2, 2)]], Options(strategy=Strategy.CROSS_ENCODER)
        )
    assert slow.cancelled
    assert ids(ranking) == [1, 2]
    assert [degraded.reason for degraded in ranking.degraded] == ["RERANKER_LATE"]


async def test_a_caller_who_goes_away_stops_the_model() -> None:
    slow = ScriptedScorer({1: 1.0}, seconds=60)
    service = RankingService({Strategy.API: slow})
    task = asyncio.create_task(service.rank("lease", [[candidate(1, 1)]], Options(strategy=Strategy.API)))
    await slow.began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert slow.cancelled


# Models


async def test_a_model_orders_what_it_sees_and_the_rest_is_cut() -> None:
    scorer = ScriptedScorer({1: -3.0, 2: 4.0, 3: 1.0})
    service = RankingService({Strategy.CROSS_ENCODER: scorer}, scored_candidates=3)
    found = [candidate(n, n) for n in range(1, 6)]
    options = Options(strategy=Strategy.CROSS_ENCODER, top_k=2, model="named", include_cut=True)
    ranking = await service.rank("lease", [found], options)
    assert scorer.asked == [("lease", [1, 2, 3], "named")]
    assert ids(ranking) == [2, 3]
    assert ranking.passages[0].components == (Component("cross_encoder", 4.0, 1.0),)
    assert ranking.passages[0].final_score == 4.0
    assert [(cut.passage.chunk_id, cut.rule) for cut in ranking.cut] == [
        (1, CutRule.TOP_K), (4, CutRule.TOP_K), (5, CutRule.TOP_K),
    ]  # fmt: skip
    assert ranking.degraded == ()


async def test_a_model_sees_as_many_as_are_wanted_and_no_duplicates() -> None:
    scorer = ScriptedScorer(dict.fromkeys(range(1, 6), 1.0))
    service = RankingService({Strategy.LLM: scorer}, scored_candidates=1)
    found = [candidate(n, n) for n in range(1, 5)] + [candidate(5, 5, text="chunk number 1")]
    ranking = await service.rank("lease", [found], Options(strategy=Strategy.LLM, top_k=4))
    assert scorer.asked[0][1] == [1, 2, 3, 4]
    assert ids(ranking) == [1, 2, 3, 4]  # of equal scores the better fused one
    assert [alternative.chunk_id for alternative in ranking.passages[0].alternatives] == [5]


async def test_no_model_is_asked_about_nothing() -> None:
    scorer = ScriptedScorer()
    ranking = await RankingService({Strategy.API: scorer}).rank("lease", [], Options(strategy=Strategy.API))
    assert (ids(ranking), ranking.degraded, scorer.asked) == ([], (), [])


async def test_min_score_looks_at_the_score_of_the_strategy() -> None:
    service = RankingService({Strategy.API: ScriptedScorer({1: 0.2, 2: 0.9})})
    options = Options(strategy=Strategy.API, min_score=0.5, include_cut=True)
    ranking = await service.rank("lease", [[candidate(1, 1), candidate(2, 2)]], options)
    assert ids(ranking) == [2]
    assert [(cut.passage.chunk_id, cut.rule) for cut in ranking.cut] == [(1, CutRule.MIN_SCORE)]


# The weighted strategy


async def test_by_default_fused_vector_and_position_count() -> None:
    found = [candidate(1, 1, 0.5, chunk_index=3), candidate(2, 2, 0.25)]
    ranking = await RankingService({}).rank("lease", [found], Options(strategy=Strategy.WEIGHTED))
    # Fused: 1 + 0.5 and 0.5 + 0.25.
    by_id = {passage.chunk_id: passage for passage in ranking.passages}
    assert by_id[1].components == (
        Component("fused", 1.0, 0.4), Component("vector", 0.5, 0.4), Component("position", 0.25, 0.2),
    )  # fmt: skip
    assert by_id[2].components == (
        Component("fused", 0.5, 0.4), Component("vector", 0.25, 0.4), Component("position", 1.0, 0.2),
    )  # fmt: skip
    assert by_id[1].final_score == pytest.approx(0.4 + 0.2 + 0.05)
    assert by_id[2].final_score == pytest.approx(0.2 + 0.1 + 0.2)


async def test_what_vector_search_did_not_find_is_taken_for_as_near_as_the_last_that_it_found() -> None:
    found = [candidate(1, None, 0.6), candidate(2, None, 0.2), candidate(3, 1)]
    assert await values(found, only(vector=1.0)) == {1: 0.6, 2: 0.2, 3: 0.2}


async def test_recency_halves_every_ninety_days_before_the_newest() -> None:
    found = [
        candidate(1, 1, update_time=NEWEST - timedelta(days=180)),
        candidate(2, 2, update_time=NEWEST),
        candidate(3, 3),
    ]
    assert await values(found, only(recency=1.0)) == pytest.approx({1: 0.25, 2: 1.0, 3: 0.0})


async def test_a_source_type_without_priority_has_none() -> None:
    found = [candidate(1, 1, source_type="file"), candidate(2, 2, source_type="web")]
    options = Options(
        strategy=Strategy.WEIGHTED, weights=only(type=1.0).weights, type_priorities={"web": 0.8}
    )
    assert await values(found, options) == {1: 0.0, 2: 0.8}


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


@pytest.mark.parametrize("query", ["", "lease", "lease lease", "the of", "quorum unknown"])
async def test_without_two_telling_words_nothing_is_near(query: str) -> None:
    found = [candidate(1, 1, text="The lease of the replica."), candidate(2, 2, text="The end of it.")]
    assert set((await values(found, only(proximity=1.0), query=query)).values()) == {0.0}


# Diversity


async def test_diversity_prefers_what_is_not_said_yet() -> None:
    found = [
        candidate(1, 1, embedding=[1.0, 0.0]),
        candidate(2, 2, embedding=[0.9, 0.5]),
        candidate(3, 3, embedding=[0.0, 1.0]),
    ]
    options = Options(top_k=2, mmr_lambda=0.5, include_cut=True)
    ranking = await RankingService({}).rank("lease", [found], options)
    assert ids(ranking) == [1, 3]
    assert [(cut.passage.chunk_id, cut.rule) for cut in ranking.cut] == [(2, CutRule.DIVERSITY)]
    assert [component.name for component in ranking.passages[1].components] == ["relevance", "redundancy"]


async def test_diversity_goes_by_texts_where_there_are_no_vectors() -> None:
    shared = "the leader renews its lease before the timer of any replica ends"
    found = [candidate(1, 1, text=shared), candidate(2, 2, text=f"{shared} and then votes"), candidate(3, 4)]
    assert ids(await RankingService({}).rank("x", [found], Options(top_k=2, mmr_lambda=0.3))) == [1, 3]
    assert ids(await RankingService({}).rank("x", [found], Options(top_k=2, mmr_lambda=1))) == [1, 2]


async def test_many_candidates_leave_the_event_loop_free() -> None:
    found = [candidate(n, n, text=f"text {n} " * 40) for n in range(1, 8 * INLINE_CANDIDATES)]
    task = asyncio.create_task(RankingService({}).rank("lease", [found], Options(strategy=Strategy.WEIGHTED)))
    turns = 0
    while not task.done():
        await asyncio.sleep(0)
        turns += 1
    assert len((await task).passages) == 8
    assert turns > 10
