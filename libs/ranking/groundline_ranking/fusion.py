"""One order from the lists of all arms, indexes and queries."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from groundline.v1 import candidate_pb2, options_pb2

from groundline_ranking.candidates import ArmList, Candidates, Floats, Integers

__all__ = ["DEFAULT_RRF_K", "ArmScores", "Fused", "fuse"]

DEFAULT_RRF_K = 60
DEFAULT_WEIGHT = 1.0
"""Of each arm. A keyword score runs from 0 to 1 and the similarities of a list over a part of that only: the
semantic arm decides as far as it tells passages apart."""

DECIMALS = 12
"""To which scores are rounded: sums of the same parts in another order must not decide between near-ties."""

_KEYWORD, _SEMANTIC = candidate_pb2.SEARCH_ARM_KEYWORD, candidate_pb2.SEARCH_ARM_SEMANTIC


@dataclass(frozen=True, slots=True)
class ArmScores:
    """For each candidate its best rank (0 where the arm did not find it) and the score there."""

    ranks: Integers
    scores: Floats


@dataclass(frozen=True, slots=True)
class Fused:
    """The candidates that count, by falling fused score."""

    rows: Integers
    """Rows of the candidates, best first; ties go to the smaller chunk id."""
    scores: Floats
    """Fused score of each candidate, by row."""
    keyword: ArmScores
    semantic: ArmScores


def fuse(candidates: Candidates, options: options_pb2.RerankOptions) -> Fused:
    """The order of all candidates; each arm's list counts by itself.

    An arm of weight 0 is left out, with the candidates that it alone found.
    """
    weights = {
        _KEYWORD: options.keyword_weight if options.HasField("keyword_weight") else DEFAULT_WEIGHT,
        _SEMANTIC: options.semantic_weight if options.HasField("semantic_weight") else DEFAULT_WEIGHT,
    }
    is_rrf = options.fusion == options_pb2.FUSION_METHOD_RRF
    rrf_k = options.rrf_k or DEFAULT_RRF_K
    scores, counts = np.zeros(len(candidates)), np.zeros(len(candidates), bool)
    best = {arm: _no_scores(len(candidates)) for arm in weights}
    for lists in candidates.sets:
        for each in lists:
            _keep_best(best[each.arm], each)
            if not weights[each.arm]:
                continue
            counts[each.rows] = True
            if is_rrf:
                part = 1 / (rrf_k + np.arange(1, len(each.rows) + 1))
            else:
                part = _share_of_best(each.scores) if each.arm == _KEYWORD else each.scores
            scores[each.rows] += weights[each.arm] * part
        if not is_rrf and weights[_KEYWORD] and weights[_SEMANTIC]:
            rows, similarities = _lowest_for_unseen(candidates, lists)
            scores[rows] += weights[_SEMANTIC] * similarities
    scores = scores.round(DECIMALS)
    rows = np.flatnonzero(counts)
    order = np.argsort(-scores[rows], kind="stable")  # rows ascend, and so do their chunk ids
    return Fused(rows[order], scores, best[_KEYWORD], best[_SEMANTIC])


def _share_of_best(scores: Floats) -> Floats:
    """BM25 has no upper bound, but 0 for its least: what is no match at all stays 0 (unlike with min-max)."""
    best = scores.max(initial=0.0)
    return scores / best if best > 0 else np.zeros(len(scores))


def _lowest_for_unseen(candidates: Candidates, lists: Sequence[ArmList]) -> tuple[Integers, Floats]:
    """For passages that the keyword arm alone found, the lowest similarity that was found in their
    collection.

    They are at most that similar, and mostly not much less. With 0 for them, a poor passage that both arms
    found would outdo a good one that BM25 found, the more so the higher a model's similarities lie.
    """
    lowest = np.full(len(candidates.collection_ids), np.inf)
    unseen = np.zeros(len(candidates), bool)
    for each in lists:
        if each.arm == _KEYWORD:
            unseen[each.rows] = True
    for each in lists:
        if each.arm == _SEMANTIC:
            unseen[each.rows] = False
            np.minimum.at(lowest, candidates.collections[each.rows], each.scores)
    rows = np.flatnonzero(unseen)
    similarities = lowest[candidates.collections[rows]]
    known = np.isfinite(similarities)
    return rows[known], similarities[known]


def _no_scores(count: int) -> ArmScores:
    return ArmScores(np.zeros(count, np.int64), np.zeros(count))


def _keep_best(best: ArmScores, each: ArmList) -> None:
    """Of several lists the best rank counts, and the higher score where ranks are equal."""
    ranks = np.arange(1, len(each.rows) + 1)
    known, known_scores = best.ranks[each.rows], best.scores[each.rows]
    better = (known == 0) | (ranks < known) | ((ranks == known) & (each.scores > known_scores))
    best.ranks[each.rows[better]] = ranks[better]
    best.scores[each.rows[better]] = each.scores[better]
