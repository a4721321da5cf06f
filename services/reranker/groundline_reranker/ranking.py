"""What comes before and after a model's scores: all of it pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from groundline_reranker.domain import (
    Alternative,
    Candidate,
    Cut,
    CutRule,
    Options,
    Passage,
    Ranking,
    Strategy,
)
from groundline_reranker.fusion import fuse
from groundline_reranker.similarity import diversified, near_duplicates
from groundline_reranker.weighted import weighted

__all__ = ["Fused", "finish", "fuse_and_fold"]


@dataclass(frozen=True)
class Fused:
    """What is left after folding, best first, and what was folded."""

    candidates: Mapping[int, Candidate]
    kept: Sequence[Passage]
    folded: Sequence[Passage]


def fuse_and_fold(candidate_sets: Sequence[Sequence[Candidate]], options: Options) -> Fused:
    """All candidates in one list, with near-duplicates folded into the better ones."""
    passages = fuse(candidate_sets, options)
    candidates = {candidate.chunk_id: candidate for found in candidate_sets for candidate in found}
    folded = near_duplicates(passages, candidates, options)
    alternatives: dict[int, list[Alternative]] = {}
    for chunk_id, (into, similarity) in folded.items():
        alternatives.setdefault(into, []).append(Alternative(chunk_id, similarity))
    return Fused(
        candidates,
        kept=[
            replace(passage, alternatives=tuple(alternatives.get(passage.chunk_id, ())))
            for passage in passages
            if passage.chunk_id not in folded
        ],
        folded=[passage for passage in passages if passage.chunk_id in folded],
    )


def finish(
    query: str, fused: Fused, ranked: Sequence[Passage], unseen: Sequence[Passage], options: Options
) -> Ranking:
    """Rerank where that needs no model, diversify and cut; `unseen` comes after `ranked`, and is cut."""
    if options.strategy is Strategy.WEIGHTED:
        ranked = weighted(ranked, fused.candidates, query, options)
    least = -math.inf if options.min_score is None else options.min_score
    enough = [passage for passage in ranked if passage.final_score >= least]
    if options.mmr_lambda is None:
        passages: Sequence[Passage] = enough[: options.top_k]
    else:
        passages = diversified(enough, fused.candidates, options.top_k, options.mmr_lambda)
    if not options.include_cut:
        return Ranking(passages)
    returned = {passage.chunk_id for passage in passages}
    cut = [Cut(passage, CutRule.DUPLICATE) for passage in fused.folded]
    cut += [Cut(passage, CutRule.MIN_SCORE) for passage in ranked if passage.final_score < least]
    for place, passage in enumerate(enough):
        if passage.chunk_id not in returned:
            cut.append(Cut(passage, CutRule.DIVERSITY if place < options.top_k else CutRule.TOP_K))
    cut += [Cut(passage, CutRule.TOP_K) for passage in unseen]
    return Ranking(passages, sorted(cut, key=lambda each: each.passage.fused_rank))
