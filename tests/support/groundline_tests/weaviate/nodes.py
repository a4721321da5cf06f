"""Nodes of the real Weaviate server on loopback, built once by Go.

The program is kept in GROUNDLINE_WEAVIATE_CACHE, by default groundline/weaviate below the user's folder for
caches. `python -m groundline_tests.weaviate.nodes --nodes 3` runs nodes for benchmarks until Ctrl-C; with
`--data-dir` they keep their data and their ports.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import socket
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

import httpx
from groundline_cli.stack.process import ChildProcess, Command
from groundline_tests.go.programs import built, cache_folder, go
from groundline_weaviate import WeaviateSettings
from pydantic import AnyHttpUrl, SecretStr

MODULE: Final = "github.com/weaviate/weaviate/cmd/weaviate-server"
VERSION: Final = "v1.39.0"

ENGINE: Final = Path(__file__).parents[4] / "deploy/k8s/components/weaviate/engine.env"
API_KEY: Final = "a-key-for-tests"
START_SECONDS: Final = 120
PORTS: Final = range(20_000, 32_000)
MEMORY: Final = "1GiB"
"""Memory that a node's garbage collector aims at."""


def program() -> Path:
    """Return the server; it is built at first, which takes two cores some eight minutes."""
    return built(cache_folder("weaviate"), VERSION, _build) / "weaviate-server"


def _build(folder: Path) -> None:
    go(folder, "install", f"{MODULE}@{VERSION}", GOBIN=str(folder))


@dataclass(slots=True)
class Node:
    """A server, which may be killed and started again."""

    number: int
    command: Command
    folder: Path
    http_port: int
    grpc_port: int
    process: ChildProcess | None = None

    async def start(self) -> None:
        self.process = await ChildProcess.start(self.command, self.folder / f"{self.command.name}.log")

    async def ready(self) -> None:
        """Wait until it takes part in the cluster."""
        address = f"http://127.0.0.1:{self.http_port}/v1/.well-known/ready"
        async with asyncio.timeout(START_SECONDS), httpx.AsyncClient(trust_env=False) as client:
            while True:
                assert self.process is not None
                assert self.process.returncode is None, self.process.obituary()
                with suppress(httpx.HTTPError):
                    if (await client.get(address)).status_code == httpx.codes.OK:
                        return
                await asyncio.sleep(0.1)

    async def kill(self) -> None:
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGKILL)
        await self.process.wait()

    @asynccontextmanager
    async def killed(self) -> AsyncIterator[None]:
        """Kill it at once, and start it again at the end, whatever happened."""
        await self.kill()
        try:
            yield
        finally:
            await self.start()
            await self.ready()

    def pause(self, *, paused: bool) -> None:
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGSTOP if paused else signal.SIGCONT)


@dataclass(frozen=True, slots=True)
class Cluster:
    """Running nodes. Every object is on each of them."""

    nodes: Sequence[Node]

    async def leader(self) -> Node:
        """Return the node that the others take changes of classes from."""
        headers = {"authorization": f"Bearer {API_KEY}"}
        url = f"http://127.0.0.1:{self.nodes[0].http_port}/v1/cluster/statistics"
        async with asyncio.timeout(START_SECONDS), httpx.AsyncClient(trust_env=False) as client:
            while True:
                [statistics, *_] = (await client.get(url, headers=headers)).json()["statistics"]
                for node in self.nodes:
                    if node.command.name == statistics.get("leaderId"):
                        return node
                await asyncio.sleep(0.1)

    def settings(self, class_prefix: str = "Groundline", *, shards: int | None = None) -> WeaviateSettings:
        """Return the settings of clients that know all nodes; those with another prefix see nothing of each
        other."""
        return WeaviateSettings(
            grpc_target=",".join(f"127.0.0.1:{node.grpc_port}" for node in self.nodes),
            http_url=AnyHttpUrl(f"http://127.0.0.1:{self.nodes[-1].http_port}"),
            api_key=SecretStr(API_KEY),
            class_prefix=class_prefix,
            replication_factor=len(self.nodes),
            shards=shards,
        )


@asynccontextmanager
async def weaviate_nodes(
    count: int, folder: Path, memory: str = MEMORY, *, environment: Mapping[str, str] = MappingProxyType({})
) -> AsyncIterator[Cluster]:
    """Start `count` nodes, which keep their data below `folder`, and stop them at the end.

    `environment` is added to the variables of all nodes.

    In a folder of an earlier run they have the same ports, by which they know each other.
    """
    server = await asyncio.to_thread(program)
    ports = _kept_ports(count, folder / "ports.json")
    nodes = [_node(server, folder, number, ports, memory, environment) for number in range(count)]
    try:
        for node in nodes:
            await node.start()
        await asyncio.gather(*(node.ready() for node in nodes))
        yield Cluster(nodes)
    finally:
        for node in nodes:
            if node.process is not None:
                with suppress(ProcessLookupError):
                    # What was acknowledged is in its log, so that it need not flush.
                    os.killpg(node.process.pid, signal.SIGKILL)
                await node.process.wait()


