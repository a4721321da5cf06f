"""The page in a browser, for everybody: what a screen reader finds, what moves, long lists, lost ones."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from groundline.v1 import (
    chat_pb2,
    collection_pb2,
    coordinator_service_pb2,
    document_pb2,
    ingestor_service_pb2,
    passage_pb2,
    thread_pb2,
)
from groundline_tests.browser import CHROMIUM, Tab
from groundline_tests.gateway.console import go
from groundline_tests.gateway.page import KEY, MARKUP, full_answer, response
from groundline_tests.programs import needs_program

pytestmark = needs_program("chromium", found=CHROMIUM is not None)

# Keeps what a screen reader is told, and which parts of the answer change.
HEARD = """
    window.heard = [];
    const announcer = document.querySelector("#announcer");
    new MutationObserver(() => window.heard.push(announcer.textContent)).observe(announcer, {
        childList: true, characterData: true, subtree: true,
    });
    0
"""
DONE = chat_pb2.ChatCompleted(
    finish_reason=chat_pb2.FINISH_REASON_STOP,
    citations=[chat_pb2.Citation(source_number=1, supporting_text="Keys are secret.")],
    model="m",
)


async def tree(tab: Tab) -> dict[str, dict[str, Any]]:
    """Return what a screen reader is given of the page, by its ids."""
    await tab.command("Accessibility.enable")
    nodes = (await tab.command("Accessibility.getFullAXTree"))["nodes"]
    return {node["nodeId"]: node for node in nodes if not node["ignored"] or node.get("childIds")}


def said(node: dict[str, Any], of: str = "name") -> str:
    return str(node.get(of, {}).get("value", ""))


def found(nodes: dict[str, dict[str, Any]], role: str, words: str) -> dict[str, Any]:
    [node] = [each for each in nodes.values() if said(each, "role") == role and words in said(each)]
    return node


def live(nodes: dict[str, dict[str, Any]], node: dict[str, Any]) -> set[str]:
    """Return how eagerly a screen reader is told of changes of the node: by it and by all that it is in."""
    ways = set[str]()
    while node:
        ways |= {each["value"]["value"] for each in node.get("properties", []) if each["name"] == "live"}
        node = nodes.get(node.get("parentId", ""), {})
    return ways - {"off"}


async def test_a_screen_reader_is_told_how_an_answer_is_and_reads_it_later(upstream: Any, tab: Tab) -> None:
    more = asyncio.Event()

    async def slow(_request: Any, _context: Any) -> AsyncIterator[Any]:
        yield response(started=chat_pb2.ChatStarted(thread_id="t", message_id="m"))
        yield response(status=chat_pb2.ChatStatus(stage=passage_pb2.STAGE_RETRIEVING))
        source = chat_pb2.Source(number=1, title="Keys", snippet="Keys are secret.")
        yield response(sources=chat_pb2.ChatSources(sources=[source]))
        yield response(status=chat_pb2.ChatStatus(stage=passage_pb2.STAGE_GENERATING))
        for words in ("They are ", "secret", " [1]. ", "So "):
            yield response(delta=chat_pb2.ChatDelta(text=words))
        await more.wait()
        yield response(delta=chat_pb2.ChatDelta(text="guard them."))
        yield response(completed=DONE)

    upstream.on("Chat", slow)
    await tab.js(HEARD)
    await tab.ask("How are keys kept?")
    await tab.until("document.querySelector('.answer')?.textContent.endsWith('So')")
    written = await tree(tab)
    more.set()
    await tab.until("document.querySelector('.rating')")
    ready = await tree(tab)

    assert live(written, found(written, "StaticText", "They are secret")) == set()
    assert live(written, found(written, "status", "")) == {"polite"}
    assert found(written, "heading", "How are keys kept?")
    cited = found(ready, "button", "Source 1: Keys")
    assert said(cited, "description") == "Keys are secret."
    assert live(ready, cited) == set()
    heard = await tab.js("window.heard")
    assert heard[-2:] == ["Writing the answer", "Answer ready, 1 citation"]
    assert not any("secret" in each for each in heard)


async def test_a_screen_reader_is_told_of_a_failure_at_once(upstream: Any, tab: Tab) -> None:
    upstream.gives(
        response(started=chat_pb2.ChatStarted(thread_id="t")),
        response(error=chat_pb2.ChatError(code=14, message="the retriever is down", retryable=True)),
    )
    await tab.ask("x")
    await tab.until("document.querySelector('article .note.bad')")
    nodes = await tree(tab)

    assert live(nodes, found(nodes, "StaticText", "the retriever is down")) == {"assertive"}


async def test_more_text_changes_the_end_of_the_answer_and_nothing_before(upstream: Any, tab: Tab) -> None:
    more = asyncio.Event()

    async def long(_request: Any, _context: Any) -> AsyncIterator[Any]:
        yield response(delta=chat_pb2.ChatDelta(text="A paragraph that is written.\n\n" * 300))
        await more.wait()
        for number in range(20):
            yield response(delta=chat_pb2.ChatDelta(text=f"word {number} "))
        yield response(completed=DONE)

    upstream.on("Chat", long)
    await tab.ask("x")
    await tab.until("document.querySelectorAll('.answer p').length === 300")
    await tab.js(
        "window.changed = new Set(); new MutationObserver((list) => list.forEach(({ target }) => {"
        "  const at = [...document.querySelectorAll('.answer > *')].findIndex((one) => one.contains(target));"
        "  window.changed.add(at);"
        "})).observe(document.querySelector('.answer'),"
        "  { childList: true, characterData: true, subtree: true }); 0"
    )
    more.set()
    await tab.until("document.querySelector('article .note')")

    assert "word 19" in await tab.text(".answer p:last-child")
    # -1 is the answer itself, which gets one more paragraph.
    assert set(await tab.js("[...window.changed]")) <= {-1, 300}


async def test_a_question_is_edited_by_keyboard_and_is_a_new_conversation(upstream: Any, tab: Tab) -> None:
    upstream.on("Chat", full_answer)
    for count, question in enumerate(("first", "second"), start=1):
        await tab.ask(question)
        await tab.until(f"document.querySelectorAll('.rating').length === {count}")
    for key in ("Enter", "Escape", "Enter"):
        await tab.js("document.querySelectorAll('.question-row .edit')[1]?.focus(); 0")
        await press(tab, key)
        await tab.until(f"document.activeElement.matches({'textarea' if key == 'Enter' else '.edit'!r})")
    await tab.command("Input.insertText", text=", and more")
    await press(tab, "Enter")
    await tab.until("document.querySelector('article:last-child .question')?.textContent.endsWith('more')")
    await tab.until("document.querySelectorAll('.rating').length === 2")

    asked = upstream.calls_of("Chat")[-1].request
    assert (asked.query, asked.thread_id) == ("second, and more", "")
    assert asked.chat_history[0].content == "first"


async def test_nothing_is_animated_for_who_wants_it_still(upstream: Any, tab: Tab) -> None:
    async def endless(_request: Any, _context: Any) -> AsyncIterator[Any]:
        yield response(delta=chat_pb2.ChatDelta(text="so far"))
        await asyncio.Event().wait()

    upstream.on("Chat", endless)
    await tab.ask("x")
    await tab.until("document.getAnimations({ subtree: true }).length === 1")
    features = [{"name": "prefers-reduced-motion", "value": "reduce"}]
    await tab.command("Emulation.setEmulatedMedia", features=features)
    await tab.until("document.getAnimations({ subtree: true }).length === 0")
    await tab.click("#stop")


async def test_an_answer_that_breaks_off_goes_on_and_no_text_comes_twice(upstream: Any, tab: Tab) -> None:
    async def cut_once(request: Any, context: Any) -> AsyncIterator[Any]:
        if len(upstream.calls_of("Chat")) == 1:
            yield response(started=chat_pb2.ChatStarted(thread_id="thread-1"))
            yield response(delta=chat_pb2.ChatDelta(text="Every request carries"))
            return
        async for event in full_answer(request, context):
            yield event

    upstream.on("Chat", cut_once)
    await tab.ask("x")
    await tab.until("document.querySelectorAll('article .note').length === 3")

    assert (await tab.text(".answer")).count("Every request carries") == 1
    first, second = [call.request for call in upstream.calls_of("Chat")]
    assert first == second


async def test_a_lost_connection_says_so_and_the_question_is_asked_again(upstream: Any, tab: Tab) -> None:
    upstream.on("Chat", full_answer)
    await tab.until("document.querySelector('#history-note')?.textContent.includes('no conversations')")
    conditions = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    await tab.command("Network.emulateNetworkConditions", offline=True, **conditions)
    await tab.ask("x")
    await tab.until("document.querySelector('article .note.bad button')")
    assert "could not be reached" in await tab.text("article .note.bad")
    assert upstream.calls_of("Chat") == []

    await tab.command("Network.emulateNetworkConditions", offline=False, **conditions)
    await tab.click("article .note.bad button")
    await tab.until("document.querySelectorAll('article .note').length === 3")


async def test_a_key_that_has_ended_asks_for_another_and_keeps_the_question(upstream: Any, tab: Tab) -> None:
    upstream.on("Chat", full_answer)
    await tab.ask("first")
    # The list of conversations is read again after the answer, by the key that is still valid.
    read = "performance.getEntriesByType('resource').filter((one) => one.name.includes('/api/threads?'))"
    await tab.until(f"{read}.length === 2")
    await tab.command("Network.setExtraHTTPHeaders", headers={"x-api-key": "ended-key-0123456789"})
    await tab.ask("still here")
    await tab.until("document.querySelector('#key-error')?.innerText")
    assert await tab.text("#key-error") == "This key is not valid."
    assert await tab.js("sessionStorage.getItem('groundline.key')") is None

    await tab.command("Network.setExtraHTTPHeaders", headers={})
    await tab.write("#key", KEY)
    await tab.click("#sign-in .primary")
    await tab.until("document.querySelector('#query')?.value === 'still here'")
    assert [call.request.query for call in upstream.calls_of("Chat")] == ["first"]


async def test_two_hundred_conversations_are_searched_and_opened_by_keyboard(upstream: Any, tab: Tab) -> None:
    async def listed(request: Any, _context: Any) -> Any:
        start = int(request.page_token or 0)
        threads = [
            thread_pb2.Thread(thread_id=f"t{n}", title=f"Question {n}") for n in range(start, start + 50)
        ]
        token = str(start + 50) if start < 150 else ""
        return coordinator_service_pb2.ListThreadsResponse(threads=threads, next_page_token=token)

    upstream.on("ListThreads", listed)
    message = thread_pb2.Message(role=chat_pb2.ChatMessage.USER, content="How are keys kept?")
    upstream.gives(coordinator_service_pb2.GetThreadResponse(messages=[message]))
    await tab.visit(await tab.js("location.href"))
    await tab.until("document.querySelectorAll('#threads li').length === 200")
    await tab.js("document.querySelector('#history input').focus(); 0")
    await tab.command("Input.insertText", text="question 123")
    await tab.until("document.querySelectorAll('#threads li').length === 1")
    for key in ("Tab", "Enter"):
        await press(tab, key)
    await tab.until("document.querySelector('.question')?.textContent === 'How are keys kept?'")
    assert [call.request.thread_id for call in upstream.calls_of("GetThread")] == ["t123"]


async def press(tab: Tab, key: str) -> None:
    text = {"text": "\r"} if key == "Enter" else {}
    code = {"Tab": 9, "Enter": 13, "Escape": 27}[key]
    for kind in ("keyDown", "keyUp"):
        await tab.command(
            "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **text
        )


async def test_of_ten_thousand_documents_a_hundred_are_shown_at_a_time(upstream: Any, tab: Tab) -> None:
    collection = collection_pb2.Collection(collection_id="docs", name="docs", document_count=10_000)

    async def listed(request: Any, _context: Any) -> Any:
        start = int(request.page_token or 0)
        numbers = [7] if request.filter_json else range(start, start + request.page_size)
        documents = [
            document_pb2.Document(
                collection_id="docs", document_id=f"d{n}", uri=f"{n}.md", title=f"{MARKUP} {n}"
            )
            for n in numbers
        ]
        token = str(start + request.page_size) if len(numbers) > 1 else ""
        return ingestor_service_pb2.ListDocumentsResponse(documents=documents, next_page_token=token)

    upstream.gives(ingestor_service_pb2.GetCollectionResponse(collection=collection))
    upstream.on("ListDocuments", listed)
    await go(tab, "documents/docs")
    await tab.until("document.querySelectorAll('#documents tbody tr').length === 100")
    more = "[...document.querySelectorAll('main section > button')].at(-1)"
    await tab.js(f"{more}.focus(); {more}.click()")
    await tab.until("document.querySelectorAll('#documents tbody tr').length === 200")
    assert await tab.js(f"document.activeElement === {more}"), "who goes on by keyboard stays where they are"

    await tab.write("main input[type=search]", "seven")
    await tab.until("document.querySelectorAll('#documents tbody tr').length === 1")
    asked = [call.request for call in upstream.calls_of("ListDocuments")]
    assert {request.page_size for request in asked} == {100}
    assert "seven" in asked[-1].filter_json
    assert await tab.js("document.title") == "Groundline"
    assert tab.complaints == []
