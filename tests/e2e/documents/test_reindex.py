"""A new index that has to pass before it is used, and the way back to the one before."""

import json
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from groundline_embedding.local.catalog import MULTILINGUAL_MODEL
from groundline_tests.commands.forked import Finished
from groundline_tests.suite import Stack, ended_job

COLLECTION: Final = "gated"
# Asked for in another form, which only an index that stems finds.
VERBS: Final = (
    "inspect", "paint", "launch", "harvest", "deliver", "translat", "pack", "repair", "weigh", "measur",
    "heat", "clean", "sort", "melt", "press", "print", "seal", "label", "invent", "collect",
)  # fmt: skip


@pytest.fixture
async def evaluation_set(stack: Stack, tmp_path: Path) -> AsyncIterator[str]:
    """A collection with a document for each verb, and the set of its questions."""
    queries = [{"id": verb, "text": f"{verb}ing"} for verb in VERBS]
    (tmp_path / "queries.jsonl").write_text("".join(json.dumps(query) + "\n" for query in queries))
    judged = "".join(f"{verb}\t{verb}.md\t1\n" for verb in VERBS)
    (tmp_path / "qrels.tsv").write_text(f"query_id\tdoc_id\trelevance\n{judged}")
    documents = [{"uri": f"{verb}.md", "text": f"Both of us {verb}ed it."} for verb in VERBS]
    address = f"/api/collections/{COLLECTION}"
    async with stack.client() as client:
        await client.post("/api/collections", json={"collectionId": COLLECTION})
        taken = await client.post(f"{address}/documents", json={"documents": documents})
        await ended_job(client, taken.json()["job"]["jobId"])
        yield str(tmp_path)
        await client.delete(address)


async def language(client: httpx.AsyncClient) -> str:
    shown = (await client.get(f"/api/collections/{COLLECTION}")).json()["collection"]
    return str(shown["settings"]["lexical"]["language"])


async def jobs(client: httpx.AsyncClient) -> list[dict[str, Any]]:
    listed = await client.get("/api/jobs", params={"collectionId": COLLECTION})
    return list(listed.json()["jobs"])


async def test_an_index_that_is_significantly_worse_is_given_up(
    stack: Stack, client: httpx.AsyncClient, evaluation_set: str
) -> None:
    command = ("reindex", COLLECTION, "--language", "simple", "--gate", evaluation_set, "--modes", "keyword")

    ended = await stack.command(*command)

    assert ended.code == 5, ended.err
    assert "worse: keyword: " in ended.err
    assert "inspecting" in ended.err
    assert "the index in use stays" in ended.err
    assert await language(client) == "english"
    assert (await jobs(client))[0]["state"] == "JOB_STATE_CANCELLED"


async def test_an_index_that_is_no_worse_is_used_and_the_one_before_comes_back(
    stack: Stack, client: httpx.AsyncClient, evaluation_set: str, tmp_path: Path
) -> None:
    page = tmp_path / "gate.html"
    gate = ("--gate", evaluation_set, "--modes", "keyword,hybrid", "--answers", "--html", str(page))

    ended = await stack.command("reindex", COLLECTION, "--language", "german", "--keep", "--json", *gate)

    # German stems none of these words as English does: what is accepted is said.
    assert ended.code == 5, ended.out
    accepted = ("--max-drop", "1")
    ended = await stack.command(
        "reindex", COLLECTION, "--language", "german", "--keep", "--json", *gate, *accepted
    )
    assert ended.code == 0, ended.err
    told = json.loads(ended.out)
    assert told["job"]["state"] == "JOB_STATE_DONE"
    assert told["isWorse"] is False
    assert {one["group"] for one in told["comparison"]["differences"]} >= {"keyword", "hybrid"}
    assert "<html" in page.read_text()
    assert await language(client) == "german"

    assert (await stack.command("reindex", COLLECTION, "--revert")).code == 0

    assert await language(client) == "english"
    found = await client.post(
        "/api/search",
        json={
            "query": "inspecting",
            "collectionIds": [COLLECTION],
            "options": {"retrieval": {"mode": "RETRIEVAL_MODE_KEYWORD"}},
        },
    )
    assert found.json()["passages"][0]["chunk"]["uri"] == "inspect.md"
    assert (await stack.command("reindex", COLLECTION, "--reclaim")).code == 0
    again = await stack.command("reindex", COLLECTION, "--revert")
    assert again.code == 1
    assert "no index" in again.err


async def test_what_a_new_index_has_to_pass_may_have_been_measured_before(
    stack: Stack, evaluation_set: str, tmp_path: Path
) -> None:
    before = str(tmp_path / "before.json")
    measured = ("--modes", "keyword", "--collection", COLLECTION, "--output", before)
    assert (await stack.command("eval", evaluation_set, *measured)).code == 0

    ended = await stack.command(
        "reindex", COLLECTION, "--gate", evaluation_set, "--modes", "keyword", "--baseline", before
    )

    assert ended.code == 0, ended.err
    assert f"{len(VERBS)} questions of the baseline" in ended.out


