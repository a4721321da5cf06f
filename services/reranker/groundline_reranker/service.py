"""Puts candidates in order."""

import asyncio
from collections.abc import Sequence

from groundline_reranker.domain import Candidate, Options, Ranking, rank

__all__ = ["RankingService"]

INLINE_CANDIDATES = 250
"""Up to this many are ranked in about 5 ms, which the event loop can bear; more go to a thread."""


class RankingService:
    async def rank(self, candidate_sets: Sequence[Sequence[Candidate]], options: Options) -> Ranking:
        """See domain.rank."""
        if sum(map(len, candidate_sets)) <= INLINE_CANDIDATES:
            return rank(candidate_sets, options)
        return await asyncio.to_thread(rank, candidate_sets, options)
