"""The page in a browser: why a document was not found, where it takes many documents to lose one; sets of
questions."""

import asyncio
import json
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.json_format import MessageToDict
from groundline.v1 import (
    chat_pb2,
    collection_pb2,
    coordinator_service_pb2,
    document_pb2,
    ingestor_service_pb2,
    passage_pb2,
    retriever_service_pb2,
    thread_pb2,
)
from groundline_tests.browser import CHROMIUM, Tab
from groundline_tests.gateway.page import MARKUP, NOBODY_ID
from groundline_tests.programs import needs_program

pytestmark = needs_program("chromium", found=CHROMIUM is not None)

OTHER_ID = "0a0a0a0a-9d3e-4c55-8a52-0d7d2f1f5c11"
SEARCH = f"#search?q=keys&expected=docs/{NOBODY_ID}"


def passage(name: str, document_id: str, **explained: Any) -> passage_pb2.Passage:
    chunk = passage_pb2.Chunk(chunk_id=name, document_id=document_id, collection_id="docs", title=MARKUP)
    return passage_pb2.Passage(chunk=chunk, explanation=passage_pb2.ScoreExplanation(**explained))


def answer(request: Any, found: Any, own: Any, wide: Any) -> Any:
    """Return what the search, one of the document alone, or one for all candidates gives."""
    if "$document_id" in MessageToDict(request.filter):
        return own
    return wide if request.options.retrieval.keyword_limit else found


def stored(upstream: Any, **document: Any) -> None:
    fields = {"chunk_count": 1, "state": document_pb2.INGESTION_STATE_DONE, **document}
    upstream.gives(ingestor_service_pb2.GetDocumentResponse(document=document_pb2.Document(**fields)))


async def reason(upstream: Any, tab: Tab, found: Any, own: Any, wide: Any) -> str:
    async def search(request: Any, _context: Any) -> Any:
        return answer(request, found, own, wide)

    upstream.on("Search", search)
    await tab.js(f"location.hash = {SEARCH!r}")
    await tab.until("document.querySelector('#reason')")
    assert tab.complaints == []
    assert await tab.js("document.title") == "Groundline"
    return await tab.text("#reason")


async def test_a_document_that_comes_too_late_to_be_a_candidate(upstream: Any, tab: Tab) -> None:
    stored(upstream)
    other = retriever_service_pb2.SearchResponse(passages=[passage("c1", OTHER_ID)])
    own = retriever_service_pb2.SearchResponse(passages=[passage("c2", NOBODY_ID)])
    explained = passage_pb2.ScoreExplanation(semantic=passage_pb2.ArmScore(rank=412, score=0.4))
    late = passage_pb2.CutPassage(chunk_id="c2", rule=passage_pb2.CUT_RULE_TOP_K, explanation=explained)
    wide = retriever_service_pb2.SearchResponse(passages=other.passages, cut=[late])

    said = await reason(upstream, tab, other, own, wide)

    assert "not in keyword search, in place 412 of vector search" in said


async def test_a_document_whose_near_duplicate_stands_for_it(upstream: Any, tab: Tab) -> None:
    stored(upstream)
    twin = passage("c1", OTHER_ID)
    twin.alternatives.add(chunk=passage("c2", NOBODY_ID).chunk, similarity=0.96)
    found = retriever_service_pb2.SearchResponse(passages=[twin])
    own = retriever_service_pb2.SearchResponse(passages=[passage("c2", NOBODY_ID)])

    said = await reason(upstream, tab, found, own, found)

    assert "a near-duplicate (96%) of the passage in place 1" in said


async def test_a_document_that_was_not_brought_in(upstream: Any, tab: Tab) -> None:
    failure = document_pb2.IngestionFailure(message=f"it has a password {MARKUP}")
    stored(upstream, chunk_count=0, state=document_pb2.INGESTION_STATE_FAILED, failure=failure)
    nothing = retriever_service_pb2.SearchResponse()

    said = await reason(upstream, tab, nothing, nothing, nothing)

    assert "has not been brought in yet: Failed" in said
    assert MARKUP in said


@pytest.mark.parametrize("settings", ["", "&settings=...&settings=keyword..."])
async def test_a_failing_search_says_so_beside_a_good_one(upstream: Any, tab: Tab, settings: str) -> None:
    async def search(request: Any, context: Any) -> Any:
        if not request.options.retrieval.mode:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "no such model")
        return retriever_service_pb2.SearchResponse(passages=[passage("c1", OTHER_ID)])

    upstream.on("Search", search)
    await tab.js(f"location.hash = '#search?q=keys{settings}'")
    await tab.until("document.querySelector('section .note.bad')")
    assert "no such model" in await tab.text("section .note.bad")
    assert await tab.js("document.querySelectorAll('.ranking li').length") == (1 if settings else 0)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (
            "queries.jsonl",
            '{"id": "q1", "text": "keys"}\n{"id": 2, "text": "x"}',
            "queries.jsonl:2: id is missing",
        ),
        ("qrels.tsv", "query\tdoc\tscore\nq1\ta.md\tmuch", "qrels.tsv:2: This is not a question"),
        (f"{MARKUP[:4]}.json", MARKUP, f"{MARKUP[:4]}.json is not what"),
        ("a.json", '{"records": [{"id": 1}], "measures": {}}', "a.json is not what"),
        ("a.txt", "text", "neither queries.jsonl and qrels.tsv nor runs"),
    ],
)
async def test_files_that_are_no_sets_or_runs_are_named(
    upstream: Any, tab: Tab, tmp_path: Path, name: str, content: str, said: str
) -> None:
    offer_collection(upstream)
    files = {"queries.jsonl": '{"id": "q1", "text": "keys"}', "qrels.tsv": "query\tdoc\tscore\nq1\ta.md\t1"}
    files = {**files, name: content} if name in files else {name: content}
    for each, text in files.items():
        (tmp_path / each).write_text(text, encoding="utf-8")
    await tab.js("location.hash = '#evaluation'")
    await tab.choose("#evaluation-files input", *(tmp_path / each for each in files))
    await tab.until("document.querySelector('main > .note.bad')")
    assert said in await tab.text("main > .note.bad")
    assert not await tab.js("document.querySelector('#runs')")
    assert await tab.js("document.title") == "Groundline"
    assert tab.complaints == []


