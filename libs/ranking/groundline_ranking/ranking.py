"""Order of candidates and its reasons: they are fused, freed of near-duplicates, ordered, diversified, cut,
explained.

The retriever and the reranker rank here. The retriever reads the texts that a strategy needs from the
database, and asks the reranker for a model's scores; the reranker has the texts in its request, and asks its
model.
"""

import asyncio
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from groundline.v1 import options_pb2, passage_pb2
from groundline_contracts import default_of

from groundline_ranking.candidates import Candidates
from groundline_ranking.duplicates import DIVERSITY_WINDOW, diversified, near_duplicates
from groundline_ranking.fusion import Fused, fuse
from groundline_ranking.weighted import reads_words, weighted_components

_TOP_K: Final[int] = default_of(options_pb2.RerankOptions, "top_k")

INLINE_CANDIDATES: Final = 1000
"""Maximum number of candidates that are ranked on the event loop, which takes about 5 ms; more go to a
thread."""

READ_CANDIDATES: Final = 50
"""Number of the best fused candidates that a strategy reads, or top_k if that is more."""

DOCUMENTS_AT_ONCE: Final = 100
"""Number of candidates, in their order, whose documents are asked for at once."""

MODELS: Final[Mapping[options_pb2.RerankStrategy.ValueType, str]] = {
    options_pb2.RERANK_STRATEGY_CROSS_ENCODER: "cross_encoder",
    options_pb2.RERANK_STRATEGY_API: "api",
    options_pb2.RERANK_STRATEGY_LLM: "llm",
}
"""Strategies that ask a model, by the name of the component that its score becomes in explanations."""

