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
async def test_a_key_is_for_its_scope_alone(upstream: Any, launch: Any, scope: Scope) -> None:
    async with launch(api_keys=KEYS) as gateway, gateway.client(f"the-key-for-{scope}") as client:
        await gateway.becomes(200)
        for endpoint in endpoints():
            upstream.calls.clear()
            response = await ask(client, endpoint)
            if scope in REQUIRED[endpoint.name]:
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
