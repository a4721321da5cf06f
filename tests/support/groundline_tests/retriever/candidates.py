"""Candidates for tests of ranking: what arms found, as the retriever ranks it and as the reranker is sent
it."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp
from groundline.v1 import options_pb2, passage_pb2, reranker_service_pb2
from groundline_ranking import ArmHits, Candidates, Hit, Ranking, rank
from groundline_signatures import signature


@dataclass(frozen=True, slots=True)
class Found:
    """A chunk and its score in each arm that found it."""

    chunk_id: int
    keyword: float | None = None
    semantic: float | None = None
    text: str = ""
    collection: str = "guides"
    chunk_index: int = 0
    source_type: passage_pb2.SourceType.ValueType = passage_pb2.SOURCE_TYPE_UNSPECIFIED
    update_seconds: int = 0
    document: str = ""
    """Its document; without one, a document of its own."""

    @property
    def own_text(self) -> str:
        return self.text or f"chunk number {self.chunk_id}"


def at(chunk_id: int, keyword: int | None = None, semantic: int | None = None, **fields: Any) -> Found:
    """Return a chunk at these ranks; its scores fall with them."""
    return Found(
        chunk_id,
        None if keyword is None else 10.0 / keyword,
        None if semantic is None else 1.0 / semantic,
        **fields,
    )


def chunk_of(found: Found) -> passage_pb2.Chunk:
    """Return the chunk as it is read."""
    return passage_pb2.Chunk(
        chunk_id=str(found.chunk_id),
        collection_id=found.collection,
        document_id=found.document or f"of {found.chunk_id}",
        text=found.own_text,
        chunk_index=found.chunk_index,
        source_type=found.source_type,
        update_time=Timestamp(seconds=found.update_seconds),
    )


def hits_of(found: Sequence[Found]) -> list[ArmHits]:
    """Return a list for each arm of each collection, best first."""
    lists: dict[tuple[reranker_service_pb2.SearchArm.ValueType, str], list[Hit]] = defaultdict(list)
    for each in found:
        for arm, score in (
            (reranker_service_pb2.SEARCH_ARM_KEYWORD, each.keyword),
            (reranker_service_pb2.SEARCH_ARM_SEMANTIC, each.semantic),
        ):
            if score is not None:
                lists[arm, each.collection].append(
                    Hit(
                        each.chunk_id,
                        score,
                        each.collection,
                        each.chunk_index,
                        each.update_seconds,
                        each.source_type,
                        signature(each.own_text),
                    )
                )
    return [
        ArmHits(arm, sorted(hits, key=lambda hit: (-hit.score, hit.chunk_id)))
        for (arm, _), hits in lists.items()
    ]


def request_of(
    found: Sequence[Found], options: options_pb2.RerankOptions, *, query: str = "lease"
) -> reranker_service_pb2.RerankRequest:
    """Return a request with the lists and the texts of all chunks, by rising id."""
    return reranker_service_pb2.RerankRequest(
        query=query,
        candidates=[chunk_of(each) for each in sorted(found, key=lambda each: each.chunk_id)],
        lists=[
            reranker_service_pb2.RankedList(
                arm=each.arm,
                chunk_ids=[str(hit.chunk_id) for hit in each.hits],
                scores=[hit.score for hit in each.hits],
            )
            for each in hits_of(found)
        ],
        options=options,
    )


async def ranked(
    sets: Iterable[Sequence[Found]], options: options_pb2.RerankOptions, *, query: str = "lease"
) -> Ranking:
    """Rank what was found for each query, without a model."""
    sets = list(sets)
    chunks = {each.chunk_id: chunk_of(each) for found in sets for each in found}

    async def read(wanted: Mapping[str, Sequence[int]]) -> Mapping[int, passage_pb2.Chunk]:
        return {chunk_id: chunks[chunk_id] for chunk_ids in wanted.values() for chunk_id in chunk_ids}

    async def documents(wanted: Mapping[str, Sequence[int]]) -> Mapping[int, str]:
        assert options.max_per_document, "documents are looked up for this option alone"
        return {chunk_id: chunk.document_id for chunk_id, chunk in (await read(wanted)).items()}

    async def score(texts: Sequence[passage_pb2.Chunk]) -> Sequence[float]:
        raise AssertionError("no model is asked")

    candidates = Candidates.of([hits_of(found) for found in sets])
    return await rank(candidates, query, options, read=read, score=score, documents=documents)
