"""Citations that hold: what was cited can be read and compared after its document has changed."""

import json
from collections.abc import AsyncIterator
from typing import Any, Final

import httpx
import pytest
from groundline_tests.suite import Stack, ended_job

BEFORE: Final = "# Hatches\n\nThe hatch of the Brumblefix takes 1.8 Nm.\n\nIt has four screws.\n"
AFTER: Final = (
    "# Hatches\n\nSafety first.\n\nThe hatch of the Brumblefix takes 2.4 Nm.\n\nIt has four screws.\n"
)
CITED: Final = "The hatch of the Brumblefix takes 1.8 Nm."
QUESTION: Final = "Which torque does the hatch of the Brumblefix take?"

type Json = dict[str, Any]


@pytest.fixture
async def manuals(stack: Stack) -> AsyncIterator[str]:
    """A collection without a history of its own."""
    async with stack.client() as client:
        made = await client.post("/api/collections", json={"collectionId": "manuals"})
        assert made.status_code == 200, made.text
        yield "/api/collections/manuals"
        await client.delete("/api/collections/manuals")


async def put(client: httpx.AsyncClient, manuals: str, text: str, **document: Any) -> Json:
    """Hand in hatches.md; return it."""
    body = {"documents": [{"uri": "hatches.md", "text": text, **document}]}
    response = await client.post(f"{manuals}/documents", json=body)
    await ended_job(client, response.json()["job"]["jobId"])
    [found] = (await client.get(f"{manuals}/documents")).json()["documents"]
    return dict(found)


async def answered(client: httpx.AsyncClient) -> Json:
    body = {"query": QUESTION, "collectionIds": ["manuals"]}
    response = await client.post("/api/answer", json=body)
    assert response.status_code == 200, response.text
    return dict(response.json())


async def shown(client: httpx.AsyncClient, thread_id: str) -> Json:
    """Return the answer as its thread shows it."""
    return dict((await client.get(f"/api/threads/{thread_id}")).json()["messages"][1])


async def revisions(client: httpx.AsyncClient, manuals: str, document_id: str) -> list[str]:
    listed = (await client.get(f"{manuals}/documents/{document_id}/revisions")).json()
    return [each["revision"] for each in listed["revisions"]]


async def test_a_citation_shows_what_it_cited_after_the_document_has_changed(
    client: httpx.AsyncClient, manuals: str
) -> None:
    document = await put(client, manuals, BEFORE)
    address = f"{manuals}/documents/{document['documentId']}"
    answer = await answered(client)
    [source] = answer["sources"]
    assert source["revision"] == document["revision"]
    before = await shown(client, answer["threadId"])
    assert not before["sources"][0]["isOutdated"]

    replaced = await put(client, manuals, AFTER)

    assert replaced["revision"] != document["revision"]
    after = await shown(client, answer["threadId"])
    assert after["content"] == answer["answer"]
    assert after["sources"][0]["isOutdated"]
    assert CITED in after["sources"][0]["snippet"]
    assert [each["supportingText"] for each in after["citations"]] == [
        each["supportingText"] for each in before["citations"]
    ]
    assert await revisions(client, manuals, document["documentId"]) == [
        replaced["revision"],
        document["revision"],
    ]
    text = (await client.get(f"{address}/text", params={"revision": document["revision"]})).json()["text"]
    assert text == BEFORE
    kept = (await client.get(f"{address}/revisions/{document['revision']}")).json()["revision"]
    assert (kept["contentHash"], kept["isCurrent"]) == (document["contentHash"], False)

    # The cited sentence, named by its offsets in the revision, is compared with the text in use.
    start = BEFORE.index(CITED)
    span = {"startOffset": start, "endOffset": start + len(CITED)}
    compared = await client.get(f"{address}/revisions/{document['revision']}:compare", params=span)
    found = compared.json()
    assert found["fate"] == "TEXT_FATE_CHANGED"
    assert AFTER[found["startOffset"] : found["endOffset"]] == CITED.replace("1.8", "2.4")
    whole = (await client.get(f"{address}/revisions/{document['revision']}:compare")).json()
    assert (
        "".join(each["text"] for each in whole["texts"] if each["change"] != "TEXT_CHANGE_DELETED") == AFTER
    )

    # The answer goes with its thread, and its revision with it.
    await client.delete(f"/api/threads/{answer['threadId']}")
    await put(client, manuals, BEFORE + "Once more.\n")
    assert document["revision"] not in await revisions(client, manuals, document["documentId"])


