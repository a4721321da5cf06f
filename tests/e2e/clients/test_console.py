"""The console in a real browser, with a real suite behind it."""

import asyncio
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from groundline_embedding.local.catalog import MULTILINGUAL_MODEL
from groundline_tests.browser import CHROMIUM, Tab
from groundline_tests.gateway.console import AXE, go
from groundline_tests.gateway.page import NOBODY_ID
from groundline_tests.http_server import Answering, listening
from groundline_tests.programs import needs_program
from groundline_tests.suite import ROOT, Stack, ended_job

pytestmark = needs_program("chromium", found=CHROMIUM is not None)

QUESTION: Final = "Within what time must a lost or stolen laptop be reported?"
ANSWERED: Final = "document.querySelector('article .cite') && !document.querySelector('.busy')"
QUERY: Final = "search?q=lost+laptop&collection=examples"
EXAMINED: Final = ((2560, 1440, "light"), (1280, 800, "dark"), (390, 844, "light"), (360, 780, "dark"))
"""Widths, heights and colour schemes in which axe examines a view. The wide layout starts at 64 rem and the
narrow one ends at 30 rem, so both layouts are examined in both schemes."""
EVALUATED: Final = ROOT / "evaluation/examples"


async def open_all(tab: Tab) -> None:
    """Open what is folded away on the page, with what that loads."""
    await tab.js("document.querySelectorAll('main details').forEach((each) => { each.open = true; })")
    await tab.until("document.querySelector('#usage meter')")
    assert not await tab.js("document.querySelector('main .note.bad')")


async def show(tab: Tab, view: str, stack: Stack) -> None:
    """Show a view of the console, whole."""
    if view == "sign in":
        await tab.click("#sign-out")
        await tab.until("document.querySelector('#sign-in')")
    if view in ("answer", "citation", "passage", "selection"):
        await tab.ask(QUESTION)
        await tab.until(f"{ANSWERED} && document.querySelector('#threads li')")
        await tab.js("document.querySelector('details.others').open = true")
    if view == "citation":
        await tab.js("document.querySelector('.cite').focus()")
        await tab.until("document.querySelector('.quote-hint:popover-open')")
    if view == "passage":
        await tab.click(".cite")
        await tab.until("document.querySelector('#passage mark strong')")
    if view == "selection":
        await tab.click("#selection")
        await tab.until("document.querySelector('#selection-dialog .choice')")
    if view == "ranking":
        await go(tab, "search?q=lost+laptop&settings=hybrid..weighted.5&settings=keyword...")
        await tab.until("document.querySelectorAll('section > .ranking').length === 2")
        await tab.js("document.querySelectorAll('.why').forEach((each) => { each.open = true; })")
    if view in ("collections", "collection", "document"):
        await go(tab, "documents")
        await tab.until("document.querySelector('.cards a')")
        await open_all(tab)
    if view in ("collection", "document"):
        await go(tab, "documents/examples")
        await tab.until("document.querySelectorAll('#documents tbody tr').length === 15")
        await open_all(tab)
    if view == "document":
        await tab.click("#documents a")
        await tab.until("document.querySelector('.facts') && document.querySelector('.text')")
        for folded in ("#tables > summary", "#tables .tables summary", "#tables .asked-table summary"):
            await tab.click(folded)
        await tab.click("#tables .add")
    if view == "operations":
        await go(tab, "operations")
        await tab.until("document.querySelector('main:has(.ready):has(#indexes td):has(#own-quotas meter)')")
    if view == "evaluation":
        await go(tab, view)
        await tab.choose("#evaluation-files input", EVALUATED / "expected.json")
        await tab.until("document.querySelector('#questions li')")
    if view in ("settings", "sources"):
        await go(tab, f"documents/examples/{view}")
        await tab.until("document.querySelector('details.group')")
        await tab.js("document.querySelectorAll('details').forEach((each) => { each.open = true; })")


@pytest.mark.parametrize(
    "view",
    [
        "sign in",
        "empty",
        "answer",
        "citation",
        "passage",
        "selection",
        "ranking",
        "collections",
        "collection",
        "document",
        "settings",
        "sources",
        "operations",
        "evaluation",
    ],
)
async def test_everybody_can_use_each_view_on_any_screen(stack: Stack, tab: Tab, axe: str, view: str) -> None:
    await show(tab, view, stack)
    await tab.js(f"{axe}; 0")
    for width, height, scheme in EXAMINED:
        await tab.resize(width, height)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        await tab.command("Emulation.setEmulatedMedia", features=features)
        assert await tab.js(AXE) == [], (width, scheme)
        too_wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert await tab.js(too_wide) <= 0, width
    await tab.js("document.documentElement.dir = 'rtl'")
    assert await tab.js(too_wide) <= 0, "from right to left"


