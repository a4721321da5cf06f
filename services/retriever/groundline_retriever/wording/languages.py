"""Languages of what is found for a query and for its translation, so that texts of both count alike."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final

from cachetools import LRUCache
from groundline.v1 import passage_pb2, reranker_service_pb2
from groundline_language import guess_language
from groundline_ranking import ArmHits, Hit

from groundline_retriever.arms import Translation

_JUDGED: Final = 8
"""Number of the best hits of a list that tell whether there are texts in a language. A model of many
languages puts texts in a query's own language first, so if there are such texts, some are among them."""

_LOOKED_AT: Final = 30
"""Number of the best hits of a list whose languages are looked at, and may count for more."""

_BETWEEN_LANGUAGES: Final = 0.05
"""Addition to what a passage in the other language counts, as a similarity. By the vectors of multilingual
E5, passages are .07 to .16 more similar to questions in their own language, whatever they say. With all of
that added, passages in the question's language would fall behind."""

_REMEMBERED_CHUNKS: Final = 100_000

type ReadChunks = Callable[[Mapping[str, Sequence[int]]], Awaitable[Mapping[int, passage_pb2.Chunk]]]
"""Reads chunks, given by collection: by id those that exist and that the caller may read."""


class FoundLanguages:
    """Languages of found chunks, each guessed once: the text of a chunk does not change."""

    def __init__(self) -> None:
        self._known: LRUCache[int, str | None] = LRUCache(_REMEMBERED_CHUNKS)

    async def of(self, lists: Iterable[ArmHits], read: ReadChunks) -> Mapping[int, str | None]:
        """Return the language of the best chunks of each list by id, None where it is undecided."""
        best = {hit.chunk_id: hit.collection_id for each in lists for hit in each.hits[:_LOOKED_AT]}
        languages = {name: self._known[name] for name in best if name in self._known}
        unknown: dict[str, list[int]] = {}
        for name in best.keys() - languages.keys():
            unknown.setdefault(best[name], []).append(name)
        if unknown:
            chunks = await read(unknown)
            languages |= await asyncio.to_thread(
                lambda: {name: guess_language(chunk.text) for name, chunk in chunks.items()}
            )
            self._known.update(languages)
        return languages


def is_spoken(language: str | None, lists: Iterable[ArmHits], languages: Mapping[int, str | None]) -> bool:
    """Tell whether some of the best chunks are in a language."""
    best = (hit.chunk_id for each in lists for hit in each.hits[:_JUDGED])
    return any(name in languages and languages[name] == language for name in best)


def translated_alone(
    translated: Iterable[ArmHits],
    translation: Translation,
    languages: Mapping[int, str | None],
    *,
    is_mixed: bool,
) -> list[ArmHits]:
    """Return what a translation found, without the passages that its words found in the query's own language.

    If no text is in that, collections in the translation's language count by its vector alone: no list of the
    query's own words outweighs the vectors there, and words find texts that only share one of them.
    """
    at_home = {
        one.collection_id for one in translation.groups.collections if one.language == translation.language
    }

    def counts(hit: Hit) -> bool:
        is_in_it = languages.get(hit.chunk_id, translation.spoken) != translation.spoken
        return is_in_it and (is_mixed or hit.collection_id not in at_home)

    return [
        each._replace(hits=[hit for hit in each.hits if counts(hit)])
        if each.arm == reranker_service_pb2.SEARCH_ARM_KEYWORD
        else each
        for each in translated
    ]


def evening(
    found: Sequence[ArmHits],
    translated: Sequence[ArmHits],
    translation: Translation,
    languages: Mapping[int, str | None],
) -> ArmHits:
    """Return a list of what passages lack beside those of the other language.

    What a translation did not find is at most as similar to it as the last that its vector found in the
    collection, and mostly not much less.
    """
    semantic = [each.weight for each in found if each.arm == reranker_service_pb2.SEARCH_ARM_SEMANTIC]
    between = max(semantic, default=1.0) * _BETWEEN_LANGUAGES
    seen = {hit.chunk_id for each in translated for hit in each.hits}
    lowest: dict[str, float] = {}
    for each in translated:
        for hit in each.hits if each.arm == reranker_service_pb2.SEARCH_ARM_SEMANTIC else ():
            similarity = each.weight * hit.score
            lowest[hit.collection_id] = min(similarity, lowest.get(hit.collection_id, similarity))

    def lacks(hit: Hit) -> float:
        unseen = 0.0 if hit.chunk_id in seen else lowest.get(hit.collection_id, 0.0)
        is_in_other = languages.get(hit.chunk_id) == translation.language
        return unseen + (between if is_in_other else 0.0)

    hits = {hit.chunk_id: hit for each in (*found, *translated) for hit in each.hits}
    evened = [hit._replace(score=lacks(hit)) for hit in hits.values()]
    evened.sort(key=lambda hit: (-hit.score, hit.chunk_id))
    return ArmHits(reranker_service_pb2.SEARCH_ARM_UNSPECIFIED, evened)
