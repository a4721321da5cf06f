"""Fusion, folding and cutting, as pure functions."""

import math
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from groundline_reranker.domain import (
    Alternative,
    ArmScore,
    Candidate,
    CutRule,
    Fusion,
    Options,
    Ranking,
    Strategy,
)
from groundline_reranker.fusion import fuse
from groundline_reranker.ranking import finish, fuse_and_fold
from groundline_reranker.similarity import LEAST_FOLDED, MOST_FOLDED
from hypothesis import given
from hypothesis import strategies as st

WORDS = (
    "lease",
    "replica",
    "leader",
    "quorum",
    "ledger",
    "timer",
    "heartbeat",
    "term",
    "vote",
    "log",
    "commit",
)


def candidate(
    chunk_id: int,
    keyword: int | None = None,
    semantic: int | None = None,
    *,
    text: str | None = None,
    collection: str = "guides",
    embedding: Sequence[float] = (),
) -> Candidate:
    """A candidate with ranks; its scores fall with them."""
    return Candidate(
        chunk_id,
        collection,
        f"chunk number {chunk_id}" if text is None else text,
        None if keyword is None else ArmScore(keyword, 10.0 / keyword),
        None if semantic is None else ArmScore(semantic, 1.0 / semantic),
        tuple(embedding),
    )


def rank(sets: Sequence[Sequence[Candidate]], options: Options) -> Ranking:
    fused = fuse_and_fold(sets, options)
    return finish("lease quorum", fused, fused.kept, (), options)


def prose(seed: int, count: int = 120) -> list[str]:
    return random.Random(seed).choices(WORDS, k=count)


