"""Results for an outside client: answers with citations that hold, and errors that name the fault."""

import asyncio
import json
import uuid
from typing import Any, Final

import httpx
import pytest
from groundline_client.transport.sse import EventParser
from groundline_tests.suite import EXAMPLES, Stack

QUESTIONS: Final = json.loads((EXAMPLES / "questions.json").read_text())["questions"]
REFUSAL: Final = "I cannot answer this from the documents"


async def chat(client: httpx.AsyncClient, **body: Any) -> list[dict[str, Any]]:
    """Return the events of a chat; assert that it is answered as a stream of events."""
    async with client.stream("POST", "/api/chat", json=body) as response:
        assert response.status_code == 200, await response.aread()
        assert response.headers["content-type"].startswith("text/event-stream")
        return [json.loads(event.data) for event in EventParser().feed(await response.aread())]


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [next(key for key in event if key not in ("sequence", "eventId")) for event in events]


def text_of(events: list[dict[str, Any]]) -> str:
    return "".join(event["delta"]["text"] for event in events if "delta" in event)


def document_text(source: dict[str, Any]) -> str:
    """Return the text of the example document where the source claims to be from."""
    start, end = int(source["startOffset"]), int(source["endOffset"])
    return (EXAMPLES / str(source["uri"])).read_text()[start:end]


async def test_a_chat_streams_its_events_in_order(client: httpx.AsyncClient) -> None:
    events = await chat(client, query=QUESTIONS[0]["question"])

    assert [event["sequence"] for event in events] == list(range(1, len(events) + 1))
    order = kinds(events)
    assert order[0] == "started"
    assert order[-1] == "completed"
    assert order.count("sources") == 1
    assert order.index("sources") < order.index("delta")
    stages = [event["status"]["stage"] for event in events if "status" in event]
    assert stages == ["STAGE_RETRIEVING", "STAGE_GENERATING"]
    started = events[0]["started"]
    assert started["threadId"]
    assert started["messageId"]
    assert len(started["traceId"]) == 32


@pytest.mark.parametrize("case", QUESTIONS, ids=lambda case: case["question"])
async def test_the_examples_answer_their_questions(client: httpx.AsyncClient, case: dict[str, str]) -> None:
    events = await chat(client, query=case["question"], collectionIds=["examples"])

    sources = [source for event in events if "sources" in event for source in event["sources"]["sources"]]
    completed = events[-1]["completed"]
    assert completed["finishReason"] == "FINISH_REASON_STOP"
    assert completed["model"] == "extractive"
    cited = {citation["sourceNumber"] for citation in completed["citations"]}
    passages = [document_text(s) for s in sources if s["number"] in cited and s["uri"] == case["uri"]]
    assert any(case["fragment"] in " ".join(passage.split()) for passage in passages)


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("How many vacation days do staff in Kiel get?", {"30 Arbeitstage"}),
        ("Is the DN-4 or the DN-6 heavier?", {"DN-4: 14 kg", "DN-6: 31 kg"}),
        ("What do I do when the database primary dies?", {"Make sure that the old primary is fenced."}),
    ],
)
async def test_plain_answers_are_grounded(client: httpx.AsyncClient, question: str, said: set[str]) -> None:
    events = await chat(client, query=question, collectionIds=["examples"])

    assert {part for part in said if part in text_of(events)} == said
    assert events[-1]["completed"]["validation"]["grounded"]


async def test_citations_hold(client: httpx.AsyncClient) -> None:
    """Each marker has its source, each span its text, each supporting sentence its place in the document."""
    events = await chat(client, query=QUESTIONS[0]["question"])
    sources = {s["number"]: s for e in events if "sources" in e for s in e["sources"]["sources"]}
    answer, citations = text_of(events), events[-1]["completed"]["citations"]

    assert citations
    for citation in citations:
        source = sources[citation["sourceNumber"]]
        assert source["chunkId"] == citation["chunkId"]
        span = answer[citation["startOffset"] : citation["endOffset"]]
        assert span
        assert "[" not in span
        assert citation["supportingText"] in document_text(source)
    validation = events[-1]["completed"]["validation"]
    assert validation["grounded"] is True
    assert validation["issues"] == []


