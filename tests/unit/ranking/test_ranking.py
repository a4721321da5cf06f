"""Fusion, near-duplicates and cutting, as pure functions of what was found."""

import asyncio
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from groundline.v1 import options_pb2, passage_pb2, reranker_service_pb2
from groundline_ranking import MAX_WINDOW, MIN_WINDOW, ArmHits, Candidates, Hit, Ranking, is_weak
from groundline_ranking import rank as rank_candidates
from groundline_ranking.fusion import fuse
from groundline_tests.retriever.candidates import Found, at, hits_of, ranked
from hypothesis import given
from hypothesis import strategies as st

Options = options_pb2.RerankOptions
KEYWORD, SEMANTIC = reranker_service_pb2.SEARCH_ARM_KEYWORD, reranker_service_pb2.SEARCH_ARM_SEMANTIC
RRF, WEIGHTED = options_pb2.FUSION_METHOD_RRF, options_pb2.FUSION_METHOD_WEIGHTED
DUPLICATE, TOP_K = passage_pb2.CUT_RULE_DUPLICATE, passage_pb2.CUT_RULE_TOP_K

WORDS = ("lease", "replica", "leader", "quorum", "ledger", "timer", "heartbeat", "term", "vote", "log")


def rank(sets: Sequence[Sequence[Found]], options: Options | None = None) -> Ranking:
    return asyncio.run(ranked(sets, options or Options()))


def fused(sets: Sequence[Sequence[Found]], **options: Any) -> dict[int, float]:
    """Return every chunk's fused score, best first."""
    response = rank(sets, Options(top_k=100, deduplication_threshold=0, **options))
    return {each.chunk_id: each.explanation.fused_score for each in response.ranked}


def ids(response: Ranking) -> list[int]:
    return [each.chunk_id for each in response.ranked]


def cuts(response: Ranking) -> list[tuple[int, int]]:
    return [(int(cut.chunk_id), cut.rule) for cut in response.cut]


def prose(seed: int, count: int = 120) -> list[str]:
    return random.Random(seed).choices(WORDS, k=count)


