"""From candidates to the ranked chunks of a response; what a model's scores are needed for is left open."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from groundline.v1 import candidate_pb2, options_pb2, passage_pb2, reranker_service_pb2

from groundline_ranking.candidates import Candidates, Floats, Integers
from groundline_ranking.duplicates import diversified, near_duplicates
from groundline_ranking.fusion import ArmScores, Fused, fuse
from groundline_ranking.weighted import Texts, weighted_components

__all__ = [
    "DEFAULT_TOP_K",
    "Order",
    "Pool",
    "by_weights",
    "finish",
    "in_fused_order",
    "pool_of",
    "top_k_of",
    "wanted_chunks",
]

DEFAULT_TOP_K = 8


def top_k_of(options: options_pb2.RerankOptions) -> int:
    return options.top_k or DEFAULT_TOP_K


@dataclass(frozen=True, slots=True)
class Pool:
    """What is left after fusion and deduplication, best first, and the duplicates."""

    candidates: Candidates
    fused: Fused
    rows: Integers
    duplicates: Mapping[int, tuple[int, float]]
    """Row of a duplicate → row of the better passage, and their similarity."""


@dataclass(frozen=True, slots=True)
class Order:
    """Passages in their order, with the scores and components that decided it; `unseen` come after, and
    are cut."""

    rows: Integers
    scores: Floats
    components: Mapping[str, tuple[Floats, float]]
    """By name the values for `rows`, and the weight that they were multiplied with."""
    unseen: Sequence[int] = ()

    def sorted(self) -> "Order":
        """By falling score; of equal scores the one that stood before stays before."""
        order = np.argsort(-self.scores, kind="stable")
        components = {name: (values[order], weight) for name, (values, weight) in self.components.items()}
        return Order(self.rows[order], self.scores[order], components, self.unseen)


def pool_of(candidates: Candidates, options: options_pb2.RerankOptions) -> Pool:
    """All candidates in one list, without near-duplicates of better ones."""
    fused = fuse(candidates, options)
    duplicates = near_duplicates(candidates, fused.rows, options, top_k=top_k_of(options))
    rows = fused.rows
    if duplicates:
        rows = np.array([row for row in rows.tolist() if row not in duplicates], np.int64)
    return Pool(candidates, fused, rows, duplicates)


def wanted_chunks(pool: Pool, rows: Iterable[int]) -> list[candidate_pb2.CollectionChunks]:
    """The chunks in these rows, by collection."""
    by_collection: dict[str, list[int]] = {}
    for row in rows:
        by_collection.setdefault(pool.candidates.collection_of(row), []).append(
            int(pool.candidates.chunk_ids[row])
        )
    return [
        candidate_pb2.CollectionChunks(collection_id=name, chunk_ids=chunk_ids)
        for name, chunk_ids in by_collection.items()
    ]


def in_fused_order(pool: Pool) -> Order:
    """The order of the strategy none, and where another fails."""
    return Order(pool.rows, pool.fused.scores[pool.rows], {})


def by_weights(
    pool: Pool, rows: Integers, texts: Texts, query: str, options: options_pb2.RerankOptions
) -> Order:
    """The order of the strategy weighted; ties go to the smaller chunk id."""
    components = weighted_components(pool.candidates, pool.fused, rows, texts, query, options)
    scores = np.array(
        [
            math.fsum(parts)
            for parts in zip(*(values * weight for values, weight in components.values()), strict=True)
        ]
        if components
        else np.zeros(len(rows))
    )
    by_id = np.argsort(rows, kind="stable")  # rows are in the order of their chunk ids
    given = Order(
        rows[by_id],
        scores[by_id],
        {name: (values[by_id], weight) for name, (values, weight) in components.items()},
    )
    return given.sorted()


def finish(
    pool: Pool, order: Order, options: options_pb2.RerankOptions
) -> reranker_service_pb2.RerankResponse:
    """Diversify, cut, and explain."""
    top_k = top_k_of(options)
    minimum = options.min_score if options.HasField("min_score") else -math.inf
    enough = np.flatnonzero(order.scores >= minimum)
    response = reranker_service_pb2.RerankResponse()
    if options.HasField("mmr_lambda"):
        choices = diversified(
            pool.candidates, order.rows[enough].tolist(), order.scores[enough], top_k, options.mmr_lambda
        )
        places = [int(enough[choice.place]) for choice in choices]
        for choice, place in zip(choices, places, strict=True):
            ranked = _ranked(pool, order, place)
            ranked.score = ranked.explanation.final_score = choice.value
            for name, value, weight in (
                ("relevance", choice.relevance, options.mmr_lambda),
                ("redundancy", choice.redundancy, options.mmr_lambda - 1),
            ):
                ranked.explanation.components.add(name=name, value=value, weight=weight)
            response.ranked.append(ranked)
    else:
        places = enough[:top_k].tolist()
        response.ranked.extend(_ranked(pool, order, place) for place in places)
    if options.include_cut:
        response.cut.extend(_cut(pool, order, set(places), enough.tolist(), top_k))
    return response


def _ranked(pool: Pool, order: Order, place: int) -> candidate_pb2.RankedChunk:
    row = int(order.rows[place])
    ranked = candidate_pb2.RankedChunk(
        chunk_id=int(pool.candidates.chunk_ids[row]),
        collection_id=pool.candidates.collection_of(row),
        score=float(order.scores[place]),
        explanation=_explanation(pool, row, order, place),
    )
    if pool.duplicates:
        ranked.duplicates.extend(
            candidate_pb2.DuplicateChunk(
                chunk_id=int(pool.candidates.chunk_ids[duplicate]),
                collection_id=pool.candidates.collection_of(duplicate),
                similarity=similarity,
            )
            for duplicate, (better, similarity) in pool.duplicates.items()
            if better == row
        )
    return ranked


def _explanation(pool: Pool, row: int, order: Order | None, place: int) -> passage_pb2.ScoreExplanation:
    fused = pool.fused
    return passage_pb2.ScoreExplanation(
        keyword=_arm_score(fused.keyword, row),
        semantic=_arm_score(fused.semantic, row),
        fused_score=float(fused.scores[row]),
        fused_rank=_fused_rank(fused, row),
        components=[
            passage_pb2.ScoreComponent(name=name, value=float(values[place]), weight=weight)
            for name, (values, weight) in (order.components.items() if order is not None else ())
        ],
        final_score=float(fused.scores[row] if order is None else order.scores[place]),
    )


def _fused_rank(fused: Fused, row: int) -> int:
    return int(np.argmax(fused.rows == row)) + 1


def _arm_score(scores: ArmScores, row: int) -> passage_pb2.ArmScore | None:
    rank = int(scores.ranks[row])
    return passage_pb2.ArmScore(rank=rank, score=float(scores.scores[row])) if rank else None


def _cut(
    pool: Pool, order: Order, returned: set[int], enough: Sequence[int], top_k: int
) -> list[passage_pb2.CutPassage]:
    """What was not returned, in the fused order."""
    rules: dict[int, tuple[passage_pb2.CutRule.ValueType, int | None]] = {}
    for row in pool.duplicates:
        rules[row] = passage_pb2.CUT_RULE_DUPLICATE, None
    is_enough = set(enough)
    for place, row in enumerate(order.rows.tolist()):
        if place not in is_enough:
            rules[row] = passage_pb2.CUT_RULE_MIN_SCORE, place
    for position, place in enumerate(enough):
        if place not in returned:
            rule = passage_pb2.CUT_RULE_DIVERSITY if position < top_k else passage_pb2.CUT_RULE_TOP_K
            rules[int(order.rows[place])] = rule, place
    for row in order.unseen:
        rules[row] = passage_pb2.CUT_RULE_TOP_K, None
    return [
        passage_pb2.CutPassage(
            chunk_id=str(pool.candidates.chunk_ids[row]),
            rule=rules[row][0],
            explanation=_explanation(pool, row, None, 0)
            if rules[row][1] is None
            else _explanation(pool, row, order, rules[row][1] or 0),
        )
        for row in pool.fused.rows.tolist()
        if row in rules
    ]
