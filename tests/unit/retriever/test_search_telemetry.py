"""Traces of a search."""

import json

from groundline.v1 import passage_pb2
from groundline_retriever.telemetry import retrieval_attributes
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider

PASSAGES = [
    passage_pb2.Passage(
        chunk=passage_pb2.Chunk(
            chunk_id=chunk_id, document_id="d", collection_id="handbook", text="secret text", title="secret"
        ),
        score=score,
    )
    for chunk_id, score in (("7", 0.5), ("9", 0.25))
]


def test_texts_and_question_are_not_told_unless_a_setting_says_so() -> None:
    told = retrieval_attributes("secret question", ["handbook"], PASSAGES, with_texts=False)
    assert "secret" not in json.dumps(dict(told))


def test_documents_are_told_best_first_with_ids_ranks_and_scores() -> None:
    told = retrieval_attributes("q", ["handbook", "faq"], PASSAGES, with_texts=False)
    assert told["openinference.span.kind"] == "RETRIEVER"
    assert told["gen_ai.operation.name"] == "retrieval"
    assert told["gen_ai.data_source.id"] == "handbook,faq"
    assert [told[f"retrieval.documents.{n}.document.id"] for n in (0, 1)] == ["7", "9"]
    assert [told[f"retrieval.documents.{n}.document.score"] for n in (0, 1)] == [0.5, 0.25]
    assert json.loads(str(told["gen_ai.retrieval.documents"])) == [
        {"rank": 1, "id": "7", "score": 0.5},
        {"rank": 2, "id": "9", "score": 0.25},
    ]


def test_a_span_keeps_everything_of_a_search_with_as_many_passages_as_there_may_be() -> None:
    told = retrieval_attributes("q", ["handbook"], PASSAGES * 50, top_k=100, with_texts=True)
    span = TracerProvider().get_tracer("test").start_span("retrieval", attributes=told)
    assert isinstance(span, ReadableSpan)
    assert dict(span.attributes or {}) == dict(told)
    assert len(json.loads(str(told["gen_ai.retrieval.documents"]))) == 100


def test_the_number_of_passages_is_told_if_it_was_asked_for() -> None:
    asked = retrieval_attributes("q", [], PASSAGES, top_k=5, with_texts=False)
    assert asked["gen_ai.retrieval.top_k"] == 5
    assert "gen_ai.retrieval.top_k" not in retrieval_attributes("q", [], PASSAGES, with_texts=False)


def test_with_the_setting_question_and_texts_are_told() -> None:
    told = retrieval_attributes("secret question", [], PASSAGES, with_texts=True)
    assert told["input.value"] == told["gen_ai.retrieval.query.text"] == "secret question"
    assert told["retrieval.documents.1.document.content"] == "secret text"
