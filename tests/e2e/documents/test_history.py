"""Citations that hold: what was cited can be read and compared after its document has changed."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from groundline_tests.suite import EXAMPLES, Stack, ended_job

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


async def test_a_citation_outlives_a_change_of_its_document(client: httpx.AsyncClient, manuals: str) -> None:
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


async def test_an_index_built_again_leaves_the_cited_texts(client: httpx.AsyncClient, manuals: str) -> None:
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


async def test_nothing_is_left_of_a_deletion(client: httpx.AsyncClient, stack: Stack, manuals: str) -> None:
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
    assert (
        tables & {"document_revisions", "revision_segments", "revision_texts", "messages", "documents"}
        == set()
    )


async def test_the_command_compares_revisions(client: httpx.AsyncClient, stack: Stack, manuals: str) -> None:
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


async def test_evidence_of_an_answer_is_verified_offline_and_against_the_installation(
    client: httpx.AsyncClient, stack: Stack, manuals: str, tmp_path: Path
) -> None:
    document = await put(client, manuals, BEFORE)
    answer = await answered(client)
    bundle, keys = tmp_path / "evidence.json", tmp_path / "keys.json"
    exported = await stack.command(
        "evidence", "export", answer["threadId"], "--message", answer["messageId"], "-o", str(bundle)
    )
    assert exported.code == 0, exported.err
    assert (await stack.command("evidence", "keys", "-o", str(keys))).code == 0
    [evidence] = json.loads(bundle.read_bytes())["answers"]
    assert evidence["question"]["content"] == QUESTION
    assert evidence["answer"]["content"] == answer["answer"]
    assert evidence["passages"][0]["text"] == BEFORE.strip()
    checked, told = evidence["record"]["validation"], answer["completed"]["validation"]
    assert checked["confidence"] == pytest.approx(told["confidence"])
    assert (checked.keys(), checked["grounded"]) == (told.keys(), told["grounded"])

    offline = await stack.command("evidence", "verify", str(bundle), "--keys", str(keys))
    assert (offline.code, "the evidence holds" in offline.out) == (0, True), offline.err
    await put(client, manuals, AFTER)
    compared = await stack.command("evidence", "verify", str(bundle), "--json")
    states = [each["state"] for each in json.loads(compared.out)["passages"]]
    assert (compared.code, states) == (0, ["same"])

    # A later export has the text that was cited, and says that the document has another one by now.
    later = (await client.get(f"/api/threads/{answer['threadId']}/evidence")).json()["answers"][0]
    assert later["answer"]["sources"][0]["isOutdated"]
    assert later["passages"] == evidence["passages"]

    await client.delete(f"{manuals}/documents/{document['documentId']}")
    erased = await stack.command("evidence", "verify", str(bundle), "--json")
    assert [each["state"] for each in json.loads(erased.out)["passages"]] == ["gone"]
    withheld = (await client.get(f"/api/threads/{answer['threadId']}/evidence")).json()["answers"][0]
    assert "record" not in withheld
    assert (withheld["answer"]["content"], withheld["passages"]) == ("", [])

    bundle.write_bytes(bundle.read_bytes().replace(b"1.8", b"2.8"))
    forged = await stack.command("evidence", "verify", str(bundle))
    assert (forged.code, "does not hold" in forged.err) == (1, True)


async def test_evidence_that_was_signed_before_the_key_was_replaced_still_holds(
    client: httpx.AsyncClient, stack: Stack, manuals: str, tmp_path: Path
) -> None:
    await put(client, manuals, BEFORE)
    answer = await answered(client)
    bundles = [tmp_path / name for name in ("before.json", "after.json")]
    await stack.command("evidence", "export", answer["threadId"], "-o", str(bundles[0]))
    replaced = await stack.command("keys", "rotate-signing", "--database-url", stack.ready["database_url"])
    assert replaced.code == 0, replaced.err
    await stack.command("evidence", "export", answer["threadId"], "-o", str(bundles[1]))

    checked = [await stack.command("evidence", "verify", str(each), "--json") for each in bundles]

    assert [each.code for each in checked] == [0, 0]
    before, after = (json.loads(each.out)["keyId"] for each in checked)
    assert before != after
    assert after in replaced.out
    # Whoever has no key reads them too.
    async with httpx.AsyncClient(base_url=stack.ready["gateway"], trust_env=False) as anyone:
        published = (await anyone.get("/.well-known/jwks.json")).json()["keys"]
    assert [key["kid"] for key in published][:2] == [after, before]
    members = {"kty", "crv", "x", "kid", "alg", "use", "createTime", "retireTime"}
    assert all(set(key) <= members for key in published)


async def test_every_passage_in_evidence_is_the_text_that_was_served(client: httpx.AsyncClient) -> None:
    questions = json.loads((EXAMPLES / "questions.json").read_text())["questions"]
    seen = 0
    for question in questions[:8]:
        body = {
            "query": question["question"],
            "collectionIds": ["examples"],
            "options": {"retrieval": {"adjacentChunks": seen % 3}},
        }
        answer = (await client.post("/api/answer", json=body)).json()
        evidence = (await client.get(f"/api/threads/{answer['threadId']}/evidence")).json()
        [found] = evidence["answers"]
        assert len(found["passages"]) == len(answer["sources"])
        assert [each for each in found["passages"] if not each["isAsServed"]] == []
        seen += len(found["passages"])
        await client.delete(f"/api/threads/{answer['threadId']}")
    assert seen > 20
