"""Keys in PostgreSQL: made and revoked by the command, followed by a running gateway."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from groundline.v1 import coordinator_service_pb2, coordinator_service_pb2_grpc
from groundline_database import Pool, open_pool
from groundline_gateway.auditing.store import AuditQuery, AuditStore
from groundline_gateway.auditing.uses import KeyUses
from groundline_gateway.keys import KeyDatabaseSettings, KeyStore, key_hash
from groundline_gateway.scopes import Scope
from groundline_tests.commands.forked import Finished, run_forked
from groundline_tests.gateway.program import gateway_program
from pydantic import SecretStr


@pytest.fixture
def settings(database_url: str) -> KeyDatabaseSettings:
    return KeyDatabaseSettings(database_url=SecretStr(database_url))


@pytest.fixture
async def pool(settings: KeyDatabaseSettings) -> AsyncIterator[Pool]:
    async with open_pool(settings) as pool:
        await pool.execute("TRUNCATE api_keys")
        yield pool


@pytest.fixture
def store(pool: Pool) -> KeyStore:
    return KeyStore(pool)


async def test_a_key_is_stored_as_its_hash_alone(pool: Pool, store: KeyStore) -> None:
    key = await store.create("ci", ["user:ci"], [Scope.SEARCH], None)

    assert key.secret is not None
    (row,) = await pool.fetch("SELECT api_keys::text AS text, encode(hash, 'hex') AS hash FROM api_keys")
    assert key.secret not in row["text"]
    assert key.secret.removeprefix(f"glk_{key.key_id}") not in row["text"]
    assert row["hash"] == key_hash(key.secret)
    assert key.secret not in repr(key)


async def test_only_valid_keys_have_holders(store: KeyStore) -> None:
    now = datetime.now(UTC)
    valid = await store.create(
        "valid", ["user:a", "group:b"], [Scope.CHAT, Scope.SEARCH], now + timedelta(hours=1)
    )
    await store.create("expired", ["user:a"], [Scope.CHAT], now - timedelta(seconds=1))
    revoked = await store.create("revoked", ["user:a"], [Scope.CHAT], None)
    assert [key.key_id for key in await store.revoke(revoked.key_id)] == [revoked.key_id]

    assert valid.secret is not None
    holders = await store.holders()
    assert set(holders) == {key_hash(valid.secret)}
    (holder,) = holders.values()
    assert (holder.client, holder.principals, holder.scopes) == (
        "valid",
        ["user:a", "group:b"],
        ["chat", "search"],
    )
    states = {key.name: key.state(now) for key in await store.list_keys()}
    assert states == {"valid": "active", "expired": "expired", "revoked": "revoked"}


async def test_a_name_revokes_all_its_keys_and_nothing_is_revoked_twice(store: KeyStore) -> None:
    for name in ("ci", "ci", "other"):
        await store.create(name, ["user:ci"], [Scope.SEARCH], None)

    assert len(await store.revoke("ci")) == 2
    assert await store.revoke("ci") == []
    assert [holder.client for holder in (await store.holders()).values()] == ["other"]


async def keys(database_url: str, *arguments: str) -> Finished:
    return await run_forked(("keys", *arguments), {"GROUNDLINE_DATABASE_URL": database_url})


@pytest.fixture
async def following(
    upstream: Any, database_url: str, unused: int, also_unused: int, tmp_path: Path
) -> AsyncIterator[httpx.AsyncClient]:
    """A gateway with no keys but the database's, and a port for gRPC."""
    environment = {
        "GROUNDLINE_GATEWAY_DATABASE_URL": database_url,
        "GROUNDLINE_GATEWAY_GRPC_PORT": str(also_unused),
    }
    async with gateway_program(upstream, unused, tmp_path, environment) as client:
        yield client


async def answers(
    client: httpx.AsyncClient, status: int, key: str = "none-0123456789-0123"
) -> httpx.Response:
    async with asyncio.timeout(60):
        while True:
            try:
                response = await client.get("/api/threads", headers={"x-api-key": key})
            except httpx.TransportError:
                await asyncio.sleep(0.05)
                continue
            if response.status_code == status:
                return response
            await asyncio.sleep(0.05)


async def answers_over_grpc(port: int, code: grpc.StatusCode, key: str) -> None:
    async with asyncio.timeout(60), grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = coordinator_service_pb2_grpc.CoordinatorServiceStub(channel)
        answered = None
        while answered is not code:
            call = stub.ListThreads(
                coordinator_service_pb2.ListThreadsRequest(), metadata=(("x-api-key", key),)
            )
            answered = await call.code()


