"""Fusion, folding and cutting of candidates: pure functions over what the search arms said."""

import enum
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Alternative",
    "ArmScore",
    "Candidate",
    "Cut",
    "CutRule",
    "Fusion",
    "Options",
    "Passage",
    "Ranking",
    "fuse",
    "rank",
]

SHINGLE_WORDS = 3

FOLD_WINDOW = 400
"""How many of the best fused candidates folding looks at; those after them are far beyond any top_k."""


class Fusion(enum.Enum):
    RRF = "rrf"
    WEIGHTED = "weighted"


class CutRule(enum.Enum):
    TOP_K = "top_k"
    DUPLICATE = "duplicate"
    MIN_SCORE = "min_score"


@dataclass(frozen=True, slots=True)
class Options:
    top_k: int = 8
    fusion: Fusion = Fusion.RRF
    rrf_k: int = 60
    keyword_weight: float = 1.0
    semantic_weight: float = 1.0
    fold_similarity: float = 0.9
    min_score: float | None = None
    include_cut: bool = False


@dataclass(frozen=True, slots=True)
class ArmScore:
    """Rank (from 1) and score within an arm's list of one collection."""

    rank: int
    score: float


@dataclass(frozen=True, slots=True)
class Candidate:
    """A chunk that at least one arm found. `embedding` is empty where it was not included."""

    chunk_id: int
    collection_id: str
    text: str
    keyword: ArmScore | None = None
    semantic: ArmScore | None = None
    embedding: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class Alternative:
    """A near-duplicate, and its similarity (0 to 1) to the passage it was folded into."""

    chunk_id: int
    similarity: float


@dataclass(frozen=True, slots=True)
class Passage:
    """A chunk in its place, and why; the arms' scores are those of its best rank in any set."""

    chunk_id: int
    keyword: ArmScore | None
    semantic: ArmScore | None
    fused_score: float
    fused_rank: int
    alternatives: tuple[Alternative, ...] = ()


@dataclass(frozen=True, slots=True)
class Cut:
    passage: Passage
    rule: CutRule


@dataclass(frozen=True, slots=True)
class Ranking:
    """Best first; what was cut in the order of fusion, where it was asked for."""

    passages: Sequence[Passage]
    cut: Sequence[Cut] = field(default=())


def rank(candidate_sets: Sequence[Sequence[Candidate]], options: Options) -> Ranking:
    """Fuse, fold near-duplicates, drop what scores too low, keep the first top_k."""
    fused = fuse(candidate_sets, options)
    candidates = {candidate.chunk_id: candidate for found in candidate_sets for candidate in found}
    folded = _fold(fused, candidates, options.fold_similarity)
    alternatives: dict[int, list[Alternative]] = defaultdict(list)
    for chunk_id, (into, similarity) in folded.items():
        alternatives[into].append(Alternative(chunk_id, similarity))
    passages: list[Passage] = []
    cut: list[Cut] = []
    for passage in fused:
        if passage.chunk_id in folded:
            cut.append(Cut(passage, CutRule.DUPLICATE))
        elif options.min_score is not None and passage.fused_score < options.min_score:
            cut.append(Cut(passage, CutRule.MIN_SCORE))
        elif len(passages) >= options.top_k:
            cut.append(Cut(passage, CutRule.TOP_K))
        else:
            passages.append(_with_alternatives(passage, alternatives[passage.chunk_id]))
    return Ranking(passages, cut if options.include_cut else ())


def fuse(candidate_sets: Sequence[Sequence[Candidate]], options: Options) -> list[Passage]:
    """All candidates by falling fused score; ties go to the smaller chunk id.

    Each arm's list of each collection in each set counts by itself. An arm of weight 0 is left out, with the
    candidates that it alone found.
    """
    contributions: dict[int, list[float]] = defaultdict(list)
    keyword: dict[int, ArmScore] = {}
    semantic: dict[int, ArmScore] = {}
    for candidates in candidate_sets:
        for weight, best, entries in (
            (options.keyword_weight, keyword, [(each, each.keyword) for each in candidates]),
            (options.semantic_weight, semantic, [(each, each.semantic) for each in candidates]),
        ):
            lists: dict[str, dict[int, ArmScore]] = defaultdict(dict)
            for candidate, arm_score in entries:
                if arm_score is not None:
                    lists[candidate.collection_id][candidate.chunk_id] = arm_score
                    best[candidate.chunk_id] = _better(best.get(candidate.chunk_id), arm_score)
            if not weight:
                continue
            for members in lists.values():
                for chunk_id, contribution in _contributions(members, options):
                    contributions[chunk_id].append(weight * contribution)
    # Summed exactly: the order of the sets must not decide between near-ties.
    scores = {chunk_id: math.fsum(parts) for chunk_id, parts in contributions.items()}
    order = sorted(scores, key=lambda chunk_id: (-scores[chunk_id], chunk_id))
    return [
        Passage(chunk_id, keyword.get(chunk_id), semantic.get(chunk_id), scores[chunk_id], position)
        for position, chunk_id in enumerate(order, 1)
    ]


