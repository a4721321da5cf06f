"""The page in a browser: how the installation does, for those who keep it going."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import grpc
from google.api.httpbody_pb2 import HttpBody  # type: ignore[import-untyped]
from google.protobuf.timestamp_pb2 import Timestamp
from groundline.v1 import (
    administration_service_pb2,
    api_key_pb2,
    audit_entry_pb2,
    coordinator_service_pb2,
    document_pb2,
    evidence_pb2,
    ingestor_service_pb2,
    job_pb2,
    quota_pb2,
    source_pb2,
)
from groundline_tests.browser import CHROMIUM, Tab
from groundline_tests.gateway.console import AXE, axe_program
from groundline_tests.gateway.page import KEY, MARKUP, NOBODY_ID
from groundline_tests.programs import needs_program

pytestmark = needs_program("chromium", found=CHROMIUM is not None)

# Keeps the text of what the page saves.
SAVED = """
    const make = URL.createObjectURL;
    URL.createObjectURL = (blob) => {
        blob.text().then((text) => { window.saved = text; });
        return make.call(URL, blob);
    };
    0
"""
SECTIONS = (
    "services", "all-jobs", "all-sources", "indexes", "own-quotas", "erasures", "spending", "keys", "audit",
    "by-command",
)  # fmt: skip


def collections(upstream: Any, *ids: str) -> None:
    found = ingestor_service_pb2.ListCollectionsResponse()
    for each in ids:
        found.collections.add(collection_id=each)
    upstream.gives(found)


async def test_what_is_not_for_the_key_and_what_is_down_says_so_and_the_rest_is_shown(
    upstream: Any, launch: Any, unused: int, module_browser: Tab
) -> None:
    collections(upstream, "docs")
    searcher = {"key": KEY, "client": "alice", "principals": ["user:alice"], "scopes": ["search"]}
    async with launch(api_keys=[searcher], coordinator_address=f"127.0.0.1:{unused}") as gateway:
        await gateway.becomes(503)
        tab = module_browser
        await tab.open(f"{gateway.url}/#key={KEY}")
        await tab.js("location.hash = 'operations'")
        await tab.until("document.querySelector('.health.notReady')")
        await tab.until("document.querySelector('#indexes tbody tr') && document.querySelector('.note.bad')")
        health = await tab.text("#services li")
        notes = {each: await tab.text(f"#{each} .note") for each in SECTIONS}

    assert "coordinator\nanswers questions\nNot ready" in health
    assert health.count("Ready") == 5
    assert await tab.text("#announcer") == "coordinator is not ready"
    assert "the coordinator is not available" in notes.pop("own-quotas")
    refused = ("all-jobs", "all-sources", "erasures", "spending", "keys", "audit")
    assert notes == dict.fromkeys(notes, "") | dict.fromkeys(refused, "Your key is not for this.")


async def test_collections_whose_reader_does_not_administer_them_are_counted(upstream: Any, tab: Tab) -> None:
    async def sources(request: Any, context: Any) -> Any:
        if request.collection_id == "secret":
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, "you may not administer it")
        if request.collection_id == "gone":
            await context.abort(grpc.StatusCode.NOT_FOUND, "no collection 'gone'")
        return ingestor_service_pb2.ListSourcesResponse()

    collections(upstream, "docs", "secret", "gone")
    upstream.on("ListSources", sources)
    await tab.js("location.hash = 'operations'")
    await tab.until("document.querySelector('#all-sources .hint')?.innerText.includes('follows')")
    hints = await tab.text("#all-sources .hint")
    assert hints == "No collection follows a source.|1 collection is not shown: your key is not for it."


async def test_pictures_that_were_not_described_are_said_at_their_document(upstream: Any, tab: Tab) -> None:
    done = job_pb2.IngestionJob(job_id="d", collection_id="docs", state=job_pb2.JOB_STATE_DONE)

    upstream.gives(ingestor_service_pb2.ListJobsResponse(jobs=[done]))
    found = ingestor_service_pb2.GetJobResponse(job=done)
    found.items.add(item_index=0, uri="whole.pdf", outcome=job_pb2.INGESTION_OUTCOME_CREATED)
    found.items.add(item_index=1, uri="drawn.pdf", undescribed_picture_count=2)
    upstream.gives(found)
    await tab.js("location.hash = 'operations'")
    await tab.click("#all-jobs .items summary")
    await tab.until("document.querySelectorAll('#all-jobs .items li').length === 2")
    undescribed = "2 pictures not described. Bring the document in again to try once more."
    assert await tab.text("#all-jobs .items .warn") == undescribed


async def test_what_fails_comes_first_and_names_stay_data(upstream: Any, tab: Tab) -> None:
    failed = job_pb2.IngestionJob(
        job_id="f",
        collection_id="docs",
        state=job_pb2.JOB_STATE_DONE,
        item_count=3,
        done_count=2,
        failed_count=1,
    )
    failed.usage.cost_usd = 1.25

    collections(upstream, "docs", "more")
    well = source_pb2.DocumentSource(source_id="1", collection_id="docs", name="well", is_paused=True)
    ill = source_pb2.DocumentSource(source_id="2", collection_id="docs", name=MARKUP, last_job=failed)
    upstream.gives(ingestor_service_pb2.ListSourcesResponse(sources=[well, ill]))
    found = ingestor_service_pb2.CollectionStats(chunk_count=9, vector_count=7)
    found.states.add(state=document_pb2.INGESTION_STATE_DONE, document_count=4)
    found.states.add(state=document_pb2.INGESTION_STATE_EMBEDDING, document_count=2)
    found.states.add(state=document_pb2.INGESTION_STATE_FAILED, document_count=1)
    upstream.gives(ingestor_service_pb2.GetCollectionStatsResponse(stats=found))
    done = job_pb2.IngestionJob(job_id="d", collection_id="docs", state=job_pb2.JOB_STATE_DONE, done_count=1)
    upstream.gives(ingestor_service_pb2.ListJobsResponse(jobs=[done, failed]))
    await tab.js("location.hash = 'operations'")
    await tab.until("document.querySelectorAll('#all-jobs .job').length === 2")
    assert "The last 2 jobs cost 1.25 US dollars" in await tab.text("#all-jobs .hint")
    await tab.write("#all-jobs select", "failed")
    await tab.until("document.querySelectorAll('#all-jobs .job').length === 1")
    assert "2 of 3, 1 failed" in await tab.text("#all-jobs .job")

    await tab.until("document.querySelectorAll('#all-sources tbody tr').length === 4")
    assert (await tab.text("#all-sources tbody td:first-child")).split("|") == [
        MARKUP,
        MARKUP,
        "well",
        "well",
    ]
    await tab.until("document.querySelector('#indexes tfoot')")
    assert (await tab.text("#indexes tbody tr:first-child")).split("\t")[:6] == [
        "docs",
        "4",
        "2",
        "1",
        "9",
        "2",
    ]
    assert (await tab.text("#indexes tfoot td")).split("|")[:5] == ["8", "4", "2", "18", "4"]
    assert await tab.js("document.title") == "Groundline"
    assert tab.complaints == []


async def test_a_certificate_of_an_erasure_is_saved_byte_for_byte(upstream: Any, tab: Tab) -> None:
    async def certificate(request: Any, _context: Any) -> AsyncIterator[Any]:
        assert request.erasure_id == NOBODY_ID
        content = HttpBody(content_type="application/json", data=b'{"signed":"\xc3\xbc"}')
        yield ingestor_service_pb2.GetErasureCertificateResponse(content=content)

    erasure = evidence_pb2.Erasure(erasure_id=NOBODY_ID, collection_id="docs", document_count=2)
    upstream.gives(ingestor_service_pb2.ListErasuresResponse(erasures=[erasure]))
    upstream.on("GetErasureCertificate", certificate)
    await tab.js(SAVED)
    await tab.js("location.hash = 'operations'")
    await tab.click("#erasures li button")
    await tab.until("window.saved")
    assert await tab.js("window.saved") == '{"signed":"ü"}'
    assert tab.complaints == []


class ScriptedKeys:
    """Keys that the page has created, and ids of those that it has revoked."""

    def __init__(self, upstream: Any) -> None:
        self.made: Sequence[Any] = ()
        self.revoked: Sequence[str] = ()
        upstream.on("ListApiKeys", self.list)
        upstream.on("CreateApiKey", self.create)
        upstream.on("RevokeApiKey", self.revoke)

    async def list(self, _request: Any, _context: Any) -> Any:
        state = api_key_pb2.API_KEY_STATE_REVOKED if self.revoked else api_key_pb2.API_KEY_STATE_ACTIVE
        keys = [
            api_key_pb2.ApiKey(
                key_id=f"0000000{number}",
                name=each.name,
                state=state,
                scopes=each.scopes,
                last_use_time=Timestamp(seconds=1_769_860_800),
            )
            for number, each in enumerate(self.made)
        ]
        return administration_service_pb2.ListApiKeysResponse(keys=keys)

    async def create(self, request: Any, context: Any) -> Any:
        if request.name == "wrong":
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the name is taken amiss")
        self.made = [*self.made, request]
        return administration_service_pb2.CreateApiKeyResponse(secret="glk_0000000once")

    async def revoke(self, request: Any, _context: Any) -> Any:
        self.revoked = [*self.revoked, request.key_id]
        return administration_service_pb2.RevokeApiKeyResponse()


async def test_a_key_is_created_shown_once_and_revoked_if_confirmed(upstream: Any, tab: Tab) -> None:
    keys = ScriptedKeys(upstream)
    await tab.js("location.hash = 'operations'")
    await tab.until("document.querySelector('#keys .hint + button')")
    assert "There are no keys here yet." in await tab.text("#keys .hint")
    await tab.click("#keys .hint + button")
    await tab.write("#new-key [name=name]", "wrong")
    await tab.write("#new-key [name=principals]", "user:app, group:app")
    await tab.click("#new-key [value=search]")
    await tab.click("#new-key .primary")
    await tab.until("document.querySelector('#new-key .note.bad')")
    assert "amiss" in await tab.text("#new-key .note.bad")
    await tab.write("#new-key [name=name]", "app")
    await tab.click("#new-key .primary")
    await tab.until("document.querySelector('#new-key .secret')")
    assert await tab.text("#new-key .secret") == "glk_0000000once"
    await tab.js(axe_program())
    assert await tab.js(AXE) == []
    await tab.click("#new-key .close")
    await tab.until("!document.querySelector('#new-key') && document.querySelector('#keys tbody tr')")
    assert "glk_0000000once" not in await tab.js("document.documentElement.outerHTML")
    [asked] = keys.made
    assert (list(asked.principals), list(asked.scopes)) == (["user:app", "group:app"], ["search"])

    assert "\tJan 31, 2026" in await tab.text("#keys tbody tr")
    await tab.click("#keys tbody button")
    await tab.until("document.querySelector('#revoke-key .primary')")
    assert not keys.revoked
    await tab.click("#revoke-key .primary")
    await tab.until("document.querySelector('#keys tbody')?.innerText.includes('revoked')")
    assert keys.revoked == ["00000000"]
    assert await tab.js(AXE) == []


async def test_what_all_or_one_caller_used_is_shown_with_sums_and_budgets(upstream: Any, tab: Tab) -> None:
    async def used(request: Any, context: Any) -> Any:
        if request.caller == "away":
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the database is out of reach")
        report = coordinator_service_pb2.GetUsageResponse()
        if request.caller == "nobody":
            return report
        numbers: Any = {"answers": 3, "prompt_tokens": 12_345, "cached_tokens": 40, "output_tokens": 15}
        report.total.MergeFrom(quota_pb2.UsageSum(cost_usd=3.5, **numbers))
        report.callers.add(name=request.caller or MARKUP, cost_usd=3.5, **numbers)
        report.models.add(name="large", cost_usd=0.75, **numbers)
        report.days.add(name="2026-01-31", cost_usd=request.days, **numbers)
        report.quotas.add(quota=quota_pb2.QUOTA_TOTAL_COST_MONTH, used=3.5, limit=100)
        return report

    upstream.on("GetUsage", used)

    async def ask_for(caller: str) -> None:
        await tab.write("#spending input", caller)
        await tab.write("#spending select", "30")
        await tab.click("#spending form button")

    await tab.js("location.hash = 'operations'")
    await tab.until("document.querySelectorAll('#spending tbody tr').length === 4")
    rows = (await tab.text("#spending tr")).split("|")
    assert [row.split("\t")[:4] for row in rows if "345" in row] == [
        ["large", "0.75", "3", "12,345"],
        ["All of these", "3.5", "3", "12,345"],
        [MARKUP, "3.5", "3", "12,345"],
        ["Jan 31, 2026", "7", "3", "12,345"],
    ]
    assert "US dollars of everybody this month" in await tab.text("#spending .facts")
    await tab.js(axe_program())
    assert await tab.js(AXE) == []

    await ask_for("user:ann")
    await tab.until("document.querySelector('#spending')?.innerText.includes('user:ann')")
    assert "\t30\t" in (await tab.text("#spending tbody")).split("|")[2]
    await ask_for("nobody")
    await tab.until("document.querySelector('#spending') && !document.querySelector('#spending table')")
    assert "There are no quotas." in await tab.text("#spending")
    await ask_for("away")
    await tab.until("document.querySelector('#spending .note.bad')")
    assert await tab.js(AXE) == []


async def test_the_audit_log_is_shown_by_client_as_far_as_is_wanted(upstream: Any, tab: Tab) -> None:
    async def listed(request: Any, context: Any) -> Any:
        if request.client == "away":
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the database is out of reach")
        page = administration_service_pb2.ListAuditEntriesResponse()
        if request.client == "nobody":
            return page
        first = int(request.page_token or 1)
        if request.client == "rare" and first < 12:  # pages on which none of its calls is
            page.next_page_token = str(first + 1)
            return page
        for number in range(first, first + min(request.page_size, 30)):
            page.entries.add(
                entry_id=str(number),
                client=request.client or MARKUP,
                action="DeleteDocument",
                resource="/api/x",
            )
        page.entries[0].MergeFrom(
            audit_entry_pb2.AuditEntry(status=200, grpc_status="PermissionDenied", is_dry_run=True)
        )
        page.entries[1].status = 403
        page.next_page_token = str(first + len(page.entries)) if first == 1 else ""
        return page

    upstream.on("ListAuditEntries", listed)

    async def ask_for(client: str) -> None:
        await tab.write("#audit input", client)
        await tab.click("#audit form button")

    await tab.js("location.hash = 'operations'")
    await tab.until("document.querySelectorAll('#audit tbody tr').length === 50")
    rows = [await tab.text(f"#audit tbody tr:nth-child({number})") for number in (1, 2, 3)]
    assert MARKUP in rows[0]
    assert "DeleteDocument (dry run)\tPermissionDenied" in rows[0]
    assert ["403" in rows[1], "done" in rows[2]] == [True, True]
    await tab.js(axe_program())
    assert await tab.js(AXE) == []

    await ask_for("rare")
    await tab.until("document.querySelector('#audit form + .hint')")
    assert await tab.text("#audit form + .hint") == "No such entries among the newest."
    await tab.click("#audit form + .hint + button")
    await tab.until("document.querySelector('#audit tbody')?.innerText.includes('rare')")
    await ask_for("nobody")
    await tab.until("document.querySelector('#audit form + .hint')")
    assert await tab.text("#audit form + .hint") == "The log has no such entries."
    assert await tab.js(AXE) == []
    await ask_for("away")
    await tab.until("document.querySelector('#audit .note.bad')")
    assert "out of reach" in await tab.text("#audit .note.bad")
