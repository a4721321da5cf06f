"""Envoy's figures for Prometheus, and the admin interface behind them, which stays out of reach."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from groundline_cli.stack.ports import reserved_port

LABELS_OF = {
    "envoy_http_downstream_rq_xx": '{envoy_response_code_class="2",envoy_http_conn_manager_prefix="public"}',
    "envoy_http_downstream_rq_time_bucket": '{envoy_http_conn_manager_prefix="public",le="+Inf"}',
    "envoy_cluster_upstream_rq_xx": '{envoy_response_code_class="2",envoy_cluster_name="coordinator"}',
    "envoy_cluster_upstream_rq_time_bucket": '{envoy_cluster_name="coordinator",le="+Inf"}',
    "envoy_cluster_membership_healthy": '{envoy_cluster_name="ingestor"}',
    "envoy_server_live": "{}",
}


def samples_of(page: str) -> dict[str, float]:
    """Return the values by names and labels. prometheus_client's parser would rename Envoy's counters."""
    lines = (line.rpartition(" ") for line in page.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


async def status_of(port: int, method: str, target: str, body: bytes = b"") -> int:
    """Send the target as it is, which HTTP clients would tidy up first."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = (
        f"{method} {target} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    writer.write(head.encode() + body)
    await writer.drain()
    answer = await reader.readline()
    writer.close()
    return int(answer.split()[1])


@dataclass(frozen=True, slots=True)
class Metered:
    """A gateway whose figures can be read."""

    gateway: Any
    port: int
    admin: int


@pytest.fixture(scope="module")
async def metered(shared: Any) -> AsyncIterator[Metered]:
    with reserved_port() as port, reserved_port() as admin:
        gateway = await shared(metrics_port=port, admin_address=f"127.0.0.1:{admin}")
        yield Metered(gateway, port, admin)


async def test_metrics_show_requests_times_and_replicas_in_some_hundred_series(
    metered: Metered,
) -> None:
    async with metered.gateway.client() as client:
        for _ in range(3):
            assert (await client.post("/api/answer", json={"query": "a question"})).status_code == 200
        # Envoy adds up what its threads have counted every few seconds.
        async with asyncio.timeout(60), httpx.AsyncClient() as prometheus:
            samples: dict[str, float] = {}
            while not all(samples.get(name + labels) for name, labels in LABELS_OF.items()):
                await asyncio.sleep(0.1)
                response = await prometheus.get(f"http://127.0.0.1:{metered.port}/metrics")
                assert response.status_code == 200
                assert response.headers["content-type"].startswith("text/plain")
                samples = samples_of(response.text)
    assert len(samples) < 1000
    assert not any('"admin"' in name for name in samples)


async def test_the_admin_interface_is_out_of_reach(metered: Metered) -> None:
    async with metered.gateway.client() as client:
        assert await status_of(metered.port, "GET", "/metrics") == 200
        assert await status_of(metered.admin, "GET", "/stats") == 200
        for method in ("GET", "POST"):
            for target in (
                "/",
                "/stats",
                "/stats/prometheus",
                "/quitquitquit",
                "/metrics/",
                "/metrics/../quitquitquit",
                "/metrics/%2e%2e/quitquitquit",
                "/metrics?filter=.",
                "/metrics#/quitquitquit",
                "//quitquitquit",
                "http://x/quitquitquit",
                "/%2fquitquitquit",
                "/metrics%2f..%2fquitquitquit",
                "/metrics\\..\\quitquitquit",
            ):
                assert await status_of(metered.port, method, target) in (400, 404), target
        for method in ("POST", "PUT", "DELETE", "HEAD", "OPTIONS"):
            assert await status_of(metered.port, method, "/metrics") == 404, method
        assert await status_of(metered.port, "GET", "/metrics") == 200
        assert (await client.get("/")).status_code == 200


async def test_many_readers_at_once_are_refused_before_the_admin_interface(metered: Metered) -> None:
    async with metered.gateway.client() as client:
        found = await asyncio.gather(*(status_of(metered.port, "GET", "/metrics") for _ in range(100)))
        assert set(found) <= {200, 503}
        assert 200 in found
        assert (await client.get("/")).status_code == 200


async def test_without_the_setting_nothing_listens(launch: Any, unused: int, also_unused: int) -> None:
    async with launch(admin_address=f"127.0.0.1:{also_unused}"):
        with pytest.raises(ConnectionRefusedError):
            await status_of(unused, "GET", "/metrics")
