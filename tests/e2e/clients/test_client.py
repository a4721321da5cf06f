"""The clients against the running suite."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from typing import Final

import pytest
from groundline_client import ApiError, AsyncClient, Client, has_ended
from groundline_client.models import (
    ChatCompleted,
    ChatDelta,
    ChatOptions,
    ChatSources,
    ChatStarted,
    ChatStatus,
    CollectionSettings,
    DocumentInput,
    FinishReason,
    IngestionState,
    JobState,
    LexicalSettings,
    RerankOptions,
    RetrievalMode,
    RetrievalOptions,
    Role,
    SearchOptions,
)
from groundline_tests.programs import needs_program
from groundline_tests.suite import ROOT, Stack

QUESTION: Final = "How many days of leave do I have?"


@pytest.fixture
async def typed(stack: Stack) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(stack.ready["gateway"], stack.ready["api_key"]) as client:
        yield client


async def test_every_wrong_field_of_a_request_is_named(typed: AsyncClient) -> None:
    options = SearchOptions(rerank=RerankOptions(top_k=1000), retrieval=RetrievalOptions(ef_search=0))
    with pytest.raises(ApiError) as raised:
        await typed.search(QUESTION, options=options)
    assert raised.value.reason == "INVALID_REQUEST"
    assert len(raised.value.violations) == 2
    assert not raised.value.retryable


async def test_what_is_not_there_is_not_found(typed: AsyncClient) -> None:
    with pytest.raises(ApiError) as raised:
        await typed.get_collection("nowhere")
    assert (raised.value.http_status, raised.value.reason) == (404, "COLLECTION_NOT_FOUND")


async def test_a_chat_tells_what_happens_in_typed_events(typed: AsyncClient) -> None:
    events = [event async for event in typed.chat(QUESTION, collection_ids=["examples"])]
    started, *_, completed = events
    sources = next(event.sources for event in events if isinstance(event, ChatSources))
    answer = "".join(event.text for event in events if isinstance(event, ChatDelta))
    assert isinstance(started, ChatStarted)
    assert any(isinstance(event, ChatStatus) for event in events)
    assert isinstance(completed, ChatCompleted)
    assert completed.finish_reason == FinishReason.STOP
    assert completed.usage is not None
    for citation in completed.citations:
        assert f"[{citation.source_number}]" in answer
        assert sources[citation.source_number - 1].chunk_id == citation.chunk_id
    messages = [message async for message in typed.list_messages(started.thread_id)]
    assert [(message.role, message.content) for message in messages] == [
        (Role.USER, QUESTION),
        (Role.ASSISTANT, answer),
    ]
    assert started.thread_id in [thread.thread_id async for thread in typed.list_threads()]
    assert (await typed.get_thread(started.thread_id)).title == QUESTION
    await typed.delete_thread(started.thread_id)


async def test_a_thread_is_renamed_and_pinned(stack: Stack, typed: AsyncClient) -> None:
    started, *_ = [event async for event in typed.chat(QUESTION, collection_ids=["examples"])]
    assert isinstance(started, ChatStarted)
    renamed = await stack.command("threads", "update", started.thread_id, "--title", "Screws", "--pin")
    assert renamed.code == 0, renamed.err
    assert [(each.title, each.is_pinned) async for each in typed.list_threads(limit=1)] == [("Screws", True)]
    assert "yes" in (await stack.command("threads", "list")).out
    refused = await stack.command("threads", "update", started.thread_id)
    assert (refused.code, "give --title, --pin or --unpin" in refused.err) == (2, True)
    unpinned = await typed.update_thread(started.thread_id, is_pinned=False)
    assert (unpinned.title, unpinned.is_pinned) == ("Screws", False)
    await typed.delete_thread(started.thread_id)


async def test_an_answer_with_a_request_id_is_given_once(typed: AsyncClient) -> None:
    options = ChatOptions(retrieval=RetrievalOptions(mode=RetrievalMode.KEYWORD))
    first = await typed.answer(QUESTION, collection_ids=["examples"], options=options, request_id="client-1")
    again = await typed.answer(QUESTION, collection_ids=["examples"], options=options, request_id="client-1")
    assert again.message_id == first.message_id
    assert again.answer == first.answer != ""


async def test_closing_a_chat_cancels_it(typed: AsyncClient) -> None:
    events = typed.chat(QUESTION, collection_ids=["examples"])
    started = await anext(events)
    await events.aclose()
    assert isinstance(started, ChatStarted)


def test_a_collection_from_its_creation_to_its_end_by_the_blocking_client(stack: Stack) -> None:
    with Client(stack.ready["gateway"], stack.ready["api_key"]) as client:
        settings = CollectionSettings(lexical=LexicalSettings(language="german"))
        made = client.create_collection("client-docs", name="Docs", settings=settings)
        assert made.settings is not None
        assert made.settings.lexical == LexicalSettings(language="german")
        changed = client.update_collection("client-docs", name="Papers", update_mask=["name"])
        assert changed.name == "Papers"

        document = DocumentInput(
            uri="turm.md", text="# Turm\n\nDer Turm ist 93 Meter hoch.", metadata={"year": 2024}
        )
        job = client.ingest_documents("client-docs", [document]).job
        told: list[int] = []
        upload = client.upload_document(
            "client-docs",
            b"Das Tor ist 12 Meter breit.",
            uri="tor.txt",
            title="Das Tor",
            metadata={"year": 2025},
            mime_type="text/plain",
            on_progress=told.append,
        )
        assert job is not None
        assert upload.job is not None
        for job_id in (job.job_id, upload.job.job_id):
            assert client.wait_for_job(job_id, timeout_seconds=60).state == JobState.DONE
        assert told == [27]
        assert [item.uri for item in client.list_job_items(job.job_id)] == ["turm.md"]

        found = list(client.list_documents("client-docs"))
        assert [(d.uri, d.state, d.metadata) for d in found] == [
            ("tor.txt", IngestionState.DONE, {"year": 2025}),
            ("turm.md", IngestionState.DONE, {"year": 2024}),
        ]
        assert client.get_document("client-docs", found[0].document_id).title == "Das Tor"
        passages = client.search(
            "Wie hoch ist der Turm?", collection_ids=["client-docs"], filter={"year": {"$lt": 2025}}
        ).passages
        assert [passage.chunk.uri for passage in passages if passage.chunk] == ["turm.md"]

        assert client.get_collection_stats("client-docs").chunk_count == 2
        assert client.delete_documents("client-docs", {"year": 2025}, dry_run=True) == 1
        client.delete_document("client-docs", found[0].document_id)
        assert client.delete_documents("client-docs", {"year": 2024}) == 1
        client.delete_collection("client-docs")
        assert "client-docs" not in [one.collection_id for one in client.list_collections()]


async def test_a_job_that_is_watched_and_cancelled_has_ended(typed: AsyncClient) -> None:
    await typed.create_collection("client-jobs")
    response = await typed.ingest_documents(
        "client-jobs", [{"uri": f"{n}.txt", "text": "word " * 2000} for n in range(50)]
    )
    assert response.job is not None
    async with asyncio.timeout(120):
        cancelled = await typed.cancel_job(response.job.job_id)
        changes = [change.job async for change in typed.watch_job(response.job.job_id)]
    assert has_ended(cancelled) or changes
    assert changes[-1] is not None
    assert has_ended(changes[-1])
    await typed.delete_collection("client-jobs")


@needs_program("nodejs", found=shutil.which("node") is not None)
async def test_the_typescript_client_passes_its_tests_of_the_gateway(stack: Stack) -> None:
    process = await asyncio.create_subprocess_exec(
        "node",
        "--test",
        str(ROOT / "clients/typescript/test/gateway.test.js"),
        env=stack.environment,
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    assert process.returncode == 0, out.decode()
