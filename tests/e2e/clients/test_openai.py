"""Chat front ends and SDKs of the OpenAI API, with the official client."""

import json
from collections.abc import AsyncIterator
from typing import Final

import httpx
import openai
import pytest
from groundline_tests.suite import EXAMPLES, Stack
from openai.types.chat import ChatCompletionUserMessageParam

CASE: Final = json.loads((EXAMPLES / "questions.json").read_text())["questions"][0]
QUESTION: Final = CASE["question"]


@pytest.fixture
async def api(stack: Stack) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(
        base_url=f"{stack.ready['gateway']}/v1", api_key=stack.ready["api_key"], max_retries=0
    ) as client:
        yield client


async def test_collections_are_models(api: openai.AsyncOpenAI) -> None:
    models = [model.id async for model in api.models.list()]
    assert models[0] == "groundline"
    assert "examples" in models
    assert (await api.models.retrieve("examples")).owned_by == "groundline"
    with pytest.raises(openai.NotFoundError):
        await api.models.retrieve("payroll")


async def test_a_completion_answers_from_documents_and_cites_them(
    api: openai.AsyncOpenAI, stack: Stack, client: httpx.AsyncClient
) -> None:
    completion = await api.chat.completions.create(
        model="examples", messages=[{"role": "user", "content": QUESTION}], temperature=0.2
    )
    message = completion.choices[0].message
    assert message.content
    assert "[1]" in message.content
    assert message.annotations
    for annotation in message.annotations:
        cited = annotation.url_citation
        gateway, source = cited.url.split("/#source=")
        collection, document, passage = source.split("/")
        start, end = map(int, passage.split("-"))
        path = f"/api/collections/{collection}/documents/{document}/text"
        range_ = {"startOffset": start, "maxCharacters": end - start}
        text = (await client.get(path, params=range_)).json()["text"]
        assert (gateway, len(text)) == (stack.ready["gateway"], end - start)
        assert message.content[cited.start_index : cited.end_index].strip()


async def test_a_stream_says_what_a_whole_answer_says(api: openai.AsyncOpenAI) -> None:
    question: ChatCompletionUserMessageParam = {"role": "user", "content": QUESTION}
    whole = await api.chat.completions.create(model="examples", messages=[question])
    chunks = [
        chunk
        async for chunk in await api.chat.completions.create(
            model="examples", messages=[question], stream=True, stream_options={"include_usage": True}
        )
    ]
    text = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
    assert text == whole.choices[0].message.content
    assert chunks[-1].usage is not None


async def test_what_the_documents_do_not_hold_is_refused_in_the_text(api: openai.AsyncOpenAI) -> None:
    completion = await api.chat.completions.create(
        model="examples", messages=[{"role": "user", "content": "Who was the first king of Mars?"}]
    )
    (choice,) = completion.choices
    assert choice.message.content
    assert "cannot answer this from the documents" in choice.message.content
    assert (choice.finish_reason, choice.message.annotations) == ("stop", [])


async def test_a_follow_up_is_understood_from_the_messages_before(api: openai.AsyncOpenAI) -> None:
    completion = await api.chat.completions.create(
        model="examples",
        messages=[
            {"role": "system", "content": "Answer briefly."},
            {"role": "user", "content": "How many days of annual leave do full-time employees have?"},
            {"role": "assistant", "content": "27 working days. [1]"},
            {"role": "user", "content": "And what if I fall ill on one of them?"},
        ],
    )
    assert completion.choices[0].message.content
    assert "certificate" in completion.choices[0].message.content


async def test_a_response_streams_to_the_same_text(api: openai.AsyncOpenAI) -> None:
    response = await api.responses.create(model="examples", input=QUESTION)
    assert response.output_text
    async with api.responses.stream(model="examples", input=QUESTION) as stream:
        async for _ in stream:
            pass
        streamed = await stream.get_final_response()
    assert streamed.output_text == response.output_text


async def test_their_conversations_are_not_stored(api: openai.AsyncOpenAI, client: httpx.AsyncClient) -> None:
    before = (await client.get("/api/threads")).json()
    await api.chat.completions.create(model="examples", messages=[{"role": "user", "content": QUESTION}])
    await api.responses.create(model="examples", input=QUESTION)
    assert (await client.get("/api/threads")).json() == before


async def test_an_unknown_model_is_a_404(api: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as missing:
        await api.chat.completions.create(model="gpt-4.1", messages=[{"role": "user", "content": QUESTION}])
    assert missing.value.code == "model_not_found"


async def test_embeddings_are_those_of_the_model_that_collections_name(
    api: openai.AsyncOpenAI, client: httpx.AsyncClient
) -> None:
    collection = (await client.get("/api/collections/examples")).json()["collection"]
    model = collection["settings"]["embedding"]["model"]
    texts = ["How high is the tower?", "The tower's height", "Annual leave"]
    found = await api.embeddings.create(model=model, input=texts)
    tower, height, leave = (each.embedding for each in found.data)
    assert dot(tower, tower) == pytest.approx(1, abs=1e-5)
    assert dot(tower, height) > dot(tower, leave)
    assert found.usage.total_tokens > len(texts)
    plain = await api.embeddings.create(model=model, input=texts[0], encoding_format="float")
    assert plain.data[0].embedding == pytest.approx(tower, abs=1e-6)
    with pytest.raises(openai.NotFoundError):
        await api.embeddings.create(model="text-embedding-3-small", input="x")


def dot(one: list[float], other: list[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))
