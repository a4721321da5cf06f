"""Attributes of a search for trace viewers: those of OpenInference and of OpenTelemetry's conventions for
generative AI."""

import json
from collections.abc import Mapping, Sequence

from groundline.v1 import passage_pb2
from opentelemetry.util.types import AttributeValue

__all__ = ["retrieval_attributes"]


def retrieval_attributes(
    query: str, collection_ids: Sequence[str], passages: Sequence[passage_pb2.Passage], *, with_texts: bool
) -> Mapping[str, AttributeValue]:
    """Return ids and scores of passages, best first; the question and their texts only `with_texts`."""
    found = [{"id": each.chunk.chunk_id, "score": each.score} for each in passages]
    attributes: dict[str, AttributeValue] = {
        "openinference.span.kind": "RETRIEVER",
        "gen_ai.operation.name": "retrieval",
        "gen_ai.provider.name": "groundline",
        "gen_ai.data_source.id": ",".join(collection_ids),
        "gen_ai.retrieval.documents": json.dumps(found),
    }
    for number, passage in enumerate(passages):
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
