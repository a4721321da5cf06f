"""Candidates for tests of ranking: what arms found, as the retriever sends it."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from groundline.v1 import candidate_pb2, options_pb2, passage_pb2, reranker_service_pb2
from groundline_reranker.service import RankingService
from groundline_signatures import signature

__all__ = ["Found", "candidate_set", "chunk_of", "ranked"]


@dataclass(frozen=True)
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

    @property
    def own_text(self) -> str:
        return self.text or f"chunk number {self.chunk_id}"


def chunk_of(found: Found) -> passage_pb2.Chunk:
    """The chunk as FetchChunks reads it."""
    return passage_pb2.Chunk(
        chunk_id=str(found.chunk_id), collection_id=found.collection, text=found.own_text, title=""
    )


def candidate_set(found: Sequence[Found], *, query: str = "lease") -> candidate_pb2.CandidateSet:
    """A list for each arm of each collection, best first, with the features of all chunks."""
    lists: dict[tuple[int, str], list[tuple[float, int]]] = defaultdict(list)
    for each in found:
        if each.keyword is not None:
            lists[candidate_pb2.SEARCH_ARM_KEYWORD, each.collection].append((-each.keyword, each.chunk_id))
        if each.semantic is not None:
            lists[candidate_pb2.SEARCH_ARM_SEMANTIC, each.collection].append((-each.semantic, each.chunk_id))
    names = sorted({each.collection for each in found})
    return candidate_pb2.CandidateSet(
        query=query,
        lists=[
            candidate_pb2.RankedList(
                arm=candidate_pb2.SearchArm.Name(arm),  # type: ignore[arg-type]
                chunk_ids=[chunk_id for _, chunk_id in sorted(entries)],
                scores=[-score for score, _ in sorted(entries)],
            )
            for (arm, _), entries in lists.items()
        ],
        features=candidate_pb2.CandidateFeatures(
            chunk_ids=[each.chunk_id for each in found],
            collection_ids=names,
            collections=[names.index(each.collection) for each in found],
            chunk_indexes=[each.chunk_index for each in found],
            update_seconds=[each.update_seconds for each in found],
            source_types=[each.source_type for each in found],
            signatures=b"".join(signature(each.own_text) for each in found),
        ),
    )


async def ranked(
    service: RankingService,
    sets: Iterable[Sequence[Found]],
    options: options_pb2.RerankOptions,
    *,
    query: str = "lease",
) -> reranker_service_pb2.RerankResponse:
    """What the service returns, given the texts that it wants."""
    sets = list(sets)
    request = reranker_service_pb2.RerankRequest(
        query=query, candidate_sets=[candidate_set(found) for found in sets], options=options
    )
    response = await service.rank(request)
    if response.wanted:
        wanted = {chunk_id for each in response.wanted for chunk_id in each.chunk_ids}
        chunks = {each.chunk_id: chunk_of(each) for found in sets for each in found}
        request.chunks.extend(chunks[chunk_id] for chunk_id in sorted(wanted))
        request.has_chunks = True
        response = await service.rank(request)
    return response
