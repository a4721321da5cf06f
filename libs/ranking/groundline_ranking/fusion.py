"""Fusion of the lists of all arms, indexes and queries into one order."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from groundline.v1 import options_pb2, reranker_service_pb2
from groundline_contracts import default_of

from groundline_ranking.candidates import ArmList, Candidates, Floats, Integers

__all__ = ["ArmScores", "Fused", "fuse"]

_RRF_K: Final[int] = default_of(options_pb2.RerankOptions, "rrf_k")
# A keyword score runs from 0 to 1, and the similarities of a list over a part of that only: with equal
# weights the semantic arm decides as far as it tells passages apart.
_KEYWORD_WEIGHT: Final[float] = default_of(options_pb2.RerankOptions, "keyword_weight")
_SEMANTIC_WEIGHT: Final[float] = default_of(options_pb2.RerankOptions, "semantic_weight")

DECIMALS: Final = 12
"""Decimals to which scores are rounded: sums of the same parts in another order must not decide between
near-ties."""

_KEYWORD: Final = reranker_service_pb2.SEARCH_ARM_KEYWORD
_SEMANTIC: Final = reranker_service_pb2.SEARCH_ARM_SEMANTIC


@dataclass(frozen=True, slots=True)
class ArmScores:
    """Best rank of each candidate (0 if the arm did not find it) and its score there."""

    ranks: Integers
    scores: Floats


@dataclass(frozen=True, slots=True)
class Fused:
    """Candidates that count, by falling fused score."""

    rows: Integers
    """Rows of the candidates, best first; ties go to the smaller chunk id."""
    scores: Floats
    """Fused score of each candidate, by row."""
    keyword: ArmScores
    semantic: ArmScores


def fuse(candidates: Candidates, options: options_pb2.RerankOptions) -> Fused:
    """Return the order of all candidates; each list counts by itself, and one of no arm with weight 1.

    An arm of weight 0 is left out, with the candidates that it alone found.
    """
    weights = {
        _KEYWORD: options.keyword_weight if options.HasField("keyword_weight") else _KEYWORD_WEIGHT,
        _SEMANTIC: options.semantic_weight if options.HasField("semantic_weight") else _SEMANTIC_WEIGHT,
    }
    is_rrf = options.fusion == options_pb2.FUSION_METHOD_RRF
    rrf_k = options.rrf_k or _RRF_K
    scores, counts = np.zeros(len(candidates)), np.zeros(len(candidates), bool)
    best = {arm: _no_scores(len(candidates)) for arm in weights}
    for lists in candidates.sets:
        for each in lists:
            if each.arm in best:
                _keep_best(best[each.arm], each)
            weight = weights.get(each.arm, 1.0)
            if not weight:
                continue
            counts[each.rows] = True
            if is_rrf:
                part = 1 / (rrf_k + np.arange(1, len(each.rows) + 1))
            else:
                part = _share_of_best(each.scores) if each.arm == _KEYWORD else each.scores
            scores[each.rows] += weight * part
        if not is_rrf and weights[_KEYWORD] and weights[_SEMANTIC]:
            rows, similarities = _lowest_for_unseen(candidates, lists)
            scores[rows] += weights[_SEMANTIC] * similarities
    scores = scores.round(DECIMALS)
    rows = np.flatnonzero(counts)
    order = np.argsort(-scores[rows], kind="stable")  # rows ascend, and so do their chunk ids
    return Fused(rows[order], scores, best[_KEYWORD], best[_SEMANTIC])


def _share_of_best(scores: Floats) -> Floats:
    """Scale scores by the best. BM25 has no upper bound, but 0 as its minimum: a chunk without a match stays
    at 0 (unlike with min-max)."""
    best = scores.max(initial=0.0)
    return scores / best if best > 0 else np.zeros(len(scores))


def _lowest_for_unseen(candidates: Candidates, lists: Sequence[ArmList]) -> tuple[Integers, Floats]:
    """Return, for passages that only the keyword arm found, the lowest similarity that was found in their
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
    """Keep the best rank of several lists, and the higher score if ranks are equal."""
    ranks = np.arange(1, len(each.rows) + 1)
    known, known_scores = best.ranks[each.rows], best.scores[each.rows]
    better = (known == 0) | (ranks < known) | ((ranks == known) & (each.scores > known_scores))
    best.ranks[each.rows[better]] = ranks[better]
    best.scores[each.rows[better]] = each.scores[better]
