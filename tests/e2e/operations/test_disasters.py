"""Losses and the ways back of docs/how-to/disasters.md, on whole suites."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import asyncpg
import pytest
from groundline_tests.commands.forked import Finished
from groundline_tests.suite import Stack, delete_collection, running_stack

QUESTION: Final = "What torque closes the hatch screws of the DN-4?"
ANSWER: Final = "Close the four screws crosswise with 1.8 Nm."
LARGE: Final = 2_200
"""Documents of a collection with a partition of its own, and an index of vectors."""


@pytest.fixture
async def staff(stack: Stack) -> AsyncIterator[str]:
    """A collection that keeps every revision."""
    settings = {"history": {"everything": True}}
    async with stack.client() as client:
        await client.post("/api/collections", json={"collectionId": "staff", "settings": settings})
    yield "staff"
    async with stack.client() as client:
        await delete_collection(client, "staff")


@pytest.fixture
async def folder(stack: Stack, staff: str, tmp_path: Path) -> Path:
    """The collection's files, as they are in it; one has an earlier revision."""
    files = tmp_path / "staff"
    files.mkdir()
    (files / "leave.md").write_text("# Leave\n\nEveryone has 26 days of leave.\n")
    (files / "travel.md").write_text("# Travel\n\nTrains go in the first class.\n")
    (files / "pay.csv").write_text("name,euros\nAnn,12\nBob,30\n")
    await done(stack, "ingest", str(files), "--collection", staff)
    (files / "leave.md").write_text("# Leave\n\nEveryone has 27 days of leave: ask Wilhelmina Kranz.\n")
    await done(stack, "ingest", str(files), "--collection", staff)
    return files


async def done(stack: Stack, *arguments: str) -> Finished:
    finished = await stack.command(*arguments)
    assert finished.code == 0, finished.err
    return finished


async def on_database(stack: Stack, *arguments: str) -> Finished:
    return await stack.command(*arguments, "--database-url", stack.ready["database_url"])


async def backed_up(stack: Stack, target: Path) -> dict[str, Any]:
    finished = await on_database(stack, "backup", str(target), "--json")
    assert finished.code == 0, finished.err
    found: dict[str, Any] = json.loads(finished.out)
    return found


async def passages(stack: Stack, collection: str, query: str) -> list[str]:
    found = await done(stack, "search", query, "--collection", collection, "--json")
    return [each["chunk"]["text"] for each in json.loads(found.out)["passages"]]


async def test_a_backup_becomes_a_new_suite_that_answers_without_what_was_erased_since(
    stack: Stack, folder: Path, tmp_path: Path
) -> None:
    thread = json.loads((await done(stack, "ask", QUESTION, "--json")).out)["threadId"]
    assert (await backed_up(stack, tmp_path / "backup"))["documents"] >= 18
    await done(stack, "delete", "staff", "--filter", '{"$uri": "leave.md"}', "--yes")
    erasures = await on_database(stack, "backup", str(tmp_path / "erasures.json"), "--only-erasures")
    assert erasures.code == 0, erasures.err

    lost = tmp_path / "new"
    restored = await stack.command(
        "restore", str(tmp_path / "backup"), "--data-dir", str(lost), "--json",
        "--erasures", str(tmp_path / "erasures.json"),
    )  # fmt: skip
    assert restored.code == 0, restored.err
    assert json.loads(restored.out)["erased"] == 1
    async with running_stack(lost) as new:
        assert ANSWER in (await done(new, "ask", QUESTION, "--collection", "examples")).out
        assert ANSWER in (await done(new, "threads", "show", thread)).out
        assert await passages(new, "staff", "class of trains") != []
        assert [text for text in await passages(new, "staff", "leave") if "leave" in text] == []
        # A text that no conversation of the shared suite has.
        traces = await on_database(new, "traces", "Wilhelmina Kranz")
        assert traces.code == 0, traces.out
        again = await on_database(new, "restore", str(tmp_path / "backup"))
        assert again.code == 1
        assert "not empty" in again.err
        assert "examples" in again.err


