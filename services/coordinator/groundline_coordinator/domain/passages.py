"""Sources, and passages for the model."""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import batched
from typing import Final

from groundline.v1 import (
    chat_pb2,
    error_pb2,
    generator_service_pb2,
    passage_pb2,
    retriever_service_pb2,
    thread_pb2,
)
from groundline_contracts import limits_of

from groundline_coordinator.domain.snippets import snippet

SNIPPET_CHARACTERS: Final = 400

MAX_PASSAGE_CHARACTERS: Final = limits_of(generator_service_pb2.NumberedPassage, "text").max_length

_INJECTION_MARK: Final = "promptInjection"
"""Key of metadata by which ingestion marks a chunk; see groundline_indexing.injections."""

MAX_SELECTIONS: Final = limits_of(retriever_service_pb2.FetchChunksRequest, "selections").max_items
MAX_SELECTED_CHUNKS: Final = limits_of(retriever_service_pb2.CollectionChunks, "chunk_ids").max_items


def read_chunks(passage: passage_pb2.Passage) -> list[passage_pb2.Chunk]:
    """Return a passage's chunk with its adjacent ones in document order, the nearest as far as their texts
    take MAX_PASSAGE_CHARACTERS together."""
    chunk = passage.chunk
    taken = [chunk]
    left = MAX_PASSAGE_CHARACTERS - len(chunk.text)
    for each in sorted(passage.adjacent_chunks, key=lambda each: abs(each.chunk_index - chunk.chunk_index)):
        left -= len(each.text) + 1
        if left < 0:
            break
        taken.append(each)
    return sorted(taken, key=lambda each: each.chunk_index)


def extended_text(passage: passage_pb2.Passage) -> str:
    """Return a passage's text together with its adjacent chunks; a line break marks a gap. At most
    MAX_PASSAGE_CHARACTERS."""
    text, end = "", 0
    for each in read_chunks(passage):
        text += each.text if not text or each.start_offset == end else f"\n{each.text}"
        end = each.end_offset
    return text[:MAX_PASSAGE_CHARACTERS]


def number_sources(passages: Iterable[passage_pb2.Passage], query: str) -> list[chat_pb2.Source]:
    """Return passages as sources, numbered from 1 in their order, each with a snippet for the query."""
    return [
        chat_pb2.Source(
            number=number,
            title=chunk.title,
            uri=chunk.uri,
            type=chunk.source_type,
            snippet=snippet(chunk.text, query, SNIPPET_CHARACTERS),
            chunk_id=chunk.chunk_id,
            document_id=chunk.document_id,
            collection_id=chunk.collection_id,
            score=passage.score,
            explanation=passage.explanation,
            metadata=chunk.metadata if chunk.HasField("metadata") else None,
            start_offset=chunk.start_offset,
            end_offset=chunk.end_offset,
            has_original=chunk.has_original,
            revision=chunk.revision,
        )
        for number, passage in enumerate(passages, start=1)
        for chunk in (passage.chunk,)
    ]


def numbered_passages(
    passages: Iterable[passage_pb2.Passage], multilingual_collections: Container[str] = ()
) -> list[generator_service_pb2.NumberedPassage]:
    """Return passages as the generator takes them, numbered like their sources."""
    return [
        generator_service_pb2.NumberedPassage(
            number=number,
            text=extended_text(passage),
            context=passage.chunk.context,
            title=passage.chunk.title,
            uri=passage.chunk.uri,
            chunk_id=passage.chunk.chunk_id,
            similarity=passage.explanation.semantic.score
            if passage.explanation.HasField("semantic")
            else None,
            similarity_crosses_languages=passage.chunk.collection_id in multilingual_collections,
        )
        for number, passage in enumerate(passages, start=1)
    ]


@dataclass(frozen=True, slots=True)
class ReadSources:
    """Chunks and texts that were read for the sources of answers: chunks by id, texts by `span_key`."""

    chunks: Mapping[str, passage_pb2.Chunk]
    texts: Mapping[bytes, str]


def rests_on(message: thread_pb2.Message) -> list[str]:
    """Return the ids of the documents that an answer cites; if it cites none, of all its sources. Empty if it
    says that they do not hold the answer."""
    if message.finish_reason == chat_pb2.FINISH_REASON_NO_ANSWER:
        return []
    cited = {citation.source_number for citation in message.citations}
    return sorted({each.document_id for each in message.sources if not cited or each.number in cited})


def chunks_of_sources(
    answers: Iterable[Sequence[chat_pb2.Source]],
) -> Iterator[list[retriever_service_pb2.CollectionChunks]]:
    """Yield the chunks to read for the sources of answers, as many at a time as one request takes."""
    wanted: dict[str, dict[str, None]] = {}
    for source in (source for sources in answers for source in sources):
        wanted.setdefault(source.collection_id, {})[source.chunk_id] = None
    selections = (
        retriever_service_pb2.CollectionChunks(collection_id=name, chunk_ids=part)
        for name, chunk_ids in wanted.items()
        for part in batched(chunk_ids, MAX_SELECTED_CHUNKS)
    )
    yield from map(list, batched(selections, MAX_SELECTIONS))


def span_of(
    source: chat_pb2.Source, part: passage_pb2.TextSpan | None = None
) -> retriever_service_pb2.RevisionSpan:
    """Return the part of its document's revision that a source is, or another part of that revision."""
    offsets = part or source
    return retriever_service_pb2.RevisionSpan(
        collection_id=source.collection_id,
        document_id=source.document_id,
        revision=source.revision,
        start_offset=offsets.start_offset,
        end_offset=offsets.end_offset,
    )


def span_key(span: retriever_service_pb2.RevisionSpan) -> bytes:
    """Return the key of a span in the texts that were read."""
    return span.SerializeToString(deterministic=True)


def resolved(
    sources: Iterable[chat_pb2.Source],
    citations: Iterable[chat_pb2.Citation],
    answer: str,
    question: str,
    read: ReadSources,
) -> None:
    """Fill in the fields of sources and citations that come from their chunks, or where these are no longer
    there from the revisions that were cited; without either they stay empty."""
    texts: dict[str, str] = {}
    for source in sources:
        chunk = read.chunks.get(source.chunk_id)
        if text := chunk.text if chunk else read.texts.get(span_key(span_of(source)), ""):
            texts[source.chunk_id] = text
            source.snippet = snippet(text, question, SNIPPET_CHARACTERS)
        if chunk and chunk.HasField("metadata"):
            source.metadata.CopyFrom(chunk.metadata)
    for citation in citations:
        if text := texts.get(citation.chunk_id, ""):
            claim = answer[citation.start_offset : citation.end_offset]
            citation.supporting_text = claim if claim in text else snippet(text, claim, SNIPPET_CHARACTERS)


def suspicions(
    sources: Sequence[chat_pb2.Source], cited: Container[int]
) -> Iterator[chat_pb2.ValidationIssue]:
    """Yield an issue for each cited source that ingestion has marked as speaking to an assistant."""
    for source in sources:
        if source.number in cited and _INJECTION_MARK in source.metadata:
            yield chat_pb2.ValidationIssue(
                reason=error_pb2.SUSPECTED_PROMPT_INJECTION,
                message=f"[{source.number}] has text that looks like instructions to an assistant",
            )
