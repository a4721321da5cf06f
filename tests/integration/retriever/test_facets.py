"""Facets: counts of the values of fields, of the documents that a caller may read and a filter leaves."""

import json
from typing import Any

import pytest
from groundline.v1 import error_pb2, passage_pb2
from groundline.v1 import retriever_service_pb2 as pb
from groundline_runtime.errors import InvalidArgumentError
from groundline_tests.retriever.library import struct

TEAM, OWNER = "team", "owner.name"


def counts(found: pb.SearchResponse, field: str) -> dict[str, int]:
    """Return the counts of a facet by the JSON of their values, in their order."""
    [facet] = (each for each in found.facets if each.field == field)
    return {json.dumps(_plain(each.value)): each.document_count for each in facet.values}


def _plain(value: Any) -> Any:
    kind = value.WhichOneof("kind")
    return None if kind == "null_value" else getattr(value, kind)


@pytest.fixture(scope="module")
async def shelves(corpus: Any) -> str:
    name = "shelves"
    await corpus.collection(name)
    await corpus.add(name, ["one", "two"], metadata={"team": "red", "tags": ["new", "new", 1, ["x"], {}]})
    await corpus.add(name, ["three"], metadata={"team": "blue", "tags": "new", "owner": {"name": True}})
    await corpus.add(name, ["four"], metadata={"team": None, "long": "x" * 257, "whole": 10})
    await corpus.add(name, ["five"])
    await corpus.add(name, ["secret"], metadata={"team": "board"}, allowed_principals=["group:board"])
    return name


async def test_a_field_that_cannot_be_counted_is_named(retrieve: Any, shelves: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        await retrieve("one", [shelves], facets=["team", "$uri", "a..b"])
    violations = {each.field for each in caught.value.violations}
    assert violations == {"facets[1]", "facets[2]"}


async def test_values_count_by_document_and_the_most_frequent_are_first(retrieve: Any, shelves: str) -> None:
    found = await retrieve("nothing like it", [shelves], facets=[TEAM, "tags", OWNER, "long", "whole"])
    assert [each.field for each in found.facets] == [TEAM, "tags", OWNER, "long", "whole"]
    assert list(counts(found, TEAM).items()) == [('"red"', 2), ('"blue"', 1), ("null", 1)]
    assert counts(found, "tags") == {'"new"': 3, "1.0": 2}
    assert counts(found, OWNER) == {"true": 1}
    assert counts(found, "long") == {}
    assert counts(found, "whole") == {"10.0": 1}


async def test_properties_of_documents_are_counted(retrieve: Any, shelves: str) -> None:
    found = await retrieve("one", [shelves], facets=["$collection_id", "$source_type", "$mime_type"])
    assert counts(found, "$collection_id") == {f'"{shelves}"': 5}
    assert counts(found, "$source_type") == {'"file"': 5}
    assert counts(found, "$mime_type") == {'"text/markdown"': 5}


async def test_only_what_the_caller_may_read_is_counted(corpus: Any, retrieve: Any, shelves: str) -> None:
    board = await retrieve("one", [shelves], principals="group:board", facets=[TEAM])
    assert counts(board, TEAM)['"board"'] == 1
    assert '"board"' not in counts(await retrieve("one", [shelves], facets=[TEAM]), TEAM)
    await corpus.collection("closed", readers=["group:board"])
    await corpus.add("closed", ["one"], metadata={"team": "red"})
    everything = await retrieve("one", facets=["$collection_id"])
    assert '"closed"' not in counts(everything, "$collection_id")


async def test_the_filter_narrows_the_counts(retrieve: Any, shelves: str) -> None:
    narrowed = struct({"team": {"$in": ["red", "blue"]}, "$title": "Notes"})
    found = await retrieve("one", [shelves], filter=narrowed, facets=[TEAM, "tags", TEAM])
    assert counts(found, TEAM) == {'"red"': 2, '"blue"': 1}
    assert len(found.facets) == 2, "a field that is named twice is counted once"


async def test_more_values_than_were_asked_for_are_said(retrieve: Any, shelves: str) -> None:
    found = await retrieve("one", [shelves], facets=[TEAM, OWNER], max_facet_values=2)
    assert list(counts(found, TEAM)) == ['"red"', '"blue"']
    assert [each.has_more for each in found.facets] == [True, False]


async def test_no_facets_are_counted_where_none_are_asked_for(retrieve: Any, shelves: str) -> None:
    assert not (await retrieve("one", [shelves])).facets


async def test_a_count_that_is_late_leaves_the_passages(
    corpus: Any, retrieve: Any, shelves: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("groundline_retriever.counting.TIMEOUT_SECONDS", 0.0)
    found = await retrieve("one", [shelves], facets=[TEAM])
    assert found.passages
    assert not found.facets
    assert [(each.component, each.reason) for each in found.degraded] == [
        (passage_pb2.COMPONENT_FACETS, error_pb2.DEADLINE_EXCEEDED)
    ]
