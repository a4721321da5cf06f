import math
from collections.abc import Mapping

import pytest
from google.protobuf.json_format import ParseDict
from groundline.v1 import coordinator_service_pb2, options_pb2
from groundline_coordinator.converters import (
    error_response,
    page_from_request,
    question_from_request,
    search_from_request,
)
from groundline_coordinator.domain import RewritingMode
from groundline_runtime.errors import (
    InternalError,
    InvalidArgumentError,
    UnavailableError,
)


def chat(fields: Mapping[str, object]) -> coordinator_service_pb2.ChatRequest:
    return ParseDict({"query": "q", **fields}, coordinator_service_pb2.ChatRequest())


def wrong_fields(request: coordinator_service_pb2.ChatRequest) -> list[str]:
    with pytest.raises(InvalidArgumentError) as failure:
        question_from_request(request)
    return [violation.field for violation in failure.value.violations]


def test_every_wrong_field_is_named_at_once() -> None:
    request = chat(
        {
            "query": " \n ",
            "threadId": "not-a-uuid",
            "chatHistory": [
                {"role": "user", "content": "a"},
                {"role": "user", "content": ""},
                {"role": "system", "content": "a"},
            ],
            "collectionIds": ["docs", "No Such", "-x"],
            "requestId": "x" * 65,
            "additionalContext": "x" * 8001,
            "options": {
                "retrieval": {"keywordLimit": 0, "minSimilarity": -2, "neighbourChunks": 11, "mode": 77},
                "rerank": {
                    "topK": 101,
                    "rrfK": 0,
                    "weights": {"recency": -1},
                    "typePriorities": {"fax": 0.5, "web": 2},
                    "mmrLambda": 1.5,
                },
                "generation": {"temperature": 2.5, "systemPrompt": "x" * 8001},
                "rewriting": 9,
            },
        }
    )
    assert wrong_fields(request) == [
        "query",
        "collection_ids[1]",
        "collection_ids[2]",
        "thread_id",
        "chat_history[1].content",
        "chat_history[2].role",
        "request_id",
        "additional_context",
        "options.retrieval.mode",
        "options.retrieval.keyword_limit",
        "options.retrieval.min_similarity",
        "options.retrieval.neighbour_chunks",
        "options.rerank.top_k",
        "options.rerank.rrf_k",
        "options.rerank.weights.recency",
        "options.rerank.mmr_lambda",
        'options.rerank.type_priorities["fax"]',
        'options.rerank.type_priorities["web"]',
        "options.generation.temperature",
        "options.generation.system_prompt",
        "options.rewriting",
    ]


def test_a_query_that_cannot_be_stored_is_refused() -> None:
    assert wrong_fields(chat({"query": "a\0b"})) == ["query"]


def test_counts_are_limited() -> None:
    request = chat(
        {
            "query": "x" * 8001,
            "collectionIds": [f"c{n}" for n in range(21)],
            "chatHistory": [{"role": "user", "content": "a"}] * 101,
        }
    )
    assert wrong_fields(request) == ["query", "collection_ids", "chat_history"]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_none_are_refused(value: float) -> None:
    request = chat({})
    request.options.rerank.min_score = value
    assert wrong_fields(request) == ["options.rerank.min_score"]


def test_every_option_of_the_contract_has_its_check() -> None:
    request = chat({})
    for group in (request.options.retrieval, request.options.rerank, request.options.generation):
        for field in group.DESCRIPTOR.fields:
            if field.name in ("weights", "type_priorities"):
                continue
            setattr(group, field.name, "x" if field.cpp_type == field.CPPTYPE_STRING else 1)
    for field in options_pb2.RerankWeights.DESCRIPTOR.fields:
        setattr(request.options.rerank.weights, field.name, 1)
    assert question_from_request(request).search.rerank["weights"]["recency"] == 1


def test_a_wrong_filter_is_refused_with_the_paths_of_its_mistakes() -> None:
    conditions = {"year": {"$above": 1}, "$or": [{"a": {"$in": 2}}]}
    assert wrong_fields(chat({"filter": conditions})) == ["filter.$or[0].a.$in", "filter.year.$above"]


def test_a_filter_is_carried_as_it_is() -> None:
    conditions = {"year": {"$gte": 2024}, "$not": {"tags": {"$contains": "draft"}}}
    assert question_from_request(chat({"filter": conditions})).search.filter == conditions
    assert question_from_request(chat({"filter": {}})).search.filter == {}


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("REWRITING_MODE_UNSPECIFIED", RewritingMode.AUTO),
        ("REWRITING_MODE_AUTO", RewritingMode.AUTO),
        ("REWRITING_MODE_OFF", RewritingMode.OFF),
        ("REWRITING_MODE_ALWAYS", RewritingMode.ALWAYS),
    ],
)
def test_rewriting_is_automatic_unless_told(mode: str, expected: RewritingMode) -> None:
    assert question_from_request(chat({"filter": {}, "options": {"rewriting": mode}})).rewriting is expected


def test_a_fingerprint_is_of_all_but_the_request_id() -> None:
    one = question_from_request(chat({"requestId": "a", "options": {"rerank": {"topK": 3}}}))
    same = question_from_request(
        ParseDict(
            {"query": "q", "requestId": "b", "options": {"rerank": {"topK": 3}}},
            coordinator_service_pb2.AnswerRequest(),
        )
    )
    other = question_from_request(chat({"requestId": "a", "options": {"rerank": {"topK": 4}}}))
    assert one.request_id == "a"
    assert one.fingerprint == same.fingerprint != other.fingerprint


def test_search_checks_the_same() -> None:
    request = coordinator_service_pb2.SearchRequest(collection_ids=["No"])
    request.options.rerank.top_k = 0
    with pytest.raises(InvalidArgumentError) as failure:
        search_from_request(request)
    assert [v.field for v in failure.value.violations] == [
        "query",
        "collection_ids[0]",
        "options.rerank.top_k",
    ]


def test_pages_are_checked() -> None:
    with pytest.raises(InvalidArgumentError) as failure:
        page_from_request(coordinator_service_pb2.GetThreadRequest(thread_id="1", page_size=1001), 100)
    assert [v.field for v in failure.value.violations] == ["thread_id", "page_size"]
    assert page_from_request(coordinator_service_pb2.ListThreadsRequest(), 50) == ("", 50)


def test_only_what_is_set_becomes_an_option() -> None:
    question = question_from_request(
        chat(
            {
                "query": " why? ",
                "collectionIds": ["b", "a", "b"],
                "options": {"rerank": {"foldSimilarity": 0}},
            }
        )
    )
    assert question.search.query == "why?"
    assert question.search.collection_ids == ("b", "a")
    assert (question.search.retrieval, question.search.rerank) == ({}, {"foldSimilarity": 0.0})
    assert question.chat_history is None
    assert question.thread_id is None


def test_an_error_event_says_whether_to_try_again() -> None:
    assert error_response(3, UnavailableError("DOWN", "down")).error.retryable
    internal = error_response(3, InternalError("INTERNAL", "x", metadata={"error_id": "e1"})).error
    assert (internal.error_id, internal.retryable) == ("e1", False)
