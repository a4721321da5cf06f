"""The chat page in a real browser, driven over the DevTools pipe; skipped where no Chromium is installed."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2  # type: ignore[import-untyped]
from groundline.v1 import chat_pb2, document_pb2, ingestor_service_pb2, passage_pb2, retriever_service_pb2
from groundline_tests.browser import CHROMIUM, Tab
from groundline_tests.gateway.page import KEY, MARKUP, NOBODY_ID, answered, full_answer, response
from groundline_tests.programs import needs_program

# Keeps what the page opens and makes addresses of.
OPENED = """
    window.blobs = [];
    const make = URL.createObjectURL;
    URL.createObjectURL = (blob) => { window.blobs.push(blob.type); return make.call(URL, blob); };
    window.open = () => (window.opened = { close() { this.closed = true; } });
"""


pytestmark = needs_program("chromium", found=CHROMIUM is not None)


async def test_the_key_leaves_the_address_bar_and_is_asked_for_once(tab: Tab) -> None:
    assert await tab.js("location.hash") == ""
    assert await tab.js("sessionStorage.getItem('groundline.key')") == KEY
    assert not await tab.js("document.querySelector('#sign-in')")


async def test_a_link_with_another_key_does_not_replace_the_tabs_key(tab: Tab) -> None:
    await tab.visit(f"{await tab.js('location.href')}#key=bob-key-0123456789")
    await tab.until("document.querySelector('#query')")
    assert await tab.js("location.hash") == ""
    assert await tab.js("sessionStorage.getItem('groundline.key')") == KEY


async def test_an_answer_is_shown_with_its_sources_and_documents_stay_data(upstream: Any, tab: Tab) -> None:
    upstream.on("Chat", full_answer)
    await tab.ask("How do keys work?")
    await tab.until("document.querySelectorAll('article .note').length === 3")

    assert await tab.text(".question") == "How do keys work?"
    assert await tab.text(".searched") == "Searched for: “gateway keys”"
    assert await tab.js("document.querySelector('.ranked').hash") == "#search?q=How+do+keys+work%3F"
    answer = await tab.text(".answer")
    assert MARKUP in answer
    assert "[9]" in answer
    assert await tab.text(".cite") == "1|3|2"
    assert await tab.text(".sources .number") == "1|2|3"
    assert MARKUP in await tab.text(".sources .title")
    assert await tab.js("[...document.querySelectorAll('.sources a')].map((a) => a.href).join()") == (
        "https://example.com/a?b=c"
    )
    notes = await tab.text("article .note")
    assert "may not fully support" in notes
    assert "Answered without keyword search: it came too late" in notes
    assert await tab.js("document.title") == "Groundline"
    assert tab.complaints == []


async def test_passages_that_the_answer_does_not_cite_are_folded_away(upstream: Any, tab: Tab) -> None:
    sources = [chat_pb2.Source(number=n, title=f"Passage {n}", snippet="Text.") for n in (1, 2, 3)]
    upstream.gives(*answered("It is so [2].", sources=sources))
    await tab.ask("x")
    await tab.until("document.querySelector('article .note')")
    assert await tab.text("article > .sources .title") == "Passage 2"
    assert await tab.text("article summary") == "2 more passages, not cited"
    assert not await tab.js("document.querySelector('.others').open")
    await tab.js("document.querySelector('summary').click()")
    assert await tab.text(".others .title") == "Passage 1|Passage 3"


@pytest.mark.parametrize(("width", "height"), [(1280, 720), (390, 664)])
async def test_the_newest_answer_is_always_in_view(upstream: Any, tab: Tab, width: int, height: int) -> None:
    sources = [
        chat_pb2.Source(number=n, title=f"Passage {n}", snippet="What it says of the matter. " * 8)
        for n in range(1, 9)
    ]
    texts = ["Keys are set as JSON [1], and kept as hashes [2]. "] * 4
    upstream.gives(*answered(*texts, sources=sources))
    await tab.resize(width, height)
    for count in (1, 2, 3):
        await tab.ask(f"How are keys kept, for the time number {count}?")
        await tab.until(f"document.querySelectorAll('article .note').length === {count}")
        answer = "[...document.querySelectorAll('.answer')].at(-1).getBoundingClientRect()"
        question = "[...document.querySelectorAll('.question')].at(-1).getBoundingClientRect()"
        composer = "document.querySelector('footer').getBoundingClientRect()"
        assert await tab.js(f"{question}.top") >= 0
        assert await tab.js(f"{composer}.top - {answer}.bottom") >= 0


RICH = r"""## Keys

