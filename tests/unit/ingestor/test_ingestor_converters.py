"""Requests are checked whole, and every wrong field is named by its path."""

import json
import math
from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf import json_format
from google.protobuf.message import Message
from groundline.v1 import ingestor_service_pb2 as pb
from groundline_ingestor.converters import collections, common, documents, jobs
from groundline_ingestor.crawling import CrawlRequest
from groundline_ingestor.domain import SourceType
from groundline_runtime.errors import InvalidArgumentError, UnimplementedError, Violations

UUID = "6f1c1d9e-9d3e-4c55-8a52-0d7d2f1f5c11"


def fields_of(call: Callable[[], Any]) -> set[str]:
    with pytest.raises(InvalidArgumentError) as raised:
        call()
    return {violation.field for violation in raised.value.violations}


def parsed[M: Message](message: M, values: dict[str, Any]) -> M:
    json_format.ParseDict(values, message)
    return message


def test_every_wrong_setting_is_named_at_once() -> None:
    settings = {
        "chunking": {"chunkSize": 49, "chunkOverlap": -1, "strategy": 9},
        "contextualization": {"prompt": "p" * 8001},
        "lexical": {"language": "English; DROP"},
        "retrieval": {"keywordLimit": 0, "minSimilarity": 1.5, "minBm25": -1, "neighbourChunks": 11},
        "rerank": {
            "topK": 101,
            "rrfK": 0,
            "foldSimilarity": 2,
            "keywordWeight": "Infinity",
            "weights": {"recency": -1},
            "typePriorities": {"mail": 0.5, "web": 2},
        },
        "generation": {"temperature": "NaN", "maxOutputTokens": 0, "model": "a\x00b"},
        "access": {"readers": ["user:ann", "", "two words"], "writers": ["w"] * 1001},
        "generationLimits": {"maxTemperature": 3, "maxTopK": 0, "models": ["a\x00b", *["m"] * 100]},
    }
    request = parsed(
        pb.CreateCollectionRequest(),
        {"collectionId": "No", "name": "n" * 201, "requestId": "r" * 65, "settings": settings},
    )
    assert fields_of(lambda: collections.new_collection(request)) == {
        "collection_id",
        "name",
        "request_id",
        "settings.chunking.chunk_size",
        "settings.chunking.chunk_overlap",
        "settings.chunking.strategy",
        "settings.contextualization.prompt",
        "settings.lexical.language",
        "settings.retrieval.keyword_limit",
        "settings.retrieval.min_similarity",
        "settings.retrieval.min_bm25",
        "settings.retrieval.neighbour_chunks",
        "settings.rerank.top_k",
        "settings.rerank.rrf_k",
        "settings.rerank.fold_similarity",
        "settings.rerank.keyword_weight",
        "settings.rerank.weights.recency",
        "settings.rerank.type_priorities['mail']",
        "settings.rerank.type_priorities['web']",
        "settings.generation.temperature",
        "settings.generation.max_output_tokens",
        "settings.generation.model",
        "settings.access.readers[1]",
        "settings.access.readers[2]",
        "settings.access.writers",
        "settings.generation_limits.max_temperature",
        "settings.generation_limits.max_top_k",
        "settings.generation_limits.models",
        "settings.generation_limits.models[0]",
    }


@pytest.mark.parametrize("name", ["", "東京"])
def test_a_collection_needs_an_id_or_a_name_that_gives_one(name: str) -> None:
    request = pb.CreateCollectionRequest(name=name)
    assert fields_of(lambda: collections.new_collection(request)) == {"collection_id"}


def test_only_what_was_set_is_stored() -> None:
    settings = {
        "chunking": {"chunkOverlap": 0},
        "retrieval": {},
        "embedding": {"model": "m"},
        "lexical": {"language": "german"},
        "access": {"readers": ["a", "a"]},
    }
    new = collections.new_collection(
        parsed(pb.CreateCollectionRequest(), {"name": "Küche 1", "settings": settings})
    )
    assert (new.collection_id, new.settings) == ("kuche-1", {"chunking": {"chunkOverlap": 0}})
    assert (new.embedding_model, new.language, new.readers) == ("m", "german", ("a",))


@pytest.mark.parametrize(
    "path",
    [
        "",
        "settings.",
        "collection_id",
        "settings.nothing",
        "name.x",
        "document_count",
    ],
)
def test_a_mask_path_that_cannot_be_changed_is_refused(path: str) -> None:
    request = pb.UpdateCollectionRequest(collection_id="c")
    request.update_mask.paths.append(path)
    assert fields_of(lambda: collections.collection_change(request)) == {"update_mask"}


def test_without_a_mask_every_single_setting_that_is_set_changes() -> None:
    settings = {
        "chunking": {"chunkSize": 500},
        "rerank": {"weights": {"type": 0.5}, "typePriorities": {"web": 1}},
    }
    request = parsed(pb.UpdateCollectionRequest(), {"collectionId": "c", "settings": settings})
    _, change = collections.collection_change(request)
    assert {setting.path: setting.value for setting in change.settings} == {
        ("chunking", "chunkSize"): 500,
        ("rerank", "weights", "type"): 0.5,
        ("rerank", "typePriorities"): {"web": 1.0},
    }
    assert (change.name, change.readers, change.language) == (None, None, None)


