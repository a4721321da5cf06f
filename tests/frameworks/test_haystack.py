"""Haystack's own interfaces over the running suite."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from groundline_client import ApiError
from groundline_client.haystack import GroundlineRetriever, condition_of
from groundline_tests.suite import Stack
from haystack import Pipeline
from haystack.components.builders import PromptBuilder
from haystack.utils import Secret

QUESTION = "How high is the tower?"


@pytest.fixture
async def retriever(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[GroundlineRetriever]:
    monkeypatch.setenv("GROUNDLINE_API_KEY", stack.ready["api_key"])
    found = GroundlineRetriever(stack.ready["gateway"], collection_ids=["docs"], top_k=1)
    yield found
    found.close()
    await found.close_async()


@pytest.mark.parametrize(
    "filters",
    [
        {},
        {"field": "meta.year", "operator": "~", "value": 1},
        {"field": "meta.year", "operator": "=="},
        {"operator": "XOR", "conditions": [{"field": "meta.year", "operator": "==", "value": 1}]},
    ],
)
def test_what_is_no_filter_is_refused(filters: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="not a filter of Haystack"):
        condition_of(filters)


def test_a_collection_that_is_not_there_is_an_error(stack: Stack) -> None:
    lost = GroundlineRetriever(
        stack.ready["gateway"], api_key=Secret.from_token(stack.ready["api_key"]), collection_ids=["nowhere"]
    )
    with pytest.raises(ApiError, match="nowhere"):
        lost.run(QUESTION)
    lost.close()


async def test_documents_have_scores_and_metadata(retriever: GroundlineRetriever) -> None:
    (document,) = retriever.run(QUESTION)["documents"]
    assert [document] == (await retriever.run_async(QUESTION))["documents"]
    assert document.content is not None
    assert "93 metres" in document.content
    assert document.id == document.meta["chunk_id"]
    assert document.score == document.meta["score"]
    assert (document.meta["uri"], document.meta["team"]) == ("tower.md", "estate")


@pytest.mark.parametrize(
    ("filters", "uris"),
    [
        ({"field": "meta.year", "operator": ">=", "value": 2025}, {"tower.md"}),
        ({"field": "team", "operator": "not in", "value": ["estate"]}, {"leave.md"}),
        (
            {
                "operator": "OR",
                "conditions": [
                    {"field": "meta.team", "operator": "==", "value": "people"},
                    {"field": "meta.year", "operator": ">", "value": 2024},
                ],
            },
            {"leave.md", "tower.md"},
        ),
        (
            {
                "operator": "NOT",
                "conditions": [
                    {"field": "meta.team", "operator": "==", "value": "people"},
                    {"field": "meta.year", "operator": "<", "value": 2025},
                ],
            },
            {"tower.md"},
        ),
    ],
)
def test_filters_of_haystack_restrict_the_documents(
    retriever: GroundlineRetriever, filters: dict[str, Any], uris: set[str]
) -> None:
    found = retriever.run(QUESTION, filters=filters, top_k=5)["documents"]
    assert {document.meta["uri"] for document in found} == uris


def test_a_pipeline_is_saved_without_its_key_and_runs(retriever: GroundlineRetriever, stack: Stack) -> None:
    pipeline = Pipeline()
    pipeline.add_component("retriever", retriever)
    template = "{% for document in documents %}{{ document.content }}{% endfor %}"
    pipeline.add_component("prompt", PromptBuilder(template, required_variables=["documents"]))
    pipeline.connect("retriever.documents", "prompt.documents")
    written = pipeline.dumps()
    assert stack.ready["api_key"] not in written
    again = Pipeline.loads(written, allowed_modules=["groundline_client.*"])
    result = again.run({"retriever": {"query": QUESTION}})
    loaded = again.get_component("retriever")
    assert isinstance(loaded, GroundlineRetriever)
    loaded.close()
    assert "93 metres" in result["prompt"]["prompt"]
