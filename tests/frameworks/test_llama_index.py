"""LlamaIndex's own interfaces over the running suite."""

from collections.abc import AsyncIterator

import pytest
from groundline_client import ApiError
from groundline_client.llama_index import GroundlineRetriever
from groundline_tests.suite import Stack
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import MetadataMode, TextNode

QUESTION = "How high is the tower?"


@pytest.fixture
async def retriever(stack: Stack) -> AsyncIterator[GroundlineRetriever]:
    found = GroundlineRetriever(
        stack.ready["gateway"], stack.ready["api_key"], collection_ids=["docs"], top_k=1
    )
    yield found
    found.close()
    await found.aclose()


async def test_a_key_that_is_none_is_refused(stack: Stack) -> None:
    stranger = GroundlineRetriever(stack.ready["gateway"], "nobody")
    with pytest.raises(ApiError) as blocking:
        stranger.retrieve(QUESTION)
    with pytest.raises(ApiError) as waiting:
        await stranger.aretrieve(QUESTION)
    assert (blocking.value.http_status, waiting.value.http_status) == (401, 401)
    stranger.close()
    await stranger.aclose()


async def test_nodes_have_scores_places_and_metadata(retriever: GroundlineRetriever) -> None:
    (found,) = retriever.retrieve(QUESTION)
    (again,) = await retriever.aretrieve(QUESTION)
    node = found.node
    assert isinstance(node, TextNode)
    assert again.node.node_id == node.node_id == node.metadata["chunk_id"]
    assert found.score == node.metadata["score"]
    assert node.metadata["uri"] == "tower.md"
    assert node.metadata["year"] == 2025
    assert node.source_node is not None
    assert node.source_node.node_id == node.metadata["document_id"]
    assert node.end_char_idx is not None
    assert node.start_char_idx is not None
    assert node.end_char_idx - node.start_char_idx == len(node.text)


def test_a_model_sees_what_a_document_is_but_no_ids(retriever: GroundlineRetriever) -> None:
    (found,) = retriever.retrieve(QUESTION)
    shown = found.node.get_content(MetadataMode.LLM)
    assert "title: Tower" in shown
    assert "year: 2025" in shown
    assert not any(name in shown for name in ("chunk_id", "document_id", "offset", "score"))


def test_a_filter_restricts_the_documents(stack: Stack) -> None:
    filtered = GroundlineRetriever(
        stack.ready["gateway"],
        stack.ready["api_key"],
        collection_ids=["docs"],
        filter={"year": {"$lt": 2025}},
    )
    assert {found.node.metadata["uri"] for found in filtered.retrieve(QUESTION)} == {"leave.md"}
    filtered.close()


def test_a_query_engine_answers_with_its_nodes(retriever: GroundlineRetriever) -> None:
    engine = RetrieverQueryEngine.from_args(retriever, llm=MockLLM())
    response = engine.query(QUESTION)
    assert "93 metres" in str(response)
    assert [node.node.metadata["uri"] for node in response.source_nodes] == ["tower.md"]