def test_with_a_mask_its_paths_change_whether_set_or_not() -> None:
    request = parsed(
        pb.UpdateCollectionRequest(),
        {
            "collectionId": "c",
            "name": "ignored",
            "settings": {
                "rerank": {"topK": 3},
                "generation": {"model": "ignored"},
                "access": {"readers": ["a"]},
            },
            "updateMask": "settings.rerank.topK,settings.chunking,settings.access.writers",
        },
    )
    _, change = collections.collection_change(request)
    assert {setting.path: setting.value for setting in change.settings} == {
        ("rerank", "topK"): 3,
        ("chunking",): None,
    }
    assert (change.name, change.readers, change.writers) == (None, None, ())


def test_every_wrong_field_of_every_document_is_named() -> None:
    request = parsed(
        pb.IngestDocumentsRequest(),
        {
            "collectionId": "-",
            "requestId": "a\x00",
            "documents": [
                {"uri": "ok", "text": "fine"},
                {"uri": "u" * 2001, "title": "t" * 501},
                {"uri": "東" * 900, "text": "x", "mimeType": "m" * 201, "allowedPrincipals": [""]},
                {"text": "x", "metadata": {"big": "b" * 70_000}},
                {"text": "x", "metadata": {"a": [{"b": "c\x00"}]}},
            ],
        },
    )
    request.documents[0].metadata.fields["nan"].number_value = math.nan
    assert fields_of(lambda: documents.ingestion_request(request, 1000)) == {
        "collection_id",
        "request_id",
        "documents[0].metadata.nan",
        "documents[1].uri",
        "documents[1].title",
        "documents[1]",
        "documents[2].uri",
        "documents[2].mime_type",
        "documents[2].allowed_principals[0]",
        "documents[3].metadata",
        "documents[4].metadata.a[0].b",
    }


@pytest.mark.parametrize("count", [0, 4])
def test_the_number_of_documents_is_bounded(count: int) -> None:
    request = parsed(pb.IngestDocumentsRequest(), {"collectionId": "c", "documents": [{"text": "x"}] * count})
    assert fields_of(lambda: documents.ingestion_request(request, 3)) == {"documents"}


def test_a_crawl_cannot_be_estimated() -> None:
    crawl = {"crawl": {"startUrl": "https://example.org"}, "dryRun": True}
    request = parsed(pb.IngestDocumentsRequest(), {"collectionId": "c", **crawl})
    with pytest.raises(UnimplementedError) as raised:
        documents.crawl_request(request)
    assert (raised.value.reason, raised.value.metadata) == ("OPTION_NOT_AVAILABLE", {"field": "dry_run"})


def test_every_wrong_field_of_a_crawl_is_named() -> None:
    crawl = {
        "startUrl": "file:///etc/passwd",
        "maxPages": 10_001,
        "maxDepth": 21,
        "includePaths": ["docs/*", "/" + "x" * 200],
        "excludePaths": ["/x"] * 101,
        "delaySeconds": "NaN",
    }
    request = parsed(
        pb.IngestDocumentsRequest(), {"collectionId": "c", "crawl": crawl, "documents": [{"text": "x"}]}
    )
    assert fields_of(lambda: documents.crawl_request(request)) == {
        "crawl",
        "crawl.start_url",
        "crawl.max_pages",
        "crawl.max_depth",
        "crawl.include_paths[0]",
        "crawl.include_paths[1]",
        "crawl.exclude_paths",
        "crawl.delay_seconds",
    }


def test_a_crawl_has_the_defaults_of_the_contract() -> None:
    crawl = {"startUrl": "HTTP://Example.org:80#top", "maxDepth": 0}
    request = parsed(pb.IngestDocumentsRequest(), {"collectionId": "c", "crawl": crawl, "requestId": "r"})
    expected = CrawlRequest("http://example.org/", max_pages=100, max_depth=0)
    assert documents.crawl_request(request) == ("c", expected, "r")
    request.crawl.ClearField("max_depth")
    request.crawl.delay_seconds = 0
    assert documents.crawl_request(request)[1] == CrawlRequest("http://example.org/", delay_seconds=0)


def test_a_record_keeps_what_it_says_of_itself() -> None:
    record = {
        "uri": "crm://products/7",
        "uuid": "0b9c",
        "name": "Valve",
        "weight": 2,
        "parts": [{"id": "a"}],
    }
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
    _, [own, named, by_uuid, empty], _ = documents.ingestion_request(request, 1000)
    assert own.source_type is SourceType.OBJECT
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
    _, [given], _ = documents.ingestion_request(request, 1000)
    assert given.metadata == metadata
    assert isinstance(given.metadata["year"], int)


@pytest.mark.parametrize(
    "token",
    ["x", "!!!", "bnVsbA", common.page_token("other", "a"), common.page_token("jobs", "a", UUID), "é" * 9],
)
def test_a_token_of_another_list_is_refused(token: str) -> None:
    assert fields_of(
        lambda: documents.list_request(pb.ListDocumentsRequest(collection_id="c", page_token=token))
    ) == {"page_token"}
    assert fields_of(lambda: jobs.list_request(pb.ListJobsRequest(page_token=token))) == {"page_token"}


@pytest.mark.parametrize("size", [-1, 1001])
def test_a_page_size_is_bounded(size: int) -> None:
    request = pb.GetJobRequest(job_id="x", page_size=size)
    assert fields_of(lambda: jobs.get_request(request)) == {"job_id", "page_size"}


def test_a_token_leads_back_to_its_key() -> None:
    violations = Violations()
    token = common.page_token("documents", "docs/ä 東.md")
    assert common.read_page_token(token, "documents", (str,), violations) == ("docs/ä 東.md",)
    assert not violations
