"""Services that are down, not ready or late."""

import asyncio
import re
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from groundline.v1 import retriever_service_pb2
from groundline_runtime.context import BEGUN_KEY, PRINCIPALS_KEY
from groundline_runtime.errors import ResourceExhaustedError
from groundline_runtime.status import abort

DYING_SERVICE = Path(__file__).with_name("dying_service.py")


def reason(response: httpx.Response) -> str:
    return str(response.json()["details"][0]["reason"])


@pytest.mark.parametrize("path", ["/api/answer", "/api/chat"])
async def test_a_service_down_is_said_at_once(upstream: Any, launch: Any, unused: int, path: str) -> None:
    async with launch(coordinator_address=f"127.0.0.1:{unused}") as gateway, gateway.client() as client:
        response = await client.post(path, json={"query": "x"})
        health = await gateway.becomes(503)
        asked_for_health = await client.get("/healthz")
        services = {
            name: (await client.get(f"/healthz/{name}")).status_code
            for name in ("coordinator", "ingestor", "retriever", "reranker", "generator", "bridge", "nobody")
        }
        others = await client.get("/api/collections")

    assert services == dict.fromkeys(services, 200) | {"coordinator": 503, "nobody": 404}
    assert response.status_code == 503
    assert response.headers["content-type"] == "application/json"
    assert response.json()["code"] == 14
    assert response.headers["retry-after"] == "1"
    assert reason(response) == "SERVICE_UNAVAILABLE"
    assert response.json()["message"] == "the coordinator is not available; try again later"
    assert "127.0.0.1" not in response.text
    assert health == {"status": "NOT_SERVING"}
    assert asked_for_health.headers["retry-after"] == "1"
    assert others.status_code == 200


async def test_a_name_that_does_not_resolve_is_a_service_that_is_down(upstream: Any, launch: Any) -> None:
    async with launch(coordinator_address="nowhere.invalid:50051") as gateway, gateway.client() as client:
        response = await client.post("/api/answer", json={"query": "x"})

    assert response.status_code == 503
    assert reason(response) == "SERVICE_UNAVAILABLE"


@pytest.mark.parametrize("service", ["Coordinator", "Retriever", "Reranker", "Generator", "Ingestor"])
async def test_health_follows_every_service(upstream: Any, gateway: Any, service: str) -> None:
    await gateway.becomes(200)

    await upstream.set_health(service, serving=False)
    assert await gateway.becomes(503) == {"status": "NOT_SERVING"}

    await upstream.set_health(service, serving=True)
    assert await gateway.becomes(200) == {"status": "SERVING"}


async def test_a_late_service_is_cancelled_and_the_client_told(upstream: Any, launch: Any) -> None:
    async def late(_request: Any, _context: Any) -> Any:
        await asyncio.Event().wait()

    upstream.on("Answer", late)
    async with launch(answer_timeout_seconds=0.3) as gateway, gateway.client() as client:
        await gateway.becomes(200)
        response = await client.post("/api/answer", json={"query": "x"})

    assert response.status_code == 504
    assert response.json()["code"] == 4
    (call,) = upstream.calls
    async with asyncio.timeout(10):
        await call.ended.wait()


def asking(path: str) -> dict[str, str]:
    return {"question" if path == "/api/tables/query" else "query": "x"}


@pytest.mark.parametrize("path", ["/api/search", "/api/tables/query", "/api/answer", "/api/chat"])
async def test_an_overloaded_service_says_when_to_come_again(upstream: Any, gateway: Any, path: str) -> None:
    async def refuse(_request: Any, context: Any) -> Any:
        await abort(context, ResourceExhaustedError("OVERLOADED", "try again later", retry_after_seconds=2.5))

    async def refuse_stream(request: Any, context: Any) -> AsyncIterator[Any]:
        await refuse(request, context)
        yield

    for method, handler in (
        ("Search", refuse),
        ("QueryTables", refuse),
        ("Answer", refuse),
        ("Chat", refuse_stream),
    ):
        upstream.on(method, handler)
    async with gateway.client() as client:
        response = await client.post(path, json=asking(path))

    assert response.status_code == 429
    assert response.headers["retry-after"] == "3"
    assert reason(response) == "OVERLOADED"
    assert len(upstream.calls) == 1


@pytest.mark.parametrize("path", ["/api/answer", "/api/chat", "/v1/chat/completions"])
async def test_whatever_says_that_a_service_is_not_available_says_when_to_come_again(
    upstream: Any, gateway: Any, path: str
) -> None:
    async def bare(_request: Any, context: Any) -> Any:
        # As gRPC itself does, without the details of the suite's own errors.
        await context.abort(grpc.StatusCode.UNAVAILABLE, "the server is stopping")

    async def bare_stream(request: Any, context: Any) -> AsyncIterator[Any]:
        await bare(request, context)
        yield

    upstream.on("Answer", bare)
    upstream.on("Chat", bare_stream)
    ask = {"model": "groundline", "messages": [{"role": "user", "content": "x"}]}
    async with gateway.client() as client:
        response = await client.post(path, json=ask if path.startswith("/v1/") else {"query": "x"})

    assert (response.status_code, response.headers.get("retry-after")) == (503, "1")