async def test_a_new_embedding_model_is_asked_beside_the_one_in_use_and_the_way_back_is_open(
    stack: Stack, client: httpx.AsyncClient, evaluation_set: str
) -> None:
    async def model() -> str:
        shown = (await client.get(f"/api/collections/{COLLECTION}")).json()["collection"]
        return str(shown["settings"]["embedding"]["model"])

    async def nearest(query: str) -> str:
        retrieval = {"mode": "RETRIEVAL_MODE_SEMANTIC"}
        body = {"query": query, "collectionIds": [COLLECTION], "options": {"retrieval": retrieval}}
        found = await client.post("/api/search", json=body)
        assert found.status_code == 200, found.text
        return str(found.json()["passages"][0]["chunk"]["uri"])

    usual = await model()
    command = ("reindex", COLLECTION, "--model", MULTILINGUAL_MODEL, "--keep", "--gate", evaluation_set)
    ended = await stack.command(*command, "--modes", "semantic,hybrid", "--max-drop", "1")

    assert ended.code == 0, ended.err
    assert f"{len(VERBS)} questions" in ended.out
    assert await model() == MULTILINGUAL_MODEL
    assert await nearest("Wer hat es repariert?") == "repair.md"
    assert (await stack.command("reindex", COLLECTION, "--revert")).code == 0
    assert await model() == usual != MULTILINGUAL_MODEL
    assert await nearest("repairing") == "repair.md"
    assert (await stack.command("reindex", COLLECTION, "--reclaim")).code == 0


async def test_an_import_is_used_unless_its_answers_are_worse_and_is_taken_back_as_a_job(
    stack: Stack, client: httpx.AsyncClient, evaluation_set: str, tmp_path: Path
) -> None:
    async def first(query: str) -> str:
        retrieval = {"mode": "RETRIEVAL_MODE_KEYWORD"}
        body = {"query": query, "collectionIds": [COLLECTION], "options": {"retrieval": retrieval}}
        found = (await client.post("/api/search", json=body)).json()["passages"]
        return str(found[0]["chunk"]["text"]) if found else ""

    async def imported(*arguments: str) -> Finished:
        database = ("--database-url", stack.ready["database_url"], "--processes", "1")
        gate = ("--gate", evaluation_set, "--modes", "keyword", "--max-drop", "0.01")
        return await stack.command("import", *arguments, "-c", COLLECTION, *database, *gate, "--json")

    def written(name: str, records: Iterable[tuple[str, str]]) -> str:
        path = tmp_path / name
        path.write_text("".join(json.dumps({"uri": uri, "text": text}) + "\n" for uri, text in records))
        return str(path)

    decoys = [(f"{number}.md", f"{verb}ing {verb}ing {verb}ing") for number, verb in enumerate(VERBS)]
    worse = written("worse.jsonl", [*((f"{verb}.md", "Nothing of it.") for verb in VERBS), *decoys])
    news = ("extra.md", "Someone talks about the weather.")
    better = written(
        "better.jsonl", [*((f"{verb}.md", f"Once more both of us {verb}ed it.") for verb in VERBS), news]
    )
    await client.patch(f"/api/collections/{COLLECTION}", json={"settings": {"history": {"revisions": 1}}})

    refused = await imported(worse)

    assert refused.code == 5, refused.err
    assert "inspecting" in refused.err
    assert json.loads(refused.out)["imported"] is False
    assert await first("inspecting") == "Both of us inspected it."
    listed = (await client.get(f"/api/collections/{COLLECTION}/documents")).json()["documents"]
    assert len(listed) == len(VERBS)

    used = await imported(better)

    assert used.code == 0, used.err
    told = json.loads(used.out)
    assert (told["imported"], told["isWorse"], told["added"]) == (True, False, 1)
    assert await first("inspecting") == "Once more both of us inspected it."
    planned = await stack.command("rollback", "--job", told["job"], "--dry-run")
    assert f"put back: {len(VERBS)}" in planned.out
    assert (await stack.command("rollback", "--job", told["job"], "--yes")).code == 0
    assert await first("inspecting") == "Both of us inspected it."
    assert await first("weather") == ""


async def test_an_index_that_is_held_back_is_tried_and_then_used(
    stack: Stack, client: httpx.AsyncClient, evaluation_set: str
) -> None:
    held = await stack.command("reindex", COLLECTION, "--language", "simple", "--hold", "--json")
    assert held.code == 0, held.err
    job = json.loads(held.out)["job"]
    assert job["isHeld"]
    assert "held" in (await stack.command("jobs")).out

    search = ("search", "inspecting", "--collection", COLLECTION, "--mode", "keyword", "--json")
    tried = await stack.command(*search, "--index", "candidate")
    used = await stack.command(*search)
    assert [len(json.loads(each.out)["passages"]) for each in (tried, used)] == [0, 1]

    measuring = ("eval", evaluation_set, "--collection", COLLECTION, "--modes", "keyword", "--json")
    recalls = []
    for index in ("current", "candidate"):
        measured = json.loads((await stack.command(*measuring, "--index", index)).out)
        recalls.append(measured["measures"]["keyword"]["recall@5"]["value"])
    assert recalls == [1, 0]

    assert (await stack.command("jobs", job["jobId"], "--swap")).code == 0
    assert await language(client) == "simple"
    refused = await stack.command(*search, "--index", "candidate")
    assert refused.code == 1
    assert "INDEX_NOT_FOUND" in refused.err