async def test_a_question_the_documents_do_not_answer_is_refused(client: httpx.AsyncClient) -> None:
    events = await chat(client, query="What is the boiling point of tungsten hexafluoride?")

    assert REFUSAL in text_of(events)
    completed = events[-1]["completed"]
    assert completed["finishReason"] == "FINISH_REASON_NO_ANSWER"
    assert completed["citations"] == []


async def test_answer_returns_what_chat_streams(client: httpx.AsyncClient) -> None:
    query = QUESTIONS[1]["question"]
    response = await client.post("/api/answer", json={"query": query})

    assert response.status_code == 200
    answer = response.json()
    assert answer["answer"] == text_of(await chat(client, query=query))
    assert answer["sources"]
    assert answer["completed"]["finishReason"] == "FINISH_REASON_STOP"


@pytest.mark.parametrize("mode", ["HYBRID", "SEMANTIC", "KEYWORD"])
async def test_search_returns_ranked_passages_and_why(client: httpx.AsyncClient, mode: str) -> None:
    case = QUESTIONS[0]
    options = {"retrieval": {"mode": f"RETRIEVAL_MODE_{mode}"}, "rerank": {"topK": 5}}
    response = await client.post("/api/search", json={"query": case["question"], "options": options})

    assert response.status_code == 200
    passages = response.json()["passages"]
    assert 0 < len(passages) <= 5
    assert case["uri"] in {passage["chunk"]["uri"] for passage in passages}
    assert [p["score"] for p in passages] == sorted((p["score"] for p in passages), reverse=True)
    arms = {arm for p in passages for arm in ("keyword", "semantic") if p["explanation"].get(arm)}
    assert arms == ({"keyword", "semantic"} if mode == "HYBRID" else {mode.lower()})


async def test_a_follow_up_is_searched_as_the_question_it_means(client: httpx.AsyncClient) -> None:
    first = await chat(client, query=QUESTIONS[0]["question"], collectionIds=["examples"])
    thread_id = first[0]["started"]["threadId"]
    events = await chat(
        client, query="And for part-time employees?", threadId=thread_id, collectionIds=["examples"]
    )
    shown = [event["status"] for event in events if "status" in event]
    assert [status["stage"] for status in shown][:2] == ["STAGE_REWRITING", "STAGE_RETRIEVING"]
    assert "part-time" in shown[1]["rewrittenQuery"]
    assert shown[1]["rewrittenQuery"] != "And for part-time employees?"
    assert shown[1]["rewritingModel"] == "rules"


async def test_a_retry_with_the_same_request_id_gets_the_same_answer(client: httpx.AsyncClient) -> None:
    request = {"query": QUESTIONS[0]["question"], "requestId": str(uuid.uuid4())}
    first = (await client.post("/api/answer", json=request)).json()
    again = (await client.post("/api/answer", json=request)).json()
    assert again.pop("traceId") != first.pop("traceId")
    assert again == first
    other = await client.post("/api/answer", json={**request, "query": "Something else?"})
    assert other.status_code == 400
    assert other.json()["details"][0]["reason"] == "REQUEST_ID_REUSED"


async def test_who_hangs_up_finds_the_answer_as_far_as_it_came(client: httpx.AsyncClient) -> None:
    question = {"query": QUESTIONS[0]["question"]}
    async with client.stream("POST", "/api/chat", json=question) as response:
        first = await anext(line async for line in response.aiter_lines() if line.startswith("data: "))
    thread_id = json.loads(first.removeprefix("data: "))["started"]["threadId"]
    messages: list[dict[str, Any]] = []
    while len(messages) < 2:
        messages = (await client.get(f"/api/threads/{thread_id}")).json().get("messages", [])
    assert [message["role"] for message in messages] == ["USER", "ASSISTANT"]
    # It may have been complete before the news of the hang-up arrived.
    assert messages[1]["finishReason"] in {"FINISH_REASON_CANCELLED", "FINISH_REASON_STOP"}


async def test_a_collection_limits_what_requests_may_change(client: httpx.AsyncClient) -> None:
    settings = {"generationLimits": {"models": ["small"], "maxOutputTokens": 100}}
    created = await client.post("/api/collections", json={"collectionId": "strict", "settings": settings})
    assert created.status_code == 200, created.text
    options = {"generation": {"model": "large", "maxOutputTokens": 101}}
    refused = await client.post(
        "/api/answer", json={"query": "q", "collectionIds": ["strict"], "options": options}
    )
    assert refused.status_code == 400
    assert violations(refused.json()) == {"options.generation.model", "options.generation.maxOutputTokens"}
    await client.delete("/api/collections/strict")


