"""Figures of a set are its own: what other owners store beside it in its partition changes none of them."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import grpc
from groundline.v1 import options_pb2, retriever_service_pb2_grpc
from groundline.v1 import retriever_service_pb2 as pb
from groundline_cli.evaluation.measures import RANK_DEPTH, ndcg
from groundline_retriever.adapters.postgres.terms import FEW_CHUNKS
from groundline_runtime.context import PRINCIPALS_KEY

ROOT: Final = Path(__file__).resolve().parents[3]
MODES: Final = ("KEYWORD", "SEMANTIC", "HYBRID")
OWNERS: Final = ("user:ann", "user:bob", "user:carol")

type Passages = Sequence[tuple[str, float]]


def sections() -> Mapping[str, Sequence[str]]:
    """Return the paragraphs of this repository's documentation, by the heading above them."""
    found: dict[str, list[str]] = {}
    for page in sorted([*ROOT.glob("docs/*.md"), *ROOT.glob("docs/adr/*.md"), *ROOT.glob("examples/*/*.md")]):
        for section in re.split(r"^#+ ", page.read_text(), flags=re.M)[1:]:
            heading, _, body = section.partition("\n")
            texts = [text.strip() for text in body.split("\n\n") if len(text.split()) > 12]
            found.setdefault(heading.strip(), []).extend(texts)
    return {heading: list(dict.fromkeys(texts)) for heading, texts in found.items() if texts}


async def found(stub: Any, collection: str, query: str, mode: str) -> Passages:
    """Return ids and scores of the passages, best first, as a reader of the set sees them."""
    request = pb.SearchRequest(
        query=query,
        collection_ids=[collection],
        options=options_pb2.SearchOptions(
            retrieval=options_pb2.RetrievalOptions(
                mode=options_pb2.RetrievalMode.Value(f"RETRIEVAL_MODE_{mode}")
            ),
            rerank=options_pb2.RerankOptions(top_k=10, deduplication_threshold=0),
        ),
    )
    response = await stub.Search(request, timeout=60, metadata=((PRINCIPALS_KEY, "user:me"),))
    assert not response.degraded
    return [(each.chunk.chunk_id, each.score) for each in response.passages]


async def test_figures_order_and_scores_are_the_same_alone_and_among_others(
    corpus: Any, serve_retriever: Any, database_url: str
) -> None:
    own = sections()
    texts = [text for paragraphs in own.values() for text in paragraphs]
    assert 200 < len(texts) <= FEW_CHUNKS, "as many as a collection may have that shares a partition"
    ids = map(str, await corpus.collection("mine", texts, readers=["user:me"], is_shared=True))
    documents = dict(zip(ids, texts, strict=True))
    queries = [
        (heading, {chunk_id: 1 for chunk_id, text in documents.items() if text in paragraphs})
        for heading, paragraphs in own.items()
    ][::4]

    async def figures() -> tuple[Mapping[str, Sequence[Passages]], Mapping[str, float]]:
        async with (
            serve_retriever(database_url, corpus.embedder) as target,
            grpc.aio.insecure_channel(target) as channel,
        ):
            stub = retriever_service_pb2_grpc.RetrieverServiceStub(channel)
            passages = {
                mode: [await found(stub, "mine", query, mode) for query, _ in queries] for mode in MODES
            }
        return passages, {
            mode: fmean(
                ndcg([chunk_id for chunk_id, _ in each], relevance, RANK_DEPTH)
                for (_, relevance), each in zip(queries, of_mode, strict=True)
            )
            for mode, of_mode in passages.items()
        }

    alone, ndcg_alone = await figures()
    # By chance it would be some .01; the vectors tell little, and the pages of this repository change.
    assert 0.02 < min(ndcg_alone.values()) < 0.95, "the set can tell"
    for number, owner in enumerate(OWNERS):
        # Each has other parts of the same texts, and much of a single word.
        theirs = [*texts[number::2], *[f"{text} retriever" for text in texts[::5]]]
        await corpus.collection(f"theirs-{number}", theirs, readers=[owner], is_shared=True)
    await corpus.connection.execute("ANALYZE")
    among, ndcg_among = await figures()
    assert among == alone
    assert ndcg_among == ndcg_alone