async def test_files_become_documents_that_answer_and_can_be_deleted(
    stack: Stack, tab: Tab, client: httpx.AsyncClient, tmp_path: Path
) -> None:
    files = {
        "mooring.md": "# Mooring\n\nThe ferry *Aldis* moors at pier nineteen on Sundays.\n",
        "fares.csv": "ticket,price\nadult,9.40\nchild,4.70\n",
        "broken.pdf": "%PDF-1.7 and then nothing of the kind",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    await go(tab, "documents")
    await tab.write("main input", "console-harbour")
    await tab.click("main form button")
    await tab.until("location.hash === '#documents/console-harbour'")

    await tab.choose("#upload input", *(tmp_path / name for name in files))
    await tab.until(
        "document.querySelectorAll('.uploads .reason').length === 1 && !document.querySelector('.busy')"
    )
    await tab.until("document.querySelectorAll('#documents tbody tr').length >= 2")
    await tab.until("document.querySelector('#upload [role=status]').innerText.includes('2 documents')")
    rows = await tab.text("#documents tbody tr")
    assert "mooring.md" in rows
    assert "fares.csv" in rows
    assert "broken.pdf" in (await tab.text("#upload li")).split("|")[0]

    for order in await tab.js("[...document.querySelectorAll('main select option')].map((o) => o.value)"):
        await tab.write("main select", order)
        await tab.until("document.querySelectorAll('#documents tbody tr').length >= 2")
        assert not await tab.js("document.querySelector('main .note.bad')")
    await tab.write("main input[type=search]", "MOOR")
    await tab.until("document.querySelectorAll('#documents tbody tr').length === 1")

    await go(tab, "chat?collection=console-harbour")
    assert await tab.text("#selection") == "console-harbour"
    await tab.ask("At which pier does the ferry Aldis moor on Sundays?")
    await tab.until(ANSWERED)
    assert "pier nineteen" in await tab.text(".answer")

    await go(tab, "documents/console-harbour")
    await tab.write("main input[type=search]", "mooring")
    await tab.until("document.querySelectorAll('#documents tbody tr').length === 1")
    await tab.click("#documents .delete")
    await tab.until("!document.querySelector('#documents tbody tr')")
    # Who leaves the page does not take it back.
    async with asyncio.timeout(10):
        while "mooring.md" in await uris(client):
            await tab.visit(f"{stack.ready['gateway']}/#documents/console-harbour")
            await tab.until("document.querySelector('#documents tbody tr')")
    assert await uris(client) == {"broken.pdf", "fares.csv"}
    await client.delete("/api/collections/console-harbour")


async def uris(client: httpx.AsyncClient) -> set[str]:
    listed: dict[str, Any] = (await client.get("/api/collections/console-harbour/documents")).json()
    return {each["uri"] for each in listed["documents"]}


async def test_a_collection_is_made_for_the_language_of_its_documents(
    stack: Stack, tab: Tab, client: httpx.AsyncClient
) -> None:
    await go(tab, "documents")
    await tab.until("document.querySelector('main form select')")
    offered = await tab.js("[...document.querySelectorAll('main form option')].map((each) => each.value)")
    assert {"english", "german", "polish"} < set(offered)
    assert offered[-1] == "simple"
    assert await tab.js("document.querySelector('main form select').value") == "english"

    await tab.write("main input", "console-handbuch")
    await tab.write("main form select", "german")
    await tab.click("main form button")
    await tab.until("location.hash === '#documents/console-handbuch'")

    settings = (await client.get("/api/collections/console-handbuch")).json()["collection"]["settings"]
    assert settings["lexical"]["language"] == "german"
    assert settings["embedding"]["model"] == MULTILINGUAL_MODEL
    # Deleted while the page still loads its documents, it would be missed there.
    await tab.until("document.querySelector('main').innerText.includes('There are no documents yet')")
    await go(tab, "documents")
    await tab.until("document.querySelector('.cards a')")
    await client.delete("/api/collections/console-handbuch")


async def test_a_search_shows_why_each_passage_is_where_it_is(tab: Tab) -> None:
    await go(tab, "search?collection=examples")
    await tab.write("#search-query", "lost laptop")
    await tab.click("[role=search] button")
    await tab.until("document.querySelectorAll('.ranking > li').length === 8")
    assert await tab.text(".ranking li:first-child mark") == "lost|laptop"
    await tab.click(".ranking summary")
    scores = await tab.text(".ranking li:first-child dl")
    assert "Keyword search" in scores
    assert "place 1" in scores

    # The lists differ by what only vectors find.
    await tab.click("#compare")
    await tab.write(".settings:last-child select", "RETRIEVAL_MODE_KEYWORD")
    await tab.until("document.querySelectorAll('section > .ranking').length === 2")
    await tab.until("document.querySelectorAll('.ranking .elsewhere').length > 8")
    places = await tab.text(".elsewhere")
    assert "same place with the other settings" in places
    assert "not among those of the other settings" in places
    await tab.click(".ranking .title")
    await tab.until("document.querySelector('#passage mark')")


@pytest.mark.parametrize(
    ("address", "uri", "reason"),
    [
        (QUERY, "security/policy.md", "was found, in place 1."),
        (f"{QUERY}&settings=...1", "handbook/leave.md", "was cut: after the last place."),
        (f"{QUERY}&settings=keyword...", "product/dn4-manual.md", "it has none of its words."),
        (f'{QUERY}&filter={{"team":["nobody"]}}', "handbook/leave.md", "does not meet the filters."),
        ("search?q=lost+laptop&collection=console-empty", "handbook/leave.md", "that is not searched."),
        (QUERY, "", "is not there, or you may not read it."),
    ],
)
async def test_it_says_which_step_lost_a_document(
    tab: Tab, client: httpx.AsyncClient, address: str, uri: str, reason: str
) -> None:
    await client.post("/api/collections", json={"name": "console-empty"})
    listed = (await client.get("/api/collections/examples/documents")).json()["documents"]
    ids = {each["uri"]: each["documentId"] for each in listed}
    await go(tab, f"{address}&expected=examples/{ids.get(uri, NOBODY_ID)}")
    await tab.until("document.querySelector('#reason')")
    assert (await tab.text("#reason")).endswith(reason)
    # The browser's own word for a document that is not there.
    tab.complaints = [each for each in tab.complaints if uri or "status of 404" not in each]
    await client.delete("/api/collections/console-empty")


async def test_a_document_that_was_expected_is_found_by_its_title(tab: Tab) -> None:
    await go(tab, f"{QUERY}&settings=...3")
    await tab.write("#expected input", "Urlaub")
    await tab.click(".offered button")
    await tab.until("document.querySelector('#reason')")
    assert "cut: after the last place" in await tab.text("#reason")


async def test_a_citation_shows_its_text_and_what_became_of_it(tab: Tab, client: httpx.AsyncClient) -> None:
    async def put(text: str) -> str:
        body = {"documents": [{"uri": "pier.md", "text": text}]}
        given = await client.post("/api/collections/console-past/documents", json=body)
        await ended_job(client, given.json()["job"]["jobId"])
        [found] = (await client.get("/api/collections/console-past/documents")).json()["documents"]
        return str(found["documentId"])

    await client.post("/api/collections", json={"collectionId": "console-past"})
    document_id = await put("The ferry Brisk moors at pier eleven on Mondays.")
    await go(tab, "chat?collection=console-past")
    await tab.ask("At which pier does the ferry Brisk moor on Mondays?")
    await tab.until(f"{ANSWERED} && document.querySelector('#threads li')")
    await put("# Piers\n\nThe ferry Brisk moors at pier twelve on Mondays.")

    await tab.click("#new-chat")
    await tab.click("#threads .open")
    await tab.until(ANSWERED)
    assert "The document has changed since" in await tab.text(".sources .hint")
    assert "pier eleven" in await tab.text(".snippet")
    await tab.click(".cite")
    await tab.until("document.querySelector('#passage .note.warn')")
    assert "so has this passage" in await tab.text("#passage .note.warn")
    assert "pier eleven" in await tab.text("#passage mark.passage")
    await tab.click("#passage summary")
    assert (await tab.text("#passage del"), await tab.text("#passage ins")) == ("eleven", "twelve")
    await tab.click("#passage .close")

    await go(tab, f"documents/console-past/{document_id}")
    await tab.until("document.querySelector('#history')")
    await tab.click("#history summary")
    await tab.until("document.querySelectorAll('#history li').length === 2")
    assert "by user:local" in await tab.text("#history li")
    await tab.click("#history li summary")
    await tab.until("document.querySelector('#history ins')")
    assert "twelve" in await tab.text("#history ins")
    await tab.click("#history .put-back")
    await tab.until("document.querySelector('[aria-label=Text] .text')?.innerText.includes('pier eleven')")
    await client.delete("/api/collections/console-past")


async def test_a_job_is_taken_back_once_it_was_said_what_changes(tab: Tab, client: httpx.AsyncClient) -> None:
    address = "/api/collections/console-back/documents"

    async def put(**texts: str) -> None:
        body = {"documents": [{"uri": f"{uri}.md", "text": text} for uri, text in texts.items()]}
        await ended_job(client, (await client.post(address, json=body)).json()["job"]["jobId"])

    async def listed() -> dict[str, str]:
        found = (await client.get(address)).json()["documents"]
        return {each["uri"]: each["title"] for each in found}

    settings = {"history": {"revisions": 3}}
    await client.post("/api/collections", json={"collectionId": "console-back", "settings": settings})
    await put(a="# Before\n\nThe pump takes 3 litres.", b="# Other\n\nIt has two valves.")
    await put(a="# After\n\nThe pump takes 9 litres.", c="# Mistake\n\nNobody wanted this.")
    await go(tab, "documents/console-back")
    await tab.until("document.querySelector('#jobs > summary')")
    await tab.click("#jobs > summary")
    await tab.until("document.querySelectorAll('#jobs .job').length === 2")

    await tab.click("#jobs .take-back")
    await tab.until("document.querySelector('#jobs .plan')")
    told = await tab.text("#jobs .plan ul")
    assert "Gets back what it was before: 1" in told
    assert "is deleted for good: 1" in told
    assert await listed() == {"a.md": "After", "b.md": "Other", "c.md": "Mistake"}
    await tab.click("#jobs .plan button")
    await tab.until("!document.querySelector('#jobs .plan')")
    await tab.until("document.querySelector('#jobs .job').textContent.includes('Done')")

    assert await listed() == {"a.md": "Before", "b.md": "Other"}
    await tab.until("!document.querySelector('main').textContent.includes('Mistake')")
    await client.delete("/api/collections/console-back")


async def test_a_conversation_is_renamed_and_pinned(tab: Tab, client: httpx.AsyncClient) -> None:
    for question in ("What torque closes the hatch screws of the DN-4?", QUESTION):
        await tab.click("#new-chat") if question == QUESTION else None
        await tab.ask(question)
        await tab.until(f"{ANSWERED} && document.querySelector('#threads .open')?.innerText === {question!r}")
    await tab.click("#threads .edit", 1)
    await tab.write("#threads .rename input", "The hatch")
    await tab.js("document.querySelector('#threads .rename').requestSubmit()")
    await tab.until("document.querySelectorAll('#threads .open')[1]?.innerText === 'The hatch'")
    await tab.click("#threads .pin", 1)
    await tab.until("document.querySelector('#threads .open')?.innerText === 'The hatch'")
    assert await tab.js("document.querySelector('#threads .pin').ariaPressed") == "true"

    (first, *_) = (await client.get("/api/threads")).json()["threads"]
    assert (first["title"], first["isPinned"]) == ("The hatch", True)
    await client.delete(f"/api/threads/{first['threadId']}")


async def fill(tab: Tab, form: str, label: str, value: str) -> None:
    """Fill the field with the label, of a form that the contract makes, as a reader does."""
    labelled = f"[...document.querySelectorAll('{form} label')].find((one) => one.textContent === '{label}')"
    await tab.until(labelled)
    await tab.js(f"{labelled}.parentElement.dataset.test = '{label}'")
    await tab.write(f"{form} [data-test='{label}'] :is(input, select, textarea)", value)


@pytest.fixture
def site() -> Iterator[str]:
    pages = {"/": '<a href="/use">Use</a> The plonkmeter.', "/use": "It reads to ninety degrees."}

    class Handler(Answering, BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = pages.get(self.path, "")
            content = f"<html><body><article>{body}</article></body></html>".encode()
            self.answer(200 if body else 404, content, {"Content-Type": "text/html"})

    with listening(Handler) as url:
        yield url


async def test_settings_are_forms_of_the_contract_and_sites_and_sources_are_tried_first(
    tab: Tab, client: httpx.AsyncClient, site: str
) -> None:
    await client.post("/api/collections", json={"collectionId": "console-site"})
    await go(tab, "documents/console-site/settings")
    await fill(tab, "#settings", "Chunk size", "900")
    await fill(tab, "#settings", "Chunk overlap", "500")
    await fill(tab, "#settings", "Allow private addresses", "true")
    await tab.click("#settings .primary")
    await tab.until("document.querySelector('#settings > .note.bad')")
    assert "chunk_overlap" in (await tab.text("#settings > .note.bad")).replace(
        "chunkOverlap", "chunk_overlap"
    )
    tab.complaints = [each for each in tab.complaints if "status of 400" not in each]
    await fill(tab, "#settings", "Chunk overlap", "")
    await tab.click("#settings .primary")
    await tab.until("document.querySelector('#announcer').textContent === 'Saved'")
    settings = (await client.get("/api/collections/console-site")).json()["collection"]["settings"]
    assert settings["chunking"]["chunkSize"] == 900
    assert settings["crawl"] == {"allowPrivateAddresses": True}

    await go(tab, "documents/console-site")
    await tab.click("#crawl > summary")
    await fill(tab, "#crawl", "Start URL", site)
    await fill(tab, "#crawl", "Delay seconds", "0")
    await tab.click("#crawl .primary")
    await tab.until("document.querySelectorAll('#crawl .items li').length === 2")
    assert "New" in await tab.text("#crawl .items li")
    assert (await client.get("/api/collections/console-site/documents")).json()["documents"] == []

    await go(tab, "documents/console-site/sources")
    await tab.click("#new-source > summary")
    await fill(tab, "#new-source", "Name", "the site")
    await fill(tab, "#new-source", "Start URL", site)
    await fill(tab, "#new-source", "Delay seconds", "0")
    await tab.click("#new-source .primary")
    await tab.until("document.querySelector('#sources h3')?.textContent === 'the site'")
    assert "paused" in await tab.text("#sources .hint")
    await tab.click("#sources .row button")
    await tab.until("document.querySelectorAll('#sources .items li').length >= 2")
    assert (await client.get("/api/collections/console-site/documents")).json()["documents"] == []
    await tab.click("#sources .row button", 1)
    await tab.until("/Done(?!Dry run)/.test(document.querySelector('#sources .job')?.textContent)")
    listed = (await client.get("/api/collections/console-site/documents")).json()["documents"]
    assert {each["uri"] for each in listed} == {f"{site}/", f"{site}/use"}

    await go(tab, "documents/console-site/settings")
    await tab.click("#settings > .row button:last-child")
    assert "All 2 documents" in await tab.text("#indexing")
    await tab.click("#indexing .primary")
    await tab.until("location.hash === '#documents/console-site'")
    await tab.click("#jobs > summary")
    await tab.until("document.querySelector('#jobs .job')?.textContent.includes('Done')")
    await client.delete("/api/collections/console-site")


async def test_a_new_index_waits_until_it_is_used_and_the_one_before_comes_back(
    tab: Tab, client: httpx.AsyncClient
) -> None:
    address = "/api/collections/console-index"
    await client.post("/api/collections", json={"collectionId": "console-index"})
    body = {"documents": [{"uri": "a.md", "text": "The pump takes 3 litres."}]}
    await ended_job(client, (await client.post(f"{address}/documents", json=body)).json()["job"]["jobId"])

    await go(tab, "documents/console-index/settings")
    await tab.click("#settings > .row button:last-child")
    for choice in range(2):
        await tab.click("#indexing input[type=checkbox]", choice)
    await tab.click("#indexing .primary")
    await tab.until("location.hash === '#documents/console-index'")
    await tab.click("#jobs > summary")
    await tab.click("#jobs .swap")
    await tab.until("document.querySelector('#jobs .job')?.textContent.includes('Done')")

    await go(tab, "documents/console-index/settings")
    await tab.click("#kept-index button")
    await tab.until("location.hash === '#documents/console-index'")
    await tab.click("#jobs > summary")
    await tab.until("document.querySelectorAll('#jobs .job').length === 3")
    await tab.until("document.querySelector('#jobs .job')?.textContent.includes('Done')")
    shown = (await client.get(address)).json()["collection"]
    assert shown["hasPreviousIndex"], "the one that was replaced is kept in its place"
    await client.delete(address)


async def test_it_speaks_the_readers_language(stack: Stack, tab: Tab) -> None:
    agent = await tab.js("navigator.userAgent")
    await tab.command("Emulation.setUserAgentOverride", userAgent=agent, acceptLanguage="de-DE,de")
    await tab.visit(f"{stack.ready['gateway']}/")
    await tab.ask("Wie viele Urlaubstage haben Vollzeitbeschäftigte in Kiel?")
    await tab.until(ANSWERED)

    assert await tab.js("document.documentElement.lang") == "de-DE"
    assert await tab.text("nav a") == "Fragen|Suchen|Dokumente|Auswertung|Betrieb"
    assert await tab.text("#send") == "Fragen"
    assert "Verlässlichkeit" in await tab.text("article .note") or "%" in await tab.text("article .note")
    await tab.js("location.hash = '#documents'; 0")
    await tab.until("document.querySelector('main form select')?.value === 'german'")
    await go(tab, "documents/examples/settings")
    await tab.until("document.querySelector('#settings')?.innerText.includes('Zerteilung')")