async def test_searches_beyond_the_bound_are_refused_before_they_reach_a_service_and_each_client_has_a_share(
    upstream: Any, launch: Any
) -> None:
    answers = asyncio.Event()

    async def search(_request: Any, _context: Any) -> Any:
        await answers.wait()
        return retriever_service_pb2.SearchResponse()

    upstream.on("Search", search)
    # Names of three lanes.
    names = [f"{name}-key-0123456789" for name in ("ann", "bob", "dave")]
    keys = [{"key": name, "client": name, "principals": [f"user:{name}"]} for name in names]
    settings = {"api_keys": keys, "max_searches_under_way": 2, "worker_threads": 1}
    async with launch(**settings) as gateway, AsyncExitStack() as stack:
        await gateway.becomes(200)
        ann, bob, dave = [await stack.enter_async_context(gateway.client(name)) for name in names]
        under_way = []
        for client in (ann, bob):
            under_way.append(asyncio.create_task(client.post("/api/search", json={"query": "x"})))
            await upstream.arrived.get()
            if client is ann:
                beyond_its_share = await ann.post("/api/search", json={"query": "x"})
        refused = await dave.post("/api/search", json={"query": "x"})
        others = await dave.post("/api/answer", json={"query": "x"})
        answers.set()
        answered = await asyncio.gather(*under_way)
        again = await gateway.answering(ann, "/api/threads", 200)

    told = [
        (each.status_code, reason(each), each.headers["retry-after"]) for each in (beyond_its_share, refused)
    ]
    assert told == [(429, "RATE_LIMITED", "1"), (429, "OVERLOADED", "1")]
    assert [response.status_code for response in (*answered, others, again)] == [200] * 4
    assert [call.method for call in upstream.calls[:3]] == ["Search", "Search", "Answer"]


async def test_a_clients_searches_wait_in_the_gateway_not_before_anothers(upstream: Any, launch: Any) -> None:
    answers = asyncio.Event()

    async def search(_request: Any, _context: Any) -> Any:
        await answers.wait()
        return retriever_service_pb2.SearchResponse()

    upstream.on("Search", search)
    names = [f"{name}-key-0123456789" for name in ("ann", "bob")]
    keys = [{"key": name, "client": name, "principals": [f"user:{name}"]} for name in names]
    # One of a client is at a retriever at a time, and four are under way.
    async with (
        launch(api_keys=keys, max_searches_under_way=8, worker_threads=1) as gateway,
        AsyncExitStack() as stack,
    ):
        await gateway.becomes(200)
        ann, bob = [await stack.enter_async_context(gateway.client(name)) for name in names]
        waiting = [asyncio.create_task(ann.post("/api/search", json={"query": "x"})) for _ in range(3)]
        await upstream.arrived.get()
        other = asyncio.create_task(bob.post("/api/search", json={"query": "x"}))
        await upstream.arrived.get()
        answers.set()
        answered = await asyncio.gather(other, *waiting)

    assert [response.status_code for response in answered] == [200] * 4
    callers = [call.values(PRINCIPALS_KEY) for call in upstream.calls]
    assert callers == [[f"user:{name}"] for name in (names[0], names[1], names[0], names[0])]


async def renewed(admin: str) -> None:
    """Wait until a retriever has said that it takes nothing more on a connection."""
    name = "cluster.retriever.upstream_cx_close_notify"
    async with httpx.AsyncClient(base_url=f"http://{admin}") as client:
        stats = ""
        while stats in ("", f"{name}: 0"):
            stats = (await client.get(f"/stats?filter={name}")).text.strip()


async def test_searches_of_a_client_do_not_wait_for_those_on_a_connection_that_the_retriever_renews(
    upstream: Any, launch: Any, unused: int
) -> None:
    answers = asyncio.Event()

    async def search(request: Any, _context: Any) -> Any:
        if request.query == "long":
            await answers.wait()
        return retriever_service_pb2.SearchResponse()

    def soon(script: str) -> str:
        return re.sub(r"(LANE_MILLISECONDS =) \d+", r"\1 1000", script)

    renewing = type(upstream)(("grpc.max_connection_age_ms", 200))
    renewing.on("Search", search)
    admin = f"127.0.0.1:{unused}"
    async with (
        renewing.running(),
        launch(soon, admin_address=admin, retriever_address=f"127.0.0.1:{renewing.port}") as gateway,
        gateway.client() as client,
        asyncio.timeout(60),
    ):
        await gateway.becomes(200)
        long = asyncio.create_task(client.post("/api/search", json={"query": "long"}, timeout=60))
        await renewing.arrived.get()
        await renewed(admin)
        short = None
        while short is None:
            with suppress(httpx.TimeoutException):
                short = await client.post("/api/search", json={"query": "short"}, timeout=2)
        is_under_way = not long.done()
        answers.set()
        answered = await long

    assert is_under_way
    assert (short.status_code, answered.status_code) == (200, 200)


