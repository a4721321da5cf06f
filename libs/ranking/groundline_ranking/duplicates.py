"""Similarity of passages: near-duplicates, and diversity."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from groundline.v1 import options_pb2
from groundline_contracts import default_of
from groundline_signatures import alike_rows, pairwise_similarity
from numpy.typing import NDArray

from groundline_ranking.candidates import Candidates

_THRESHOLD: Final[float] = default_of(options_pb2.RerankOptions, "deduplication_threshold")

WINDOW: Final = 4
MIN_WINDOW: Final = 50
MAX_WINDOW: Final = 400
"""Near-duplicates are looked for among this many times top_k of the best fused candidates, at least 50: what
comes after them is not returned. A strategy that orders anew may bring up any of them; for it, among 400."""

DIVERSITY_WINDOW: Final = 4
"""Multiple of top_k of the best passages among which diversity chooses; each choice is compared with all of
them."""


def near_duplicates(
    candidates: Candidates, rows: Sequence[int], options: options_pb2.RerankOptions, *, top_k: int
) -> Mapping[int, tuple[int, float]]:
    """Return, by row, the row of the better passage that it is a near-duplicate of, and their similarity.

    `rows` are in order, best first. Chunks without a signature have no duplicates.
    """
    threshold = options.deduplication_threshold if options.HasField("deduplication_threshold") else _THRESHOLD
    if not threshold:
        return {}
    keeps_order = options.strategy in (
        options_pb2.RERANK_STRATEGY_UNSPECIFIED,
        options_pb2.RERANK_STRATEGY_NONE,
    )
    window = rows[: max(WINDOW * top_k, MIN_WINDOW) if keeps_order else MAX_WINDOW]
    # Most passages resemble no other: only those that may are compared with each other.
    window = [window[index] for index in alike_rows(candidates.signatures(window), threshold)]
    if not window:
        return {}
    similarities = _similarities(candidates, window)
    alike = similarities >= np.float32(threshold)
    duplicates: dict[int, tuple[int, float]] = {}
    removed = np.zeros(len(window), bool)
    # Only rows with a duplicate are examined, in order.
    for index in np.flatnonzero(np.tril(alike, -1).any(axis=1)):
        better = np.flatnonzero(alike[index, :index] & ~removed[:index])
        if len(better):
            nearest = better[np.argmax(similarities[index, better])]
            removed[index] = True
            duplicates[window[index]] = window[nearest], float(similarities[index, nearest])
    return duplicates


@dataclass(frozen=True, slots=True)
class Choice:
    """A passage that diversity chose: its index among the passages, its relevance (0 to 1), its similarity to
    the most similar one before it (0 to 1), and the value that decided."""

    index: int
    relevance: float
    redundancy: float
    value: float


def diversified(
    candidates: Candidates, rows: Sequence[int], given: Sequence[float], count: int, mmr_lambda: float
) -> list[Choice]:
    """Return the first `count` by maximal marginal relevance (Carbonell and Goldstein, SIGIR 1998).

    Each time the passage comes next whose relevance (its score on a scale from 0 for the worst to 1 for the
    best) times lambda, less its similarity to the most similar one before it times 1 - lambda, is greatest.
    That value never rises.
    """
    pool = rows[: DIVERSITY_WINDOW * count]
    if not pool:
        return []
    similarities = _similarities(candidates, pool)
    scores = np.array(given[: len(pool)])
    span = scores.max() - scores.min()
    relevance = (scores - scores.min()) / span if span else np.ones(len(pool))
    redundancy = np.zeros(len(pool))
    is_left = np.ones(len(pool), bool)
    chosen: list[Choice] = []
    for _ in range(min(count, len(pool))):
        values = np.where(is_left, mmr_lambda * relevance - (1 - mmr_lambda) * redundancy, -np.inf)
        best = int(np.argmax(values))
        chosen.append(Choice(best, float(relevance[best]), float(redundancy[best]), float(values[best])))
        is_left[best] = False
        redundancy = np.maximum(redundancy, similarities[best])
    return chosen


def _similarities(candidates: Candidates, rows: Sequence[int]) -> NDArray[np.float32]:
    signatures = candidates.signatures(rows)
    similarities = pairwise_similarity(signatures)
    unknown = ~signatures.any(axis=1)
    similarities[unknown] = 0.0
    similarities[:, unknown] = 0.0
    return similarities
