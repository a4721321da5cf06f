"""Limits that the contract states, as every service applies them."""

import math
from collections.abc import Iterator
from importlib import import_module
from uuid import UUID

import pytest
from google.protobuf import message_factory
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from groundline.v1 import (
    chat_pb2,
    collection_pb2,
    coordinator_service_pb2,
    document_pb2,
    generator_service_pb2,
    ingestor_service_pb2,
    limits_pb2,
    options_pb2,
    thread_pb2,
)
from groundline_contracts import default_of, limits_of
from groundline_runtime.errors import InvalidArgumentError
from groundline_tests.limit_cases import PROTOS
from groundline_validation import validate, violations_of

THREAD = "123e4567-e89b-12d3-a456-426614174000"


def wrong_fields(message: Message) -> list[str]:
    return [violation.field for violation in violations_of(message)]


def every_field() -> Iterator[FieldDescriptor]:
    for path in sorted(PROTOS.glob("*.proto")):
        module = import_module(f"groundline.v1.{path.stem}_pb2")
        for message in module.DESCRIPTOR.message_types_by_name.values():
            yield from message.fields


def chat(**fields: object) -> coordinator_service_pb2.ChatRequest:
    return coordinator_service_pb2.ChatRequest(**{"query": "How long?", **fields})  # type: ignore[arg-type]


def test_every_wrong_field_is_named_with_its_path() -> None:
    request = chat(
        query=" ",
        thread_id="thread",
        collection_ids=["fine", "Not Fine"],
        options=options_pb2.ChatOptions(
            retrieval=options_pb2.RetrievalOptions(keyword_limit=0),
            rerank=options_pb2.RerankOptions(weights=options_pb2.RerankWeights(vector=-1)),
            generation=options_pb2.GenerationOptions(temperature=math.nan),
        ),
        request_id="x" * 65,
    )

    with pytest.raises(InvalidArgumentError) as raised:
        validate(request)

    assert {violation.field for violation in raised.value.violations} == {
        "query",
        "thread_id",
        "collection_ids[1]",
        "options.retrieval.keyword_limit",
        "options.rerank.weights.vector",
        "options.generation.temperature",
        "request_id",
    }
    assert raised.value.reason == "INVALID_REQUEST"


def test_a_request_within_its_limits_passes() -> None:
    request = chat(
        thread_id=THREAD.upper(),
        collection_ids=["a", "0-_"],
        options=options_pb2.ChatOptions(
            retrieval=options_pb2.RetrievalOptions(keyword_limit=1000, min_similarity=-1),
            rerank=options_pb2.RerankOptions(top_k=1, type_priorities={"web": 1}),
        ),
    )

    validate(request)


@pytest.mark.parametrize(
    ("query", "is_right"),
    [
        ("", False),
        (" \n", False),
        ("x" * 8000, True),
        (" " + "x" * 8000 + " ", True),
        ("x" * 8001, False),
        ("a\0b", False),
    ],
)
def test_a_query_has_1_to_8000_characters_after_trimming_and_no_nul(query: str, is_right: bool) -> None:
    assert wrong_fields(chat(query=query)) == ([] if is_right else ["query"])


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_numbers_without_a_range_must_be_finite(value: float) -> None:
    assert wrong_fields(options_pb2.RerankOptions(min_score=value)) == ["min_score"]


def test_an_unknown_enum_value_is_wrong() -> None:
    options = options_pb2.RetrievalOptions.FromString(b"\x08\x63")  # mode = 99

    assert wrong_fields(options) == ["mode"]


def test_keys_and_values_of_a_map_are_checked() -> None:
    options = options_pb2.RerankOptions(type_priorities={"file": 2, "mail": 0.5, "web": 1})

    assert wrong_fields(options) == ['type_priorities["file"]', 'type_priorities["mail"]']


def test_a_list_that_is_too_long_is_named_once_and_its_first_entries_are_still_checked() -> None:
    request = chat(collection_ids=["BAD", *["fine"] * 100])

    assert wrong_fields(request) == ["collection_ids", "collection_ids[0]"]


def test_no_more_than_a_hundred_entries_of_one_list_are_named() -> None:
    access = collection_pb2.AccessSettings(readers=["white space"] * 1000)

    assert len(wrong_fields(access)) == 100


