"""Passages from ranked chunks: which texts are read for ranking, and which of what is kept."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from groundline.v1 import candidate_pb2, passage_pb2, reranker_service_pb2

__all__ = ["Fetch", "Rank", "passages_of", "ranked_with_texts", "read_passages", "selections_of"]

type Fetch = Callable[
    [Sequence[candidate_pb2.CollectionChunks]], Awaitable[Iterable[candidate_pb2.FetchedChunk]]
]
"""Reads chunks: those that exist and that the caller may read."""
type Rank = Callable[[reranker_service_pb2.RerankRequest], Awaitable[reranker_service_pb2.RerankResponse]]


async def ranked_with_texts(
    rank: Rank, request: reranker_service_pb2.RerankRequest, fetch: Fetch
) -> reranker_service_pb2.RerankResponse:
    """The ranking, which is given the texts that it wants; they are added to the request."""
    ranking = await rank(request)
    if ranking.wanted:
        request.chunks.extend(each.chunk for each in await fetch(ranking.wanted))
        request.has_chunks = True
        ranking = await rank(request)
    return ranking


async def read_passages(
    ranked: Sequence[candidate_pb2.RankedChunk], adjacent_chunks: Mapping[str, int], fetch: Fetch
) -> list[passage_pb2.Passage]:
    """The ranked chunks with their texts, in their order. `adjacent_chunks`: by collection how many come with
    each."""
    return passages_of(ranked, await fetch(selections_of(ranked, adjacent_chunks))) if ranked else []


def selections_of(
    ranked: Iterable[candidate_pb2.RankedChunk], adjacent_chunks: Mapping[str, int]
) -> list[candidate_pb2.CollectionChunks]:
    """What to read for ranked chunks: themselves with their parents and what is adjacent, and their
    duplicates."""
    kept: dict[str, list[int]] = {}
    duplicates: dict[str, list[int]] = {}
    for each in ranked:
        kept.setdefault(each.collection_id, []).append(each.chunk_id)
        for duplicate in each.duplicates:
            duplicates.setdefault(duplicate.collection_id, []).append(duplicate.chunk_id)
    return [
        candidate_pb2.CollectionChunks(
            collection_id=name,
            chunk_ids=chunk_ids,
            adjacent_chunks=adjacent_chunks.get(name, 0),
            with_parents=True,
        )
        for name, chunk_ids in kept.items()
    ] + [
        candidate_pb2.CollectionChunks(collection_id=name, chunk_ids=chunk_ids)
        for name, chunk_ids in duplicates.items()
    ]


def passages_of(
    ranked: Iterable[candidate_pb2.RankedChunk], fetched: Iterable[candidate_pb2.FetchedChunk]
) -> list[passage_pb2.Passage]:
    """The ranked chunks that could be read, in their order.

    Each chunk is there once: an adjacent one is no passage, and not adjacent to a better passage as well.
    """
    known = {int(each.chunk.chunk_id): each for each in fetched}
    readable = [each for each in ranked if each.chunk_id in known]
    shown = {str(each.chunk_id) for each in readable}
    passages = []
    for each in readable:
        found = known[each.chunk_id]
        adjacent = [chunk for chunk in found.adjacent_chunks if chunk.chunk_id not in shown]
        shown.update(chunk.chunk_id for chunk in adjacent)
        passages.append(
            passage_pb2.Passage(
                chunk=found.chunk,
                score=each.score,
                explanation=each.explanation,
                alternatives=[
                    passage_pb2.Alternative(
                        chunk=known[duplicate.chunk_id].chunk, similarity=duplicate.similarity
                    )
                    for duplicate in each.duplicates
                    if duplicate.chunk_id in known
                ],
                adjacent_chunks=adjacent,
            )
        )
    return passages
