"""The weighted strategy: a sum of components that need no model."""

import math
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final

from groundline.v1 import options_pb2, passage_pb2
from groundline_contracts import default_of

from groundline_ranking.candidates import Candidates
from groundline_ranking.fusion import Fused

_WEIGHTS: Final[Mapping[str, float]] = {
    field.name: default_of(options_pb2.RerankWeights, field.name)
    for field in options_pb2.RerankWeights.DESCRIPTOR.fields
}
RECENCY_HALF_LIFE_SECONDS: Final = 90 * 86_400

_WORD: Final = re.compile(r"[^\W_]+")
_TYPE_NAMES: Final[Mapping[int, str]] = {
    passage_pb2.SOURCE_TYPE_FILE: "file",
    passage_pb2.SOURCE_TYPE_OBJECT: "object",
    passage_pb2.SOURCE_TYPE_WEB: "web",
}


def weights_of(options: options_pb2.RerankOptions) -> Mapping[str, float]:
    """Return the weight of each component."""
    return {
        name: getattr(options.weights, name) if options.weights.HasField(name) else default  # type: ignore[arg-type]
        for name, default in _WEIGHTS.items()
    }


def reads_words(options: options_pb2.RerankOptions) -> bool:
    """Tell whether a component of the strategy weighted looks at the passages' words."""
    weights = weights_of(options)
    return bool(weights["keyword"] or weights["proximity"])


def weighted_components(
    candidates: Candidates,
    fused: Fused,
    rows: Sequence[int],
    texts: Sequence[passage_pb2.Chunk],
    query: str,
    options: options_pb2.RerankOptions,
) -> Mapping[str, tuple[Sequence[float], float]]:
    """Return by name each component's values, from 0 to 1, for the passages in `rows`, and its weight, if
    it has one.

    `texts` are those passages, in the same order, where a component looks at words.

    fused     the fused score as a share of the best
    vector    the cosine similarity; for a passage that vector search did not find, the lowest that it found
    position  1 / (1 + index of the chunk in its document)
    recency   halves every 90 days before the newest of the candidates, so that no clock decides
    type      the priority of the source type; 0 for one without
    keyword   the share of the query's words that the passage has, rare ones among the candidates for more
    proximity how near to each other it has the query's neighbouring words, 1 where they are side by side
    """
    weights, hits = weights_of(options), [candidates.hits[row] for row in rows]
    values: dict[str, Sequence[float]] = {
        "semantic": _fused([fused.scores[row] for row in rows]),
        "vector": _vector(fused, rows),
        "position": [1 / (1 + hit.chunk_index) for hit in hits],
        "recency": _recency([hit.update_seconds for hit in hits]),
        "type": _priorities([hit.source_type for hit in hits], options.type_priorities),
    }
    if reads_words(options):
        values["keyword"] = list(_coverage(query, texts))
        values["proximity"] = list(_proximity(query, texts))
    return {
        "fused" if name == "semantic" else name: (values[name], weight)
        for name, weight in weights.items()
        if weight
    }


def _fused(scores: Sequence[float]) -> Sequence[float]:
    best = max(scores, default=0.0)
    return [max(score / best, 0.0) for score in scores] if best > 0 else [0.0] * len(scores)


def _vector(fused: Fused, rows: Sequence[int]) -> Sequence[float]:
    found = {row: fused.semantic[row][1] for row in rows if row in fused.semantic}
    lowest = min(found.values(), default=0.0)
    return [min(max(found.get(row, lowest), 0.0), 1.0) for row in rows]


def _recency(seconds: Sequence[int]) -> Sequence[float]:
    """Return the recency of documents; 0 without a time."""
    newest = max(seconds, default=0)
    return [0.5 ** ((newest - each) / RECENCY_HALF_LIFE_SECONDS) if each > 0 else 0.0 for each in seconds]


def _priorities(source_types: Iterable[int], priorities: Mapping[str, float]) -> Sequence[float]:
    known = {number: priorities[name] for number, name in _TYPE_NAMES.items() if name in priorities}
    return [known.get(source_type, 0.0) for source_type in source_types]


def _coverage(query: str, chunks: Sequence[passage_pb2.Chunk]) -> Iterable[float]:
    wanted = set(_words(query))
    held = [wanted.intersection(_words(_whole(chunk))) for chunk in chunks]
    rarity = _rarity(wanted, held)
    whole = math.fsum(rarity.values())
    return (math.fsum(sorted(rarity[word] for word in words)) / whole if whole else 0.0 for words in held)


def _proximity(query: str, chunks: Sequence[passage_pb2.Chunk]) -> Iterable[float]:
    """Return 1 / the least distance of neighbouring query words, weighted by their rarity.

    Words that most candidates have are left out: they connect the words on both sides of them.
    """
    words = _words(query)
    indexes = [_places(set(words), _words(_whole(chunk))) for chunk in chunks]
    rarity = _rarity(words, indexes)
    telling = [word for word in words if 2 * sum(word in found for found in indexes) <= len(indexes)]
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
        for found in indexes
    )


def _places(wanted: Container[str], words: Iterable[str]) -> Mapping[str, Sequence[int]]:
    found: dict[str, list[int]] = {}
    for index, word in enumerate(words):
        if word in wanted:
            found.setdefault(word, []).append(index)
    return found


def _distance(ones: Sequence[int], others: Sequence[int]) -> int:
    """Return the least distance between occurrences of two different words; both lists are in order."""
    least, one, other = math.inf, 0, 0
    while one < len(ones) and other < len(others):
        least = min(least, abs(ones[one] - others[other]))
        if ones[one] < others[other]:
            one += 1
        else:
            other += 1
    return int(least)


def _rarity(words: Iterable[str], held: Sequence[Container[str]]) -> Mapping[str, float]:
    """Return the idf of BM25 over the candidates: words that nearly all have, such as articles, count for
    little."""
    total = len(held)
    counts = {word: sum(word in found for found in held) for word in words}
    return {word: math.log1p((total - count + 0.5) / (count + 0.5)) for word, count in counts.items()}


def _whole(chunk: passage_pb2.Chunk) -> str:
    return f"{chunk.title}\n{chunk.context}\n{chunk.text}"


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())
