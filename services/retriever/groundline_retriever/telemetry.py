"""Metrics of searches, and attributes of a search for trace viewers: those of OpenInference and of
OpenTelemetry's conventions for generative AI."""

import json
from collections.abc import Mapping, Sequence
from typing import Final

from groundline.v1 import passage_pb2
from groundline_runtime.metrics.declaring import Counter, Gauge, Histogram
from opentelemetry.util.types import AttributeValue

NUMBERED: Final = 25
"""Maximum passages with attributes of their own: of more than 128 attributes, a span drops the first."""

PASSAGES: Final = Histogram(
    "groundline.search.passages",
    "Passages that a search found; searches without any are in the first bucket.",
    unit="{passage}",
    buckets=(0, 1, 2, 5, 10, 20, 50, 100),
)
COST: Final = Counter(
    "groundline.search.cost",
    "Price of hosted models for searches, those of answers included, where it is known, by client.",
    unit="{USD}",
    labels=("client",),
)
READS: Final = Counter(
    "groundline.retriever.reads",
    "Reads that a standby may answer, by the server that did, and why it was no standby.",
    unit="{read}",
    labels=("server", "reason"),
)
STANDBY_LAG: Final = Gauge(
    "groundline.retriever.standby.lag",
    "How far a standby was behind the primary when it was last asked.",
    unit="By",
    labels=("standby",),
)


def retrieval_attributes(
    query: str,
    collection_ids: Sequence[str],
    passages: Sequence[passage_pb2.Passage],
    *,
    top_k: int = 0,
    with_texts: bool,
) -> Mapping[str, AttributeValue]:
    """Return ids, ranks from 1 and scores of passages; the question and their texts only `with_texts`.

    `top_k`: the number of passages asked for, 0 if it was left to the collection.
    """
    found = [
        {"rank": rank, "id": each.chunk.chunk_id, "score": each.score}
        for rank, each in enumerate(passages, start=1)
    ]
    attributes: dict[str, AttributeValue] = {
        "openinference.span.kind": "RETRIEVER",
        "gen_ai.operation.name": "retrieval",
        "gen_ai.provider.name": "groundline",
        "gen_ai.data_source.id": ",".join(collection_ids),
        "gen_ai.retrieval.documents": json.dumps(found),
    }
    if top_k:
        attributes["gen_ai.retrieval.top_k"] = top_k
    for number, passage in enumerate(passages[:NUMBERED]):
        document, chunk = f"retrieval.documents.{number}.document", passage.chunk
        places = {"collection_id": chunk.collection_id, "document_id": chunk.document_id}
        attributes |= {
            f"{document}.id": chunk.chunk_id,
            f"{document}.score": passage.score,
            f"{document}.metadata": json.dumps(places),
        }
        if with_texts:
            attributes[f"{document}.content"] = chunk.text
    if with_texts:
        attributes |= {"input.value": query, "gen_ai.retrieval.query.text": query}
    return attributes
