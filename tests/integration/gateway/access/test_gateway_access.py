"""Who gets in, as whom, and how often."""

from typing import Any

import grpc
import httpx
import pytest
from groundline.v1 import coordinator_service_pb2, coordinator_service_pb2_grpc

ALICE, BOB = "alice-key-0123456789", "bob-key-0123456789"


def reason(response: httpx.Response) -> str:
    assert response.headers["content-type"] == "application/json"
    (info, *_) = response.json()["details"]
    assert info["@type"] == "type.googleapis.com/google.rpc.ErrorInfo"
    assert info["domain"] == "groundline.dev"
    return str(info["reason"])


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param([], id="none"),
        pytest.param([("x-api-key", "")], id="empty"),
        pytest.param([("x-api-key", "wrong-key-0123456789")], id="wrong"),
        pytest.param([("x-api-key", ALICE[:-1])], id="beginning-of-a-right-one"),
        pytest.param([("x-api-key", ALICE), ("x-api-key", BOB)], id="two"),
        pytest.param([("authorization", f"Basic {ALICE}")], id="other-scheme"),
        pytest.param([("authorization", f"Bearer {ALICE} {BOB}")], id="two-in-one"),
        pytest.param(
            [("x-api-key", "wrong-key-0123456789"), ("authorization", f"Bearer {ALICE}")], id="mixed"
        ),
        pytest.param([("x-groundline-principals", "user:alice")], id="principals-instead-of-a-key"),
    ],
)
async def test_without_one_right_key_nothing_reaches_a_service(
    upstream: Any, anonymous: httpx.AsyncClient, headers: list[tuple[str, str]]
) -> None:
    response = await anonymous.post("/api/answer", json={"query": "x"}, headers=headers)

    assert response.status_code == 401
    assert response.headers["www-authenticate"] == "Bearer"
    assert response.json()["code"] == 16
    assert reason(response) == "API_KEY_INVALID"
    assert upstream.calls == []


@pytest.mark.parametrize(
    "script",
    [
        pytest.param('function envoy_on_request(request) error("fails") end', id="fails"),
        pytest.param("function envoy_on_request(request) end", id="forgets"),
    ],
)
async def test_nobody_passes_if_the_identifying_script_fails(upstream: Any, launch: Any, script: str) -> None:
    async with launch(identity=lambda _: script) as gateway, gateway.client() as client:
        await gateway.becomes(200)
        response = await client.post("/api/answer", json={"query": "x"})

    assert response.status_code == 403
    assert response.json()["code"] == 7
    assert upstream.calls == []


@pytest.mark.parametrize(
    "header", [("x-api-key", BOB), ("authorization", f"Bearer {BOB}"), ("authorization", f"bearer {BOB}")]
)
async def test_a_service_sees_the_principals_and_not_the_key(
    upstream: Any, anonymous: httpx.AsyncClient, header: tuple[str, str]
) -> None:
    assert (await anonymous.post("/api/answer", json={}, headers=[header])).status_code == 200

    (call,) = upstream.calls
    assert call.values("x-groundline-principals") == ["user:bob"]
    assert BOB not in str(call.metadata)
    assert not call.values("x-api-key")
    assert not call.values("authorization")


async def test_principals_cannot_be_forged(upstream: Any, alice: httpx.AsyncClient) -> None:
    forged = [
        ("x-groundline-principals", "user:root"),
        ("X-Groundline-Principals", "user:root,group:admin"),
        ("x-groundline-principals-bin", "dXNlcjpyb290"),
        ("x-groundline-client", "root"),
        ("x-groundline-scopes", "admin"),
        ("x-groundline-transcoded", "forged"),
        ("connection", "x-groundline-principals"),
    ]
    await alice.post("/api/answer", json={"query": "x"}, headers=forged)

    for call in upstream.calls:
        ours = {(key, value) for key, value in call.metadata if key.startswith("x-groundline-")}
        assert ours == {
            ("x-groundline-principals", "user:alice,group:staff"),
            ("x-groundline-scopes", "search,chat,ingest,admin,administration"),
            ("x-groundline-transcoded", "true"),
        }


async def test_a_header_name_with_an_underscore_is_refused(upstream: Any, alice: httpx.AsyncClient) -> None:
    response = await alice.post("/api/answer", json={}, headers={"x_groundline_principals": "user:root"})

    assert response.status_code == 400
    assert upstream.calls == []


async def test_a_client_sets_neither_deadline_nor_retries(upstream: Any, alice: httpx.AsyncClient) -> None:
    headers = {"grpc-timeout": "10H", "x-envoy-max-retries": "5", "x-envoy-upstream-rq-timeout-ms": "1"}
    assert (await alice.get("/api/threads", headers=headers)).status_code == 200

    (call,) = upstream.calls
    assert call.remaining_seconds == pytest.approx(30, abs=5)
    assert not call.values("x-envoy-max-retries")


async def test_grpc_is_not_served_even_with_a_key(upstream: Any, gateway: Any) -> None:
    async with grpc.aio.insecure_channel(gateway.url.removeprefix("http://")) as channel:
        stub = coordinator_service_pb2_grpc.CoordinatorServiceStub(channel)
        request = coordinator_service_pb2.AnswerRequest(query="x")
        with pytest.raises(grpc.aio.AioRpcError) as anonymous:
            await stub.Answer(request)
        with pytest.raises(grpc.aio.AioRpcError) as identified:
            await stub.Answer(request, metadata=[("x-api-key", ALICE)])

    assert anonymous.value.code() is grpc.StatusCode.UNAUTHENTICATED
    assert identified.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert upstream.calls == []


@pytest.mark.parametrize("path", ["/api/answer", "/groundline.v1.CoordinatorService/Answer"])
async def test_grpc_frames_over_http_are_refused(upstream: Any, alice: httpx.AsyncClient, path: str) -> None:
    frame = b"\0\0\0\0\0"
    response = await alice.post(path, content=frame, headers={"content-type": "application/grpc"})

    assert response.headers["grpc-status"] == "12"
    assert upstream.calls == []


async def test_a_client_over_its_rate_is_told_when_to_come_back_and_others_are_not_held_up(
    upstream: Any, launch: Any
) -> None:
    # One request a minute after the first two: the test's own duration fills no bucket.
    async with launch(rate_limit_per_minute=1, rate_limit_burst=2) as gateway:
        async with gateway.client(ALICE) as alice:
            statuses = [(await alice.get("/api/threads")).status_code for _ in range(3)]
            refused = await alice.get("/api/threads")
            assert (await alice.get("/")).status_code == 200
        async with gateway.client(BOB) as bob:
            other = await bob.get("/api/threads")

    assert statuses == [200, 200, 429]
    assert refused.headers["retry-after"] == "60"
    assert refused.json()["code"] == 8
    assert reason(refused) == "RATE_LIMITED"
    assert refused.json()["details"][1]["retryDelay"] == "60s"
    assert other.status_code == 200
    assert len(upstream.calls) == 3


async def test_the_access_log_names_the_client_but_no_key_query_or_body(upstream: Any, launch: Any) -> None:
    async with launch() as gateway, gateway.client(BOB) as bob:
        await bob.get("/api/threads", params={"pageToken": "secret-token"})
        await bob.post("/api/answer", json={"query": "secret-question"})

    log = gateway.log.read_text()
    assert '"client":"bob"' in log
    assert '"path":"/api/answer"' in log
    assert BOB not in log
    assert "secret-" not in log
