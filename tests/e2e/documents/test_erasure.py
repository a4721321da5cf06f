"""Erasure: deleted data leaves no trace, and whoever lost the right to read is shown nothing."""

import base64
from collections.abc import AsyncIterator
from typing import Any, Final

import httpx
import pytest
from groundline_tests.suite import Stack, ended_job

MARKER: Final = "Quillfeather"
QUESTION: Final = "Which name does the bird in the harbour have?"
TEXT: Final = f"The bird in the harbour has the name {MARKER}. It eats herring."


@pytest.fixture
async def collection(client: httpx.AsyncClient) -> AsyncIterator[str]:
    made = await client.post("/api/collections", json={"collectionId": "erasure"})
    assert made.status_code == 200, made.text
    yield "/api/collections/erasure"
    await client.delete("/api/collections/erasure")


async def ingest(client: httpx.AsyncClient, collection: str, *documents: dict[str, Any]) -> None:
    ingested = await client.post(f"{collection}/documents", json={"documents": documents})
    assert ingested.status_code == 200, ingested.text
    await ended_job(client, ingested.json()["job"]["jobId"])


async def ask(client: httpx.AsyncClient, request_id: str) -> dict[str, Any]:
    body = {"query": QUESTION, "collectionIds": ["erasure"], "requestId": request_id}
    response = await client.post("/api/answer", json=body)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


async def traces(stack: Stack, text: str) -> tuple[int, str]:
    found = await stack.command("traces", text, "--database-url", stack.ready["database_url"])
    assert not found.err, found.err
    return found.code, found.out


async def test_deleted_documents_are_gone(stack: Stack, client: httpx.AsyncClient, collection: str) -> None:
    broken = base64.b64encode(f"%PDF-1.7 {MARKER}".encode()).decode()
    await ingest(
        client,
        collection,
        {"uri": "bird.md", "text": TEXT, "title": f"On {MARKER}", "metadata": {"name": MARKER}},
        {"uri": "broken.pdf", "data": broken, "mimeType": "application/pdf", "title": f"Of {MARKER}"},
        {"uri": "ship.md", "text": "The ship in the harbour is blue."},
    )
    answer = await ask(client, "erased")
    assert MARKER in answer["answer"]
    code, shown = await traces(stack, MARKER)
    assert code == 1
    for table in ("chunks_", "document_texts", "documents", "messages", "ingestion_payloads"):
        assert table in shown

    for document in (await client.get(f"{collection}/documents")).json()["documents"]:
        if document["uri"] != "ship.md":
            gone = await client.delete(f"{collection}/documents/{document['documentId']}")
            assert gone.status_code == 200, gone.text

    assert await traces(stack, MARKER) == (0, "nothing found\n")
    thread = (await client.get(f"/api/threads/{answer['threadId']}")).json()
    assert [message["content"] for message in thread["messages"]] == [QUESTION, ""]
    assert thread["messages"][1]["isWithheld"]
    assert MARKER not in (await ask(client, "erased"))["answer"]
    assert await traces(stack, MARKER) == (0, "nothing found\n")


async def test_a_deleted_collections_text_is_nowhere(
    stack: Stack, client: httpx.AsyncClient, collection: str
) -> None:
    await ingest(client, collection, {"uri": "bird.md", "text": TEXT})
    assert MARKER in (await ask(client, "collection-erased"))["answer"]
    assert (await client.delete(collection)).status_code == 200

    assert await traces(stack, MARKER) == (0, "nothing found\n")
    assert (await traces(stack, "xyzzy plugh"))[0] == 0


async def test_who_may_not_read_a_document_any_more_is_shown_nothing_of_it(
    client: httpx.AsyncClient, collection: str
) -> None:
    await ingest(client, collection, {"uri": "bird.md", "text": TEXT})
    answer = await ask(client, "lost")
    assert MARKER in answer["answer"]
    await ingest(client, collection, {"uri": "bird.md", "text": TEXT, "allowedPrincipals": ["user:another"]})

    thread = f"/api/threads/{answer['threadId']}"
    follow_up = {"query": "And what does it eat?", "threadId": answer["threadId"]}
    shown = [
        (await client.get(thread)).text,
        str(await ask(client, "lost")),
        (await client.post("/api/answer", json=follow_up | {"collectionIds": ["erasure"]})).text,
        (await client.post("/api/search", json={"query": QUESTION, "collectionIds": ["erasure"]})).text,
        (await client.get(f"{collection}/documents")).text,
        (await client.get("/api/threads")).text,
    ]
    assert [MARKER in each for each in shown] == [False] * len(shown)
    assert 'isWithheld":true' in shown[0].replace(" ", "")