@pytest.mark.parametrize(
    "value", ["{123e4567-e89b-12d3-a456-426614174000}", f"urn:uuid:{THREAD}", THREAD.replace("-", ""), "1"]
)
def test_a_uuid_has_one_spelling(value: str) -> None:
    assert wrong_fields(coordinator_service_pb2.GetThreadRequest(thread_id=value)) == ["thread_id"]


def test_an_empty_required_id_is_wrong_and_an_optional_one_is_not() -> None:
    assert wrong_fields(coordinator_service_pb2.GetThreadRequest()) == ["thread_id"]
    assert wrong_fields(chat(thread_id="")) == []
    assert wrong_fields(ingestor_service_pb2.ListJobsRequest()) == []


def test_an_oversized_page_is_no_violation_and_a_negative_one_is() -> None:
    assert wrong_fields(ingestor_service_pb2.ListJobsRequest(page_size=10_000)) == []
    assert wrong_fields(ingestor_service_pb2.ListJobsRequest(page_size=-1)) == ["page_size"]


def test_problems_of_a_filter_are_named_by_their_path() -> None:
    request = chat()
    request.filter.update({"year": {"$near": 3}})

    assert wrong_fields(request) == ["filter.year.$near"]


def test_metadata_must_be_storable_and_of_limited_size() -> None:
    document = document_pb2.DocumentInput(text="x")
    document.metadata.update({"ok": [1, {"bad": "a\0b"}], "n": math.inf})
    assert sorted(wrong_fields(document)) == ["metadata.n", "metadata.ok[1].bad"]

    document.metadata.Clear()
    document.metadata.update({"long": "x" * 70_000})
    assert wrong_fields(document) == ["metadata"]


def test_a_limit_holds_for_a_setting_as_it_does_for_a_request() -> None:
    neither = options_pb2.RerankOptions(keyword_weight=0, semantic_weight=0)
    as_setting = ingestor_service_pb2.CreateCollectionRequest(
        collection_id="c", settings=collection_pb2.CollectionSettings(rerank=neither)
    )

    assert wrong_fields(chat(options=options_pb2.ChatOptions(rerank=neither))) == [
        "options.rerank.semantic_weight"
    ]
    assert wrong_fields(as_setting) == ["settings.rerank.semantic_weight"]


@pytest.mark.parametrize(
    ("points", "wrong"),
    [
        ([(0, 0), (1, 1)], []),
        ([(0.2, 0.5), (0.4, 0.5), (0.9, 1)], []),
        ([(0.5, 0.5)], []),
        ([(0.5, 0.5), (0.5, 0.6)], ["points[1].confidence"]),
        ([(0.1, 0.5), (0.5, 0.4)], ["points[1].probability"]),
        ([(0, 0), (1, 1.1)], ["points[1].probability"]),
        ([(each / 100, 0.5) for each in range(21)], ["points"]),
    ],
)
def test_a_map_of_confidence_rises(points: list[tuple[float, float]], wrong: list[str]) -> None:
    calibration = collection_pb2.Calibration(
        points=[collection_pb2.CalibrationPoint(confidence=one, probability=other) for one, other in points]
    )
    assert wrong_fields(calibration) == wrong


@pytest.mark.parametrize(
    ("feedback", "wrong"),
    [
        (thread_pb2.Feedback(), []),
        (thread_pb2.Feedback(rating=thread_pb2.Feedback.RATING_GOOD, comment="Thank you."), []),
        (
            thread_pb2.Feedback(
                rating=thread_pb2.Feedback.RATING_BAD,
                problem=thread_pb2.Feedback.PROBLEM_OTHER,
                comment="x" * 2000,
            ),
            [],
        ),
        (
            thread_pb2.Feedback(rating=thread_pb2.Feedback.RATING_BAD, comment="x" * 2001),
            ["feedback.comment"],
        ),
        (
            thread_pb2.Feedback(
                rating=thread_pb2.Feedback.RATING_GOOD, problem=thread_pb2.Feedback.PROBLEM_OTHER
            ),
            ["feedback.problem"],
        ),
        (thread_pb2.Feedback(comment="Why?"), ["feedback.comment"]),
    ],
)
def test_feedback_names_a_problem_of_bad_answers_only_and_comments_on_a_rating(
    feedback: thread_pb2.Feedback, wrong: list[str]
) -> None:
    request = coordinator_service_pb2.RateAnswerRequest(
        thread_id=str(UUID(int=1)), message_id=str(UUID(int=2)), feedback=feedback
    )
    assert wrong_fields(request) == wrong


