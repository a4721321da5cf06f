"""Passages from ranked chunks."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from groundline.v1 import passage_pb2, retriever_service_pb2
from groundline_lexical import matches, snippet_span
from groundline_ranking import Ranked

SNIPPET_CHARACTERS: Final = 400


@dataclass(frozen=True, slots=True)
class Wanted:
    """Chunks of one collection to read."""

    collection_id: str
    chunk_ids: Sequence[int]
    adjacent_chunks: int = 0
    """Number of chunks to add before and after each of them."""
    with_parents: bool = False
    """Whether to add the other chunks of each one's parent, where they were cut by
    CHUNKING_STRATEGY_PARENT_CHILD."""
    with_vectors: bool = False
    """Whether to read the vector of each of them."""
    with_lines: bool = False
    """Whether to read the lines of their pages."""


class FetchedChunk(NamedTuple):
    """A chunk as it is stored, for a caller that may read it."""

    chunk_id: int
    chunk: passage_pb2.Chunk
    collection_version: int
    adjacent: Sequence[passage_pb2.Chunk] = ()
    """Chunks next to it in its document, in document order, without what they share with it or with each
    other."""
    vector: Sequence[float] = ()
    """Vector of the chunk; empty unless wanted."""
    lines: Sequence[passage_pb2.PageLines] = ()


def wanted_for(
    ranked: Iterable[Ranked], adjacent_chunks: Mapping[str, int], *, with_vectors: bool = False
) -> list[Wanted]:
    """Return what to read for ranked chunks: themselves with their parents and adjacent chunks, and their
    duplicates.

    `adjacent_chunks`: by collection how many come with each. Duplicates come without vectors.
    """
    kept: dict[str, list[int]] = {}
    duplicates: dict[str, list[int]] = {}
    for each in ranked:
        kept.setdefault(each.collection_id, []).append(each.chunk_id)
        for duplicate in each.duplicates:
            duplicates.setdefault(duplicate.collection_id, []).append(duplicate.chunk_id)
    return [
        Wanted(name, chunk_ids, adjacent_chunks.get(name, 0), with_parents=True, with_vectors=with_vectors)
        for name, chunk_ids in kept.items()
    ] + [Wanted(name, chunk_ids) for name, chunk_ids in duplicates.items()]


def add_passages(
    response: retriever_service_pb2.SearchResponse,
    ranked: Iterable[Ranked],
    fetched: Iterable[FetchedChunk],
) -> None:
    """Add the ranked chunks that could be read, in their order, to a response's passages.

    Each chunk occurs once: an adjacent one is not a passage, and not adjacent to a better passage as well.
    """
    known = {each.chunk_id: each for each in fetched}
    readable = [each for each in ranked if each.chunk_id in known]
    shown = {known[each.chunk_id].chunk.chunk_id for each in readable}
    for each in readable:
        found = known[each.chunk_id]
        adjacent = [chunk for chunk in found.adjacent if chunk.chunk_id not in shown]
        shown.update([chunk.chunk_id for chunk in adjacent])
        response.passages.add(
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
            vector=found.vector,
        )


def highlights_of(text: str, queries: Sequence[str], language: str) -> passage_pb2.Highlights:
    """Return where a text has words of the queries, and the part of it to show."""
    found = matches(text, queries, language)
    start, end = snippet_span(text, found, SNIPPET_CHARACTERS)
    return passage_pb2.Highlights(
        words=[passage_pb2.TextSpan(start_offset=each.start, end_offset=each.end) for each in found],
        snippet=passage_pb2.TextSpan(start_offset=start, end_offset=end),
    )


def with_adjacent(
    chunk: passage_pb2.Chunk, nearby: Sequence[passage_pb2.Chunk]
) -> Sequence[passage_pb2.Chunk]:
    """Return the chunks next to a chunk, in document order, cut so that no text is there twice.

    Chunks overlap; what an adjacent one shares with the chunk, or with one nearer to it, is taken from its
    text and offsets, and one that has nothing of its own is left out.
    """
    ordered = sorted(nearby, key=lambda each: each.chunk_index)
    start, end = chunk.start_offset, chunk.end_offset
    adjacent: list[passage_pb2.Chunk] = []
    for each in reversed([each for each in ordered if each.chunk_index < chunk.chunk_index]):
        if each.start_offset < start:
            adjacent.append(_cut(each, each.start_offset, min(each.end_offset, start)))
            start = each.start_offset
    adjacent.reverse()
    for each in ordered:
        if each.chunk_index > chunk.chunk_index and each.end_offset > end:
            adjacent.append(_cut(each, max(each.start_offset, end), each.end_offset))
            end = each.end_offset
    return adjacent


def _cut(chunk: passage_pb2.Chunk, start: int, end: int) -> passage_pb2.Chunk:
    if (start, end) == (chunk.start_offset, chunk.end_offset):
        return chunk
    cut = passage_pb2.Chunk()
    cut.CopyFrom(chunk)
    begin = start - chunk.start_offset
    cut.text = chunk.text[begin : end - chunk.start_offset]
    # It begins on the page of its own first word.
    left = len(chunk.text) - len(chunk.text[begin:].lstrip())
    turned = chunk.text[:left].lstrip().count("\f")
    if turned and "page" in cut.metadata.fields:
        cut.metadata.fields["page"].number_value += turned
    cut.start_offset, cut.end_offset = start, end
    return cut