@dataclass(frozen=True, slots=True)
class _Ports:
    http: int
    grpc: int
    gossip: int
    """Port of gossip; the next one serves data."""
    raft: int
    """Port of raft; the next one serves its calls."""


def engine_environment() -> dict[str, str]:
    """Return the environment of deployed nodes, without names, addresses, paths and sizes."""
    lines = (line for line in ENGINE.read_text().splitlines() if line and not line.startswith("#"))
    return dict(line.split("=", 1) for line in lines)


def _node(
    server: Path, folder: Path, number: int, ports: Sequence[_Ports], memory: str, added: Mapping[str, str]
) -> Node:
    own, name = ports[number], f"node{number + 1}"
    members = ",".join(f"node{each + 1}:{one.raft}" for each, one in enumerate(ports))
    environment = {
        **engine_environment(),
        **added,
        "AUTHENTICATION_APIKEY_ALLOWED_KEYS": API_KEY,
        "CLUSTER_BASIC_AUTH_PASSWORD": API_KEY,
        "PERSISTENCE_DATA_PATH": str(folder / name),
        "CLUSTER_IN_LOCALHOST": "true",
        "CLUSTER_HOSTNAME": name,
        "CLUSTER_ADVERTISE_ADDR": "127.0.0.1",
        "CLUSTER_GOSSIP_BIND_PORT": str(own.gossip),
        "CLUSTER_DATA_BIND_PORT": str(own.gossip + 1),
        # Not of itself.
        "CLUSTER_JOIN": f"127.0.0.1:{ports[0].gossip}" if number else "",
        "RAFT_PORT": str(own.raft),
        "RAFT_INTERNAL_RPC_PORT": str(own.raft + 1),
        "RAFT_JOIN": members,
        "RAFT_BOOTSTRAP_EXPECT": str(len(ports)),
        "GRPC_PORT": str(own.grpc),
        "GOMEMLIMIT": memory,
        "GOMAXPROCS": "2",
        "PATH": "/usr/bin:/bin",
    }
    arguments = ("--host", "127.0.0.1", "--port", str(own.http), "--scheme", "http")
    return Node(number, Command(name, (str(server), *arguments), environment), folder, own.http, own.grpc)


def _kept_ports(count: int, file: Path) -> Sequence[_Ports]:
    """Return the ports of an earlier run, or free ones, which are recorded."""
    if file.exists():
        kept = [_Ports(**each) for each in json.loads(file.read_text())]
        assert len(kept) == count, f"{file.parent} is of {len(kept)} nodes"
        return kept
    ports = _free_ports(count)
    file.write_text(json.dumps([asdict(each) for each in ports]))
    return ports


def _free_ports(count: int) -> Sequence[_Ports]:
    """Return free ports, held all at once, so that they differ; two pairs are in a row.

    They are below those that the system gives to connections: one that is taken before the node binds it may
    leave a node that says that it is ready, and takes no data from others.
    """
    with suppress(OSError):
        held: list[socket.socket] = []
        try:

            def hold(port: int = 0) -> int:
                held.append(socket.socket())
                held[-1].bind(("127.0.0.1", port or random.choice(PORTS)))
                taken: int = held[-1].getsockname()[1]
                return taken

            found = []
            for _ in range(count):
                gossip, raft = hold(), hold()
                hold(gossip + 1)
                hold(raft + 1)
                found.append(_Ports(hold(), hold(), gossip, raft))
            return found
        finally:
            for each in held:
                each.close()
    return _free_ports(count)


async def _run(count: int, folder: Path, memory: str) -> None:
    async with weaviate_nodes(count, folder, memory) as cluster:
        settings = cluster.settings()
        for name in ("grpc_target", "http_url", "replication_factor"):
            print(f"GROUNDLINE_WEAVIATE__{name.upper()}={getattr(settings, name)}")
        print(f"GROUNDLINE_WEAVIATE__API_KEY={API_KEY}", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Run nodes of Weaviate until Ctrl-C.")
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument(
        "--memory", default=MEMORY, help="What the collector of a node aims at, such as 2GiB."
    )
    parser.add_argument("--data-dir", type=Path, help="Keep their data here. Default: it is removed.")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary, suppress(KeyboardInterrupt):
        directory = asked.data_dir or Path(temporary)
        directory.mkdir(parents=True, exist_ok=True)
        asyncio.run(_run(asked.nodes, directory, asked.memory))
