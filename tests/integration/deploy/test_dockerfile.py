"""services/Dockerfile itself, built by buildah on a base of this machine's own Python, and started."""

import asyncio
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import grpc
import psutil
import pytest
from groundline_tests.base_image import CERTIFICATES, buildah, make_base
from grpc_health.v1 import health_pb2, health_pb2_grpc
from service_requirements import ROOT

BASE, IMAGE = "localhost/base:test", "localhost/reranker:test"
START_SECONDS = 120

pytestmark = [
    pytest.mark.skipif(shutil.which("buildah") is None, reason="buildah is not installed: no image is built"),
    pytest.mark.skipif(os.geteuid() != 0, reason="not root: buildah cannot build by chroot"),
    pytest.mark.skipif(not CERTIFICATES.exists(), reason=f"no {CERTIFICATES}: the build could fetch nothing"),
]


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("images")
    make_base(folder, BASE)
    buildah(
        *("build", "--isolation", "chroot", "--pull-never", "--file", str(ROOT / "services/Dockerfile")),
        *("--build-arg", "SERVICE=reranker", "--build-arg", f"PYTHON_IMAGE={BASE}"),
        *("--build-arg", "VERSION=9.9.9", "--tag", IMAGE, str(ROOT)),
        folder=folder,
    )
    yield folder
    # A gigabyte; pytest would keep it.
    shutil.rmtree(folder)


def test_the_image_says_what_it_is_and_runs_as_nobody(storage: Path) -> None:
    image = json.loads(buildah("inspect", "--type", "image", IMAGE, folder=storage))["OCIv1"]["config"]
    assert image["User"] == "65532:65532"
    assert image["Entrypoint"] == ["/app/bin/serve"]
    assert image["Labels"]["org.opencontainers.image.title"] == "groundline-reranker"
    assert image["Labels"]["org.opencontainers.image.version"] == "9.9.9"


async def test_the_container_serves_and_ends_cleanly_at_sigterm(storage: Path, unused_port: int) -> None:
    container = buildah("from", "--pull-never", IMAGE, folder=storage)
    options = ["--root", str(storage / "store"), "--runroot", str(storage / "run"), "--storage-driver", "vfs"]
    process = await asyncio.create_subprocess_exec(
        *("buildah", *options, "run", "--isolation", "chroot", "--user", "65532:65532"),
        *("--env", "GROUNDLINE_HOST=127.0.0.1", "--env", f"GROUNDLINE_PORT={unused_port}"),
        *("--env", "GROUNDLINE_DRAIN_SECONDS=0", container, "--", "/app/bin/serve"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(START_SECONDS):
            started = asyncio.ensure_future(liveness(unused_port))
            ended = asyncio.ensure_future(process.wait())
            await asyncio.wait((started, ended), return_when=asyncio.FIRST_COMPLETED)
            assert process.stdout
            assert not ended.done(), (await process.stdout.read()).decode()
            assert await started == health_pb2.HealthCheckResponse.SERVING
            service = server_below(process.pid)
            assert service.uids().real == 65532
            service.terminate()
            log = (await process.stdout.read()).decode()
            assert await process.wait() == 0, log
            assert "service_stopped" in log
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def liveness(port: int) -> health_pb2.HealthCheckResponse.ServingStatus.ValueType:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        response: health_pb2.HealthCheckResponse = await health_pb2_grpc.HealthStub(channel).Check(
            health_pb2.HealthCheckRequest(service="liveness"), wait_for_ready=True
        )
        return response.status


def server_below(pid: int) -> psutil.Process:
    """The process that the container's entry point has become."""
    [server] = [
        child
        for child in psutil.Process(pid).children(recursive=True)
        if child.cmdline()[:2] == ["/app/bin/python", "/app/bin/serve"]
    ]
    return server
