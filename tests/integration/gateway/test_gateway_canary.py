"""A candidate beside the version in use: it gets its share, nothing when that is 0, and costs no request when
it breaks."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from groundline_cli.stack.ports import reserved_port
from groundline_gateway.following import configured

from .conftest import KEYS, Upstream, answering, envoy, settings_for

SEARCH = {"query": "leave"}
KEY = {"x-api-key": KEYS["alice"]["key"]}


@asynccontextmanager
async def canaried(
    upstream: Upstream, candidate_port: int, directory: Path, percent: str, **changes: Any
) -> AsyncIterator[tuple[httpx.AsyncClient, Path]]:
    """Run a gateway with candidates of retriever and coordinator; yield a client and the file of their
    share."""
    share = directory / "share"
    share.write_text(percent)
    address = f"127.0.0.1:{candidate_port}"
    settings = settings_for(
        upstream.port,
        upstream.bridge_port,
        canary_addresses={"retriever": address, "coordinator": address},
        canary_weight_file=share,
        key_refresh_seconds=0.1,
        rate_limit_burst=100_000,
        **changes,
    )
    async with configured(settings, directory / "envoy.json"):
        with envoy(settings, directory):
            async with httpx.AsyncClient(
                base_url=f"http://127.0.0.1:{settings.port}", headers=KEY, timeout=20, trust_env=False
            ) as client:
                await answering(client, "/healthz", 200)
                yield client, share


async def search(client: httpx.AsyncClient, times: int) -> list[int]:
    return [(await client.post("/api/search", json=SEARCH)).status_code for _ in range(times)]


async def until(client: httpx.AsyncClient, upstream: Upstream, *, is_asked: bool) -> None:
    """Search until a version is asked, or is asked no more."""
    async with asyncio.timeout(20):
        while True:
            upstream.calls.clear()
            await search(client, 20)
            if bool(upstream.calls) == is_asked:
                return


@pytest.mark.parametrize("nothing", ["0", "", "much", "101", "-1"])
async def test_without_a_share_a_candidate_is_asked_nothing(
    upstream: Upstream, second_upstream: Upstream, tmp_path: Path, nothing: str
) -> None:
    async with canaried(upstream, second_upstream.port, tmp_path, nothing) as (client, _):
        assert set(await search(client, 50)) == {200}
        assert len(upstream.calls) == 50
        assert not second_upstream.calls


async def test_a_share_counts_at_once_and_is_taken_back_at_once(
    upstream: Upstream, second_upstream: Upstream, tmp_path: Path
) -> None:
    async with canaried(upstream, second_upstream.port, tmp_path, "0") as (client, share):
        share.write_text("50\n")
        await until(client, second_upstream, is_asked=True)
        upstream.calls.clear()
        second_upstream.calls.clear()
        assert set(await search(client, 200)) == {200}
        # Outside of 60 to 140 of 200 once in 10^8 times.
        assert 60 < len(second_upstream.calls_of("Search")) < 140
        assert len(upstream.calls) + len(second_upstream.calls) == 200
        share.unlink()
        await until(client, second_upstream, is_asked=False)


async def test_each_service_with_a_candidate_has_the_share(
    upstream: Upstream, second_upstream: Upstream, tmp_path: Path
) -> None:
    async with canaried(upstream, second_upstream.port, tmp_path, "100") as (client, _):
        await until(client, second_upstream, is_asked=True)
        second_upstream.calls.clear()
        assert (await client.get("/api/threads")).status_code == 200
        assert (await client.get("/api/collections")).status_code == 200
        assert [call.method for call in second_upstream.calls] == ["ListThreads"]
        assert "ListCollections" in {call.method for call in upstream.calls}


async def test_candidates_need_the_key(upstream: Upstream, second_upstream: Upstream, tmp_path: Path) -> None:
    async with canaried(upstream, second_upstream.port, tmp_path, "100") as (client, _):
        client.headers["x-api-key"] = "not-a-key-0123456789"
        assert set(await search(client, 5)) == {401}
        assert not second_upstream.calls


async def test_a_candidate_that_is_not_there_costs_no_request(upstream: Upstream, tmp_path: Path) -> None:
    with reserved_port() as nobody:
        async with canaried(upstream, nobody, tmp_path, "100") as (client, _):
            assert (await client.get("/healthz")).status_code == 200
            assert set(await search(client, 50)) == {200}
            assert len(upstream.calls) == 50


async def test_a_candidate_that_dies_of_a_request_costs_none(upstream: Upstream, tmp_path: Path) -> None:
    program = (sys.executable, Path(__file__).with_name("dying_service.py"))
    dying = await asyncio.create_subprocess_exec(*program, stdout=asyncio.subprocess.PIPE)
    try:
        assert dying.stdout is not None
        port = int(await dying.stdout.readline())
        async with canaried(upstream, port, tmp_path, "100") as (client, _):
            assert set(await search(client, 50)) == {200}
            assert len(upstream.calls) == 50
            assert await dying.wait() == 1
    finally:
        if dying.returncode is None:
            dying.kill()
            await dying.wait()
