"""Scopes of keys: every RPC against every scope."""

from typing import Any

import httpx
import pytest
from groundline_gateway.endpoints import Endpoint, endpoints
from groundline_gateway.scopes import REQUIRED, Scope

KEYS = [
    {"key": f"the-key-for-{scope}", "client": scope, "principals": ["user:alice"], "scopes": [scope]}
    for scope in Scope
]


async def ask(client: httpx.AsyncClient, endpoint: Endpoint) -> httpx.Response:
    path = endpoint.template.replace("{page}", "1").replace("{", "").replace("}", "")
    json: dict[str, Any] | None = {} if endpoint.json_body is not None else None
    return await client.request(endpoint.verb, path, json=json)


@pytest.mark.parametrize("scope", Scope)
async def test_a_key_is_for_its_scope_alone(upstream: Any, shared: Any, scope: Scope) -> None:
    gateway = await shared(api_keys=KEYS)
    async with gateway.client(f"the-key-for-{scope}") as client:
        for endpoint in endpoints():
            upstream.calls.clear()
            response = await ask(client, endpoint)
            if scope in (REQUIRED[endpoint.name] or Scope):
                assert response.status_code == 200, endpoint.name
                assert [call.method for call in upstream.calls] == [endpoint.name]
            else:
                assert response.status_code == 403, endpoint.name
                status = response.json()
                assert status["details"][0]["reason"] == "SCOPE_MISSING"
                assert all(wanted in status["message"] for wanted in REQUIRED[endpoint.name])
                assert upstream.calls == []


async def test_a_key_of_several_scopes_is_for_each_of_them(upstream: Any, launch: Any) -> None:
    key = KEYS[0] | {"scopes": ["search", "ingest"]}
    async with launch(api_keys=[key]) as gateway, gateway.client(str(key["key"])) as client:
        await gateway.becomes(200)
        statuses = [
            (await client.post("/api/search", json={})).status_code,
            (await client.get("/api/jobs")).status_code,
            (await client.post("/api/chat", json={})).status_code,
        ]

    assert statuses == [200, 200, 403]


async def test_what_is_open_needs_no_key_and_nothing_else_is_open(upstream: Any, shared: Any) -> None:
    gateway = await shared(api_keys=KEYS)
    async with gateway.client(None) as client:
        for endpoint in endpoints():
            upstream.calls.clear()
            response = await ask(client, endpoint)
            if endpoint.name == "ListSigningKeys":
                assert response.status_code == 200
                [call] = upstream.calls
                assert call.values("x-groundline-principals") == [""]
            else:
                assert response.status_code == 401, endpoint.name
                assert upstream.calls == []


async def test_a_wrong_key_is_refused_also_where_none_is_needed(upstream: Any, shared: Any) -> None:
    gateway = await shared(api_keys=KEYS)
    async with gateway.client("wrong") as client:
        assert (await client.get("/.well-known/jwks.json")).status_code == 401

    assert upstream.calls == []


async def test_all_without_a_key_share_the_limits_of_one_client(upstream: Any, launch: Any) -> None:
    limits = {"rate_limit_per_minute": 3, "rate_limit_burst": 3}
    async with launch(api_keys=KEYS, **limits) as gateway, gateway.client(None) as anyone:
        await gateway.becomes(200)
        statuses = [(await anyone.get("/.well-known/jwks.json")).status_code for _ in range(5)]
        async with gateway.client(str(KEYS[0]["key"])) as known:
            assert (await known.get("/.well-known/jwks.json")).status_code == 200

    assert statuses == [200, 200, 200, 429, 429]