type Read = Callable[[Mapping[str, Sequence[int]]], Awaitable[Mapping[int, passage_pb2.Chunk]]]
"""Reads chunks, given by collection: by id those that exist, that the caller may read, and that have a
text."""
type Documents = Callable[[Mapping[str, Sequence[int]]], Awaitable[Mapping[int, str]]]
"""Tells the documents of chunks, given by collection: by id those that exist and that the caller may read."""
type Score = Callable[[Sequence[passage_pb2.Chunk]], Awaitable[Sequence[float] | passage_pb2.Degradation]]
"""Asks the strategy's model how relevant chunks are: a score for each, higher is better, or why there are
no scores."""


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A near-duplicate of a better chunk, and how similar it is, 0 to 1."""

    chunk_id: int
    collection_id: str
    similarity: float


class Ranked(NamedTuple):
    """A chunk at its final rank."""

    chunk_id: int
    collection_id: str
    score: float
    """Final score; higher is better, comparable within one ranking only."""
    explanation: passage_pb2.ScoreExplanation
    duplicates: Sequence[Duplicate] = ()


@dataclass(frozen=True, slots=True)
class Ranking:
    """Kept candidates, best first, the cut ones with the rule that cut them, and a strategy that failed."""

    ranked: Sequence[Ranked]
    cut: Sequence[passage_pb2.CutPassage] = ()
    """Candidates that were cut, if the options ask for them."""
    degraded: Sequence[passage_pb2.Degradation] = ()


async def rank(
    candidates: Candidates,
    query: str,
    options: options_pb2.RerankOptions,
    *,
    read: Read,
    score: Score,
    documents: Documents,
    window: int = READ_CANDIDATES,
) -> Ranking:
    """Put candidates in order by the strategy, drop what scores too low, and keep the first top_k.

    The documents of candidates are asked for only if `max_per_document` is set.

    A strategy that reads texts gets those of the best `window` candidates, or of the best top_k where that
    is more. What it does not see is cut, and so is what `read` does not find. Where a model gives no
    scores, the fused order stands.
    """
    size, is_weighted = len(candidates.hits), options.strategy == options_pb2.RERANK_STRATEGY_WEIGHTED
    shortlist = await _off_loop(size, _shortlist_of, candidates, options)
    degraded: Sequence[passage_pb2.Degradation] = ()
    if options.strategy in MODELS or (is_weighted and reads_words(options)):
        count = max(_top_k_of(options), window)
        order, degraded = await _with_texts(shortlist, count, query, options, read, score)
    elif is_weighted:
        order = await _off_loop(size, _by_weights, shortlist, shortlist.rows, (), "", options)
    else:
        order = _in_fused_order(shortlist)
    crowded: Set[int] = frozenset()
    if options.max_per_document:
        crowded = await _crowded(candidates, order, options, documents)
    return await _off_loop(size, _finish, shortlist, order, options, crowded, degraded)


async def _with_texts(
    shortlist: "_Shortlist",
    count: int,
    query: str,
    options: options_pb2.RerankOptions,
    read: Read,
    score: Score,
) -> tuple["_Order", Sequence[passage_pb2.Degradation]]:
    """Order by a strategy that reads the texts of the best `count`; return with it why it could not."""
    candidates = shortlist.candidates
    seen, unseen = shortlist.rows[:count], shortlist.rows[count:]
    chunks = await read(_by_collection(candidates, seen)) if seen else {}
    rows = [row for row in seen if candidates.hits[row].chunk_id in chunks]
    texts = [chunks[candidates.hits[row].chunk_id] for row in rows]
    if options.strategy in MODELS:
        scores = await score(texts) if texts else ()
        if isinstance(scores, passage_pb2.Degradation):
            return _in_fused_order(shortlist), [scores]
        return _by_model(rows, scores, MODELS[options.strategy], unseen), ()
    ordered = await asyncio.to_thread(_by_weights, shortlist, rows, texts, query, options)
    return replace(ordered, unseen=unseen), ()


async def _off_loop[**Given, Result](
    candidates: int, work: Callable[Given, Result], *given: Given.args, **named: Given.kwargs
) -> Result:
    """Return the result of `work`; run it in a thread if it would hold the event loop up."""
    if candidates > INLINE_CANDIDATES:
        return await asyncio.to_thread(work, *given, **named)
    return work(*given, **named)


async def _crowded(
    candidates: Candidates, order: "_Order", options: options_pb2.RerankOptions, documents: Documents
) -> Set[int]:
    """Return the indexes of those whose document has `max_per_document` better ones, as far down the order as
    cutting and diversity look."""
    wanted = _top_k_of(options) * (DIVERSITY_WINDOW if options.HasField("mmr_lambda") else 1)
    counts: Counter[str] = Counter()
    crowded: set[int] = set()
    for begin in range(0, len(order.rows), DOCUMENTS_AT_ONCE):
        rows = order.rows[begin : begin + DOCUMENTS_AT_ONCE]
        known = await documents(_by_collection(candidates, rows))
        for index, row in enumerate(rows, begin):
            document_id = known.get(candidates.hits[row].chunk_id)
            if document_id is None:  # it is gone, and will not be a passage
                continue
            counts[document_id] += 1
            if counts[document_id] > options.max_per_document:
                crowded.add(index)
        if counts.total() - len(crowded) >= wanted:
            break
    return crowded


def _top_k_of(options: options_pb2.RerankOptions) -> int:
    return options.top_k or _TOP_K


@dataclass(frozen=True, slots=True)
class _Shortlist:
    """Candidates after fusion and deduplication, best first, and the duplicates."""

    candidates: Candidates
    fused: Fused
    rows: Sequence[int]
    duplicates: Mapping[int, tuple[int, float]]
    """Row of the better passage and the similarity, by the row of a duplicate."""


@dataclass(frozen=True, slots=True)
class _Order:
    """Candidates in their order, with the scores and components that decided it; `unseen` come after, and
    are cut."""

    rows: Sequence[int]
    scores: Sequence[float]
    components: Mapping[str, tuple[Sequence[float], float]]
    """Values for `rows`, and the weight that they were multiplied with, by name."""
    unseen: Sequence[int] = ()

    def sorted(self) -> "_Order":
        """Order by falling score; of equal scores the one that stood before stays before."""
        order = sorted(range(len(self.rows)), key=self.scores.__getitem__, reverse=True)
        return self.at(order)

    def at(self, indexes: Sequence[int]) -> "_Order":
        """Return the candidates at these indexes, in their order."""
        return _Order(
            [self.rows[index] for index in indexes],
            [self.scores[index] for index in indexes],
            {
                name: ([values[index] for index in indexes], weight)
                for name, (values, weight) in self.components.items()
            },
            self.unseen,
        )


def _shortlist_of(candidates: Candidates, options: options_pb2.RerankOptions) -> _Shortlist:
    """Fuse all candidates into one list, without near-duplicates of better ones."""
    fused = fuse(candidates, options)
    duplicates = near_duplicates(candidates, list(fused.ranks), options, top_k=_top_k_of(options))
    rows = [row for row in fused.ranks if row not in duplicates]
    return _Shortlist(candidates, fused, rows, duplicates)


def _by_collection(candidates: Candidates, rows: Sequence[int]) -> Mapping[str, Sequence[int]]:
    """Return the ids of the chunks in these rows, by collection."""
    found: dict[str, list[int]] = {}
    for row in rows:
        hit = candidates.hits[row]
        found.setdefault(hit.collection_id, []).append(hit.chunk_id)
    return found


def _in_fused_order(shortlist: _Shortlist) -> _Order:
    """Return the order of the strategy none, which stands where another fails too."""
    return _Order(shortlist.rows, [shortlist.fused.scores[row] for row in shortlist.rows], {})


def _by_model(rows: Sequence[int], scores: Sequence[float], name: str, unseen: Sequence[int]) -> _Order:
    """Order by a model's scores; of equal scores the better fused one, which it was shown first, stays
    first."""
    return _Order(rows, scores, {name: (scores, 1.0)}, unseen).sorted()


def _by_weights(
    shortlist: _Shortlist,
    rows: Sequence[int],
    texts: Sequence[passage_pb2.Chunk],
    query: str,
    options: options_pb2.RerankOptions,
) -> _Order:
    """Order by the strategy weighted; ties go to the smaller chunk id."""
    components = weighted_components(shortlist.candidates, shortlist.fused, rows, texts, query, options)
    weighted = [[value * weight for value in values] for values, weight in components.values()]
    scores = [math.fsum(parts) for parts in zip(*weighted, strict=True)] if weighted else [0.0] * len(rows)
    by_id = sorted(range(len(rows)), key=rows.__getitem__)  # rows are in the order of their chunk ids
    return _Order(rows, scores, components).at(by_id).sorted()


def _finish(
    shortlist: _Shortlist,
    order: _Order,
    options: options_pb2.RerankOptions,
    crowded: Set[int],
    degraded: Sequence[passage_pb2.Degradation],
) -> Ranking:
    """Diversify, cut, and explain. `crowded`: indexes that the better ones of their documents leave no
    place."""
    top_k = _top_k_of(options)
    minimum = options.min_score if options.HasField("min_score") else -math.inf
    enough = [index for index, score in enumerate(order.scores) if score >= minimum and index not in crowded]
    if options.HasField("mmr_lambda"):
        kept = order.at(enough)
        choices = diversified(shortlist.candidates, kept.rows, kept.scores, top_k, options.mmr_lambda)
        indexes = [enough[choice.index] for choice in choices]
        ranked = [
            _ranked(shortlist, order, index)._replace(score=choice.value)
            for choice, index in zip(choices, indexes, strict=True)
        ]
        for choice, each in zip(choices, ranked, strict=True):
            each.explanation.final_score = choice.value
            for name, value, weight in (
                ("relevance", choice.relevance, options.mmr_lambda),
                ("redundancy", choice.redundancy, options.mmr_lambda - 1),
            ):
                each.explanation.components.add(name=name, value=value, weight=weight)
    else:
        indexes = enough[:top_k]
        ranked = [_ranked(shortlist, order, index) for index in indexes]
    if not options.include_cut:
        return Ranking(ranked, degraded=degraded)
    return Ranking(ranked, _cut(shortlist, order, set(indexes), enough, crowded, top_k), degraded)


def _ranked(shortlist: _Shortlist, order: _Order, index: int) -> Ranked:
    row, hits = order.rows[index], shortlist.candidates.hits
    return Ranked(
        chunk_id=hits[row].chunk_id,
        collection_id=hits[row].collection_id,
        score=order.scores[index],
        explanation=_explanation(shortlist, row, order, index),
        duplicates=[
            Duplicate(hits[duplicate].chunk_id, hits[duplicate].collection_id, similarity)
            for duplicate, (better, similarity) in shortlist.duplicates.items()
            if better == row
        ],
    )


def _explanation(
    shortlist: _Shortlist, row: int, order: _Order | None, index: int
) -> passage_pb2.ScoreExplanation:
    fused = shortlist.fused
    keyword, semantic = fused.keyword.get(row), fused.semantic.get(row)
    return passage_pb2.ScoreExplanation(
        keyword=None if keyword is None else passage_pb2.ArmScore(rank=keyword[0], score=keyword[1]),
        semantic=None if semantic is None else passage_pb2.ArmScore(rank=semantic[0], score=semantic[1]),
        fused_score=fused.scores[row],
        fused_rank=fused.ranks[row],
        components=[
            passage_pb2.ScoreComponent(name=name, value=values[index], weight=weight)
            for name, (values, weight) in (order.components.items() if order is not None else ())
        ],
        final_score=fused.scores[row] if order is None else order.scores[index],
    )


def _cut(
    shortlist: _Shortlist,
    order: _Order,
    returned: set[int],
    enough: Sequence[int],
    crowded: Set[int],
    top_k: int,
) -> list[passage_pb2.CutPassage]:
    """Return the passages that are cut, in the fused order."""
    rules: dict[int, tuple[passage_pb2.CutRule.ValueType, int | None]] = {}
    for row in shortlist.duplicates:
        rules[row] = passage_pb2.CUT_RULE_DUPLICATE, None
    is_enough = set(enough)
    for index, row in enumerate(order.rows):
        if index in crowded:
            rules[row] = passage_pb2.CUT_RULE_DOCUMENT, index
        elif index not in is_enough:
            rules[row] = passage_pb2.CUT_RULE_MIN_SCORE, index
    for position, index in enumerate(enough):
        if index not in returned:
            rule = passage_pb2.CUT_RULE_DIVERSITY if position < top_k else passage_pb2.CUT_RULE_TOP_K
            rules[order.rows[index]] = rule, index
    for row in order.unseen:
        rules[row] = passage_pb2.CUT_RULE_TOP_K, None
    return [
        passage_pb2.CutPassage(
            chunk_id=str(shortlist.candidates.hits[row].chunk_id),
            rule=rules[row][0],
            explanation=_explanation(shortlist, row, None, 0)
            if rules[row][1] is None
            else _explanation(shortlist, row, order, rules[row][1] or 0),
        )
        for row in shortlist.fused.ranks
        if row in rules
    ]
