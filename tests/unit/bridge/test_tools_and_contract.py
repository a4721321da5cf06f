"""Tools for agents offer what the contract offers, or it is said here why not."""

import inspect
from collections.abc import Iterator, Mapping
from typing import Any, cast

import pytest
from google.api import annotations_pb2  # type: ignore[import-untyped]
from google.protobuf.descriptor_pb2 import MethodOptions
from groundline.v1 import coordinator_service_pb2, ingestor_service_pb2, options_pb2, retriever_service_pb2
from groundline_bridge.contract import choices
from groundline_bridge.ports import Coordinator, Ingestor, Retriever
from groundline_bridge.tools import AgentTool, Tools
from groundline_contracts import limits_of

_nothing = cast(Any, None)
TOOLS: Mapping[str, AgentTool] = {
    tool.name: tool
    for tool in Tools(
        cast(Coordinator, _nothing), cast(Retriever, _nothing), cast(Ingestor, _nothing)
    ).allowed(frozenset({"search", "chat"}))
}
RPCS = {
    "search_documents": "Search",
    "query_tables": "QueryTables",
    "ask": "Answer",
    "verify": "Verify",
    "get_document": "GetDocumentText",
    "list_collections": "ListCollections",
}
FOR_PROGRAMS = {
    # Answer, as a stream.
    "Chat",
    # Conversations are the agent's.
    "GetThread",
    "ListThreads",
    # For whoever examines an answer.
    "GetEvidence",
    "ListSigningKeys",
    # The operator, or the agent's user, says which model answers.
    "ListModels",
    # For whoever gave the agent its key.
    "GetQuotas",
    "GetUsage",
    # With the text, by get_document.
    "GetDocument",
    # As resources.
    "ListDocuments",
    # Models read text.
    "DownloadDocument",
    "GetDocumentPage",
    # get_document reads around a passage.
    "ListChunks",
    # Agents answer from the present; people look into the past.
    "ListRevisions",
    "GetRevision",
    "CompareRevisions",
    # list_collections says what an agent chooses by.
    "GetCollection",
    "GetCollectionStats",
    # An agent brings nothing in.
    "GetJob",
    "ListJobs",
    "WatchJob",
    "GetSource",
    "ListSources",
    "ListLegalHolds",
    "ListErasures",
    "GetErasureCertificate",
}
SEARCH_FIELDS = {
    "query": "query",
    "collections": "collection_ids",
    "filter": "filter",
    "as_of": "as_of",
    "mode": "options.retrieval.mode",
    "top_k": "options.rerank.top_k",
    "strategy": "options.rerank.strategy",
}
# Of these a collection has defaults, which its owner has measured; an agent has not.
LEFT_TO_COLLECTIONS = ("options.retrieval.", "options.rerank.")
# An agent has written nothing that it would have to find.
# An agent searches again itself, in other words.
FOR_PROGRAMS_ONLY = {
    "min_position",
    "additional_queries",
    "weak_similarity",
    "include_vectors",
    "include_highlights",
    "facets",
    "max_facet_values",
}


def fields(message: Any, prefix: str = "") -> Iterator[str]:
    for field in message.DESCRIPTOR.fields:
        if field.message_type and field.message_type.file.name == "groundline/v1/options.proto":
            yield from fields(field.message_type._concrete_class, f"{prefix}{field.name}.")
        else:
            yield f"{prefix}{field.name}"


def reads_only(method: Any) -> bool:
    # Answering costs money, which is all that it changes.
    return method.GetOptions().idempotency_level == MethodOptions.NO_SIDE_EFFECTS or (
        method.name in ("Answer", "Chat")
    )


def test_every_rpc_that_changes_nothing_is_a_tool_or_for_programs() -> None:
    services = (
        *coordinator_service_pb2.DESCRIPTOR.services_by_name.values(),
        *retriever_service_pb2.DESCRIPTOR.services_by_name.values(),
        *ingestor_service_pb2.DESCRIPTOR.services_by_name.values(),
    )
    offered = {
        method.name
        for service in services
        for method in service.methods
        if method.GetOptions().HasExtension(annotations_pb2.http) and reads_only(method)
    }
    assert offered == {*RPCS.values(), *FOR_PROGRAMS}


def test_a_search_takes_every_field_that_is_not_left_to_collections() -> None:
    arguments = TOOLS["search_documents"].arguments.model_json_schema()["properties"]
    assert set(arguments) == set(SEARCH_FIELDS)
    left = set(fields(retriever_service_pb2.SearchRequest)) - {*SEARCH_FIELDS.values(), *FOR_PROGRAMS_ONLY}
    assert all(name.startswith(LEFT_TO_COLLECTIONS) for name in left), left


@pytest.mark.parametrize(
    ("argument", "message", "field"),
    [
        ("query", retriever_service_pb2.SearchRequest, "query"),
        ("collections", retriever_service_pb2.SearchRequest, "collection_ids"),
        ("top_k", options_pb2.RerankOptions, "top_k"),
    ],
)
def test_limits_are_those_of_the_contract(argument: str, message: Any, field: str) -> None:
    schema = TOOLS["search_documents"].arguments.model_json_schema()["properties"][argument]
    schema = next((each for each in schema.get("anyOf", ()) if each["type"] != "null"), schema)
    limits = limits_of(message, field)
    for name, limit in (
        ("maximum", limits.maximum),
        ("maxLength", limits.max_length),
        ("maxItems", limits.max_items),
    ):
        assert schema.get(name, 0) == limit


@pytest.mark.parametrize(
    ("argument", "enum"),
    [("mode", options_pb2.RetrievalMode.DESCRIPTOR), ("strategy", options_pb2.RerankStrategy.DESCRIPTOR)],
)
def test_choices_are_those_of_the_contract(argument: str, enum: Any) -> None:
    schema = TOOLS["search_documents"].arguments.model_json_schema()["properties"][argument]
    offered = next(each for each in schema["anyOf"] if each["type"] != "null")["enum"]
    assert offered == list(choices(enum))
    assert len(offered) == len(enum.values) - 1


def test_every_tool_says_what_it_returns() -> None:
    assert set(TOOLS) == set(RPCS)
    for tool in TOOLS.values():
        assert tool.output["required"] == list(tool.output["properties"])
        assert inspect.iscoroutinefunction(tool.run)
