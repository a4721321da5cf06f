"""Fusion of the lists of all arms, indexes and queries into one order.

In plain Python: for the hundred candidates of a usual search, calls of numpy cost more than they save.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from groundline.v1 import options_pb2, reranker_service_pb2
from groundline_contracts import default_of

from groundline_ranking.candidates import ArmList, Candidates

_RRF_K: Final[int] = default_of(options_pb2.RerankOptions, "rrf_k")
# A keyword score runs from 0 to 1, and the similarities of a list over a part of that only: with equal
# weights the semantic arm decides as far as it tells passages apart.
_KEYWORD_WEIGHT: Final[float] = default_of(options_pb2.RerankOptions, "keyword_weight")
_SEMANTIC_WEIGHT: Final[float] = default_of(options_pb2.RerankOptions, "semantic_weight")

SCALE: Final = 1e12
"""Parts of 1 to which scores are rounded: sums of the same parts in another order must not decide between
near-ties."""

_KEYWORD: Final = reranker_service_pb2.SEARCH_ARM_KEYWORD
_SEMANTIC: Final = reranker_service_pb2.SEARCH_ARM_SEMANTIC

type ArmPlaces = Mapping[int, tuple[int, float]]
"""Best rank of a candidate in an arm's lists and its score there, by row, of the lists that count most; what
the arm did not find is left out."""


class _Counted(NamedTuple):
    """A list, and what it adds to the fused score, by row."""

    list: ArmList
    parts: Mapping[int, float]


type _BestPlaces = dict[int, tuple[float, int, float]]
"""Negated weight of the list, rank, and negated score: the least is the best."""


@dataclass(frozen=True, slots=True)
class Fused:
    """Candidates that count, by falling fused score."""

    ranks: Mapping[int, int]
    """Rank by row, best first; ties go to the smaller chunk id."""
    scores: Mapping[int, float]
    """Fused score by row."""
    keyword: ArmPlaces
    semantic: ArmPlaces


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
    scores: dict[int, float] = {}
    best: dict[int, _BestPlaces] = {_KEYWORD: {}, _SEMANTIC: {}}
    for lists in candidates.sets:
        counted = []
        for each in lists:
            if each.arm in best:
                _keep_best(best[each.arm], each)
            weight = weights.get(each.arm, 1.0) * each.weight
            if not weight:
                continue
            if is_rrf:
                parts: Sequence[float] = [1 / (rrf_k + rank) for rank in range(1, len(each.rows) + 1)]
            else:
                parts = _shares_of_best(each.scores) if each.arm == _KEYWORD else each.scores
            weighted = {row: weight * part for row, part in zip(each.rows, parts, strict=True)}
            counted.append(_Counted(each, weighted))
            for row, part in weighted.items():
                scores[row] = scores.get(row, 0.0) + part
        if not is_rrf:
            for row, part in _lowest_for_unseen(candidates, counted):
                scores[row] += part
    rounded = {row: round(scores[row] * SCALE) / SCALE for row in sorted(scores)}
    order = sorted(rounded, key=rounded.__getitem__, reverse=True)  # ties stay by row, and so by chunk id
    ranks = {row: rank for rank, row in enumerate(order, 1)}
    places = [{row: (rank, -score) for row, (_, rank, score) in best[arm].items()} for arm in best]
    return Fused(ranks, rounded, *places)


def _shares_of_best(scores: Sequence[float]) -> Sequence[float]:
    """Scale scores by the best. BM25 has no upper bound, but 0 as its minimum: a chunk without a match stays
    at 0 (unlike with min-max)."""
    best = max(scores, default=0.0)
    return [score / best for score in scores] if best > 0 else [0.0] * len(scores)


def _lowest_for_unseen(candidates: Candidates, counted: Sequence[_Counted]) -> Iterator[tuple[int, float]]:
    """Yield, for passages that only one arm found, the least that the other one's count in their collection.

    They count at most that much there, and mostly not much less. With 0 for them, a poor passage that both
    found would outdo a good one that one of them found. BM25 finds all that has a word of the query, unless
    its list is cut.
    """
    found: dict[int, dict[str, dict[int, float]]] = {_KEYWORD: {}, _SEMANTIC: {}}
    cut: set[str] = set()
    for each, parts in counted:
        for row, part in parts.items() if each.arm in found else ():
            collection_id = candidates.hits[row].collection_id
            rows = found[each.arm].setdefault(collection_id, {})
            rows[row] = min(part, rows.get(row, part))
            if each.is_cut:
                cut.add(collection_id)
    for arm, other in ((_KEYWORD, _SEMANTIC), (_SEMANTIC, _KEYWORD)):
        for collection_id, rows in found[arm].items():
            seen = found[other].get(collection_id)
            if seen and (other == _SEMANTIC or collection_id in cut):
                lowest = min(seen.values())
                yield from ((row, lowest) for row in rows if row not in seen)


def _keep_best(best: _BestPlaces, each: ArmList) -> None:
    """Keep the best rank of several lists, and the higher score if ranks are equal.

    A list that counts less, such as a translation's, says nothing about what others found as well.
    """
    for rank, (row, score) in enumerate(zip(each.rows, each.scores, strict=True), 1):
        place = -each.weight, rank, -score
        if (known := best.get(row)) is None or place < known:
            best[row] = place