async def test_a_thread_keeps_its_messages_until_it_is_deleted(client: httpx.AsyncClient) -> None:
    first = await chat(client, query=QUESTIONS[0]["question"])
    thread_id = first[0]["started"]["threadId"]
    await chat(client, query=QUESTIONS[1]["question"], threadId=thread_id)

    stored = (await client.get(f"/api/threads/{thread_id}")).json()
    assert [message["role"] for message in stored["messages"]] == ["USER", "ASSISTANT"] * 2
    assert stored["messages"][1]["content"] == text_of(first)
    assert stored["messages"][1]["sources"]
    assert (await client.delete(f"/api/threads/{thread_id}")).status_code == 200
    assert (await client.get(f"/api/threads/{thread_id}")).status_code == 404
    assert (
        await client.post("/api/chat", json={"query": "And then?", "threadId": thread_id})
    ).status_code == 404


def violations(error: dict[str, Any]) -> set[str]:
    return {
        violation["field"] for detail in error["details"] for violation in detail.get("fieldViolations", [])
    }


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({"query": ""}, {"query"}),
        ({"query": "   "}, {"query"}),
        ({"query": "x" * 8001}, {"query"}),
        ({"query": "Hello", "chatHistory": [{"content": "x"}]}, {"chatHistory[0].role"}),
        (
            {
                "query": "",
                "threadId": "nonsense",
                "chatHistory": [
                    {"role": "user", "content": "Hi"},
                    {"role": "ROLE_UNSPECIFIED", "content": ""},
                ],
                "options": {"rerank": {"topK": 1000}},
            },
            {"query", "threadId", "chatHistory[1].role", "chatHistory[1].content", "options.rerank.topK"},
        ),
    ],
    ids=["empty query", "blank query", "long query", "no role", "everything wrong"],
)
@pytest.mark.parametrize("path", ["/api/chat", "/api/answer"])
async def test_bad_input_is_400_and_names_every_wrong_field(
    client: httpx.AsyncClient, path: str, body: dict[str, Any], fields: set[str]
) -> None:
    response = await client.post(path, json=body)

    assert response.status_code == 400
    assert response.headers["content-type"].startswith("application/json")
    assert response.json()["code"] == 3
    assert violations(response.json()) == fields


@pytest.mark.parametrize("path", ["/api/chat", "/api/answer", "/api/search"])
async def test_an_unknown_collection_is_404(client: httpx.AsyncClient, path: str) -> None:
    response = await client.post(path, json={"query": "Hello", "collectionIds": ["examples", "nowhere"]})

    assert response.status_code == 404
    assert "nowhere" in response.json()["message"]


async def test_malformed_json_is_400(client: httpx.AsyncClient) -> None:
    response = await client.post("/api/chat", content=b'{"query": ')

    assert response.status_code == 400
    assert response.json()["code"] == 3


async def test_a_body_over_the_limit_is_413(client: httpx.AsyncClient) -> None:
    response = await client.post("/api/chat", json={"query": "x", "additionalContext": "y" * 2_000_000})

    assert response.status_code == 413
    assert response.json()["message"]


@pytest.mark.parametrize("headers", [{}, {"x-api-key": "wrong"}, {"authorization": "Bearer wrong"}])
async def test_a_missing_or_wrong_key_is_401(stack: Stack, headers: dict[str, str]) -> None:
    async with httpx.AsyncClient(base_url=stack.ready["gateway"], trust_env=False) as stranger:
        response = await stranger.post("/api/chat", json={"query": "Hello"}, headers=headers)

    assert response.status_code == 401
    assert response.json()["code"] == 16


async def test_the_page_and_the_health_need_no_key(stack: Stack) -> None:
    async with httpx.AsyncClient(base_url=stack.ready["gateway"], trust_env=False) as stranger:
        page, health = await asyncio.gather(stranger.get("/"), stranger.get("/healthz"))

    assert page.status_code == health.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    assert "script-src" in page.headers["content-security-policy"]