async def test_a_collection_comes_back_out_of_a_backup_beside_itself(
    stack: Stack, folder: Path, tmp_path: Path, database: "asyncpg.Connection[Any]"
) -> None:
    await done(stack, "holds", "set", "staff", "travel.md", "--reason", "Case 12")
    await done(stack, "update", "staff", "--reader", "user:local", "--reader", "group:staff")
    await backed_up(stack, tmp_path / "backup")
    (folder / "leave.md").write_text("# Leave\n\nNobody has leave.\n")
    await done(stack, "ingest", str(folder), "--collection", "staff")

    taken = await on_database(stack, "restore", str(tmp_path / "backup"), "--collection", "staff")
    assert taken.code == 1
    assert "exists" in taken.err
    back = await on_database(
        stack, "restore", str(tmp_path / "backup"), "--collection", "staff", "--as", "staff-before"
    )
    assert back.code == 0, back.err

    assert any("27 days" in text for text in await passages(stack, "staff-before", "days of leave"))
    assert any("Nobody" in text for text in await passages(stack, "staff", "leave"))
    revisions = json.loads((await done(stack, "revisions", "staff-before", "leave.md", "--json")).out)
    assert len(revisions["revisions"]) == 2
    table = await done(stack, "table", "How many euros has Bob?", "--collection", "staff-before")
    assert "30" in table.out
    held = await done(stack, "holds", "list", "staff-before")
    assert "Case 12" in held.out
    access = "SELECT readers FROM collections WHERE collection_id = 'staff-before'"
    assert await database.fetchval(access) == ["user:local", "group:staff"]
    for collection in ("staff", "staff-before"):
        await done(stack, "holds", "release", collection, "travel.md")
    await done(stack, "delete", "staff-before", "--yes")


async def test_what_was_erased_in_a_collection_stays_out_unless_it_is_asked_for(
    stack: Stack, folder: Path, tmp_path: Path
) -> None:
    await backed_up(stack, tmp_path / "backup")
    await done(stack, "delete", "staff", "--filter", '{"$uri": "leave.md"}', "--yes")
    for options, expected in (((), 0), (("--with-erased",), 1)):
        back = await on_database(
            stack, "restore", str(tmp_path / "backup"), "--collection", "staff", "--as", "again", *options
        )
        assert back.code == 0, back.err
        found = [text for text in await passages(stack, "again", "days of leave") if "27 days" in text]
        assert len(found) == expected
        await done(stack, "delete", "again", "--yes")


async def test_a_large_collection_that_was_deleted_comes_back_with_its_indexes(
    stack: Stack, tmp_path: Path, database: "asyncpg.Connection[Any]"
) -> None:
    records = tmp_path / "log.jsonl"
    with records.open("w") as file:
        for number in range(LARGE):
            vector = [1 + ((number * step) % 97) / 97 for step in range(1, 385)]
            text = f"Page {number} of the log says keel{number}"
            file.write(json.dumps({"uri": f"{number}.txt", "text": text, "vector": vector}) + "\n")
    await done(stack, "create", "log")
    imported = await on_database(stack, "import", str(records), "--collection", "log", "--processes", "1")
    assert imported.code == 0, imported.err
    ids = "SELECT array_agg(document_id ORDER BY uri) FROM documents WHERE collection_id = 'log'"
    before = await database.fetchval(ids)
    await backed_up(stack, tmp_path / "backup")
    await done(stack, "delete", "log", "--yes")

    back = await on_database(stack, "restore", str(tmp_path / "backup"), "--collection", "log", "--json")
    assert back.code == 0, back.err
    assert json.loads(back.out) == {"collection": "log", "documents": LARGE, "chunks": LARGE, "erased": 0}
    # Answers cite documents by their ids.
    assert await database.fetchval(ids) == before
    assert (await passages(stack, "log", "keel1234"))[0].endswith("keel1234")
    state = json.loads((await done(stack, "stats", "log", "--json")).out)
    assert "READY" in json.dumps(state)
    await done(stack, "delete", "log", "--yes")


