"""One list from the lists of all arms, collections and queries."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from groundline_reranker.domain import ArmScore, Candidate, Fusion, Options, Passage

__all__ = ["DEFAULT_WEIGHTS", "fuse"]

DEFAULT_WEIGHTS: Mapping[Fusion, tuple[float, float]] = {Fusion.RRF: (1.0, 1.0), Fusion.WEIGHTED: (1.0, 1.0)}
"""Of the keyword and the semantic arm. A keyword score runs from 0 to 1 and the similarities of a list over a
part of that only: the semantic arm decides as far as it tells passages apart."""


def fuse(candidate_sets: Sequence[Sequence[Candidate]], options: Options) -> list[Passage]:
    """All candidates by falling fused score; ties go to the smaller chunk id.

    Each arm's list of each collection in each set counts by itself. An arm of weight 0 is left out, with the
    candidates that it alone found.
    """
    keyword_weight, semantic_weight = _weights(options)
    contributions: dict[int, list[float]] = defaultdict(list)
    keyword: dict[int, ArmScore] = {}
    semantic: dict[int, ArmScore] = {}
    for candidates in candidate_sets:
        for weight, best, normalised, entries in (
            (keyword_weight, keyword, _share_of_best, [(each, each.keyword) for each in candidates]),
            (semantic_weight, semantic, _as_it_is, [(each, each.semantic) for each in candidates]),
        ):
            lists: dict[str, dict[int, ArmScore]] = defaultdict(dict)
            for candidate, arm_score in entries:
                if arm_score is not None:
                    lists[candidate.collection_id][candidate.chunk_id] = arm_score
                    best[candidate.chunk_id] = _better(best.get(candidate.chunk_id), arm_score)
            if not weight:
                continue
            for members in lists.values():
                parts = (
                    _reciprocal(members, options.rrf_k)
                    if options.fusion is Fusion.RRF
                    else normalised(members)
                )
                for chunk_id, contribution in parts:
                    contributions[chunk_id].append(weight * contribution)
        if options.fusion is Fusion.WEIGHTED and keyword_weight and semantic_weight:
            for chunk_id, similarity in _lowest_for_unseen(candidates):
                contributions[chunk_id].append(semantic_weight * similarity)
    # Summed exactly: the order of the sets must not decide between near-ties.
    scores = {chunk_id: math.fsum(parts) for chunk_id, parts in contributions.items()}
    order = sorted(scores, key=lambda chunk_id: (-scores[chunk_id], chunk_id))
    return [
        Passage(
            chunk_id,
            keyword.get(chunk_id),
            semantic.get(chunk_id),
            scores[chunk_id],
            position,
            final_score=scores[chunk_id],
        )
        for position, chunk_id in enumerate(order, 1)
    ]


def _weights(options: Options) -> tuple[float, float]:
    keyword, semantic = DEFAULT_WEIGHTS[options.fusion]
    return (
        keyword if options.keyword_weight is None else options.keyword_weight,
        semantic if options.semantic_weight is None else options.semantic_weight,
    )


def _reciprocal(members: Mapping[int, ArmScore], rrf_k: int) -> Iterable[tuple[int, float]]:
    for chunk_id, arm_score in members.items():
        yield chunk_id, 1 / (rrf_k + arm_score.rank)


def _share_of_best(members: Mapping[int, ArmScore]) -> Iterable[tuple[int, float]]:
    """BM25 has no upper bound, but 0 for its least: what is no match at all stays 0 (unlike with min-max)."""
    best = max(arm_score.score for arm_score in members.values())
    for chunk_id, arm_score in members.items():
        yield chunk_id, arm_score.score / best if best > 0 else 0.0


def _as_it_is(members: Mapping[int, ArmScore]) -> Iterable[tuple[int, float]]:
    """Cosine similarity has a scale of its own; stretching it would make up differences that are not there.

    A list of near-equals, as a model gives for a language that it does not know, so decides little.
    """
    for chunk_id, arm_score in members.items():
        yield chunk_id, arm_score.score


def _lowest_for_unseen(candidates: Sequence[Candidate]) -> Iterable[tuple[int, float]]:
    """For passages that the keyword arm alone found, the lowest similarity in their collection's list.

    They are at most that similar, and mostly not much less. With 0 for them, a poor passage that both arms
    found would outdo a good one that BM25 found, the more so the higher a model's similarities lie.
    """
    lowest: dict[str, float] = {}
    for candidate in candidates:
        if candidate.semantic is not None:
            known = lowest.get(candidate.collection_id, candidate.semantic.score)
            lowest[candidate.collection_id] = min(known, candidate.semantic.score)
    for candidate in candidates:
        if candidate.semantic is None and candidate.collection_id in lowest:
            yield candidate.chunk_id, lowest[candidate.collection_id]


def _better(known: ArmScore | None, other: ArmScore) -> ArmScore:
    if known is None:
        return other
    return min(known, other, key=lambda arm_score: (arm_score.rank, -arm_score.score))
