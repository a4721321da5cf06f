"""Wrong fields as JSON clients spell them."""

from contextvars import copy_context

import pytest
from groundline.v1 import coordinator_service_pb2, ingestor_service_pb2
from groundline_runtime.context import TRANSCODED_KEY, Caller, begin_request
from groundline_runtime.errors import FieldViolation, GroundlineError, InvalidArgumentError, NotFoundError
from groundline_runtime.serving.json_names import as_sent, json_violation

CHAT = coordinator_service_pb2.ChatRequest.DESCRIPTOR
INGEST = ingestor_service_pb2.IngestDocumentsRequest.DESCRIPTOR
CREATE = ingestor_service_pb2.CreateCollectionRequest.DESCRIPTOR


@pytest.mark.parametrize(
    ("field", "spelled"),
    [
        ("query", "query"),
        ("thread_id", "threadId"),
        ("chat_history[2].role", "chatHistory[2].role"),
        ("options.rerank.top_k", "options.rerank.topK"),
        ("collection_ids[0]", "collectionIds[0]"),
        ('options.rerank.type_priorities["a_b"]', 'options.rerank.typePriorities["a_b"]'),
        ("filter.page_count.$above", "filter.page_count.$above"),
        ("filter", "filter"),
        ("x-groundline-principals", "x-groundline-principals"),
        ("no_such_field.top_k", "no_such_field.top_k"),
        ("", ""),
    ],
)
def test_fields_are_spelled_as_in_json_and_what_is_no_field_stays(field: str, spelled: str) -> None:
    assert json_violation(FieldViolation(field, ""), CHAT).field == spelled


def test_keys_of_metadata_stay_as_their_author_spelled_them() -> None:
    wrong = FieldViolation("documents[0].metadata.page_count", "must be a finite number")
    assert json_violation(wrong, INGEST).field == "documents[0].metadata.page_count"


def test_a_description_names_the_fields_beside_it_alike() -> None:
    wrong = FieldViolation(
        "settings.chunking.chunk_overlap", "must be less than half of chunk_size, which is 100"
    )
    assert json_violation(wrong, CREATE) == FieldViolation(
        "settings.chunking.chunkOverlap", "must be less than half of chunkSize, which is 100"
    )


def as_transcoded(error: GroundlineError) -> GroundlineError:
    """Return the error of a chat that came as JSON."""
    begin_request(Caller(), {TRANSCODED_KEY: "1"}, deadline=0.0)
    return as_sent(error, CHAT)


def test_an_error_names_fields_as_its_caller_does() -> None:
    error = InvalidArgumentError([FieldViolation("options.rerank.top_k", "must be from 1 to 100")])
    assert as_sent(error, CHAT) is error
    spelled = copy_context().run(as_transcoded, error)
    assert spelled.violations == (FieldViolation("options.rerank.topK", "must be from 1 to 100"),)
    assert spelled.message == "options.rerank.topK: must be from 1 to 100"


def test_a_message_of_its_own_stays_and_so_does_what_names_no_field() -> None:
    error = InvalidArgumentError([FieldViolation("thread_id", "x")], message="not so", reason="WHY")
    missing = NotFoundError("THREAD_NOT_FOUND", "no such thread")
    spelled = copy_context().run(as_transcoded, error)
    assert copy_context().run(as_transcoded, missing) is missing
    assert (spelled.message, spelled.reason) == ("not so", "WHY")
