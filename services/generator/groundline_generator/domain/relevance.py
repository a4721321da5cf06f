"""Relevance of passages, to decide whether a model is called."""

from collections.abc import Sequence

from groundline.v1 import generator_service_pb2 as pb

from groundline_generator.domain.quoting.extraction import extract


def reaches(query: str, passages: Sequence[pb.NumberedPassage], threshold: float) -> bool:
    """Tell whether some passage has at least this relevance to the question, 0 to 1.

    A passage's relevance is the larger of its cosine similarity, if known, and the weighted share of the
    question's terms around its best sentence.
    """
    if any(passage.HasField("similarity") and passage.similarity >= threshold for passage in passages):
        return True
    if not passages:
        return False
    return extract(query, passages, min_relevance=threshold, max_sentences=1).relevance >= threshold