def offer_collection(upstream: Any) -> None:
    docs = collection_pb2.Collection(collection_id="docs")

    upstream.gives(ingestor_service_pb2.ListCollectionsResponse(collections=[docs]))
    found = document_pb2.Document(uri="a.md", document_id=NOBODY_ID)
    upstream.gives(ingestor_service_pb2.ListDocumentsResponse(documents=[found]))


async def test_a_measurement_is_cancelled_or_says_its_fault(upstream: Any, tab: Tab, tmp_path: Path) -> None:
    began = asyncio.Event()

    async def endless(_request: Any, _context: Any) -> Any:
        began.set()
        await asyncio.Event().wait()

    offer_collection(upstream)
    upstream.on("Search", endless)
    (tmp_path / "queries.jsonl").write_text('{"id": "q1", "text": "keys"}', encoding="utf-8")
    (tmp_path / "qrels.tsv").write_text("query\tdoc\tscore\nq1\ta.md\t1", encoding="utf-8")
    await tab.js("location.hash = '#evaluation'")
    await tab.choose("#evaluation-files input", tmp_path / "queries.jsonl", tmp_path / "qrels.tsv")
    await tab.click("#measure .primary:not(:disabled)")
    await tab.until("document.querySelector('#measure progress')?.max === 1")
    async with asyncio.timeout(10):
        await began.wait()
        await tab.click("#measure form .row button")
        await upstream.calls_of("Search")[0].ended.wait()
    await tab.until("document.querySelector('#measure .primary')")
    assert not await tab.js("document.querySelector('.note.bad')")

    upstream.refuses("Search", grpc.StatusCode.INVALID_ARGUMENT, "no such strategy")
    await tab.click("#measure .primary")
    await tab.until("document.querySelector('main > .note.bad')")
    assert "no such strategy" in await tab.text("main > .note.bad")
    assert not await tab.js("document.querySelector('#runs')")


def rated(number: int, **answer: Any) -> list[thread_pb2.Message]:
    sources = [
        chat_pb2.Source(number=1, uri="a.md", collection_id="docs"),
        chat_pb2.Source(number=2, uri="b.md", collection_id="docs"),
    ]
    cited = [chat_pb2.Citation(source_number=each) for each in (1, 1)]
    return [
        thread_pb2.Message(
            message_id=f"q{number}", role=chat_pb2.ChatMessage.USER, content=f"{number} {MARKUP}"
        ),
        thread_pb2.Message(
            message_id=f"a{number}",
            role=chat_pb2.ChatMessage.ASSISTANT,
            sources=sources,
            citations=cited,
            **answer,
        ),
    ]


async def test_answers_that_were_rated_become_a_set(upstream: Any, tab: Tab) -> None:
    good = thread_pb2.Feedback(rating=thread_pb2.Feedback.RATING_GOOD)
    bad, unanswerable = thread_pb2.Feedback.RATING_BAD, thread_pb2.Feedback.PROBLEM_UNANSWERABLE
    threads = {
        "t1": rated(1, feedback=good),
        "t2": rated(2),
        "t3": rated(3, feedback=thread_pb2.Feedback(rating=bad)),
        "t4": rated(4, feedback=thread_pb2.Feedback(rating=bad, problem=unanswerable)),
        "t5": rated(5, feedback=good, is_withheld=True),
    }

    async def shown(request: Any, _context: Any) -> Any:
        return coordinator_service_pb2.GetThreadResponse(messages=threads[request.thread_id])

    offer_collection(upstream)
    found = [thread_pb2.Thread(thread_id=each) for each in threads]
    upstream.gives(coordinator_service_pb2.ListThreadsResponse(threads=found))
    upstream.on("GetThread", shown)
    await tab.js("location.hash = '#evaluation'")
    await tab.click("#from-ratings:not(:disabled)")
    await tab.until("document.querySelector('#measure [role=status]')?.innerText.includes('2 questions')")
    await tab.js(
        "window.files = []; const make = URL.createObjectURL; URL.createObjectURL = (blob) => {"
        " blob.text().then((text) => window.files.push(text)); return make.call(URL, blob); }"
    )
    await tab.click("#measure p button", 0)
    await tab.click("#measure p button", 1)
    await tab.until("window.files.length === 2")
    queries, judgements = await tab.js("window.files")
    assert [json.loads(line) for line in queries.splitlines()] == [
        {"id": "a1", "text": f"1 {MARKUP}"},
        {"id": "a4", "text": f"4 {MARKUP}", "answerable": False},
    ]
    assert judgements == "query_id\tdoc_id\trelevance\na1\ta.md\t1\n"
    assert tab.complaints == []
