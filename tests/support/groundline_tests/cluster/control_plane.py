"""A Kubernetes control plane on loopback: etcd, API server, controller manager, scheduler, and kwok as nodes.

kwok plays the kubelets: it reports pods as running and Jobs as done. It starts no container, asks no probe
and enforces no network policy.
"""

import asyncio
import json
import os
import secrets
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
import yaml
from groundline_cli.stack.process import ChildProcess, Command
from groundline_tests.listening import free_ports

type Node = dict[str, Any]

START_SECONDS: Final = 120
STOP_SECONDS: Final = 20
READY_AFTER_MILLISECONDS: Final = 1500
"""Time from scheduled to ready: without a pause, replicas taken away too early would go unnoticed."""
LESS_COLLECTING: Final = {"GOGC": "300"}
"""Environment in which programs in Go collect garbage less often: a quarter less of processor
time, for more memory."""

ADMIN: Final = "admin"
MANAGER: Final = "system:kube-controller-manager"
SCHEDULER: Final = "system:kube-scheduler"


@dataclass(frozen=True, slots=True)
class Ended:
    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running control plane."""

    url: str
    programs: Path
    folder: Path
    token: str

    @property
    def kubeconfig(self) -> Path:
        return self.folder / f"{ADMIN}.kubeconfig"

    async def kubectl(self, *arguments: str | Path, stdin: str = "") -> Ended:
        command = (self.programs / "bin/kubectl", "--kubeconfig", self.kubeconfig, *arguments)
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            # kubectl keeps its cache of the API in HOME, and diff calls a program on PATH.
            env={"HOME": str(self.folder), "PATH": "/usr/local/bin:/usr/bin:/bin", **LESS_COLLECTING},
        )
        out, err = await process.communicate(stdin.encode())
        assert process.returncode is not None
        return Ended(process.returncode, out.decode(), err.decode())

    async def run(self, *arguments: str | Path, stdin: str = "") -> str:
        """Run kubectl, and expect success."""
        ended = await self.kubectl(*arguments, stdin=stdin)
        assert ended.code == 0, ended.err
        return ended.out

    async def objects(self, kind: str, namespace: str, selector: str = "") -> list[Node]:
        chosen = ("--selector", selector) if selector else ()
        shown = await self.run("--namespace", namespace, "get", kind, *chosen, "--output", "json")
        items: list[Node] = json.loads(shown)["items"]
        return items

    def client(self) -> httpx.AsyncClient:
        """Return a client of the API server itself."""
        trusted = ssl.create_default_context(cafile=str(self.folder / "server.crt"))
        headers = {"authorization": f"Bearer {self.token}"}
        return httpx.AsyncClient(base_url=self.url, verify=trusted, headers=headers, trust_env=False)


@dataclass(slots=True)
class Watched:
    """Minimum and maximum number of the selected pods that were ready at once while they were watched."""

    ready: set[str] = field(default_factory=set)
    seen: list[int] = field(default_factory=list)

    def take(self, event: Node) -> None:
        pod = event["object"]
        name = pod["metadata"]["name"]
        if _is_ready(pod) and event["type"] != "DELETED":
            self.ready.add(name)
        else:
            self.ready.discard(name)
        self.seen.append(len(self.ready))


def _is_ready(pod: Node) -> bool:
    conditions = pod["status"].get("conditions", [])
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]


@asynccontextmanager
async def watched(cluster: Cluster, namespace: str, selector: str) -> AsyncIterator[Watched]:
    """Follow every change of the pods, including those that exist at the start."""
    state = Watched()
    query = {"labelSelector": selector}
    path = f"/api/v1/namespaces/{namespace}/pods"

    async def follow(client: httpx.AsyncClient, version: str) -> None:
        asked = {**query, "watch": "true", "resourceVersion": version}
        async with client.stream("GET", path, params=asked, timeout=None) as stream:
            async for line in stream.aiter_lines():
                state.take(json.loads(line))

    async with cluster.client() as client:
        listed = (await client.get(path, params=query)).raise_for_status().json()
        for pod in listed["items"]:
            if _is_ready(pod):
                state.ready.add(pod["metadata"]["name"])
        state.seen.append(len(state.ready))
        following = asyncio.create_task(follow(client, listed["metadata"]["resourceVersion"]))
        try:
            yield state
        finally:
            following.cancel()
            with suppress(asyncio.CancelledError):
                await following


@asynccontextmanager
async def control_plane(programs: Path, folder: Path) -> AsyncIterator[Cluster]:
    """Start everything, and stop it in reverse order."""
    etcd_port, peer_port, port, kwok_port = await asyncio.to_thread(free_ports, 4)
    etcd, peer, url = (
        f"http://127.0.0.1:{etcd_port}",
        f"http://127.0.0.1:{peer_port}",
        f"https://127.0.0.1:{port}",
    )
    tokens = {name: secrets.token_hex(16) for name in (ADMIN, MANAGER, SCHEDULER)}
    await asyncio.to_thread(_write_files, folder, url, tokens)
    cluster = Cluster(url, programs, folder, tokens[ADMIN])
    config = {name: folder / f"{name}.kubeconfig" for name in tokens}
    async with AsyncExitStack() as stack:

        async def start(name: str, **options: object) -> None:
            await stack.enter_async_context(_running(programs, folder, name, options))

        await start(
            "etcd",
            data_dir=folder / "etcd",
            listen_client_urls=etcd,
            advertise_client_urls=etcd,
            listen_peer_urls=peer,
            initial_advertise_peer_urls=peer,
            initial_cluster=f"default={peer}",
            unsafe_no_fsync="true",
            log_level="error",
        )
        await start(
            "kube-apiserver",
            etcd_servers=etcd,
            bind_address="127.0.0.1",
            advertise_address="127.0.0.1",
            secure_port=port,
            cert_dir=folder,
            tls_cert_file=folder / "server.crt",
            tls_private_key_file=folder / "server.key",
            token_auth_file=folder / "tokens.csv",
            authorization_mode="Node,RBAC",
            enable_admission_plugins="NodeRestriction,PodSecurity",
            endpoint_reconciler_type="none",
            service_cluster_ip_range="10.96.0.0/16",
            service_account_issuer="https://kubernetes.default.svc",
            service_account_key_file=folder / "accounts.key",
            service_account_signing_key_file=folder / "accounts.key",
        )
        await _answers(cluster)
        await start(
            "kube-controller-manager",
            kubeconfig=config[MANAGER],
            leader_elect="false",
            secure_port=0,
            service_account_private_key_file=folder / "accounts.key",
            root_ca_file=folder / "server.crt",
            use_service_account_credentials="true",
            horizontal_pod_autoscaler_sync_period="2s",
        )
        await start("kube-scheduler", kubeconfig=config[SCHEDULER], leader_elect="false", secure_port=0)
        await start(
            "kwok",
            kubeconfig=config[ADMIN],
            config=folder / "stages.yaml",
            manage_all_nodes="true",
            # Without leases the nodes would be taken for dead after 50 s.
            node_lease_duration_seconds=40,
            server_address=f"127.0.0.1:{kwok_port}",
        )
        yield cluster


def _write_files(folder: Path, url: str, tokens: dict[str, str]) -> None:
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    names = ("-addext", "subjectAltName=IP:127.0.0.1")
    own = ("-keyout", "server.key", "-out", "server.crt", "-subj", "/CN=test", "-days", "2")
    for command in (("req", "-x509", *key, *own, *names), ("genrsa", "-out", "accounts.key", "2048")):
        subprocess.run(["openssl", *command], cwd=folder, check=True, capture_output=True)
    groups = {ADMIN: ',"system:masters"'}
    lines = [f"{token},{name},{name}{groups.get(name, '')}\n" for name, token in tokens.items()]
    (folder / "tokens.csv").write_text("".join(lines))
    server = {"server": url, "certificate-authority": str(folder / "server.crt")}
    for name, token in tokens.items():
        described = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": server}],
            "users": [{"name": name, "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": name}}],
            "current-context": "test",
        }
        (folder / f"{name}.kubeconfig").write_text(yaml.safe_dump(described))


def write_stages(programs: Path, folder: Path) -> None:
    """Write kwok's own stages, with a pause before a pod is ready."""
    stages = [yaml.safe_load(path.read_text()) for path in sorted((programs / "stages").glob("*.yaml"))]
    [ready] = [stage for stage in stages if stage["metadata"]["name"] == "pod-ready"]
    ready["spec"]["delay"] = {"durationMilliseconds": READY_AFTER_MILLISECONDS}
    (folder / "stages.yaml").write_text(yaml.safe_dump_all(stages))


@asynccontextmanager
async def _running(
    programs: Path, folder: Path, name: str, options: dict[str, object]
) -> AsyncIterator[None]:
    arguments = [f"--{key.replace('_', '-')}={value}" for key, value in options.items()]
    program = str(programs / "bin" / name)
    environment = {**os.environ, **LESS_COLLECTING}
    command = Command(name, (program, *arguments), environment, grace_seconds=STOP_SECONDS)
    # The kernel ends it if this process is killed.
    process = await ChildProcess.start(command, folder / f"{name}.log")
    try:
        yield
    finally:
        await process.stop()


async def _answers(cluster: Cluster) -> None:
    async with cluster.client() as client, asyncio.timeout(START_SECONDS):
        while True:
            with suppress(httpx.TransportError):
                if (await client.get("/readyz")).status_code == 200:
                    return
            await asyncio.sleep(0.1)