@st.composite
def candidate_sets(draw: st.DrawFn) -> list[list[Candidate]]:
    """Up to three sets; in each arm of each collection of a set the ranks count from 1."""
    sets = []
    for _ in range(draw(st.integers(0, 3))):
        ids = draw(st.lists(st.integers(1, 40), unique=True, max_size=20))
        arms: dict[int, list[ArmScore | None]] = {chunk_id: [None, None] for chunk_id in ids}
        for arm in (0, 1):
            for collection in (0, 1):
                members = [chunk_id for chunk_id in ids if chunk_id % 2 == collection]
                found = draw(st.permutations(members))[: draw(st.integers(0, len(members)))]
                scores = sorted(draw(st.lists(st.floats(0, 30), min_size=len(found), max_size=len(found))))
                for position, (chunk_id, score) in enumerate(zip(found, reversed(scores), strict=True), 1):
                    arms[chunk_id][arm] = ArmScore(position, score)
        sets.append(
            [
                Candidate(
                    chunk_id,
                    f"collection{chunk_id % 2}",
                    " ".join(prose(chunk_id // 3, 12)),
                    found[0],
                    found[1],
                )
                for chunk_id, found in arms.items()
                if any(found)
            ]
        )
    return sets


options = st.builds(
    Options,
    top_k=st.integers(1, 100),
    fusion=st.sampled_from(Fusion),
    rrf_k=st.integers(1, 1000),
    keyword_weight=st.sampled_from([None, 0.0, 0.5, 1.0, 2.0]),
    semantic_weight=st.sampled_from([0.25, 1.0]),
    fold_similarity=st.sampled_from([0.0, 0.5, 0.9, 1.0]),
    strategy=st.sampled_from([Strategy.NONE, Strategy.WEIGHTED]),
    mmr_lambda=st.sampled_from([None, 0.0, 0.5, 1.0]),
    min_score=st.none() | st.floats(0, 0.05),
    include_cut=st.just(True),
)


# Nothing, and ties


def test_nothing_in_gives_nothing_out() -> None:
    assert rank([], Options()).passages == []
    assert rank([[], []], Options()).passages == []


def test_ties_go_to_the_smaller_id() -> None:
    found = [candidate(12, keyword=1), candidate(9, semantic=1), candidate(100, keyword=1, collection="b")]
    assert [passage.chunk_id for passage in fuse([found], Options(fusion=Fusion.RRF))] == [
        9,
        12,
        100,
    ]


# Properties


@given(candidate_sets(), options, st.randoms())
def test_the_order_of_sets_and_candidates_changes_nothing(
    sets: list[list[Candidate]], options: Options, shuffler: random.Random
) -> None:
    expected = rank(sets, options)
    shuffled = [shuffler.sample(found, len(found)) for found in sets]
    shuffler.shuffle(shuffled)
    assert rank(shuffled, options) == expected


@given(candidate_sets(), options)
def test_every_chunk_is_returned_or_cut_once(sets: list[list[Candidate]], options: Options) -> None:
    ranking = rank(sets, options)
    places = [passage.chunk_id for passage in ranking.passages] + [
        cut.passage.chunk_id for cut in ranking.cut
    ]
    assert len(places) == len(set(places))
    assert set(places) == {passage.chunk_id for passage in fuse(sets, options)}
    assert len(ranking.passages) <= options.top_k


@given(candidate_sets(), options)
def test_scores_fall_and_are_finite(sets: list[list[Candidate]], options: Options) -> None:
    passages = fuse(sets, options)
    scores = [passage.fused_score for passage in passages]
    assert scores == sorted(scores, reverse=True)
    assert all(math.isfinite(score) and score >= 0 for score in scores)
    assert [passage.fused_rank for passage in passages] == list(range(1, len(passages) + 1))


@given(candidate_sets(), options)
def test_final_scores_never_rise(sets: list[list[Candidate]], options: Options) -> None:
    scores = [passage.final_score for passage in rank(sets, options).passages]
    assert scores == sorted(scores, reverse=True)


@given(st.integers(1, 50), st.integers(1, 50), st.integers(1, 1000))
def test_a_better_rank_in_one_arm_never_scores_lower(better: int, other: int, rrf_k: int) -> None:
    better, worse = sorted((better, other))
    found = [candidate(1, keyword=worse, semantic=3), candidate(2, keyword=better, semantic=3)]
    scores = {
        passage.chunk_id: passage.fused_score
        for passage in fuse([found], Options(fusion=Fusion.RRF, rrf_k=rrf_k))
    }
    assert scores[2] >= scores[1]


@given(candidate_sets(), st.sampled_from(Fusion))
def test_an_arm_of_weight_zero_is_left_out(sets: list[list[Candidate]], fusion: Fusion) -> None:
    without = [
        [
            Candidate(each.chunk_id, each.collection_id, each.text, each.keyword)
            for each in found
            if each.keyword is not None
        ]
        for found in sets
    ]
    left = fuse(sets, Options(fusion=fusion, semantic_weight=0))
    assert [(p.chunk_id, p.fused_score) for p in left] == [
        (p.chunk_id, p.fused_score) for p in fuse(without, Options(fusion=fusion))
    ]


@given(candidate_sets(), options, st.integers(1, 100))
def test_a_smaller_top_k_gives_the_beginning_of_a_larger_one(
    sets: list[list[Candidate]], options: Options, top_k: int
) -> None:
    all_of_them = rank(sets, Options(top_k=100, fold_similarity=options.fold_similarity)).passages
    some = rank(sets, Options(top_k=top_k, fold_similarity=options.fold_similarity)).passages
    assert list(some) == list(all_of_them[:top_k])


@given(candidate_sets())
def test_folding_at_zero_is_off(sets: list[list[Candidate]]) -> None:
    ranking = rank(sets, Options(top_k=100, fold_similarity=0, include_cut=True))
    assert all(cut.rule is not CutRule.DUPLICATE for cut in ranking.cut)


# Fusion


def test_rrf_sums_weight_over_k_plus_rank_of_every_list() -> None:
    sets = [[candidate(1, keyword=2, semantic=1)], [candidate(1, keyword=5)]]
    [passage] = fuse(sets, Options(fusion=Fusion.RRF, rrf_k=10, keyword_weight=2, semantic_weight=0.5))
    assert passage.fused_score == pytest.approx(2 / 12 + 0.5 / 11 + 2 / 15)
    assert passage.keyword == ArmScore(2, 5.0)


def test_rrf_weighs_both_arms_alike_unless_asked_otherwise() -> None:
    [passage] = fuse([[candidate(1, keyword=1, semantic=1)]], Options(fusion=Fusion.RRF))
    assert passage.fused_score == pytest.approx(2 / 61)


def test_weighted_fusion_takes_bm25_as_share_of_the_best_in_its_list_and_cosine_as_it_is() -> None:
    found = [
        candidate(1, keyword=1, semantic=2),  # scores 10 and 0.5
        candidate(2, keyword=2, semantic=4),  # 5 and 0.25
        candidate(3, semantic=1),  # 1
        candidate(4, keyword=3, collection="other"),  # alone in its list
    ]
    scores = {p.chunk_id: p.fused_score for p in fuse([found], Options())}
    assert scores == pytest.approx({1: 1.5, 2: 0.75, 3: 1.0, 4: 1.0})


def test_what_vector_search_did_not_find_counts_as_its_last() -> None:
    found = [
        candidate(1, keyword=1),  # score 10
        candidate(2, keyword=4, semantic=2),  # 2.5 and 0.5
        candidate(3, semantic=1),  # 1
        candidate(4, keyword=2, collection="other"),  # of another collection, in which nothing was similar
    ]
    scores = {p.chunk_id: p.fused_score for p in fuse([found], Options())}
    assert scores == pytest.approx({1: 1.5, 2: 0.75, 3: 1.0, 4: 1.0})


def test_how_high_the_similarities_of_a_model_lie_does_not_change_the_order() -> None:
    def order(offset: float) -> list[int]:
        similarities = {2: 0.1, 3: 0.25, 4: 0.3}
        found = [
            Candidate(
                n,
                "guides",
                f"chunk {n}",
                ArmScore(n, 10.0 - n) if n < 4 else None,
                ArmScore(n, similarities[n] + offset) if n in similarities else None,
            )
            for n in range(1, 5)
        ]
        return [passage.chunk_id for passage in fuse([found], Options())]

    assert order(0.0) == order(0.6) == [1, 3, 2, 4]


def test_an_arm_that_tells_nothing_apart_leaves_the_order_to_the_other() -> None:
    flat = [0.31, 0.30, 0.305, 0.308]
    found = [
        Candidate(n, "guides", f"chunk {n}", ArmScore(n, 12 - 2 * n), ArmScore(1, flat[n - 1]))
        for n in range(1, 5)
    ]
    assert [passage.chunk_id for passage in fuse([found], Options())] == [1, 2, 3, 4]


def test_keyword_scores_of_nothing_add_nothing() -> None:
    found = [Candidate(n, "guides", f"chunk {n}", ArmScore(n, 0.0)) for n in (1, 2)]
    assert [passage.fused_score for passage in fuse([found], Options())] == [0.0, 0.0]


def test_first_places_of_two_collections_stand_side_by_side() -> None:
    found = [candidate(n, keyword=n) for n in (1, 2)] + [
        candidate(n, keyword=n - 2, collection="other") for n in (3, 4)
    ]
    assert [passage.chunk_id for passage in fuse([found], Options())] == [1, 3, 2, 4]


# Folding


def test_equal_texts_are_folded_whatever_their_case_and_spaces() -> None:
    found = [candidate(1, keyword=1, text="A  lease\nends."), candidate(2, keyword=2, text="a lease ends.")]
    ranking = rank([found], Options(fold_similarity=1, include_cut=True))
    assert [passage.chunk_id for passage in ranking.passages] == [1]
    assert ranking.passages[0].alternatives == (Alternative(2, 1.0),)
    assert [(cut.passage.chunk_id, cut.rule) for cut in ranking.cut] == [(2, CutRule.DUPLICATE)]


def test_texts_that_differ_by_a_word_are_near_duplicates_but_not_equal() -> None:
    words = prose(1)
    other = [*words[:-1], "epilogue"]
    found = [candidate(1, keyword=1, text=" ".join(words)), candidate(2, keyword=2, text=" ".join(other))]
    [passage] = rank([found], Options(fold_similarity=0.9)).passages
    assert 0.9 <= passage.alternatives[0].similarity < 1
    assert len(rank([found], Options(fold_similarity=1)).passages) == 2


def test_unlike_and_empty_texts_stay_apart() -> None:
    found = [candidate(n, keyword=n, text=" ".join(prose(n))) for n in range(1, 6)]
    found.append(candidate(6, keyword=6, text=""))
    assert len(rank([found], Options(top_k=10)).passages) == 6


def test_vectors_decide_where_both_have_one() -> None:
    near, far = [1.0, 0.1], [0.0, 2.0]
    found = [
        candidate(1, keyword=1, text="one thing", embedding=[1.0, 0.0]),
        candidate(2, keyword=2, text="said otherwise", embedding=near),
        candidate(3, keyword=3, text="another matter", embedding=far),
        candidate(4, keyword=4, text="no vector here"),
    ]
    ranking = rank([found], Options())
    assert [passage.chunk_id for passage in ranking.passages] == [1, 3, 4]
    assert ranking.passages[0].alternatives[0].similarity == pytest.approx(1 / math.hypot(1, 0.1), abs=1e-3)


def test_a_folded_passage_makes_room_for_the_next() -> None:
    found = [candidate(1, 1, text="same"), candidate(2, 2, text="same"), candidate(3, 3, text="other")]
    assert [passage.chunk_id for passage in rank([found], Options(top_k=2)).passages] == [1, 3]


@pytest.mark.parametrize(
    ("options", "looked_at"),
    [
        (Options(), LEAST_FOLDED),
        (Options(top_k=20), 80),
        (Options(strategy=Strategy.WEIGHTED), MOST_FOLDED),
    ],
)
def test_folding_looks_at_the_best_only(options: Options, looked_at: int) -> None:
    options = replace(options, include_cut=True)
    found = [candidate(n, keyword=n, text=f"text {n}") for n in range(1, looked_at + 2)]
    found[-1] = replace(found[-1], text="text 1")
    assert all(cut.rule is CutRule.TOP_K for cut in rank([found], options).cut)
    assert rank([found[:-2] + found[-1:]], options).passages[0].alternatives


# Cutting


def test_what_is_cut_names_the_rule_and_keeps_its_explanation() -> None:
    found = [candidate(n, keyword=n) for n in range(1, 5)]
    ranking = rank([found], Options(top_k=2, min_score=0.3, include_cut=True))
    assert [passage.chunk_id for passage in ranking.passages] == [1, 2]
    assert [(cut.passage.chunk_id, cut.rule, cut.passage.fused_rank) for cut in ranking.cut] == [
        (3, CutRule.TOP_K, 3),
        (4, CutRule.MIN_SCORE, 4),
    ]
    assert rank([found], Options(top_k=2)).cut == ()


@pytest.mark.parametrize("threshold", [0.1, 0.5, 0.9])
def test_no_near_duplicate_is_missed_though_few_texts_are_compared(threshold: float) -> None:
    """Against every pair compared, on texts that share more and more of their words."""
    base = prose(1)
    texts = [" ".join([*base[:cut], *prose(cut + 2)[: len(base) - cut]]) for cut in range(0, len(base), 2)]
    found = [candidate(n, keyword=n + 1, text=text) for n, text in enumerate(texts)]
    kept: list[set[tuple[str, str, str]]] = []
    expected: list[int] = []
    for number, text in enumerate(texts):
        words = text.split()
        shingles = set(zip(words, words[1:], words[2:], strict=False))
        if all(len(shingles & other) / len(shingles | other) < threshold for other in kept):
            kept.append(shingles)
            expected.append(number)
    ranking = rank([found], Options(top_k=100, fold_similarity=threshold))
    assert [passage.chunk_id for passage in ranking.passages] == expected
    assert 1 < len(expected) < len(texts)
