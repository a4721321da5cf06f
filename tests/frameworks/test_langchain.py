"""LangChain's own interfaces over the running suite."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from groundline_client import ApiError
from groundline_client.langchain import ChatGroundline, GroundlineRetriever
from groundline_tests.suite import Stack
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import RunnablePassthrough
from langchain_core.tools import tool
from pydantic import SecretStr

QUESTION = "How many days of annual leave do full-time employees have?"


@tool
def lookup(name: str) -> str:
    """Look a name up."""
    return name


@pytest.fixture
async def retriever(stack: Stack) -> AsyncIterator[GroundlineRetriever]:
    found = GroundlineRetriever(
        gateway=stack.ready["gateway"],
        api_key=SecretStr(stack.ready["api_key"]),
        collection_ids=["docs"],
        top_k=2,
    )
    yield found
    found.close()
    await found.aclose()


@pytest.fixture
async def model(stack: Stack) -> AsyncIterator[ChatGroundline]:
    found = ChatGroundline(
        gateway=stack.ready["gateway"], api_key=SecretStr(stack.ready["api_key"]), collection_ids=["docs"]
    )
    yield found
    found.close()
    await found.aclose()


def test_a_wrong_filter_is_refused_with_its_field(retriever: GroundlineRetriever) -> None:
    with pytest.raises(ApiError, match="filter"):
        retriever.invoke(QUESTION, filter={"year": {"$near": 2024}})


async def test_a_retriever_gives_documents_with_metadata(retriever: GroundlineRetriever) -> None:
    documents = retriever.invoke(QUESTION)
    assert documents == await retriever.ainvoke(QUESTION)
    first = documents[0]
    assert "27 working days" in first.page_content
    assert first.metadata["source"] == first.metadata["uri"] == "leave.md"
    assert (first.metadata["title"], first.metadata["year"]) == ("Leave", 2024)
    assert first.id == first.metadata["chunk_id"]


async def test_a_retriever_has_a_filter_that_a_call_may_replace(stack: Stack) -> None:
    filtered = GroundlineRetriever(
        gateway=stack.ready["gateway"],
        api_key=SecretStr(stack.ready["api_key"]),
        collection_ids=["docs"],
        filter={"team": "estate"},
    )
    assert {each.metadata["team"] for each in filtered.invoke(QUESTION)} == {"estate"}
    called = await filtered.ainvoke(QUESTION, filter={"year": {"$lt": 2025}})
    assert {each.metadata["team"] for each in called} == {"people"}
    filtered.close()
    await filtered.aclose()


def test_a_retriever_does_not_show_its_key(retriever: GroundlineRetriever, stack: Stack) -> None:
    assert stack.ready["api_key"] not in repr(retriever)


def test_a_retriever_is_part_of_a_chain(retriever: GroundlineRetriever, model: ChatGroundline) -> None:
    prompt = ChatPromptTemplate.from_messages([("human", "{question}")])
    chain = {"question": RunnablePassthrough()} | prompt | model | StrOutputParser()
    assert "27 working days" in chain.invoke(QUESTION)
    assert [len(each) for each in retriever.batch([QUESTION, "tower"])] == [2, 2]


@pytest.mark.parametrize(
    "messages",
    [
        [HumanMessage(QUESTION), AIMessage("27")],
        [HumanMessage(QUESTION), ToolMessage("27", tool_call_id="1"), HumanMessage("Sure?")],
        [HumanMessage([{"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}])],
    ],
)
def test_messages_of_no_meaning_are_refused(model: ChatGroundline, messages: list[HumanMessage]) -> None:
    with pytest.raises(ValueError, match=r"must be the user's|is not understood|only text"):
        model.invoke(messages)


def test_stop_sequences_are_refused(model: ChatGroundline) -> None:
    with pytest.raises(ValueError, match="stop"):
        model.invoke(QUESTION, stop=["\n"])


@pytest.mark.parametrize("choice", ["any", "required", "lookup", True, {"type": "function"}])
def test_a_choice_that_demands_a_call_is_refused_with_a_way_to_use_the_documents_as_a_tool(
    model: ChatGroundline, choice: Any
) -> None:
    with pytest.raises(NotImplementedError, match="create_retriever_tool"):
        model.bind_tools([lookup], tool_choice=choice)


def test_structured_output_is_refused_since_it_demands_a_call(model: ChatGroundline) -> None:
    with pytest.raises(NotImplementedError, match="calls no tool"):
        model.with_structured_output({"title": "Days", "type": "object", "properties": {}})


@pytest.mark.parametrize("choice", [None, "auto", "none", False])
async def test_a_model_with_tools_answers_from_documents_alone(model: ChatGroundline, choice: Any) -> None:
    bound = model.bind_tools([lookup, {"name": "other", "description": "Do."}], tool_choice=choice)
    answer = bound.invoke(QUESTION)
    assert "27 working days" in str(answer.text)
    assert answer.tool_calls == []
    streamed = [chunk async for chunk in bound.astream(QUESTION)]
    assert "27 working days" in "".join(str(chunk.text) for chunk in streamed)


def test_an_agent_loop_ends_with_the_first_answer(model: ChatGroundline) -> None:
    """The loop of agents: bind, ask, run the calls, ask again until no call is left."""
    messages: list[BaseMessage] = [SystemMessage("Be brief."), HumanMessage(QUESTION)]
    agent = ChatPromptTemplate.from_messages([MessagesPlaceholder("said")]) | model.bind_tools([lookup])
    answer = agent.invoke({"said": messages})
    assert not answer.tool_calls
    again = agent.invoke({"said": [*messages, answer, HumanMessage("How tall is the tower?")]})
    assert "93 metres" in str(again.text)


async def test_an_answer_has_citations_and_sources_as_metadata(model: ChatGroundline) -> None:
    answer = model.invoke(QUESTION)
    assert isinstance(answer, AIMessage)
    assert answer.content == (await model.ainvoke(QUESTION)).content
    metadata = answer.response_metadata
    cited = metadata["citations"][0]
    assert (cited["type"], cited["title"]) == ("citation", "Leave")
    assert cited["url"].startswith(f"{model.gateway}/#source=docs/{cited['extras']['document_id']}/0-")
    assert "27 working days" in answer.text[cited["start_index"] : cited["end_index"]]
    assert "27 working days" in cited["cited_text"]
    assert metadata["sources"][cited["extras"]["source_number"] - 1]["uri"] == "leave.md"
    assert (metadata["finish_reason"], metadata["validation"]["grounded"]) == ("stop", True)
    assert answer.usage_metadata is not None


async def test_a_stream_adds_up_to_the_answer(model: ChatGroundline) -> None:
    whole = model.invoke(QUESTION)
    blocking = list(model.stream(QUESTION))
    waiting = [chunk async for chunk in model.astream(QUESTION)]
    for chunks in (blocking, waiting):
        together = chunks[0]
        for chunk in chunks[1:]:
            together += chunk
        assert together.text == whole.text
        assert together.response_metadata["citations"] == whole.response_metadata["citations"]
        assert together.usage_metadata == whole.usage_metadata


async def test_a_chain_sees_the_texts_as_they_are_streamed(model: ChatGroundline) -> None:
    texts = [
        event["data"]["chunk"].text
        async for event in model.astream_events(QUESTION)
        if event["event"] == "on_chat_model_stream"
    ]
    assert "27 working days" in "".join(texts)


async def test_a_follow_up_is_understood_from_the_messages_before(model: ChatGroundline) -> None:
    answer = await model.ainvoke(
        [
            SystemMessage("Answer briefly."),
            HumanMessage("How high is the tower?"),
            AIMessage("It is 93 metres high. [1]"),
            HumanMessage("And when was it built?"),
        ]
    )
    assert "1912" in answer.text