Keys are **secret** and *long* [1], see [the manual](https://docs.example/a?b=c) or
[this](javascript:document.title='owned') and https://docs.example/b.

1. Make one:
   - as `admin`
   - with a *scope*
2. Keep it.

| what | how |
|---|--:|
| length | 20 |

```sh
echo "<b>key</b>" # [1]
```

> ![logo](https://tracker.example/p.png?q=secret) ! [pic](https://tracker.example/q.png)

<img src="https://tracker.example/r.png" onerror="document.title='owned'"> 2 \* 3
"""


async def test_markdown_is_shown_as_nodes_that_run_and_fetch_nothing(upstream: Any, tab: Tab) -> None:
    pieces = (RICH[start : start + 7] for start in range(0, len(RICH), 7))
    upstream.gives(*answered(*pieces, sources=[chat_pb2.Source(number=1, title="Keys")]))
    await tab.ask("How are keys kept?")
    await tab.until("document.querySelector('article .note')")

    assert await tab.text(".answer h4") == "Keys"
    assert await tab.text(".answer strong, .answer em") == "secret|long|scope"
    assert await tab.text(".answer .cite") == "1"
    assert await tab.text(".answer > ol > li") == "Make one:\nas admin\nwith a scope|Keep it."
    assert await tab.text(".answer td") == "length|20"
    assert await tab.text(".answer pre") == 'echo "<b>key</b>" # [1]'
    assert await tab.text(".answer blockquote") == "logo pic"
    links = "[...document.querySelectorAll('.answer a')].map((a) => a.href).join(' ')"
    assert await tab.js(links) == (
        "https://docs.example/a?b=c https://docs.example/b "
        "https://tracker.example/p.png?q=secret https://tracker.example/q.png https://tracker.example/r.png"
    )
    assert "2 * 3" in await tab.text(".answer > p")
    assert await tab.js("document.querySelectorAll('.answer :is(img, b, script)').length") == 0
    fetched = (
        "performance.getEntriesByType('resource').some((each) => !each.name.startsWith(location.origin))"
    )
    assert not await tab.js(fetched)
    assert await tab.js("document.title") == "Groundline"
    assert tab.complaints == []


async def test_text_is_read_from_the_side_that_its_script_begins_on(upstream: Any, tab: Tab) -> None:
    upstream.gives(*answered("- שלום\n\nHello"))
    await tab.ask("מה?")
    await tab.until("document.querySelector('article .note')")
    sides = [
        await tab.js(f"getComputedStyle(document.querySelector('{shown}')).direction")
        for shown in (".question", ".answer ul", ".answer p")
    ]
    assert sides == ["rtl", "rtl", "ltr"]


async def test_the_composer_stays_and_text_is_followed_until_one_scrolls_up(upstream: Any, tab: Tab) -> None:
    more = asyncio.Event()

    async def long(_request: Any, _context: Any) -> AsyncIterator[Any]:
        for number in range(80):
            if number == 60:
                await more.wait()
            yield response(delta=chat_pb2.ChatDelta(text=f"Paragraph {number} of a long answer.\n\n"))
        yield response(completed=chat_pb2.ChatCompleted(finish_reason=chat_pb2.FINISH_REASON_STOP, model="m"))

    upstream.on("Chat", long)
    composer = "document.querySelector('footer').getBoundingClientRect().top"
    await tab.js(
        "window.tops = new Set(); const look = () => { "
        f"window.tops.add(Math.round({composer})); requestAnimationFrame(look); }}; look();"
    )
    await tab.ask("Tell me everything")
    await tab.until("document.querySelector('.answer')?.innerText.includes('Paragraph 59')")
    end = "document.querySelector('.answer').getBoundingClientRect().bottom"
    assert await tab.js(f"{end} <= {composer}")
    await tab.js("scrollBy(0, -600)")
    read = "[...document.querySelectorAll('.answer p')][40].getBoundingClientRect().top"
    seen = await tab.js(read)
    more.set()
    await tab.until("document.querySelector('article .note')")
    assert abs(await tab.js(read) - seen) < 2
    assert await tab.js("window.tops.size") == 1


async def test_nothing_moves_while_a_long_answer_is_written(upstream: Any, tab: Tab) -> None:
    async def long(_request: Any, _context: Any) -> AsyncIterator[Any]:
        sources = [
            chat_pb2.Source(number=n, title=f"Source {n}", snippet="Text. " * 60) for n in range(1, 101)
        ]
        yield response(sources=chat_pb2.ChatSources(sources=sources))
        for number in range(1000):
            end = "\n\n" if number % 20 == 19 else ""
            yield response(
                delta=chat_pb2.ChatDelta(text=f"Word {number} **of** it [{number % 100 + 1}] {end}")
            )
        yield response(completed=chat_pb2.ChatCompleted(finish_reason=chat_pb2.FINISH_REASON_STOP, model="m"))

    upstream.on("Chat", long)
    await tab.js(
        "window.shifted = 0; new PerformanceObserver((list) => list.getEntries().forEach(({ value }) => {"
        "  if (document.querySelector('#stop')) window.shifted += value;"
        "})).observe({ type: 'layout-shift' });"
    )
    await tab.ask("Tell me everything")
    await tab.until("document.querySelector('article .note')")
    assert await tab.js("window.shifted") == 0
    assert await tab.js("document.querySelectorAll('.answer .cite').length") == 1000
    assert await tab.js("document.querySelectorAll('article > .sources > li').length") == 100
    assert "Word 999 of it" in await tab.text(".answer")


async def test_a_link_from_elsewhere_shows_the_passage_in_its_documents_text(upstream: Any, tab: Tab) -> None:
    async def text(request: Any, _context: Any) -> Any:
        assert (request.start_offset, request.max_characters) == (1000, 4016)
        whole = "😀" * 3000 + "Keys are secret." + f" {MARKUP}" + "x" * 2000
        found = whole[1000:5016]
        return ingestor_service_pb2.GetDocumentTextResponse(
            text=found, start_offset=1000, end_offset=5016, character_count=9000
        )

    about = document_pb2.Document(title=MARKUP, uri="handbook/keys.md")
    upstream.gives(ingestor_service_pb2.GetDocumentResponse(document=about))
    upstream.on("GetDocumentText", text)
    await tab.js(f"location.hash = 'source=docs/{NOBODY_ID}/3000-3016'")
    await tab.until("document.querySelector('#passage mark')")
    assert await tab.text("#passage h2") == MARKUP
    assert await tab.text("#passage mark") == "Keys are secret."
    await tab.click("#passage .close")
    await tab.until("location.hash === ''")
    assert tab.complaints == []


async def test_the_sentences_an_answer_rests_on_are_marked(upstream: Any, tab: Tab) -> None:
    snippet = f"Keys are long. {MARKUP} Keys are secret. And so on…"
    sources = [chat_pb2.Source(number=1, title="Keys", snippet=snippet)]
    texts = ("Keys are secret.", MARKUP, "Beyond the snippet.", "Keys are secret.")
    citations = [chat_pb2.Citation(source_number=1, supporting_text=text) for text in texts]
    validation = chat_pb2.Validation(grounded=True, confidence=0.9)
    upstream.gives(
        *answered("They are secret [1].", sources=sources, citations=citations, validation=validation)
    )
    await tab.ask("x")
    await tab.until("document.querySelector('article .note')")
    assert await tab.text(".snippet mark") == f"{MARKUP}|Keys are secret.|Beyond the snippet."
    assert (await tab.text(".snippet")).startswith(f"Keys are long. {MARKUP} Keys are secret. And so on…")
    assert await tab.js("document.title") == "Groundline"
    assert tab.complaints == []


async def test_a_citation_opens_the_page_it_comes_from(upstream: Any, tab: Tab) -> None:
    place: dict[str, Any] = {"collection_id": "docs", "document_id": NOBODY_ID, "snippet": "27 days"}
    third, fourth = ({**place, "metadata": {"page": page}} for page in (3, 4))
    sources = [
        chat_pb2.Source(number=1, title="Leave", has_original=True, **third),
        chat_pb2.Source(number=2, title="Travel", **fourth),
        chat_pb2.Source(number=3, title="Bad", has_original=True, **place),
    ]
    citations = [chat_pb2.Citation(source_number=1, supporting_text="27 days", page=5)]
    upstream.gives(*answered("27 days [1][2][3].", sources=sources, citations=citations))
    content = {"content_type": "application/pdf", "data": b"%PDF-1.4 not really"}
    upstream.gives(ingestor_service_pb2.DownloadDocumentResponse(content=content))
    await tab.ask("x")
    await tab.until(
        "document.querySelectorAll('.sources .original').length === 3 && !document.querySelector('.busy')"
    )
    # The passage begins on page 3, the sentence that supports the answer is on page 5.
    assert await tab.text(".sources .original") == "Open at page 5|Page 4|Open the document"

    await tab.js(OPENED)
    await tab.js("document.querySelector('button.original').click()")
    await tab.until("window.opened.location")
    assert (await tab.js("window.opened.location")).startswith("blob:http://127.0.0.1")
    assert (await tab.js("window.opened.location")).endswith("#page=5")
    assert await tab.js("window.blobs.join()") == "application/pdf"

    content = {"content_type": "text/html", "data": MARKUP.encode()}
    upstream.gives(ingestor_service_pb2.DownloadDocumentResponse(content=content))
    await tab.js("document.querySelectorAll('button.original')[1].click()")
    await tab.until("window.opened.closed")
    assert await tab.js("window.blobs.join()") == "application/pdf,application/octet-stream"
    assert await tab.js("document.title") == "Groundline"


async def test_who_may_read_and_not_download_is_told_once(upstream: Any, tab: Tab) -> None:
    place: dict[str, Any] = {"collection_id": "docs", "document_id": NOBODY_ID, "has_original": True}
    places = [place | {"number": number, "metadata": {"page": number + 3}} for number in (1, 2)]
    sources = [chat_pb2.Source(**each) for each in places]
    upstream.gives(*answered("27 days [1][2].", sources=sources))
    info = error_details_pb2.ErrorInfo(reason="ORIGINAL_NOT_READABLE", domain="groundline.dev")
    upstream.refuses("DownloadDocument", grpc.StatusCode.PERMISSION_DENIED, "not downloaded", info)
    await tab.ask("x")
    await tab.click("button.original", 1)
    await tab.until("!document.querySelector('button.original')")
    told = "You may read this document, but not open it as it was handed in."
    assert await tab.text(".sources .original") == f"Page 4|{told}"


async def test_the_reference_tries_a_request_out(upstream: Any, module_browser: Tab, gateway: Any) -> None:
    found = passage_pb2.Passage(chunk=passage_pb2.Chunk(text=MARKUP))
    upstream.gives(retriever_service_pb2.SearchResponse(passages=[found]))
    await module_browser.open(f"{gateway.url}/docs#Search")
    await module_browser.until("document.querySelector('#Search form')")

    shown = await module_browser.text("#Search")
    assert "/api/search" in shown
    assert "Query, 1 to 8000 characters" in shown
    assert "INVALID_ARGUMENT: a field is wrong" in shown
    await module_browser.js("document.querySelector('#Search a[href=\"#schema-SearchResponse\"]').click()")
    await module_browser.until("document.querySelector('#schema-SearchResponse td')")

    await module_browser.js(f"document.querySelector('#key').value = {KEY!r}")
    await module_browser.js("location.hash = 'Search'")
    await module_browser.until("document.querySelector('#Search form')")
    await module_browser.js("document.querySelector('#Search form .primary').click()")
    await module_browser.until(
        "document.querySelector('#Search form pre:last-child').innerText.includes('passages')"
    )

    tried = await module_browser.text("#Search form pre")
    assert "curl -N -X POST" in tried
    assert KEY not in tried
    assert "200 application/json" in tried
    assert MARKUP in json.loads(tried.rpartition("\n\n")[2])["passages"][0]["chunk"]["text"]
    assert await module_browser.js("document.title") == "Groundline API"
    assert module_browser.complaints == []
