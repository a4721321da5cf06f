"""Puts candidates in order: fuses the arms' lists, removes near-duplicates, weighs, diversifies, cuts.

Arithmetic on what a search found, in the process that has it, and what is read for it and of it. A strategy
that asks a model is the reranker's.
"""

from groundline_ranking.candidates import (
    ArmList,
    Candidates,
    ChunkFeatures,
    arm_scores,
    candidates_of,
    is_weak,
)
from groundline_ranking.duplicates import MAX_WINDOW, MIN_WINDOW
from groundline_ranking.passages import Fetch, Rank, ranked_with_texts, read_passages
from groundline_ranking.ranking import Order, Pool, finish, in_fused_order, wanted_chunks
from groundline_ranking.request import (
    INLINE_CANDIDATES,
    MODELS,
    off_loop,
    pooled,
    rank,
    size_of,
    texts_of,
    window_of,
)

__all__ = [
    "INLINE_CANDIDATES",
    "MAX_WINDOW",
    "MIN_WINDOW",
    "MODELS",
    "ArmList",
    "Candidates",
    "ChunkFeatures",
    "Fetch",
    "Order",
    "Pool",
    "Rank",
    "arm_scores",
    "candidates_of",
    "finish",
    "in_fused_order",
    "is_weak",
    "off_loop",
    "pooled",
    "rank",
    "ranked_with_texts",
    "read_passages",
    "size_of",
    "texts_of",
    "wanted_chunks",
    "window_of",
]
