"""The audit log in PostgreSQL: what a gateway writes into it, and how it is read, shortened and verified."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import asyncpg
import httpx
import pytest
from click.testing import CliRunner, Result
from groundline_cli.__main__ import cli
from groundline_cli.stack.errors import PortTakenError
from groundline_cli.stack.ports import reserved_port
from groundline_database import Pool, open_pool
from groundline_gateway.auditing import recording
from groundline_gateway.auditing import store as storing
from groundline_gateway.auditing.entries import PRUNED, AuditEntry, ChainError
from groundline_gateway.auditing.recording import AuditLog
from groundline_gateway.auditing.store import AuditQuery, AuditStore
from groundline_gateway.keys import KeyDatabaseSettings
from groundline_tests.gateway.program import gateway_program
from pydantic import SecretStr

ALICE, BOB, KEEPER = "alice-key-0123456789", "bob-key-0123456789", "keeper-key-0123456789"
KEYS: Final = json.dumps(
    [
        {"key": ALICE, "client": "alice", "principals": ["user:alice"]},
        {"key": BOB, "client": "bob", "principals": ["user:bob"], "scopes": ["search"]},
        {"key": KEEPER, "client": "keeper", "principals": ["user:keeper"], "scopes": ["administration"]},
    ]
)


EMPTIED: Final = (
    "DELETE FROM audit_entries; UPDATE audit_head SET entry_id = 0, hash = decode(repeat('00', 32), 'hex')"
)


class KilledError(Exception):
    """Ends a program without a warning."""


async def by_force(pool: Pool, statement: str) -> None:
    """Do what only who owns the tables can do."""
    await pool.execute(
        f"""
        ALTER TABLE audit_entries DISABLE TRIGGER USER; {statement};
        ALTER TABLE audit_entries ENABLE TRIGGER USER
        """
    )


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[Pool]:
    async with open_pool(KeyDatabaseSettings(database_url=SecretStr(database_url), pool_max_size=4)) as pool:
        await by_force(pool, f"DELETE FROM audit_positions; {EMPTIED}")
        yield pool


@pytest.fixture
def store(pool: Pool) -> AuditStore:
    return AuditStore(pool)


async def entries(store: AuditStore, **wanted: Any) -> list[AuditEntry]:
    return [entry async for entry in store.read(AuditQuery(**wanted))]


async def becoming(store: AuditStore, count: int) -> list[AuditEntry]:
    found: list[AuditEntry] = []
    async with asyncio.timeout(60):
        while len(found) < count:
            found = await entries(store)
            await asyncio.sleep(0.1)
    return found


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while True:
            if is_so():
                return
            await asyncio.sleep(0.1)


def told(found: Sequence[AuditEntry]) -> list[tuple[Any, ...]]:
    return [tuple(each.fields.get(name) for name in ("client", "action", "status")) for each in found]


@asynccontextmanager
async def gateway(
    upstream: Any, port: int, database_url: str, directory: Path, **settings: str
) -> AsyncIterator[httpx.AsyncClient]:
    """Run a gateway that knows alice and bob, and provide a client of it."""
    environment = {
        "GROUNDLINE_GATEWAY_DATABASE_URL": database_url,
        "GROUNDLINE_GATEWAY_API_KEYS": KEYS,
        **settings,
    }
    async with gateway_program(upstream, port, directory, environment) as client:
        async with asyncio.timeout(60):
            while True:
                try:
                    if (await client.get("/")).status_code == 200:
                        break
                except httpx.TransportError:
                    pass
                await asyncio.sleep(0.05)
        yield client


def is_free(port: int) -> bool:
    try:
        with reserved_port(port):
            return True
    except PortTakenError:
        return False


async def deleted(client: httpx.AsyncClient, name: str, key: str = ALICE) -> int:
    response = await client.delete(f"/api/collections/{name}", headers={"x-api-key": key})
    return response.status_code


async def asked(client: httpx.AsyncClient) -> None:
    await client.get("/api/threads", headers={"x-api-key": ALICE})


async def test_changes_and_refusals_become_entries_without_what_was_said(
    upstream: Any, unused: int, database_url: str, tmp_path: Path, store: AuditStore
) -> None:
    async with gateway(upstream, unused, database_url, tmp_path) as client:
        assert await deleted(client, "docs") == 200
        await asked(client)
        assert await deleted(client, "docs", BOB) == 403
        assert await deleted(client, "docs", "wrong-key-0123456789") == 401
        found = await becoming(store, 3)

    assert told(found) == [
        ("alice", "DeleteCollection", 200),
        ("bob", "DeleteCollection", 403),
        (None, "DeleteCollection", 401),
    ]
    assert found[0].fields["resource"] == "/api/collections/docs"
    assert found[0].fields["principals"] == "user:alice"
    assert (await store.verify())[0] == found[-1]
    text = json.dumps([each.as_json() for each in found])
    for secret in (ALICE, BOB, "wrong-key"):
        assert secret not in text


async def test_reads_become_entries_where_they_are_wanted(
    upstream: Any, unused: int, database_url: str, tmp_path: Path, store: AuditStore
) -> None:
    reading = {"GROUNDLINE_GATEWAY_AUDIT_READS": "true"}
    async with gateway(upstream, unused, database_url, tmp_path, **reading) as client:
        await asked(client)
        await client.get("/api/nothing", headers={"x-api-key": ALICE})
        await client.get("/")
        found = await becoming(store, 1)

    assert told(found) == [("alice", "ListThreads", 200)]


async def test_nothing_is_stored_without_retention(
    upstream: Any, unused: int, database_url: str, tmp_path: Path, store: AuditStore
) -> None:
    without = {"GROUNDLINE_GATEWAY_AUDIT_RETENTION_DAYS": "0"}
    async with gateway(upstream, unused, database_url, tmp_path, **without) as client:
        await deleted(client, "docs")
        assert AuditLog.left(tmp_path / "envoy.json") == []

    assert await entries(store) == []


async def test_what_a_killed_gateway_left_becomes_entries_once(
    upstream: Any, unused: int, database_url: str, tmp_path: Path, store: AuditStore, pool: Pool
) -> None:
    await pool.execute("ALTER TABLE audit_positions RENAME TO elsewhere")
    with suppress(KilledError):
        async with gateway(upstream, unused, database_url, tmp_path) as client:
            for number in range(20):
                await deleted(client, f"docs-{number}")
            (log,) = AuditLog.left(tmp_path / "envoy.json")
            await until(lambda: log.path.read_bytes().count(b"\n") == 20)
            raise KilledError
    await until(lambda: is_free(unused))  # Envoy ends with the program, a moment later
    assert await entries(store) == []
    await pool.execute("ALTER TABLE elsewhere RENAME TO audit_positions")

    for _ in range(2):
        async with gateway(upstream, unused, database_url, tmp_path) as client:
            await becoming(store, 20)
            await asked(client)

    found = await entries(store)
    assert [each.fields["resource"] for each in found] == [f"/api/collections/docs-{n}" for n in range(20)]
    await store.verify()
    assert log.path not in [each.path for each in AuditLog.left(tmp_path / "envoy.json")]


async def test_a_line_that_comes_after_the_end_is_for_the_next_process(
    upstream: Any, unused: int, database_url: str, tmp_path: Path, store: AuditStore
) -> None:
    async with gateway(upstream, unused, database_url, tmp_path) as client:
        await deleted(client, "docs")
    assert len(await entries(store)) == 1, "what is there at the end is stored"
    (log,) = AuditLog.left(tmp_path / "envoy.json")
    line = {"event": "audit", "time": "2026-11-28T12:00:00.000Z", "action": "DeleteDocument"}
    with log.path.open("a") as file:
        file.write(json.dumps(line) + "\n")

    async with gateway(upstream, unused, database_url, tmp_path):
        found = await becoming(store, 2)
        await until(lambda: not log.path.exists())

    assert found[-1].fields["time"] == line["time"]


async def test_entries_wait_while_the_database_takes_none(
    upstream: Any, unused: int, database_url: str, tmp_path: Path, store: AuditStore, pool: Pool
) -> None:
    async with gateway(upstream, unused, database_url, tmp_path) as client:
        await deleted(client, "before")
        await becoming(store, 1)
        await pool.execute("ALTER TABLE audit_head RENAME TO elsewhere")
        for number in range(5):
            assert await deleted(client, f"meanwhile-{number}") == 200
        await asyncio.sleep(3)
        await pool.execute("ALTER TABLE elsewhere RENAME TO audit_head")

        found = await becoming(store, 6)

    assert len(found) == 6
    await store.verify()


async def test_several_gateways_make_one_chain(store: AuditStore) -> None:
    async def write(name: str) -> None:
        log_id = uuid4()
        for number in range(30):
            fields = [{"time": "2026-11-28T12:00:00Z", "client": name, "resource": str(n)} for n in range(3)]
            await store.append(log_id, number, fields)

    await asyncio.gather(*(write(name) for name in "abcd"))

    last, pruned = await store.verify()
    assert last is not None
    assert (last.entry_id, pruned) == (360, 0)


async def aged(store: AuditStore, *days: int) -> None:
    """Append entries of these ages."""
    pool = store._pool
    for age in days:
        time = await pool.fetchval("SELECT now() - make_interval(days => $1)", age)
        await store.append(uuid4(), 0, [{"time": time.isoformat(), "action": "DeleteDocument"}])


async def test_retention_deletes_the_oldest_and_tells_it(store: AuditStore) -> None:
    await aged(store, 40, 35, 20, 31, 1)

    assert await store.prune(30) == 2
    assert await store.prune(30) == 0

    found = await entries(store)
    assert [each.entry_id for each in found] == [3, 4, 5, 6]
    assert (found[-1].fields["action"], found[-1].fields["resource"]) == (PRUNED, "2")
    last, pruned = await store.verify()
    assert last is not None
    assert (last.entry_id, pruned) == (6, 2)


async def test_a_log_of_which_nothing_is_young_goes_on(store: AuditStore) -> None:
    await aged(store, 40, 35)

    assert await store.prune(30) == 2
    await aged(store, 0)

    assert [each.entry_id for each in await entries(store)] == [3, 4]
    await store.verify()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE audit_entries SET entry = '{}' WHERE entry_id = 2",
        "DELETE FROM audit_entries WHERE entry_id = 2",
        "TRUNCATE audit_entries",
    ],
)
async def test_entries_are_neither_changed_nor_taken_out(
    store: AuditStore, pool: Pool, statement: str
) -> None:
    await aged(store, 1, 1, 1)

    with pytest.raises(asyncpg.RaiseError):
        await pool.execute(statement)

    assert len(await entries(store)) == 3


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ('UPDATE audit_entries SET entry = entry || \'{"client": "x"}\' WHERE entry_id = 2', "entry 2 was"),
        ("DELETE FROM audit_entries WHERE entry_id = 2", "entry 2 is missing"),
        ("DELETE FROM audit_entries WHERE entry_id = 1", "up to 1 are missing"),
        ("DELETE FROM audit_entries WHERE entry_id = 3", "entry 3 is missing"),
        ("DELETE FROM audit_entries", "entry 3 is missing"),
    ],
)
async def test_an_all_powerful_change_shows(store: AuditStore, pool: Pool, statement: str, said: str) -> None:
    await aged(store, 1, 1, 1)
    await by_force(pool, statement)

    with pytest.raises(ChainError, match=said):
        await store.verify()


async def test_a_backlog_that_is_too_large_loses_the_oldest_lines_and_says_so(
    store: AuditStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "MAXIMUM_BACKLOG", 1000)
    log = AuditLog.beside(tmp_path / "envoy.json")
    line = {"event": "audit", "time": "2026-11-28T12:00:00.000Z", "action": "DeleteDocument"}
    with log.path.open("w") as file:
        file.writelines(json.dumps({**line, "resource": str(n)}) + "\n" for n in range(100))

    await log.store(store, with_reads=False)

    first, *others = await entries(store)
    assert first.fields["action"] == "LoseAuditEntries"
    assert int(first.fields["resource"]) > 5000
    assert [each.fields["resource"] for each in others] == [str(n) for n in range(100 - len(others), 100)]
    assert len(others) >= 9


async def test_a_backlog_is_bounded_and_told_of_also_by_the_next_process(
    store: AuditStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "envoy.json"
    log = AuditLog.beside(path)
    line = {"event": "audit", "time": "2026-11-28T12:00:00.000Z", "action": "DeleteDocument"}
    lines = [(json.dumps({**line, "resource": str(n)}) + "\n").encode() for n in range(40_000)]
    log.path.write_bytes(lines[0])
    await log.store(store, with_reads=False)
    monkeypatch.setattr(recording, "MAXIMUM_BACKLOG", 1000)
    with log.path.open("ab") as file:
        file.writelines(lines[1:])

    await log.bound()
    monkeypatch.undo()
    (left,) = AuditLog.left(path)
    await left.store(store, with_reads=False)

    first, told_of, *others = await entries(store)
    assert first.fields["resource"] == "0"
    assert told_of.fields["action"] == "LoseAuditEntries"
    assert others[-1].fields["resource"] == "39999"
    assert len(others) < 11_000, "whole blocks are gone, the last is read from where it begins again"


def groundline(database_url: str, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["audit", *arguments], env={"GROUNDLINE_DATABASE_URL": database_url})


@pytest.fixture
async def stored(store: AuditStore) -> None:
    """Two entries of ann, then two of bob."""
    for name in ("ann", "bob"):
        fields = {
            "time": "2026-11-28T12:00:00.000Z",
            "client": name,
            "action": "DeleteDocument",
            "status": 200,
        }
        await store.append(uuid4(), 0, [{**fields, "resource": f"/api/collections/{name}"}] * 2)


@pytest.mark.usefixtures("stored")
def test_the_command_lists_exports_and_verifies(database_url: str, tmp_path: Path) -> None:
    exported = tmp_path / "audit.jsonl"

    listed = groundline(database_url, "list", "--client", "bob", "--since", "2026-11-28", "--limit", "1")
    assert listed.stdout.split()[6:] == ["4", *listed.stdout.split()[7:]], listed
    assert "/api/collections/ann" not in listed.stdout
    old = groundline(database_url, "list", "--until", "2026-11-27", "--json")
    assert json.loads(old.stdout) == {"entries": []}
    assert groundline(database_url, "export", "--output", str(exported)).exit_code == 0
    assert len(exported.read_text().splitlines()) == 4
    assert "entries 1 to 4 are complete" in groundline(database_url, "verify").stdout
    assert groundline(database_url, "verify", str(exported)).exit_code == 0

    lines = exported.read_text().splitlines()
    exported.write_text("\n".join([lines[0], lines[1].replace("ann", "eve"), *lines[2:]]))
    changed = groundline(database_url, "verify", str(exported))
    assert changed.exit_code == 1
    assert "entry 2 was changed" in changed.stderr
    exported.write_text("no entry\n")
    assert "line 1 is not an entry" in groundline(database_url, "verify", str(exported)).stderr
    assert "WHEN" in groundline(database_url, "list", "--help").stdout
    for wrong in ("soon", "", "999999d"):
        assert groundline(database_url, "list", "--since", wrong).exit_code == 2


@pytest.fixture
async def exported(store: AuditStore, pool: Pool, tmp_path: Path) -> Path:
    """An export of a log that was written anew since."""
    await aged(store, 1, 1)
    path = tmp_path / "audit.jsonl"
    path.write_text("".join(f"{json.dumps(entry.as_json())}\n" for entry in await entries(store)))
    await by_force(pool, EMPTIED)
    await aged(store, 1, 1)
    return path


def test_a_log_that_was_written_anew_differs_from_an_export(database_url: str, exported: Path) -> None:
    assert groundline(database_url, "verify").exit_code == 0
    compared = groundline(database_url, "verify", str(exported))

    assert compared.exit_code == 1
    assert "another entry 2 than audit.jsonl" in compared.stderr


def call(minute: int, client: str, action: str = "DeleteDocument", **more: Any) -> dict[str, Any]:
    time = f"2026-01-01T00:{minute:02}:00.500Z"
    return {"time": time, "client": client, "action": action, "resource": f"/api/{client}/x", **more}


async def test_who_administers_lists_the_log_by_pages_and_conditions(
    upstream: Any, unused: int, database_url: str, tmp_path: Path, store: AuditStore
) -> None:
    calls = [
        call(1, "ann", status=403, principals="user:ann,group:a"),
        call(3, "ann", status=200, grpc_status="OK", dry_run="true"),
        call(2, "ben", "CreateCollection", status=200, created="key:1"),
    ]
    await store.append(uuid4(), 0, calls)
    async with gateway(upstream, unused, database_url, tmp_path) as client:
        client.headers["x-api-key"] = KEEPER

        async def listed(**parameters: Any) -> Any:
            response = await client.get("/api/audit", params=parameters)
            assert response.status_code == 200, response.text
            return response.json()

        for name, value in (("pageToken", "0"), ("pageSize", -1), ("since", "0000"), ("client", "x" * 257)):
            refused = await client.get("/api/audit", params={name: value})
            assert refused.status_code == 400, refused.text

        first = await listed(pageSize=2)
        rest = await listed(pageSize=2, pageToken=first["nextPageToken"])
        found = [*first["entries"], *rest["entries"]]
        assert [each["entryId"] for each in found] == ["2", "3", "1"]
        assert not rest["nextPageToken"]
        assert (found[0]["time"], found[0]["isDryRun"]) == ("2026-01-01T00:03:00.500Z", True)
        assert (found[0]["grpcStatus"], found[1]["created"]) == ("OK", "key:1")
        assert (found[2]["status"], found[2]["principals"]) == (403, ["user:ann", "group:a"])
        assert [bytes.fromhex(each["hash"]) for each in found[2:]] == [(await entries(store))[0].hash]

        for condition, ids in (
            ({"client": "ann"}, ["2", "1"]),
            ({"action": "CreateCollection"}, ["3"]),
            ({"resource": "/api/b"}, ["3"]),
            ({"since": "2026-01-01T00:02:00.500Z", "until": "2026-01-01T00:03:00.500Z"}, ["3"]),
            ({"client": "nobody"}, []),
        ):
            assert [each["entryId"] for each in (await listed(**condition))["entries"]] == ids
        # Retention has deleted what the page began behind.
        assert await listed(pageToken="99") == {"entries": [], "nextPageToken": ""}


async def test_a_page_that_finds_little_ends_early_and_tells_where_the_next_begins(
    store: AuditStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storing, "SEARCHED_FOR_A_PAGE", 2)
    await store.append(uuid4(), 0, [call(each, "ann" if each == 1 else "ben") for each in range(1, 6)])
    before = None
    found: list[list[int]] = []
    while not found or before is not None:
        page, before = await store.page(AuditQuery(client="ann"), before, 10)
        found.append([each.entry_id for each in page])
    assert found == [[], [], [1]]