async def test_a_collection_that_cannot_come_back_whole_leaves_nothing(
    stack: Stack, folder: Path, tmp_path: Path, database: "asyncpg.Connection[Any]"
) -> None:
    await backed_up(stack, tmp_path / "backup")
    manifest = tmp_path / "backup/manifest.json"
    described = json.loads(manifest.read_text())
    described["collections"]["staff"]["documents"] += 1
    manifest.write_text(json.dumps(described))
    counts = "SELECT (SELECT count(*) FROM collections), (SELECT count(*) FROM documents)"
    before = await database.fetchrow(counts)
    back = await on_database(
        stack, "restore", str(tmp_path / "backup"), "--collection", "staff", "--as", "half"
    )
    assert back.code == 1
    assert "in place of" in back.err
    assert await database.fetchrow(counts) == before


async def test_a_lost_index_is_said_by_searches_and_built_again_by_workers(
    stack: Stack, folder: Path, database: "asyncpg.Connection[Any]"
) -> None:
    partition = await database.fetchval("SELECT partition_id FROM collections WHERE collection_id = 'staff'")
    index = f"chunks_p{partition}_bm25"
    query = {"query": "27 days of leave", "collectionIds": ["staff"]}
    await database.execute(f"DROP INDEX {index}")
    async with stack.client() as client, asyncio.timeout(120):
        reasons: set[str] = set()
        built = False
        while not built:
            found = (await client.post("/api/search", json=query)).json()
            # Vectors find it meanwhile.
            assert any("27 days" in each["chunk"]["text"] for each in found["passages"])
            reasons |= {each["reason"] for each in found.get("degraded", ())}
            built = await database.fetchval("SELECT to_regclass($1) IS NOT NULL", index)
        found = {"degraded": [{}]}
        while found.get("degraded"):
            found = (await client.post("/api/search", json=query)).json()
    assert reasons <= {"LEXICAL_INDEX_UNSOUND"}


async def test_an_administrator_without_a_key_makes_one_in_the_database(stack: Stack) -> None:
    made = await on_database(
        stack, "keys", "create", "--name", "admin", "--principal", "user:local", "--scope", "admin",
        "--scope", "search", "--json",
    )  # fmt: skip
    assert made.code == 0, made.err
    headers = {"x-api-key": json.loads(made.out)["key"]}
    async with stack.client() as client, asyncio.timeout(60):
        client.headers.update(headers)
        status = 401
        while status == 401:
            await asyncio.sleep(0.2)
            status = (await client.get("/api/collections")).status_code
    assert status == 200


async def test_evidence_of_a_lost_signing_key_holds_by_the_keys_that_were_kept(
    stack: Stack, tmp_path: Path, database: "asyncpg.Connection[Any]"
) -> None:
    thread = json.loads((await done(stack, "ask", QUESTION, "--json")).out)["threadId"]
    evidence, kept, now = (str(tmp_path / name) for name in ("evidence.json", "kept.json", "now.json"))
    await done(stack, "evidence", "export", thread, "-o", evidence)
    await done(stack, "evidence", "keys", "-o", kept)
    await database.execute("DELETE FROM signing_keys")

    assert (await stack.command("evidence", "export", thread, "-o", str(tmp_path / "none"))).code == 1
    assert (await on_database(stack, "keys", "rotate-signing")).code == 0
    await done(stack, "evidence", "keys", "-o", now)
    await done(stack, "evidence", "verify", evidence, "--keys", kept)
    assert (await stack.command("evidence", "verify", evidence, "--keys", now)).code == 1
    await done(stack, "evidence", "export", thread, "-o", evidence)
    await done(stack, "evidence", "verify", evidence, "--keys", now)