def _contributions(members: Mapping[int, ArmScore], options: Options) -> Iterable[tuple[int, float]]:
    if options.fusion is Fusion.RRF:
        for chunk_id, arm_score in members.items():
            yield chunk_id, 1 / (options.rrf_k + arm_score.rank)
        return
    values = [arm_score.score for arm_score in members.values()]
    least, span = min(values), max(values) - min(values)
    for chunk_id, arm_score in members.items():
        # A list of equals says of each that it was found.
        yield chunk_id, (arm_score.score - least) / span if span else 1.0


def _better(known: ArmScore | None, other: ArmScore) -> ArmScore:
    if known is None:
        return other
    return min(known, other, key=lambda arm_score: (arm_score.rank, -arm_score.score))


def _with_alternatives(passage: Passage, alternatives: Sequence[Alternative]) -> Passage:
    return Passage(
        passage.chunk_id,
        passage.keyword,
        passage.semantic,
        passage.fused_score,
        passage.fused_rank,
        tuple(alternatives),
    )


def _fold(
    fused: Sequence[Passage], candidates: Mapping[int, Candidate], threshold: float
) -> Mapping[int, tuple[int, float]]:
    """Chunk id → the better passage that it is a near-duplicate of, and how similar they are."""
    if not threshold:
        return {}
    kept = _Kept(threshold)
    folded: dict[int, tuple[int, float]] = {}
    for passage in fused[:FOLD_WINDOW]:
        candidate = candidates[passage.chunk_id]
        found = kept.near_duplicate_or_keep(candidate)
        if found is not None:
            folded[candidate.chunk_id] = found
    return folded


class _Kept:
    """Passages that near-duplicates fold into, in order.

    Similar are: equal texts (1), else vectors by their cosine where both have one, else texts by the
    Jaccard index of their sets of three-word shingles; only texts that share a shingle are compared.
    """

    def __init__(self, threshold: float) -> None:
        self._threshold = threshold
        self._ids: list[int] = []
        self._texts: dict[str, int] = {}
        self._shingle_counts: list[int] = []
        self._holders: dict[int, list[int]] = defaultdict(list)
        self._vectors: dict[int, NDArray[np.float32]] = {}

    def near_duplicate_or_keep(self, candidate: Candidate) -> tuple[int, float] | None:
        """The id of the most similar one (of equals the best) and the similarity; None when it was kept."""
        casefolded = candidate.text.casefold()
        text = " ".join(casefolded.split())
        equal = self._texts.get(text)
        if equal is not None:
            return self._ids[equal], 1.0
        shingles = _shingles(casefolded)
        vector = _unit(candidate.embedding)
        if self._threshold < 1:
            place, similarity = self._nearest(shingles, vector)
            if place is not None and similarity >= self._threshold:
                return self._ids[place], min(similarity, 1.0)
        self._keep(candidate.chunk_id, text, shingles, vector)
        return None

    def _nearest(self, shingles: set[int], vector: NDArray[np.float32] | None) -> tuple[int | None, float]:
        similarities: dict[int, float] = {}
        shared = Counter(place for shingle in shingles for place in self._holders.get(shingle, ()))
        for place, count in shared.items():
            similarities[place] = count / (len(shingles) + self._shingle_counts[place] - count)
        if vector is not None:
            for place, other in self._vectors.items():
                if other.shape == vector.shape:
                    similarities[place] = float(other @ vector)
        if not similarities:
            return None, 0.0
        place = min(similarities, key=lambda place: (-similarities[place], place))
        return place, similarities[place]

    def _keep(self, chunk_id: int, text: str, shingles: set[int], vector: NDArray[np.float32] | None) -> None:
        place = len(self._ids)
        self._ids.append(chunk_id)
        self._texts[text] = place
        self._shingle_counts.append(len(shingles))
        for shingle in shingles:
            self._holders[shingle].append(place)
        if vector is not None:
            self._vectors[place] = vector


def _unit(embedding: Sequence[float]) -> NDArray[np.float32] | None:
    vector = np.asarray(embedding, np.float32)
    length = float(np.linalg.norm(vector))
    return vector / length if length else None


def _shingles(text: str) -> set[int]:
    words = re.findall(r"\w+", text)
    count = max(1, len(words) - SHINGLE_WORDS + 1)
    return {hash(tuple(words[start : start + SHINGLE_WORDS])) for start in range(count)}