async def test_nobody_outside_can_claim_that_his_chat_has_begun(upstream: Any, gateway: Any) -> None:
    async with gateway.client() as client:
        await client.post("/api/search", json={"query": "x"}, headers={BEGUN_KEY: "true"})

    (call,) = upstream.calls
    assert call.values(BEGUN_KEY) == []


@pytest.mark.parametrize("path", ["/healthz?x=1", "/healthz/bridge?x=1"])
async def test_health_is_asked_for_with_any_query(upstream: Any, gateway: Any, path: str) -> None:
    await gateway.becomes(200)
    async with gateway.client(None) as client:
        response = await client.get(path)

    assert (response.status_code, response.json()) == (200, {"status": "SERVING"})


def replicas(*ports: int) -> Mapping[str, str]:
    address = ",".join(f"127.0.0.1:{port}" for port in ports)
    return {f"{name}_address": address for name in ("coordinator", "ingestor", "retriever")}


async def test_every_replica_gets_its_share(upstream: Any, second_upstream: Any, launch: Any) -> None:
    async with launch(**replicas(upstream.port, second_upstream.port)) as gateway:
        await gateway.becomes(200)
        async with gateway.client() as client:
            while not (upstream.calls and second_upstream.calls):
                assert (await client.get("/api/threads")).status_code == 200


async def test_a_replica_that_is_down_is_not_noticed(upstream: Any, launch: Any, unused: int) -> None:
    async with launch(**replicas(unused, upstream.port)) as gateway:
        assert await gateway.becomes(200) == {"status": "SERVING"}
        async with gateway.client() as client:
            statuses = {(await client.post("/api/answer", json={})).status_code for _ in range(20)}

    assert statuses == {200}


async def every_replica_is_healthy(admin: str) -> None:
    async with asyncio.timeout(20), httpx.AsyncClient(base_url=f"http://{admin}") as client:
        healthy = False
        while not healthy:
            clusters = (await client.get("/clusters?format=json")).json()["cluster_statuses"]
            hosts = [host for cluster in clusters for host in cluster["host_statuses"]]
            healthy = all(host["health_status"] == {"eds_health_status": "HEALTHY"} for host in hosts)


@pytest.fixture
async def dying() -> AsyncIterator[tuple[int, asyncio.subprocess.Process]]:
    """A replica that is healthy and dies of its first request; its port, and its process."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(DYING_SERVICE), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        yield int(await process.stdout.readline()), process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


SENT_AGAIN = ("/api/search", "/api/tables/query", "/api/answer", "/api/chat")


@pytest.mark.parametrize("path", SENT_AGAIN)
async def test_what_had_no_answer_yet_is_sent_again_when_a_replica_dies(
    upstream: Any, launch: Any, unused: int, dying: tuple[int, asyncio.subprocess.Process], path: str
) -> None:
    port, process = dying
    admin = f"127.0.0.1:{unused}"
    async with launch(admin_address=admin, **replicas(port, upstream.port)) as gateway:
        await every_replica_is_healthy(admin)
        async with gateway.client() as client, asyncio.timeout(30):
            statuses = []
            while process.returncode is None:
                statuses.append((await client.post(path, json=asking(path))).status_code)
                await asyncio.sleep(0.01)

    assert set(statuses) == {200}
    assert len(upstream.calls) == len(statuses)


async def test_what_a_hanging_replica_has_not_answered_is_answered_by_another(
    upstream: Any, launch: Any, unused: int, dying: tuple[int, asyncio.subprocess.Process]
) -> None:
    port, process = dying
    admin = f"127.0.0.1:{unused}"
    async with launch(admin_address=admin, **replicas(port, upstream.port)) as gateway:
        await every_replica_is_healthy(admin)
        process.send_signal(signal.SIGSTOP)
        async with gateway.client() as client, asyncio.timeout(60):
            client.timeout = httpx.Timeout(30)
            posted = [client.post(path, json=asking(path)) for path in SENT_AGAIN for _ in range(8)]
            responses = await asyncio.gather(*posted)

    assert {response.status_code for response in responses} == {200}
    assert len(upstream.calls) == len(responses)


async def test_a_service_that_is_not_ready_is_better_than_none(upstream: Any, launch: Any) -> None:
    """It can say what is wrong, or is only slow to answer health checks."""
    async with launch() as gateway, gateway.client() as client:
        await gateway.becomes(200)
        try:
            await upstream.set_health("Coordinator", serving=False)
            await gateway.becomes(503)
            response = await client.post("/api/answer", json={"query": "x"})
        finally:
            await upstream.set_health("Coordinator", serving=True)

    assert response.status_code == 200
