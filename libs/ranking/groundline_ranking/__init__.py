"""Ranking of candidates: ranked lists are fused, near-duplicates removed, candidates weighed, diversified,
cut and explained."""

from groundline_ranking.candidates import ArmHits, Candidates, Hit, is_weak
from groundline_ranking.duplicates import MAX_WINDOW, MIN_WINDOW
from groundline_ranking.ranking import (
    INLINE_CANDIDATES,
    MODELS,
    READ_CANDIDATES,
    Duplicate,
    Ranked,
    Ranking,
    Read,
    Score,
    rank,
)

__all__ = [
    "INLINE_CANDIDATES",
    "MAX_WINDOW",
    "MIN_WINDOW",
    "MODELS",
    "READ_CANDIDATES",
    "ArmHits",
    "Candidates",
    "Duplicate",
    "Hit",
    "Ranked",
    "Ranking",
    "Read",
    "Score",
    "is_weak",
    "rank",
]
