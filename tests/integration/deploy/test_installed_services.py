"""Each service alone: installed and started as in its image, probed, asked, stopped under load."""

import asyncio
from pathlib import Path

import httpx
import pytest
from groundline_tests.asking import ASK, fill
from groundline_tests.images.installed import PROGRAMS, SERVICES, Installation, run, started, stop_under_load
from grpc_health.v1 import health_pb2

SERVING = health_pb2.HealthCheckResponse.SERVING


@pytest.fixture(scope="module")
async def settings(
    installation: Installation, database_url: str, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, str]]:
    """Settings that each service requires; the database holds a collection with one document."""
    database = {"GROUNDLINE_DATABASE_URL": database_url}
    nowhere = "127.0.0.1:9"
    callees = {f"GROUNDLINE_COORDINATOR_{name}_TARGET": nowhere for name in ("RETRIEVER", "GENERATOR")}
    async with started(installation, "ingestor", tmp_path_factory.mktemp("seed"), **database) as ingestor:
        await ingestor.becomes("groundline.v1.IngestorService", SERVING)
        await fill(ingestor.target)
    return {
        "coordinator": {**database, **callees},
        "generator": {},
        "ingestor": database,
        "collector": {},
        "reranker": {},
        "retriever": {**database, "GROUNDLINE_RETRIEVER_RERANKER_TARGET": nowhere},
    }


@pytest.mark.parametrize("service", SERVICES)
async def test_it_answers_alone_and_loses_no_request_when_stopped(
    service: str, installation: Installation, settings: dict[str, dict[str, str]], tmp_path: Path
) -> None:
    name = f"groundline.v1.{service.capitalize()}Service"
    timing = {"GROUNDLINE_DRAIN_SECONDS": "1", "GROUNDLINE_SHUTDOWN_GRACE_SECONDS": "20"}
    async with started(installation, service, tmp_path, **timing, **settings[service]) as running:
        assert await running.status("liveness") == SERVING
        await running.becomes(name, SERVING)
        async with asyncio.timeout(60):
            exit_code, answered = await stop_under_load(running, name, ASK[service])
        log = (tmp_path / f"{service}.log").read_text()
        assert exit_code == 0, log
        assert answered >= 20
        assert "service_stopped" in log


async def test_the_bridge_answers_alone_and_stops_if_told(installation: Installation, tmp_path: Path) -> None:
    callees = ("COORDINATOR", "INGESTOR", "RETRIEVER")
    nowhere = {f"GROUNDLINE_BRIDGE_{name}_TARGET": "127.0.0.1:9" for name in callees}
    async with (
        started(installation, "bridge", tmp_path, GROUNDLINE_DRAIN_SECONDS="0", **nowhere) as running,
        httpx.AsyncClient(base_url=f"http://{running.target}", trust_env=False) as client,
    ):
        assert (await client.get("/readyz")).status_code == 200
        assert (await client.get("/v1/models")).status_code == 503
        assert await running.stopped() == 0
        assert "service_stopped" in (tmp_path / "bridge.log").read_text()


@pytest.mark.parametrize("service", PROGRAMS)
async def test_no_other_service_is_installed_with_it(service: str, installation: Installation) -> None:
    others = [f"groundline_{other}" for other in (*PROGRAMS, "gateway", "cli") if other != service]
    script = f"""
from importlib.util import find_spec
raise SystemExit([other for other in {others} if find_spec(other)] or None)
"""
    ended = await run(await installation.python(service), "-c", script)
    assert ended.code == 0, ended.err


async def test_a_missing_setting_ends_the_start_with_one_line(installation: Installation) -> None:
    python = await installation.python("retriever")
    ended = await run(python.parent / "groundline-retriever")
    assert ended.code == 2
    assert ended.err.count("\n") == 1
    assert "GROUNDLINE_RETRIEVER_DATABASE_URL" in ended.err