async def test_a_running_gateway_follows_what_the_command_does(
    upstream: Any, database_url: str, following: httpx.AsyncClient, also_unused: int
) -> None:
    created = await keys(
        database_url,
        *("create", "--name", "ci", "--principal", "user:ci", "--principal", "group:Tools_&_more"),
        *("--scope", "chat", "--expires", "1h", "--json"),
    )
    assert created.code == 0, created.err
    key = json.loads(created.out)
    await answers(following, 401)

    await answers(following, 200, key["key"])
    assert upstream.calls[-1].values("x-groundline-principals") == ["user:ci,group:Tools_%26_more"]
    await answers_over_grpc(also_unused, grpc.StatusCode.OK, key["key"])

    listed = await keys(database_url, "list")
    assert key["keyId"] in listed.out
    assert "active" in listed.out
    assert key["key"] not in listed.out

    revoked = await keys(database_url, "revoke", key["keyId"], "--yes")
    assert revoked.code == 0, revoked.err
    await answers(following, 401, key["key"])
    await answers_over_grpc(also_unused, grpc.StatusCode.UNAUTHENTICATED, key["key"])


@pytest.fixture
async def administrator(store: KeyStore, following: httpx.AsyncClient) -> AsyncIterator[httpx.AsyncClient]:
    """The same gateway, for a key with the scope administration and no other."""
    key = await store.create("keeper", ["user:keeper"], [Scope.ADMINISTRATION], None)
    assert key.secret is not None
    await answers(following, 403, key.secret)
    async with httpx.AsyncClient(base_url=following.base_url, headers={"x-api-key": key.secret}) as client:
        yield client


async def test_keys_of_all_other_scopes_together_administer_nothing(
    pool: Pool, store: KeyStore, following: httpx.AsyncClient
) -> None:
    every = [scope for scope in Scope if scope is not Scope.ADMINISTRATION]
    key = await store.create("all-others", ["user:a"], every, None)
    assert key.secret is not None
    await answers(following, 200, key.secret)
    headers = {"x-api-key": key.secret, "x-groundline-scopes": "administration"}
    body = {"name": "mine", "principals": ["user:a"], "scopes": ["administration"]}
    for refused in (
        await following.get("/api/keys", headers=headers),
        await following.get("/api/audit", headers=headers),
        await following.get("/api/usage", headers=headers),
        await following.post("/api/keys", headers=headers, json=body),
        await following.post(f"/api/keys/{key.key_id}:revoke", headers=headers, json={}),
    ):
        assert refused.status_code == 403
        assert "needs the scope administration" in refused.json()["message"]
    assert [each.name for each in await store.list_keys()] == ["all-others"]


async def test_every_wrong_field_of_a_new_key_is_named(
    pool: Pool, store: KeyStore, administrator: httpx.AsyncClient
) -> None:
    wrong = {
        "name": "a b",
        "principals": ["user:a", "user:a,user:b", "*"],
        "scopes": ["search"],
        "expireTime": "2020-01-01T00:00:00Z",
    }
    refused = await administrator.post("/api/keys", json=wrong)
    unknown = await administrator.post("/api/keys", json=wrong | {"scopes": ["all"]})
    gone = await administrator.post("/api/keys/ffffffff:revoke", json={})

    assert refused.status_code == unknown.status_code == 400
    violations = refused.json()["details"][1]["fieldViolations"]
    assert [each["field"] for each in violations] == ["name", "principals[1]", "principals[2]", "expireTime"]
    assert "scopes[0]" in unknown.text
    assert (gone.status_code, gone.json()["details"][0]["reason"]) == (404, "KEY_NOT_FOUND")
    assert [each.name for each in await store.list_keys()] == ["keeper"]


async def test_a_key_that_the_api_creates_and_revokes_is_one_like_the_commands(
    pool: Pool, database_url: str, following: httpx.AsyncClient, administrator: httpx.AsyncClient
) -> None:
    body = {"name": "app", "principals": ["user:app", "user:app"], "scopes": ["chat", "search"]}
    created = await administrator.post("/api/keys", json=body)
    assert created.status_code == 200, created.text
    key, secret = created.json()["key"], created.json()["secret"]
    assert (key["principals"], key["scopes"]) == (["user:app"], ["search", "chat"])
    assert key["state"] == "API_KEY_STATE_ACTIVE"
    await answers(following, 200, secret)
    page = (await administrator.get("/api/keys", params={"pageSize": 1})).json()
    rest = await administrator.get("/api/keys", params={"pageToken": page["nextPageToken"]})
    assert [each["name"] for each in (*page["keys"], *rest.json()["keys"])] == ["app", "keeper"]
    async with asyncio.timeout(60):
        while "lastUseTime" not in (await administrator.get("/api/keys")).json()["keys"][0]:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    assert secret not in f"{page}{rest.text}"
    assert "hash" not in rest.text
    listed = await keys(database_url, "list")
    assert key["keyId"] in listed.out

    for _ in range(2):
        revoked = (await administrator.post(f"/api/keys/{key['keyId']}:revoke", json={})).json()["key"]
        assert revoked["state"] == "API_KEY_STATE_REVOKED"
    await answers(following, 401, secret)

    store = AuditStore(pool)
    own = AuditQuery(action="RevokeApiKey", resource=f"/api/keys/{key['keyId']}:")
    async with asyncio.timeout(60):
        while not (found := await store.latest(own, 1)):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    assert found[0].fields["resource"] == f"/api/keys/{key['keyId']}:revoke"
    (made,) = await store.latest(AuditQuery(action="CreateApiKey"), 1)
    assert (made.fields["client"], made.fields["created"]) == ("keeper", f"key:{key['keyId']}")
    assert secret not in str(made.as_json())


