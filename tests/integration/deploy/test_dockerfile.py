"""The images themselves: built by `make images` with buildah on a local base, and run as a pod runs them.

Two of them by default, since each takes its time. GROUNDLINE_TEST_IMAGES=all builds all of them, on Debian by
debootstrap, which the ingestor's OCR needs; a list such as GROUNDLINE_TEST_IMAGES=retriever,gateway those.
"""

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import grpc
import httpx
import pytest
from groundline_tests.asking import ASK, fill
from groundline_tests.images.base_image import CERTIFICATES
from groundline_tests.images.built import Container, Images, installed, running, size_mib
from groundline_tests.listening import over_tcp
from groundline_tests.programs import needs_program
from grpc_health.v1 import health_pb2, health_pb2_grpc
from project import SERVICES
from service_requirements import closure_of, directory, needs, normal

START_SECONDS = 120
DEFAULT = "gateway,reranker"
CALLED = ("COORDINATOR", "RETRIEVER", "RERANKER", "GENERATOR", "INGESTOR")
KEY = "a-key-of-the-image-test"
BUILDING = {"ml-dtypes", "onnx", "pip", "safetensors"}
"""Packages that only building an image needs."""

asked = os.environ.get("GROUNDLINE_TEST_IMAGES", DEFAULT)
CHOSEN = set(SERVICES) if asked == "all" else set(asked.split(","))
DEBIAN = "ingestor" in CHOSEN

pytestmark = [
    needs_program("buildah", found=shutil.which("buildah") is not None),
    pytest.mark.skipif(os.geteuid() != 0, reason="not root: buildah cannot build by chroot"),
    needs_program("ca-certificates", found=CERTIFICATES.exists()),
    pytest.mark.skipif(
        DEBIAN and shutil.which("debootstrap") is None,
        reason="debootstrap is not installed: the ingestor's image needs Debian as its base",
    ),
]

programs = pytest.mark.parametrize(
    "program",
    [
        pytest.param(
            program,
            marks=pytest.mark.skipif(
                program not in CHOSEN,
                reason=f"{program}'s image takes a minute to build: set GROUNDLINE_TEST_IMAGES=all",
            ),
        )
        for program in SERVICES
    ],
)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Images]:
    store = Images(tmp_path_factory.mktemp("images"), debian=DEBIAN)
    yield store
    store.close()


@pytest.fixture(scope="module")
async def database(database_url: str) -> AsyncIterator[dict[str, str]]:
    async with over_tcp(database_url) as url:
        yield {"GROUNDLINE_DATABASE_URL": url}


@programs
async def test_it_is_built_and_runs_as_a_pod_runs_it(
    program: str, images: Images, database: dict[str, str], unused_port: int, tmp_path: Path
) -> None:
    image = await asyncio.to_thread(images.build, program)
    configuration = images.configuration(image)
    assert configuration["User"] == "65532:65532"
    assert configuration["Labels"]["org.opencontainers.image.title"] == f"groundline-{program}"
    assert configuration["Labels"]["org.opencontainers.image.version"] == "9.9.9"
    assert len(configuration["Labels"]["org.opencontainers.image.revision"]) == 40

    root = await asyncio.to_thread(images.root, image)
    print(f"{program}: {size_mib(root)} MiB")
    own = {f"groundline-{path.name}" for path in needs(directory(program))[0]}
    assert own <= installed(root)
    assert installed(root) - own <= set(closure_of(program)) - BUILDING
    assert_declared(root)

    environment = {
        "GROUNDLINE_HOST": "127.0.0.1",
        "GROUNDLINE_GATEWAY_HOST": "127.0.0.1",
        "GROUNDLINE_PORT": str(unused_port),
        "GROUNDLINE_GATEWAY_PORT": str(unused_port),
        "GROUNDLINE_GATEWAY_API_KEYS": f'[{{"key": "{KEY}", "client": "test", "principals": ["user:a"]}}]',
        "GROUNDLINE_DRAIN_SECONDS": "0",
        **{f"GROUNDLINE_{name}_TARGET": "127.0.0.1:9" for name in CALLED},
        **database,
    }
    async with (
        running(images, image, tmp_path / f"{program}.log", environment) as container,
        asyncio.timeout(START_SECONDS),
    ):
        ended = asyncio.create_task(container.runtime.wait())
        answered = asyncio.create_task(answers(program, unused_port))
        await asyncio.wait((ended, answered), return_when=asyncio.FIRST_COMPLETED)
        assert not ended.done(), container.log.read_text()
        await answered
        assert_restricted(container)
        assert await container.stopped() == 0, container.log.read_text()


async def answers(program: str, port: int) -> None:
    """Wait until the image is up, and send it a real request."""
    if program in ("gateway", "bridge"):
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
            await (gateway_answers(client) if program == "gateway" else bridge_answers(client))
        return
    target = f"127.0.0.1:{port}"
    async with grpc.aio.insecure_channel(target) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        request = health_pb2.HealthCheckRequest(service="liveness")
        response = await health.Check(request, wait_for_ready=True)
        assert response.status == health_pb2.HealthCheckResponse.SERVING
        if program in ("ingestor", "retriever"):
            # The retriever finds what is in the database: what it knows has been put there by an ingestor.
            await (fill(target) if program == "ingestor" else embeds(channel))
        else:
            await ASK[program](channel)


async def embeds(channel: grpc.aio.Channel) -> None:
    """Check that the model is loaded: the retriever refuses an unknown collection only after it is wired."""
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await ASK["retriever"](channel)
    assert refused.value.code() == grpc.StatusCode.NOT_FOUND


async def gateway_answers(client: httpx.AsyncClient) -> None:
    """Check the page, the key, and the descriptor set: a call is transcoded, and its service is missing."""
    assert (await first_reply(client, "/")).status_code == 200
    assert (await client.get("/api/collections")).status_code == 401
    reply = await client.get("/api/collections", headers={"x-api-key": KEY})
    assert reply.status_code == 503, reply.text


async def bridge_answers(client: httpx.AsyncClient) -> None:
    """Check that it is ready alone, and that a call finds its service missing."""
    assert (await first_reply(client, "/readyz")).status_code == 200
    assert (await client.get("/v1/models")).status_code == 503


async def first_reply(client: httpx.AsyncClient, path: str) -> httpx.Response:
    """Return the reply of a server that may still be starting."""
    while True:
        try:
            return await client.get(path)
        except httpx.TransportError:
            await asyncio.sleep(0.1)


def assert_declared(root: Path) -> None:
    """Assert that the bill of materials names what is installed, no more, and that each has its licence."""
    bill = json.loads((root / "app/sbom.cdx.json").read_text())
    assert bill["bomFormat"] == "CycloneDX"
    main = bill["metadata"]["component"]["name"]
    assert {normal(one["name"]) for one in bill["components"]} | {normal(main)} == installed(root)
    others = [one for one in bill["components"] if not one["name"].startswith("groundline-")]
    assert all(one["purl"].startswith(f"pkg:pypi/{normal(one['name'])}@{one['version']}") for one in others)
    licensed = {folder.name for folder in (root / "app/licences").iterdir() if any(folder.iterdir())}
    assert {f"{one['name']}-{one['version']}" for one in bill["components"]} <= licensed


def assert_restricted(container: Container) -> None:
    """Assert that the program itself is process 1, nobody, without privileges."""
    process = container.first
    status = Path(f"/proc/{process.pid}/status").read_text()
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert fields["NSpid"].split()[-1] == "1"
    assert set(fields["Uid"].split()) == {"65532"}
    assert int(fields["CapEff"], 16) == 0
    assert fields["NoNewPrivs"] == "1"