@st.composite
def candidate_sets(draw: st.DrawFn) -> list[list[Found]]:
    """Return up to three sets over two collections."""
    sets = []
    scores = st.none() | st.integers(0, 300).map(lambda tenths: tenths / 10)
    for _ in range(draw(st.integers(0, 3))):
        chunk_ids = draw(st.lists(st.integers(1, 40), unique=True, max_size=20))
        found = [
            Found(
                chunk_id,
                draw(scores),
                draw(scores),
                text=" ".join(prose(chunk_id // 3, 12)),
                collection=f"collection{chunk_id % 2}",
                document=f"document{chunk_id % 4}",
            )
            for chunk_id in chunk_ids
        ]
        sets.append([each for each in found if (each.keyword, each.semantic) != (None, None)])
    return sets


@st.composite
def options(draw: st.DrawFn) -> Options:
    chosen = Options(
        top_k=draw(st.integers(1, 100)),
        fusion=draw(st.sampled_from([RRF, WEIGHTED])),
        rrf_k=draw(st.integers(1, 1000)),
        keyword_weight=draw(st.sampled_from([0.0, 0.5, 1.0, 2.0])),
        semantic_weight=draw(st.sampled_from([0.25, 1.0])),
        deduplication_threshold=draw(st.sampled_from([0.0, 0.5, 0.9, 1.0])),
        strategy=draw(
            st.sampled_from([options_pb2.RERANK_STRATEGY_NONE, options_pb2.RERANK_STRATEGY_WEIGHTED])
        ),
        include_cut=True,
    )
    if draw(st.booleans()):
        chosen.mmr_lambda = draw(st.sampled_from([0.0, 0.5, 1.0]))
    if draw(st.booleans()):
        chosen.max_per_document = draw(st.integers(1, 5))
    if draw(st.booleans()):
        chosen.min_score = draw(st.floats(0, 0.0625, width=32))
    return chosen


# Nothing, and ties


def test_nothing_in_gives_nothing_out() -> None:
    assert not rank([]).ranked
    assert not rank([[], []]).ranked


def test_ties_go_to_the_smaller_id() -> None:
    found = [at(12, keyword=1), at(9, semantic=1), at(100, keyword=1, collection="b")]
    assert list(fused([found], fusion=RRF)) == [9, 12, 100]


# Documents


def test_a_document_has_its_best_passages_and_leaves_the_rest_to_others() -> None:
    long = [at(chunk_id, keyword=chunk_id, document="long") for chunk_id in range(1, 6)]
    found = [[*long, at(9, keyword=9), at(10, keyword=10)]]
    assert ids(rank(found, Options(top_k=3))) == [1, 2, 3]
    response = rank(found, Options(top_k=3, max_per_document=2, include_cut=True))
    assert ids(response) == [1, 2, 9]
    document = passage_pb2.CUT_RULE_DOCUMENT
    assert cuts(response) == [(3, document), (4, document), (5, document), (10, TOP_K)]


def test_as_many_candidates_are_looked_at_as_it_takes() -> None:
    long = [at(chunk_id, keyword=chunk_id, document="long") for chunk_id in range(1, 301)]
    found = [[*long, at(301, keyword=301)]]
    options = Options(top_k=2, max_per_document=1, deduplication_threshold=0)
    assert ids(rank(found, options)) == [1, 301]


def test_diversity_chooses_among_what_documents_are_left() -> None:
    long = [at(chunk_id, keyword=chunk_id, document="long") for chunk_id in range(1, 51)]
    found = [[*long, *(at(chunk_id, keyword=chunk_id) for chunk_id in range(51, 54))]]
    response = rank(found, Options(top_k=3, max_per_document=1, mmr_lambda=0.9))
    assert ids(response)[0] == 1
    assert set(ids(response)[1:]) <= {51, 52, 53}


# Properties


@given(candidate_sets(), options(), st.randoms())
def test_the_order_of_sets_and_candidates_changes_nothing(
    sets: list[list[Found]], options: Options, shuffler: random.Random
) -> None:
    expected = rank(sets, options)
    shuffled = [shuffler.sample(found, len(found)) for found in sets]
    shuffler.shuffle(shuffled)
    assert rank(shuffled, options) == expected


@given(candidate_sets(), options())
def test_every_chunk_is_returned_or_cut_once(sets: list[list[Found]], options: Options) -> None:
    response = rank(sets, options)
    places = ids(response) + [chunk_id for chunk_id, _ in cuts(response)]
    assert len(places) == len(set(places))
    counts = {
        each.chunk_id
        for found in sets
        for each in found
        if each.semantic is not None or (each.keyword is not None and options.keyword_weight)
    }
    assert set(places) == counts
    assert len(response.ranked) <= options.top_k


@given(candidate_sets(), options())
def test_scores_never_rise_and_are_finite(sets: list[list[Found]], options: Options) -> None:
    scores = [each.score for each in rank(sets, options).ranked]
    assert scores == sorted(scores, reverse=True)
    assert all(map(math.isfinite, scores))


@given(candidate_sets())
def test_fused_ranks_count_from_one(sets: list[list[Found]]) -> None:
    response = rank(sets, Options(top_k=100, deduplication_threshold=0))
    ranks = [each.explanation.fused_rank for each in response.ranked]
    assert ranks == list(range(1, len(ranks) + 1))


@given(st.integers(1, 50), st.integers(1, 50), st.integers(1, 1000))
def test_a_better_rank_in_one_arm_never_scores_lower(better: int, other: int, rrf_k: int) -> None:
    better, worse = sorted((better, other))
    found = [at(1, keyword=worse), at(2, keyword=better)]
    scores = fused([found], fusion=RRF, rrf_k=rrf_k)
    # Of equal scores the smaller id stands first.
    assert better == worse or scores[2] >= scores[1]


@given(candidate_sets(), st.sampled_from([RRF, WEIGHTED]))
def test_an_arm_of_weight_zero_is_left_out(
    sets: list[list[Found]], fusion: options_pb2.FusionMethod.ValueType
) -> None:
    without = [[replace(each, semantic=None) for each in found if each.keyword is not None] for found in sets]
    assert fused(sets, fusion=fusion, semantic_weight=0) == fused(without, fusion=fusion)


@given(candidate_sets(), st.integers(1, 100))
def test_a_smaller_top_k_gives_the_beginning_of_a_larger_one(sets: list[list[Found]], top_k: int) -> None:
    assert ids(rank(sets, Options(top_k=top_k))) == ids(rank(sets, Options(top_k=100)))[:top_k]


@given(candidate_sets())
def test_a_threshold_of_zero_keeps_duplicates(sets: list[list[Found]]) -> None:
    response = rank(sets, Options(top_k=100, deduplication_threshold=0, include_cut=True))
    assert all(rule != DUPLICATE for _, rule in cuts(response))


# Fusion


def test_rrf_sums_weight_over_k_plus_rank_of_every_list() -> None:
    first = [Found(1, keyword=5.0, semantic=1.0), Found(2, keyword=9.0)]
    second = [Found(1, keyword=2.0), *(Found(n, keyword=float(n)) for n in range(3, 7))]
    options = Options(fusion=RRF, rrf_k=10, keyword_weight=2, semantic_weight=0.5, deduplication_threshold=0)
    [passage] = [each for each in rank([first, second], options).ranked if each.chunk_id == 1]
    assert passage.explanation.fused_score == pytest.approx(2 / 12 + 0.5 / 11 + 2 / 15)
    assert (passage.explanation.keyword.rank, passage.explanation.keyword.score) == (2, 5.0)


def test_rrf_weighs_both_arms_alike_unless_asked_otherwise() -> None:
    assert fused([[at(1, keyword=1, semantic=1)]], fusion=RRF)[1] == pytest.approx(2 / 61)


def test_weighted_fusion_takes_bm25_as_share_of_the_best_in_its_list_and_cosine_as_it_is() -> None:
    found = [
        Found(1, 10.0, 0.5),
        Found(2, 5.0, 0.25),
        Found(3, None, 1.0),
        Found(4, 3.0, collection="other"),  # alone in its list
    ]
    assert fused([found]) == pytest.approx({1: 1.5, 2: 0.75, 3: 1.0, 4: 1.0})


def test_what_vector_search_did_not_find_counts_as_the_last_of_its_collection() -> None:
    found = [
        Found(1, 10.0),
        Found(2, 2.5, 0.5),
        Found(3, None, 1.0),
        Found(4, 5.0, collection="other"),  # in which nothing was similar
    ]
    assert fused([found]) == pytest.approx({1: 1.5, 2: 0.75, 3: 1.0, 4: 1.0})


@pytest.mark.parametrize(("is_cut", "score"), [(True, 1.0), (False, 0.8)])
def test_what_a_cut_keyword_list_does_not_have_counts_as_its_last(is_cut: bool, score: float) -> None:
    def found(arm: Any, scores: Mapping[int, float], *, is_cut: bool = False) -> ArmHits:
        file = passage_pb2.SOURCE_TYPE_FILE
        return ArmHits(arm, [Hit(*each, "docs", 0, 0, file, b"") for each in scores.items()], 1.0, is_cut)

    lists = [found(KEYWORD, {1: 10.0, 2: 2.0}, is_cut=is_cut), found(SEMANTIC, {3: 0.8, 1: 0.5})]
    candidates = Candidates.of([lists])
    scores = {
        candidates.hits[row].chunk_id: score for row, score in fuse(candidates, Options()).scores.items()
    }
    assert scores == pytest.approx({1: 1.5, 2: 0.7, 3: score})


def test_how_high_the_similarities_of_a_model_lie_does_not_change_the_order() -> None:
    def order(offset: float) -> list[int]:
        similarities = {2: 0.1, 3: 0.25, 4: 0.3}
        return list(
            fused(
                [
                    [
                        Found(
                            n,
                            10.0 - n if n < 4 else None,
                            similarities[n] + offset if n in similarities else None,
                        )
                        for n in range(1, 5)
                    ]
                ]
            )
        )

    assert order(0.0) == order(0.6) == [1, 3, 2, 4]


def test_an_arm_that_tells_nothing_apart_leaves_the_order_to_the_other() -> None:
    flat = [0.31, 0.30, 0.305, 0.308]
    assert list(fused([[Found(n, 12.0 - 2 * n, flat[n - 1]) for n in range(1, 5)]])) == [1, 2, 3, 4]


def test_keyword_scores_of_nothing_add_nothing() -> None:
    assert fused([[Found(1, 0.0), Found(2, 0.0)]]) == {1: 0.0, 2: 0.0}


def test_first_places_of_two_collections_stand_side_by_side() -> None:
    found = [at(1, 1), at(2, 2), at(3, 1, collection="other"), at(4, 2, collection="other")]
    assert list(fused([found])) == [1, 3, 2, 4]


def test_what_a_query_found_is_not_told_by_the_lists_of_its_translation() -> None:
    def similar(score: float, weight: float, *chunk_ids: int) -> ArmHits:
        file = passage_pb2.SOURCE_TYPE_FILE
        return ArmHits(SEMANTIC, [Hit(each, score, "docs", 0, 0, file, b"") for each in chunk_ids], weight)

    found = Candidates.of([[similar(0.25, 1.0, 2, 1)], [similar(0.75, 0.3, 1, 3)]])
    places = fuse(found, Options()).semantic
    assert {found.hits[row].chunk_id: place for row, place in places.items()} == {
        1: (2, 0.25),
        2: (1, 0.25),
        3: (2, 0.75),
    }


# Near-duplicates


def test_equal_texts_are_duplicates_whatever_their_case_and_spaces() -> None:
    found = [at(1, 1, text="A  lease\nends."), at(2, 2, text="a lease ends.")]
    response = rank([found], Options(deduplication_threshold=1, include_cut=True))
    [passage] = response.ranked
    assert passage.chunk_id == 1
    assert [(each.chunk_id, each.similarity) for each in passage.duplicates] == [(2, 1.0)]
    assert cuts(response) == [(2, DUPLICATE)]


def test_texts_that_differ_by_a_word_are_near_duplicates_but_not_equal() -> None:
    words = prose(1)
    found = [at(1, 1, text=" ".join(words)), at(2, 2, text=" ".join([*words[:-1], "epilogue"]))]
    [passage] = rank([found], Options(deduplication_threshold=0.9)).ranked
    assert 0.9 <= passage.duplicates[0].similarity < 1
    assert len(rank([found], Options(deduplication_threshold=1)).ranked) == 2


def test_unlike_texts_stay_apart() -> None:
    found = [at(n, n, text=" ".join(prose(n))) for n in range(1, 6)]
    assert len(rank([found], Options(top_k=10)).ranked) == 5


def test_chunks_without_a_signature_are_nobodys_duplicates() -> None:
    [found] = hits_of([at(1, 1, text="same"), at(2, 2, text="same")])
    unsigned = ArmHits(found.arm, [hit._replace(signature=b"") for hit in found.hits])

    async def nothing(_: object) -> Any:
        raise AssertionError("no text is read")

    candidates = Candidates.of([[unsigned]])
    ranking = asyncio.run(
        rank_candidates(candidates, "lease", Options(), read=nothing, score=nothing, documents=nothing)
    )
    assert len(ranking.ranked) == 2


def test_a_duplicate_makes_room_for_the_next() -> None:
    found = [at(1, 1, text="same"), at(2, 2, text="same"), at(3, 3, text="other")]
    assert ids(rank([found], Options(top_k=2))) == [1, 3]


def test_a_duplicate_of_a_duplicate_belongs_to_the_best() -> None:
    found = [at(n, n, text="same") for n in range(1, 4)]
    [passage] = rank([found]).ranked
    assert [each.chunk_id for each in passage.duplicates] == [2, 3]


@pytest.mark.parametrize(
    ("options", "looked_at"),
    [
        (Options(), MIN_WINDOW),
        (Options(top_k=20), 80),
        (Options(strategy=options_pb2.RERANK_STRATEGY_WEIGHTED), MAX_WINDOW),
    ],
)
def test_duplicates_are_looked_for_among_the_best_only(options: Options, looked_at: int) -> None:
    options.include_cut = True
    found = [at(n, n, text=f"text {n}") for n in range(1, looked_at + 2)]
    found[-1] = replace(found[-1], text="text 1")
    assert all(rule == TOP_K for _, rule in cuts(rank([found], options)))
    assert rank([found[:-2] + found[-1:]], options).ranked[0].duplicates


@pytest.mark.parametrize("threshold", [0.3, 0.5, 0.9])
def test_the_estimate_decides_as_comparing_the_texts_would_but_for_near_misses(threshold: float) -> None:
    base = [f"word{number}" for number in range(150)]
    texts = [
        " ".join([*base[:cut], *(f"other{cut}x{n}" for n in range(cut, 150))]) for cut in range(0, 151, 5)
    ]
    shingles = [set(zip(words, words[1:], words[2:], strict=False)) for words in map(str.split, texts)]

    def similarity(one: int, other: int) -> float:
        return len(shingles[one] & shingles[other]) / len(shingles[one] | shingles[other])

    response = rank(
        [[at(n + 1, n + 1, text=text) for n, text in enumerate(texts)]],
        Options(top_k=100, deduplication_threshold=threshold),
    )
    for passage in response.ranked:
        for duplicate in passage.duplicates:
            assert similarity(passage.chunk_id - 1, duplicate.chunk_id - 1) > threshold - 0.15
    kept = [chunk_id - 1 for chunk_id in ids(response)]
    assert all(similarity(one, other) < threshold + 0.15 for one in kept for other in kept if one < other)
    assert 1 < len(kept) <= len(texts)


# Cutting


def test_what_is_cut_names_the_rule_and_keeps_its_explanation() -> None:
    found = [at(n, n) for n in range(1, 5)]
    response = rank([found], Options(top_k=2, min_score=0.3, include_cut=True))
    assert ids(response) == [1, 2]
    assert cuts(response) == [(3, TOP_K), (4, passage_pb2.CUT_RULE_MIN_SCORE)]
    assert [cut.explanation.fused_rank for cut in response.cut] == [3, 4]
    assert not rank([found], Options(top_k=2)).cut


# Weak searches


def hits(*scores: float) -> list[Hit]:
    return [
        Hit(number, score, "docs", 0, 0, passage_pb2.SOURCE_TYPE_FILE, b"")
        for number, score in enumerate(scores)
    ]


@pytest.mark.parametrize(
    ("found", "weak"),
    [
        ([], True),
        ([ArmHits(KEYWORD, []), ArmHits(SEMANTIC, [])], True),
        ([ArmHits(SEMANTIC, hits(0.2))], True),
        ([ArmHits(KEYWORD, hits(9.0)), ArmHits(SEMANTIC, hits(0.2))], True),
        ([ArmHits(SEMANTIC, hits(0.1)), ArmHits(SEMANTIC, hits(0.3, 0.2))], False),
        ([ArmHits(KEYWORD, hits(9.0))], False),
    ],
)
def test_a_search_is_weak_that_found_nothing_or_nothing_similar(found: list[ArmHits], weak: bool) -> None:
    assert is_weak(found, 0.3) is weak