async def test_a_keys_last_use_is_written_once_an_hour_by_all_gateways_together(store: KeyStore) -> None:
    key = await store.create("ci", ["user:ci"], [Scope.SEARCH], None)
    begin = datetime(2026, 11, 29, 12, tzinfo=UTC)

    async def noted(uses: KeyUses, minutes: int) -> datetime | None:
        time = (begin + timedelta(minutes=minutes)).isoformat()
        credentials = (f"key:{key.key_id}", "key", "key:ffffffff", "token")
        uses.see([{"time": time}, *({"time": time, "credential": each} for each in credentials)])
        await uses.note(store)
        [listed] = await store.list_keys()
        return listed.last_use_time

    one, another, hour = KeyUses(), KeyUses(), timedelta(hours=1)
    assert [await noted(one, minutes) for minutes in (0, 59, 60)] == [begin, begin, begin + hour]
    assert [await noted(another, minutes) for minutes in (90, 150)] == [begin + hour, begin + 2.5 * hour]


async def test_a_role_that_may_not_write_it_notes_no_use(pool: Pool, store: KeyStore) -> None:
    key, uses = await store.create("ci", ["user:ci"], [Scope.SEARCH], None), KeyUses()
    uses.see([{"time": "2026-11-29T12:00:00.000Z", "credential": f"key:{key.key_id}"}])
    await pool.execute("REVOKE UPDATE ON api_keys FROM CURRENT_USER")
    try:
        await uses.note(store)
    finally:
        await pool.execute("GRANT UPDATE ON api_keys TO CURRENT_USER")
    [listed] = await store.list_keys()
    assert listed.last_use_time is None


def test_the_socket_of_administration_is_the_gateways_own_users_alone(
    administrator: httpx.AsyncClient, tmp_path: Path
) -> None:
    (socket,) = tmp_path.rglob("*.sock")
    assert socket.stat().st_mode & 0o077 == 0


async def test_a_key_expires_while_the_database_is_away(
    upstream: Any, database_url: str, pool: Pool, store: KeyStore, following: httpx.AsyncClient
) -> None:
    lasting = await store.create("lasting", ["user:a"], [Scope.CHAT], None)
    short = await store.create("short", ["user:a"], [Scope.CHAT], datetime.now(UTC) + timedelta(seconds=3))
    assert lasting.secret is not None
    assert short.secret is not None
    await answers(following, 200, lasting.secret)

    await pool.execute("ALTER TABLE api_keys RENAME TO elsewhere")
    await answers(following, 401, short.secret)
    await answers(following, 200, lasting.secret)

    await pool.execute("ALTER TABLE elsewhere RENAME TO api_keys")
    await store.revoke("lasting")
    await answers(following, 401, lasting.secret)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["create", "--name", "a b", "--principal", "user:a", "--scope", "chat"], "--name"),
        (["create", "--name", "a", "--principal", "user:a,user:b", "--scope", "chat"], "--principal"),
        (["create", "--name", "a", "--principal", "user:a", "--scope", "all"], "--scope"),
        (["create", "--name", "a", "--principal", "user:a"], "--scope"),
        (
            ["create", "--name", "a", "--principal", "user:a", "--scope", "chat", "--expires", "never"],
            "--expires",
        ),
        (
            ["create", "--name", "a", "--principal", "user:a", "--scope", "chat", "--expires", "2020-01-01"],
            "past",
        ),
        (["revoke", "unknown", "--yes"], "unknown"),
    ],
)
async def test_what_cannot_be_done_is_said(database_url: str, arguments: list[str], said: str) -> None:
    result = await keys(database_url, *arguments)

    assert result.code in (1, 2)
    assert said in result.err


async def test_a_database_that_is_away_is_one_line(unused: int) -> None:
    result = await keys(f"postgresql://user:secret-word@127.0.0.1:{unused}/none", "list")

    assert result.code == 1
    assert len(result.err.splitlines()) == 1
    assert "secret-word" not in result.err
