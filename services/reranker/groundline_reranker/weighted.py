"""The weighted strategy: a sum of components that need no model."""

import math
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from datetime import datetime
from itertools import pairwise

from groundline_reranker.domain import Candidate, Component, Options, Passage

__all__ = ["weighted"]

RECENCY_HALF_LIFE_DAYS = 90.0

_WORD = re.compile(r"[^\W_]+")


def weighted(
    passages: Sequence[Passage], candidates: Mapping[int, Candidate], query: str, options: Options
) -> list[Passage]:
    """By falling sum of the weighted components, each from 0 to 1; ties go to the smaller chunk id.

    fused     the fused score as a share of the best
    vector    the cosine similarity; for a passage that vector search did not find, the lowest that it found
    position  1 / (1 + index of the chunk in its document)
    recency   halves every 90 days before the newest of the candidates, so that no clock decides
    type      the priority of the source type; 0 for one without
    keyword   the share of the query's words that the passage has, rare ones among the candidates for more
    proximity how near to each other it has the query's neighbouring words, 1 where they are side by side
    """
    weights = {each.name: getattr(options.weights, each.name) for each in fields(options.weights)}
    found = [candidates[passage.chunk_id] for passage in passages]
    values: dict[str, Iterable[float]] = {
        "semantic": _fused(passages),
        "vector": _vector(passages),
        "position": (1 / (1 + candidate.chunk_index) for candidate in found),
        "recency": _recency([candidate.update_time for candidate in found]),
        "type": (options.type_priorities.get(candidate.source_type, 0.0) for candidate in found),
    }
    if weights["keyword"]:
        values["keyword"] = _coverage(query, found)
    if weights["proximity"]:
        values["proximity"] = _proximity(query, found)
    columns = [
        [Component("fused" if name == "semantic" else name, value, weights[name]) for value in column]
        for name, column in values.items()
        if weights[name]
    ]
    ranked = []
    for passage, *components in zip(passages, *columns, strict=True):
        score = math.fsum(component.value * component.weight for component in components)
        ranked.append(replace(passage, components=tuple(components), final_score=score))
    return sorted(ranked, key=lambda passage: (-passage.final_score, passage.chunk_id))


def _fused(passages: Sequence[Passage]) -> Iterable[float]:
    best = max((passage.fused_score for passage in passages), default=0.0)
    return (max(passage.fused_score / best, 0.0) if best > 0 else 0.0 for passage in passages)


def _vector(passages: Sequence[Passage]) -> Iterable[float]:
    known = [passage.semantic.score for passage in passages if passage.semantic is not None]
    lowest = min(known, default=0.0)
    return (
        min(max(lowest if passage.semantic is None else passage.semantic.score, 0.0), 1.0)
        for passage in passages
    )


def _recency(times: Sequence[datetime | None]) -> Iterable[float]:
    newest = max((time for time in times if time is not None), default=None)
    for time in times:
        if time is None or newest is None:
            yield 0.0
        else:
            yield 0.5 ** ((newest - time).total_seconds() / 86_400 / RECENCY_HALF_LIFE_DAYS)


def _coverage(query: str, candidates: Sequence[Candidate]) -> Iterable[float]:
    wanted = set(_words(query))
    held = [wanted.intersection(_words(_whole(candidate))) for candidate in candidates]
    rarity = _rarity(wanted, held)
    whole = math.fsum(rarity.values())
    return (math.fsum(sorted(rarity[word] for word in words)) / whole if whole else 0.0 for words in held)


def _proximity(query: str, candidates: Sequence[Candidate]) -> Iterable[float]:
    """Of each pair of neighbouring query words 1 / their least distance, weighted by their rarity.

    Words that most candidates have are left out: they connect what stands on both sides of them.
    """
    words = _words(query)
    places = [_places(set(words), _words(_whole(candidate))) for candidate in candidates]
    rarity = _rarity(words, places)
    telling = [word for word in words if 2 * sum(word in found for found in places) <= len(places)]
    pairs = [(one, other) for one, other in pairwise(telling) if one != other]
    whole = math.fsum(rarity[one] + rarity[other] for one, other in pairs)
    return (
        math.fsum(
            (rarity[one] + rarity[other]) / _distance(found[one], found[other])
            for one, other in pairs
            if one in found and other in found
        )
        / whole
        if whole
        else 0.0
        for found in places
    )


def _places(wanted: Container[str], words: Iterable[str]) -> Mapping[str, Sequence[int]]:
    found: dict[str, list[int]] = {}
    for place, word in enumerate(words):
        if word in wanted:
            found.setdefault(word, []).append(place)
    return found


def _distance(ones: Sequence[int], others: Sequence[int]) -> int:
    """The least distance between places of two different words; both are in order."""
    least, one, other = math.inf, 0, 0
    while one < len(ones) and other < len(others):
        least = min(least, abs(ones[one] - others[other]))
        if ones[one] < others[other]:
            one += 1
        else:
            other += 1
    return int(least)


def _rarity(words: Iterable[str], held: Sequence[Container[str]]) -> Mapping[str, float]:
    """The idf of BM25 over the candidates: words that nearly all have, such as articles, count for little."""
    total = len(held)
    counts = {word: sum(word in found for found in held) for word in words}
    return {word: math.log1p((total - count + 0.5) / (count + 0.5)) for word, count in counts.items()}


def _whole(candidate: Candidate) -> str:
    return f"{candidate.title}\n{candidate.context}\n{candidate.text}"


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())
