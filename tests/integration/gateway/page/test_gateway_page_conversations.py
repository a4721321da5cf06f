"""The page in a browser: conversations, and what goes wrong in them."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from google.api.httpbody_pb2 import HttpBody  # type: ignore[import-untyped]
from google.rpc import error_details_pb2  # type: ignore[import-untyped]
from groundline.v1 import (
    chat_pb2,
    collection_pb2,
    coordinator_service_pb2,
    error_pb2,
    ingestor_service_pb2,
    options_pb2,
    thread_pb2,
)
from groundline_tests.browser import CHROMIUM, Tab
from groundline_tests.gateway.page import KEY, MARKUP, full_answer, response
from groundline_tests.programs import needs_program

pytestmark = needs_program("chromium", found=CHROMIUM is not None)


async def test_a_conversation_keeps_its_thread_until_a_new_one_begins(upstream: Any, tab: Tab) -> None:
    upstream.on("Chat", full_answer)
    for count in (1, 2):
        await tab.ask(f"question {count}")
        await tab.until(f"document.querySelectorAll('article .note').length === {3 * count}")
    await tab.click("#new-chat")
    await tab.ask("question 3")
    await tab.until("document.querySelectorAll('article .note').length === 3")

    assert [call.request.thread_id for call in upstream.calls_of("Chat")] == ["", "thread-1", ""]


@pytest.mark.parametrize("effort", ["EFFORT_QUICK", ""])
async def test_the_effort_is_chosen_for_each_question(upstream: Any, tab: Tab, effort: str) -> None:
    upstream.on("Chat", full_answer)
    await tab.write("#effort", effort)
    await tab.ask("x")
    await tab.until("document.querySelector('.rating')")
    (chat,) = upstream.calls_of("Chat")
    assert chat.request.options.effort == (options_pb2.EFFORT_QUICK if effort else 0)


def offers(upstream: Any, *models: str) -> None:
    """Have a generator of three models, and one collection that allows these, or any."""
    settings = collection_pb2.CollectionSettings(
        generation_limits=collection_pb2.GenerationLimits(models=models),
        history=collection_pb2.HistorySettings(everything=True, searchable=True),
    )
    docs = collection_pb2.Collection(collection_id="docs", settings=settings)

    asked = asyncio.Event()

    async def listed(_request: Any, _context: Any) -> Any:
        # The page is told of the collections last, in whatever order it asks.
        await asked.wait()
        return ingestor_service_pb2.ListCollectionsResponse(collections=[docs])

    async def offered(_request: Any, _context: Any) -> Any:
        asyncio.get_running_loop().call_later(0.1, asked.set)
        return coordinator_service_pb2.ListModelsResponse(models=["huge", "small", "large"])

    upstream.on("ListModels", offered)
    upstream.on("ListCollections", listed)
    upstream.gives(ingestor_service_pb2.ListDocumentsResponse())
    upstream.on("Chat", full_answer)


@pytest.mark.parametrize("allowed", [("large", "small", "unknown"), ()])
async def test_model_and_reranking_are_chosen_of_what_is_offered_and_stand_in_the_address(
    upstream: Any, tab: Tab, allowed: tuple[str, ...]
) -> None:
    offers(upstream, *allowed)
    await tab.click("#selection")
    await tab.until("document.querySelectorAll('#model option').length > 2")
    values = await tab.js("[...document.querySelectorAll('#model option')].map((one) => one.value)")
    assert values == ["", *(["small", "large"] if allowed else ["huge", "small", "large"])]
    await tab.write("#model", "small")
    await tab.write("#reranking", "RERANK_STRATEGY_LLM")
    await tab.click("#selection-dialog .primary")
    assert await tab.text("#selection") == "All collections · small · Language model"
    assert await tab.js("location.hash") == "#chat?model=small&reranking=llm"

    await tab.js("dispatchEvent(new HashChangeEvent('hashchange'))")
    await tab.ask("x")
    await tab.until("document.querySelector('.rating')")
    (chat,) = upstream.calls_of("Chat")
    assert chat.request.options.generation.model == "small"
    assert chat.request.options.rerank.strategy == options_pb2.RERANK_STRATEGY_LLM


async def test_no_model_is_chosen_where_one_alone_is_allowed(upstream: Any, tab: Tab) -> None:
    offers(upstream, "small")
    await tab.click("#selection")
    await tab.until("document.querySelector('#selection-dialog .choice')")
    await tab.until("document.querySelector('#reranking')")
    assert upstream.calls_of("ListModels")
    assert not await tab.js("Boolean(document.querySelector('#model'))")


async def test_a_day_is_chosen_and_what_was_current_at_its_end_is_asked(upstream: Any, tab: Tab) -> None:
    offers(upstream)
    await tab.js("location.hash = '#chat?as-of=2026-02-31'; 0")
    await tab.click("#selection")
    await tab.until("document.querySelector('#day')?.value === ''")
    await tab.write("#day", "2026-01-31")
    await tab.click("#selection-dialog .primary")
    assert await tab.text("#selection") == "All collections · as of Jan 31, 2026"
    assert await tab.js("location.hash") == "#chat?as-of=2026-01-31"

    await tab.js("dispatchEvent(new HashChangeEvent('hashchange'))")
    await tab.ask("x")
    await tab.until("document.querySelector('.rating')")
    (chat,) = upstream.calls_of("Chat")
    assert chat.request.as_of.ToMilliseconds() == await tab.js("new Date(2026, 1, 1).getTime()")


async def test_stop_cancels_the_services_work_and_keeps_what_came(upstream: Any, tab: Tab) -> None:
    async def endless(_request: Any, _context: Any) -> AsyncIterator[Any]:
        yield response(delta=chat_pb2.ChatDelta(text="so far"))
        await asyncio.Event().wait()

    upstream.on("Chat", endless)
    await tab.ask("x")
    await tab.until("document.querySelector('.answer')?.textContent === 'so far'")
    await tab.js("document.querySelector('#stop').click()")
    async with asyncio.timeout(10):
        await upstream.calls_of("Chat")[0].ended.wait()
    await tab.until("document.querySelector('article .note')?.textContent === 'Stopped'")

    assert await tab.text(".answer") == "so far"
    assert not await tab.js("document.querySelector('#stop')")


async def test_a_failure_can_be_tried_again(upstream: Any, tab: Tab) -> None:
    async def refuses(_request: Any, context: Any) -> AsyncIterator[Any]:
        yield response(started=chat_pb2.ChatStarted(thread_id="t"))
        error = chat_pb2.ChatError(
            code=14, reason=error_pb2.UNAVAILABLE, message="the retriever is down", retryable=True
        )
        yield response(error=error)
        await context.abort(grpc.StatusCode.UNAVAILABLE, "down")

    upstream.on("Chat", refuses)
    await tab.ask("x")
    await tab.until("document.querySelector('article .note.bad button')")
    assert "the retriever is down" in await tab.text("article .note.bad")

    upstream.on("Chat", full_answer)
    await tab.click("article .note.bad button")
    await tab.until("document.querySelectorAll('article .note').length === 3")
    assert await tab.js("document.querySelectorAll('article').length") == 1
    *_, first, second = [call.request for call in upstream.calls_of("Chat")]
    assert first.request_id == second.request_id != ""
    # The same request, of which the coordinator knows the thread.
    assert second.thread_id == ""
    await tab.ask("y")
    await tab.until("document.querySelectorAll('article .note').length === 6")
    third = upstream.calls_of("Chat")[-1].request
    assert third.request_id not in ("", first.request_id)
    assert third.thread_id == "thread-1"


async def test_conversations_are_listed_reopened_and_deleted(upstream: Any, tab: Tab) -> None:
    threads = [thread_pb2.Thread(thread_id=f"t{n}", title=f"{MARKUP} {n}") for n in (1, 2)]

    async def kept(request: Any, _context: Any) -> Any:
        source = chat_pb2.Source(number=1, title="Keys", snippet="Keys are secret.")
        messages = [
            thread_pb2.Message(role=chat_pb2.ChatMessage.USER, content="How do keys work?"),
            thread_pb2.Message(
                role=chat_pb2.ChatMessage.ASSISTANT,
                content="Secretly [1]",
                sources=[source],
                citations=[chat_pb2.Citation(source_number=1, supporting_text="Keys are secret.")],
                finish_reason=chat_pb2.FINISH_REASON_CANCELLED,
            ),
        ]
        # One message a page.
        number = int(request.page_token or 0)
        token = "1" if number == 0 else ""
        return coordinator_service_pb2.GetThreadResponse(messages=[messages[number]], next_page_token=token)

    upstream.gives(coordinator_service_pb2.ListThreadsResponse(threads=threads))
    upstream.on("GetThread", kept)
    upstream.gives(coordinator_service_pb2.DeleteThreadResponse())
    await tab.visit(await tab.js("location.href"))
    await tab.until("document.querySelectorAll('#threads li').length === 2")
    assert await tab.text("#threads .open") == f"{MARKUP} 1|{MARKUP} 2"

    await tab.click("#threads .open")
    await tab.until("document.querySelector('article .sources mark')")
    assert await tab.text(".question") == "How do keys work?"
    assert await tab.text(".cite") == "1"
    assert "stopped before its end" in await tab.text("article .note")
    upstream.on("Chat", full_answer)
    await tab.ask("And then?")
    await tab.until("document.querySelectorAll('article').length === 2")
    await tab.until("document.querySelectorAll('article .note').length === 4")
    assert upstream.calls_of("Chat")[-1].request.thread_id == "t1"

    for _ in range(2):
        await tab.click("#threads .delete")
        await tab.until("document.querySelectorAll('#threads li').length === 1")
        await tab.click("#undo button")
        await tab.until("document.querySelectorAll('#threads li').length === 2")
    assert upstream.calls_of("DeleteThread") == []
    await tab.click("#threads .delete")
    # Who leaves does not take it back.
    await tab.visit(await tab.js("location.href"))
    await tab.until("document.querySelector('#threads li')")
    assert [call.request.thread_id for call in upstream.calls_of("DeleteThread")] == ["t1"]
    assert await tab.js("document.title") == "Groundline"
    assert tab.complaints == []


async def test_a_stream_cut_short_is_a_failure_whose_thread_goes_on(upstream: Any, tab: Tab) -> None:
    upstream.gives(
        response(started=chat_pb2.ChatStarted(thread_id="t")), response(delta=chat_pb2.ChatDelta(text="half"))
    )
    await tab.ask("x")
    await tab.until("document.querySelector('article .note.bad')")

    assert "before the answer was complete" in await tab.text("article .note.bad")
    upstream.on("Chat", full_answer)
    await tab.ask("y")
    await tab.until("document.querySelectorAll('article .note').length === 4")
    assert upstream.calls_of("Chat")[-1].request.thread_id == "t"


async def test_wrong_fields_are_named(upstream: Any, tab: Tab) -> None:
    wrong = error_details_pb2.BadRequest()
    wrong.field_violations.add(field="query", description="must not be empty")
    upstream.refuses("Chat", grpc.StatusCode.INVALID_ARGUMENT, "wrong", wrong)
    await tab.ask("x")
    await tab.until("document.querySelector('article .note.bad')")

    assert await tab.text("article .note.bad") == "query: must not be empty"


async def test_a_wrong_key_asks_again_and_keeps_the_question(upstream: Any, tab: Tab) -> None:
    await tab.write("#query", "still here")
    await tab.click("#sign-out")
    await tab.write("#key", "wrong-key-0123456789")
    await tab.click("#sign-in .primary")
    await tab.until("document.querySelector('#key-error')?.innerText")

    assert await tab.text("#key-error") == "This key is not valid."
    assert await tab.js("sessionStorage.getItem('groundline.key')") is None
    assert upstream.calls_of("Chat") == []
    await tab.write("#key", KEY)
    await tab.click("#sign-in .primary")
    await tab.until("document.querySelector('#query')?.value === 'still here'")


async def test_an_answer_is_rated_corrected_and_the_rating_taken_back(upstream: Any, tab: Tab) -> None:
    async def rated(request: Any, _context: Any) -> Any:
        kept = request.feedback if request.feedback.rating else None
        return coordinator_service_pb2.RateAnswerResponse(feedback=kept)

    async def press(number: int) -> None:
        await tab.click(".rating > button", number)

    async def pressed() -> Any:
        return await tab.js(
            "[...document.querySelectorAll('.rating > button')]"
            ".map((each) => each.getAttribute('aria-pressed')).join()"
        )

    upstream.on("Chat", full_answer)
    upstream.on("RateAnswer", rated)
    await tab.ask("x")
    await tab.until("document.querySelector('.rating')")
    assert await pressed() == "false,false"
    assert not await tab.js("document.querySelector('.rating .more')")

    await press(1)
    await tab.write(".rating select", "PROBLEM_OUTDATED")
    await tab.write(".rating input", " That was 2024. ")
    await tab.click(".rating .more button")
    await tab.until("document.querySelector('.rating [role=status]').textContent === 'Thank you'")
    await press(0)
    await tab.until("!document.querySelector('.rating .more')")
    assert await pressed() == "true,false"
    await press(0)
    await tab.until("document.querySelector('.rating [role=status]').textContent === 'Taken back'")
    assert await pressed() == "false,false"

    bad, outdated = thread_pb2.Feedback.RATING_BAD, thread_pb2.Feedback.PROBLEM_OUTDATED
    said = [
        thread_pb2.Feedback(rating=bad),
        thread_pb2.Feedback(rating=bad, problem=outdated, comment="That was 2024."),
        thread_pb2.Feedback(rating=thread_pb2.Feedback.RATING_GOOD),
        thread_pb2.Feedback(),
    ]
    assert [call.request for call in upstream.calls_of("RateAnswer")] == [
        coordinator_service_pb2.RateAnswerRequest(thread_id="thread-1", message_id="m", feedback=each)
        for each in said
    ]


async def test_a_rating_that_fails_says_so(upstream: Any, tab: Tab) -> None:
    upstream.on("Chat", full_answer)
    upstream.refuses("RateAnswer", grpc.StatusCode.NOT_FOUND, "no such thread")
    await tab.ask("x")
    await tab.click(".rating button")
    await tab.until("document.querySelector('.rating [role=status]').textContent === 'no such thread'")


async def test_signed_evidence_of_a_conversation_is_saved_byte_for_byte(upstream: Any, tab: Tab) -> None:
    parts = ['{"answers":[],"signature":"a..b", "umlaut":', '"Größe"}']

    async def signed(_request: Any, _context: Any) -> Any:
        for part in parts:
            content = HttpBody(content_type="application/json", data=part.encode())
            yield coordinator_service_pb2.GetEvidenceResponse(content=content)

    upstream.on("Chat", full_answer)
    upstream.on("GetEvidence", signed)
    await tab.js(
        "URL.createObjectURL = (blob) => { void blob.text().then((text) => { window.content = text; }); };"
        "HTMLAnchorElement.prototype.click = function () { window.file = this.download; }"
    )
    await tab.ask("x")
    await tab.until("document.querySelector('.rating')")
    await tab.click("[popovertarget=export]")
    await tab.click("#export button", 2)
    await tab.until("window.content")

    assert await tab.js("window.content") == "".join(parts)
    assert await tab.js("window.file") == "evidence.json"
    assert [call.request.thread_id for call in upstream.calls_of("GetEvidence")] == ["thread-1"]


async def test_evidence_that_cannot_be_had_says_why(upstream: Any, tab: Tab) -> None:
    upstream.on("Chat", full_answer)
    upstream.refuses(
        "GetEvidence", grpc.StatusCode.FAILED_PRECONDITION, "the thread has more than 100 answers"
    )
    await tab.ask("x")
    await tab.until("document.querySelector('.rating')")
    await tab.click("[popovertarget=export]")
    await tab.click("#export button", 2)
    await tab.until("document.querySelector('main').textContent.includes('more than 100 answers')")
