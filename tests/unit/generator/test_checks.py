import math

import pytest
from google.protobuf.json_format import ParseDict
from groundline.v1 import generator_service_pb2
from groundline_generator.checks import check_generate
from groundline_runtime.errors import InvalidArgumentError


def question(**fields: object) -> generator_service_pb2.GenerateRequest:
    return ParseDict({"query": "q", **fields}, generator_service_pb2.GenerateRequest())


def wrong_fields(request: generator_service_pb2.GenerateRequest) -> list[str]:
    with pytest.raises(InvalidArgumentError) as failure:
        check_generate(request, 1000)
    return [violation.field for violation in failure.value.violations]


def test_every_wrong_field_is_named_at_once() -> None:
    request = question(
        query="  ",
        passages=[
            {"number": 0, "text": "a"},
            {"number": 2, "text": " "},
            {"number": 2, "text": "x" * 1001, "similarity": 1.5},
        ],
        chatHistory=[{"role": "system", "content": "x"}, {"role": "user"}],
        options={"temperature": 3, "maxOutputTokens": 0, "minRelevance": 2, "systemPrompt": "x" * 8001},
        additionalContext="x" * 8001,
    )
    assert wrong_fields(request) == [
        "query",
        "passages[0].number",
        "passages[1].text",
        "passages[2].number",
        "passages[2].text",
        "passages[2].similarity",
        "chat_history[0].role",
        "chat_history[1].content",
        "options.temperature",
        "options.max_output_tokens",
        "options.min_relevance",
        "options.system_prompt",
        "additional_context",
    ]


def test_too_many_passages_and_messages_are_counted() -> None:
    request = question(
        passages=[{"number": n, "text": "a"} for n in range(1, 102)],
        chatHistory=[{"role": "user", "content": "x"}] * 101,
    )
    assert wrong_fields(request) == ["passages", "chat_history"]


def test_not_a_number_is_in_no_range() -> None:
    request = question()
    request.options.min_relevance = math.nan
    assert wrong_fields(request) == ["options.min_relevance"]
