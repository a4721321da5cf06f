"""Requests are checked whole, and every wrong field is named by its path."""

import json
from typing import Any

import pytest
from google.protobuf import json_format
from google.protobuf.message import Message
from groundline.v1 import ingestor_service_pb2 as pb
from groundline.v1 import passage_pb2
from groundline_indexing.inputs import document_input
from groundline_ingestor.converters import described_upload
from groundline_runtime.errors import InvalidArgumentError
from groundline_validation import validate


def parsed[M: Message](message: M, values: dict[str, Any]) -> M:
    json_format.ParseDict(values, message)
    return message


def test_every_wrong_field_is_named_at_once() -> None:
    for message, request, wrong in (
        (
            pb.CreateCollectionRequest(),
            {"collectionId": "No", "settings": {"chunking": {"chunkSize": 49}, "rerank": {"topK": 101}}},
            {"collection_id", "settings.chunking.chunk_size", "settings.rerank.top_k"},
        ),
        (
            pb.IngestDocumentsRequest(),
            {"collectionId": "-", "documents": [{"uri": "ok"}, {"text": "x", "allowedPrincipals": [""]}]},
            {"collection_id", "documents[0]", "documents[1].allowed_principals[0]"},
        ),
        (
            pb.IngestDocumentsRequest(),
            {"collectionId": "c", "crawl": {"startUrl": "ftp://site.test", "includePaths": ["docs"]}},
            {"crawl.start_url", "crawl.include_paths[0]"},
        ),
        (
            pb.IngestDocumentsRequest(),
            {
                "collectionId": "c",
                "crawl": {"startUrl": "http://a", "maxPages": 10_001, "allowedPrincipals": ["a b"]},
            },
            {"crawl.max_pages", "crawl.allowed_principals[0]"},
        ),
        (pb.GetJobRequest(), {"jobId": "x", "pageSize": -1}, {"job_id", "page_size"}),
    ):
        with pytest.raises(InvalidArgumentError) as raised:
            validate(parsed(message, request))
        assert {violation.field for violation in raised.value.violations} == wrong


@pytest.mark.parametrize("metadata", ["[]", "{", '{"a": "\\u0000"}'])
def test_metadata_of_an_upload_are_checked_like_those_of_a_document(metadata: str) -> None:
    request = pb.UploadDocumentRequest(collection_id="c", metadata_json=metadata)
    with pytest.raises(InvalidArgumentError) as raised:
        described_upload(request)
    assert [violation.field.split("_")[0].split(".")[0] for violation in raised.value.violations] == [
        "metadata"
    ]


def test_a_record_keeps_what_it_says_of_itself() -> None:
    record = {"uri": "crm://products/7", "uuid": "0b9c", "name": "Valve", "weight": 2, "parts": [{"id": "a"}]}
    given_metadata = {"schema": "mine"}
    request = parsed(
        pb.IngestDocumentsRequest(),
        {
            "collectionId": "c",
            "documents": [
                {"object": {"properties": record, "schema": "product"}},
                {
                    "object": {"properties": record, "schema": "product"},
                    "metadata": given_metadata,
                    "uri": "u",
                },
                {"object": {"properties": {"uri": ["no name"], "uuid": "0b9c"}}},
                {"object": {}},
            ],
        },
    )
    own, named, by_uuid, empty = map(document_input, request.documents)
    assert own.source_type == passage_pb2.SOURCE_TYPE_OBJECT
    assert own.uri == "crm://products/7"
    assert own.metadata == {"schema": "product", "uuid": "0b9c"}
    assert isinstance(own.content, str)
    assert json.loads(own.content) == record
    assert (named.uri, named.metadata) == ("u", {"schema": "mine", "uuid": "0b9c"})
    assert by_uuid.uri == "0b9c"
    assert (empty.uri, empty.metadata, empty.content) == ("", {}, "{}")


def test_whole_numbers_of_metadata_are_whole() -> None:
    metadata = {"year": 2024, "share": 0.5, "deep": [{"yes": True, "none": None}]}
    request = parsed(
        pb.IngestDocumentsRequest(), {"collectionId": "c", "documents": [{"text": "x", "metadata": metadata}]}
    )
    [given] = map(document_input, request.documents)
    assert given.metadata == metadata
    assert isinstance(given.metadata["year"], int)