async def test_an_index_that_was_built_again_leaves_the_cited_texts(
    client: httpx.AsyncClient, manuals: str
) -> None:
    document = await put(client, manuals, BEFORE)
    answer = await answered(client)
    before = await shown(client, answer["threadId"])
    job = await client.post(f"{manuals}:reindex", json={"settings": {"chunking": {"chunkSize": 400}}})
    await ended_job(client, job.json()["job"]["jobId"])
    after = await shown(client, answer["threadId"])
    assert (after["sources"][0]["snippet"], after["citations"]) == (
        before["sources"][0]["snippet"],
        before["citations"],
    )
    assert not after["sources"][0]["isOutdated"]
    assert await revisions(client, manuals, document["documentId"]) == [document["revision"]]


async def test_nothing_is_left_of_what_was_deleted(
    client: httpx.AsyncClient, stack: Stack, manuals: str
) -> None:
    document = await put(client, manuals, BEFORE.replace("Brumblefix", "Wobblequark"))
    body = {"query": QUESTION.replace("Brumblefix", "Wobblequark"), "collectionIds": ["manuals"]}
    answer = (await client.post("/api/answer", json=body)).json()
    assert "Wobblequark" in answer["answer"]
    await put(client, manuals, "Nothing of this kind.")
    assert len(await revisions(client, manuals, document["documentId"])) == 2
    deleted = await client.delete(f"{manuals}/documents/{document['documentId']}")
    assert deleted.status_code == 200
    traces = await stack.command(
        "traces", "takes 1.8 Nm", "--database-url", stack.ready["database_url"], "--json"
    )
    tables = {each["table"] for each in json.loads(traces.out)["traces"]}
    assert tables & {"document_revisions", "revision_segments", "messages", "documents"} == set()


async def test_the_command_lists_compares_and_prints_revisions(
    client: httpx.AsyncClient, stack: Stack, manuals: str
) -> None:
    settings = {"settings": {"history": {"revisions": 2}}}
    changed = await client.patch(manuals, json=settings)
    assert changed.status_code == 200, changed.text
    document = await put(client, manuals, BEFORE)
    await put(client, manuals, AFTER)
    start = BEFORE.index(CITED)

    listed = await stack.command("revisions", "manuals", "hatches.md")
    assert document["revision"] in listed.out
    assert "in use" in listed.out
    compared = await stack.command(
        *("revisions", "manuals", "hatches.md", "--compare", document["revision"]),
        *("--span", str(start), str(start + len(CITED))),
    )
    assert "the text has changed" in compared.out
    assert "takes [-1-]{+2+}.[-8-]{+4+} Nm." in compared.out
    text = await stack.command(
        "document", "manuals", "hatches.md", "--text", "--revision", document["revision"]
    )
    assert CITED in text.out
    back = await stack.command("rollback", "manuals", "hatches.md", document["revision"], "--json")
    assert (back.code, json.loads(back.out)["job"]["state"]) == (0, "JOB_STATE_DONE")
    [now] = (await client.get(f"{manuals}/documents")).json()["documents"]
    assert (now["revision"], now["contentHash"]) == (document["revision"], document["contentHash"])
    found = await client.post("/api/search", json={"query": QUESTION, "collectionIds": ["manuals"]})
    assert CITED in found.json()["passages"][0]["chunk"]["text"]
    assert len(await revisions(client, manuals, document["documentId"])) == 2
    gone = await stack.command("document", "manuals", "hatches.md", "--text", "--revision", "0" * 32)
    assert (gone.code, "no revision" in gone.err) == (1, True)
    assert (await stack.command("revisions", "manuals", "hatches.md", "--with", "0" * 32)).code == 2
