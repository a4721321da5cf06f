"""How alike passages are, and what follows from it: folding near-duplicates, and diversity."""

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from groundline_reranker.domain import Candidate, Component, Options, Passage, Strategy

__all__ = ["diversified", "near_duplicates"]

SHINGLE_WORDS = 3
ROUNDING = 1e-9
"""What a product of floats may be too large by."""

_WORD = re.compile(r"\w+")

FOLD_WINDOW = 4
LEAST_FOLDED, MOST_FOLDED = 50, 400
"""Folding looks at this many times top_k of the best fused candidates, at 50 at least: what comes after them
is not returned. A strategy that orders anew may bring up any of them; for it, it looks at the best 400."""

DIVERSITY_WINDOW = 4
"""Diversity chooses among this many times top_k of the best; each choice is compared with all of them."""


def near_duplicates(
    passages: Sequence[Passage], candidates: Mapping[int, Candidate], options: Options
) -> Mapping[int, tuple[int, float]]:
    """Chunk id → the better passage that it is a near-duplicate of, and how similar they are.

    Similar are: equal texts (1), else vectors by their cosine where both have one, else texts by the
    Jaccard index of their sets of three-word shingles. A threshold of 0 switches folding off.
    """
    if not options.fold_similarity:
        return {}
    window = MOST_FOLDED
    if options.strategy is Strategy.NONE:
        window = max(FOLD_WINDOW * options.top_k, LEAST_FOLDED)
    kept = _Kept(options.fold_similarity)
    folded: dict[int, tuple[int, float]] = {}
    for passage in passages[:window]:
        candidate = candidates[passage.chunk_id]
        found = kept.near_duplicate_or_keep(candidate)
        if found is not None:
            folded[candidate.chunk_id] = found
    return folded


def diversified(
    passages: Sequence[Passage], candidates: Mapping[int, Candidate], count: int, mmr_lambda: float
) -> list[Passage]:
    """The first `count` by maximal marginal relevance (Carbonell and Goldstein, SIGIR 1998).

    Each time the passage comes next whose relevance (its score on a scale from 0 for the worst to 1 for the
    best) times lambda, less its similarity to the most similar one before it times 1 - lambda, is greatest.
    That is its final score, which never rises.
    """
    pool = list(passages[: DIVERSITY_WINDOW * count])
    if not pool:
        return []
    features = [_Features.of(candidates[passage.chunk_id]) for passage in pool]
    scores = np.array([passage.final_score for passage in pool])
    span = scores.max() - scores.min()
    relevance = (scores - scores.min()) / span if span else np.ones(len(pool))
    redundancy = np.zeros(len(pool))
    left = list(range(len(pool)))
    chosen: list[Passage] = []
    while left and len(chosen) < count:
        values = mmr_lambda * relevance - (1 - mmr_lambda) * redundancy
        best = max(left, key=lambda place: (values[place], -place))
        left.remove(best)
        components = (
            *pool[best].components,
            Component("relevance", float(relevance[best]), mmr_lambda),
            Component("redundancy", float(redundancy[best]), mmr_lambda - 1),
        )
        chosen.append(replace(pool[best], components=components, final_score=float(values[best])))
        for place in left:
            redundancy[place] = max(redundancy[place], features[place].similarity(features[best]))
    return chosen


class _Features:
    """What of a candidate is compared."""

    def __init__(self, text: str, shingles: set[int], vector: NDArray[np.float32] | None) -> None:
        self.text = text
        self.shingles = shingles
        self.vector = vector

    @classmethod
    def of(cls, candidate: Candidate) -> "_Features":
        casefolded = candidate.text.casefold()
        return cls(" ".join(casefolded.split()), _shingles(casefolded), _unit(candidate.embedding))

    def similarity(self, other: "_Features") -> float:
        if self.text == other.text:
            return 1.0
        if self.vector is not None and other.vector is not None and self.vector.shape == other.vector.shape:
            return min(max(float(self.vector @ other.vector), 0.0), 1.0)
        return _jaccard(self.shingles, other.shingles)


class _Kept:
    """Passages that near-duplicates fold into, in order.

    Few texts are compared (prefix filtering; Chaudhuri, Ganti and Kaushik, ICDE 2006): with all shingles in
    one order, two sets whose Jaccard index reaches the threshold have one in common among the first of each,
    and the first that have to be looked at are a share of 1 - threshold.
    """

    def __init__(self, threshold: float) -> None:
        self._threshold = threshold
        self._ids: list[int] = []
        self._texts: dict[str, int] = {}
        self._shingles: list[set[int]] = []
        self._holders: dict[int, list[int]] = defaultdict(list)
        self._vectors: dict[int, NDArray[np.float32]] = {}

    def near_duplicate_or_keep(self, candidate: Candidate) -> tuple[int, float] | None:
        """The id of the most similar one (of equals the best) and the similarity; None when it was kept."""
        features = _Features.of(candidate)
        equal = self._texts.get(features.text)
        if equal is not None:
            return self._ids[equal], 1.0
        first = self._first(features.shingles)
        if self._threshold < 1:
            place, similarity = self._nearest(features, first)
            if place is not None and similarity >= self._threshold:
                return self._ids[place], min(similarity, 1.0)
        self._keep(candidate.chunk_id, features, first)
        return None

    def _first(self, shingles: set[int]) -> list[int]:
        shared = math.ceil(self._threshold * len(shingles) - ROUNDING)
        return sorted(shingles)[: len(shingles) - shared + 1]

    def _nearest(self, features: _Features, first: Sequence[int]) -> tuple[int | None, float]:
        similarities: dict[int, float] = {}
        for place in {place for shingle in first for place in self._holders.get(shingle, ())}:
            similarities[place] = _jaccard(features.shingles, self._shingles[place])
        if features.vector is not None:
            for place, other in self._vectors.items():
                if other.shape == features.vector.shape:
                    similarities[place] = float(other @ features.vector)
        if not similarities:
            return None, 0.0
        place = min(similarities, key=lambda place: (-similarities[place], place))
        return place, similarities[place]

    def _keep(self, chunk_id: int, features: _Features, first: Sequence[int]) -> None:
        place = len(self._ids)
        self._ids.append(chunk_id)
        self._texts[features.text] = place
        self._shingles.append(features.shingles)
        for shingle in first:
            self._holders[shingle].append(place)
        if features.vector is not None:
            self._vectors[place] = features.vector


def _unit(embedding: Sequence[float]) -> NDArray[np.float32] | None:
    if not embedding:
        return None
    vector = np.asarray(embedding, np.float32)
    length = float(np.linalg.norm(vector))
    return vector / length if length else None


def _jaccard(one: set[int], other: set[int]) -> float:
    shared = len(one & other)
    return shared / (len(one) + len(other) - shared)


def _shingles(text: str) -> set[int]:
    words = _WORD.findall(text)
    if len(words) < SHINGLE_WORDS:
        return {hash(tuple(words))}
    return set(map(hash, zip(*(words[start:] for start in range(SHINGLE_WORDS)), strict=False)))