@pytest.mark.parametrize(
    ("settings", "is_right"),
    [
        (collection_pb2.ChunkingSettings(chunk_overlap=1000), False),
        (collection_pb2.ChunkingSettings(chunk_overlap=999), True),
        (collection_pb2.ChunkingSettings(chunk_size=100), True),
        (collection_pb2.ChunkingSettings(chunk_size=100, chunk_overlap=50), False),
    ],
)
def test_an_overlap_is_below_half_a_chunk(settings: collection_pb2.ChunkingSettings, is_right: bool) -> None:
    assert wrong_fields(settings) == ([] if is_right else ["chunk_overlap"])


@pytest.mark.parametrize(("strategy", "wrong"), [("PARENT_CHILD", ["parent_size"]), ("RECURSIVE", [])])
def test_a_parent_is_no_smaller_than_its_chunks(strategy: str, wrong: list[str]) -> None:
    """Other strategies have no parents: what was set for them stays without effect."""
    chosen = collection_pb2.ChunkingStrategy.Value(f"CHUNKING_STRATEGY_{strategy}")
    assert wrong_fields(collection_pb2.ChunkingSettings(strategy=chosen, parent_size=399)) == wrong
    assert wrong_fields(collection_pb2.ChunkingSettings(strategy=chosen, parent_size=400)) == []


def test_a_document_needs_content_and_a_request_documents_or_a_crawl() -> None:
    empty = ingestor_service_pb2.IngestDocumentsRequest(collection_id="c")
    without_content = ingestor_service_pb2.IngestDocumentsRequest(
        collection_id="c", documents=[document_pb2.DocumentInput(uri="a")]
    )

    assert wrong_fields(empty) == ["documents"]
    assert wrong_fields(without_content) == ["documents[0]"]


def test_what_is_not_stored_cannot_be_replayed() -> None:
    assert wrong_fields(chat(store=False, request_id="retry-1")) == ["request_id"]
    assert wrong_fields(chat(store=True, request_id="retry-1")) == []
    assert wrong_fields(chat(store=False)) == []


def test_passages_are_numbered_once() -> None:
    passage = generator_service_pb2.NumberedPassage(number=1, text="x")
    request = generator_service_pb2.GenerateRequest(query="q", passages=[passage, passage])

    assert wrong_fields(request) == ["passages[1].number"]


def test_answer_takes_the_same_request_as_chat() -> None:
    """The style guide wants a message for each method; these two must not drift apart."""

    def shape(message: type[Message]) -> list[tuple[object, ...]]:
        return [
            (field.name, field.number, field.type, field.is_repeated, field.GetOptions().SerializeToString())
            for field in message.DESCRIPTOR.fields
        ]

    assert shape(coordinator_service_pb2.AnswerRequest) == shape(coordinator_service_pb2.ChatRequest)


def test_code_can_ask_for_a_default() -> None:
    assert default_of(options_pb2.RerankOptions, "deduplication_threshold") == 0.9
    assert default_of(options_pb2.RerankOptions, "fusion") == options_pb2.FUSION_METHOD_WEIGHTED
    assert default_of(coordinator_service_pb2.ChatRequest, "store") is True
    assert default_of(collection_pb2.LexicalSettings, "language") == "english"
    with pytest.raises(ValueError, match=r"RerankOptions\.mmr_lambda has no default"):
        default_of(options_pb2.RerankOptions, "mmr_lambda")


def test_every_default_is_a_right_value_of_its_field() -> None:
    fields = [field for field in every_field() if field.GetOptions().HasExtension(limits_pb2.default)]
    assert len(fields) > 50
    for field in fields:
        assert field.containing_type is not None
        message = message_factory.GetMessageClass(field.containing_type)
        given = message(**{field.name: default_of(message, field.name)})
        assert field.name not in wrong_fields(given), field.full_name


def test_code_can_ask_for_a_limit() -> None:
    assert limits_of(chat_pb2.ChatMessage, "content").max_length == 32_000


@pytest.mark.parametrize(
    ("days", "shown"),
    [(63, "63"), (99_999_999, "99999999"), (-(2**31), "-2147483648"), (1_234_567, "1234567")],
)
def test_a_number_out_of_its_range_is_shown_with_all_its_digits(days: int, shown: str) -> None:
    [violation] = violations_of(coordinator_service_pb2.GetUsageRequest(days=days))
    assert violation.description == f"must be from 0 to 62, is {shown}"
