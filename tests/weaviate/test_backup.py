"""The job of components/weaviate-backup and the restore of deploy/README.md, on real nodes and a bucket."""

import asyncio
import os
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit
from uuid import UUID

import httpx
import numpy as np
import pytest
import yaml
from groundline_tests.weaviate.nodes import API_KEY, Cluster, weaviate_nodes
from groundline_weaviate import Extent, IndexedChunk, Space, condition_of, open_weaviate
from minio import Minio
from moto.server import ThreadedMotoServer
from service_requirements import ROOT

COMPONENT = ROOT / "deploy/k8s/components/weaviate-backup"
SPACE = Space("tests/fake", 8)
VECTORS = np.random.default_rng(7).normal(size=(21, 8)).astype(np.float32)

# What is called in a pod of Weaviate runs here, the rest not at all.
KUBECTL = """#!/bin/bash
[[ $* == *" exec weaviate-"* ]] || exit 0
while [ "$1" != -- ]; do shift; done; shift; exec "$@"
"""


@pytest.fixture
def bucket() -> Iterator[dict[str, str]]:
    """Settings of nodes that use a bucket."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    deployed = yaml.safe_load((COMPONENT / "bucket.yaml").read_text())["data"]
    client = Minio(f"{host}:{port}", "access", "secret", secure=False, region=deployed["AWS_REGION"])
    client.make_bucket(deployed["BACKUP_S3_BUCKET"])
    yield {
        **deployed,
        "BACKUP_S3_ENDPOINT": f"{host}:{port}",
        "BACKUP_S3_USE_SSL": "false",
        "AWS_ACCESS_KEY_ID": "access",
        "AWS_SECRET_ACCESS_KEY": "secret",
    }
    server.stop()


def address(cluster: Cluster, number: int) -> str:
    return f"http://127.0.0.1:{cluster.nodes[number].http_port}"


async def ran(script: str, *, path: str = os.defpath, **variables: str) -> str:
    """Run a command and return its output."""
    process = await asyncio.create_subprocess_exec(
        *("/bin/bash", "-euc", script),
        env={"PATH": path, **variables},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    shown, _ = await process.communicate()
    assert process.returncode == 0, shown.decode()
    return shown.decode()


async def backed_up(cluster: Cluster) -> str:
    """Return the id of a backup that the CronJob's own script has made."""
    job = list(yaml.safe_load_all((COMPONENT / "cron-job.yaml").read_text()))[-1]
    [container] = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    [script] = container["args"]
    path = urlsplit(container["env"][0]["value"]).path
    shown = await ran(script, BACKUPS=address(cluster, 0) + path, API_KEY=API_KEY)
    done = re.fullmatch(r"backup (\S+) is complete\n", shown)
    assert done is not None, shown
    return done[1]


async def restored(cluster: Cluster, backup: str, folder: Path) -> str:
    """Restore by the README's commands; return their output."""
    text = (ROOT / "deploy/README.md").read_text()
    block = re.search(r"<!-- weaviate-restore -->\n```console\n(.*?)```", text, re.DOTALL)
    assert block is not None
    commands = re.sub(r"^\$ ", "", block[1], flags=re.MULTILINE).replace("20261123-021700", backup)
    assert backup in commands
    (folder / "kubectl").write_text(KUBECTL)
    (folder / "kubectl").chmod(0o755)
    return await ran(
        commands.replace("http://127.0.0.1:8080", address(cluster, 0)),
        path=f"{folder}:{os.defpath}",
        AUTHENTICATION_APIKEY_ALLOWED_KEYS=API_KEY,
    )


async def reason_of_failure(cluster: Cluster, backup: str) -> str:
    """Return why a restore failed, which its status may say somewhat later than that it did."""
    headers = {"authorization": f"Bearer {API_KEY}"}
    async with httpx.AsyncClient(headers=headers, trust_env=False) as client:
        for _ in range(300):
            answer = await client.get(f"{address(cluster, 0)}/v1/backups/s3/{backup}/restore")
            if error := answer.json().get("error"):
                return str(error)
            await asyncio.sleep(0.1)
    raise AssertionError(answer.text)


def chunk(chunk_id: int) -> IndexedChunk:
    return IndexedChunk(
        partition_id=1,
        chunk_id=chunk_id,
        collection_id="mills",
        document_id=UUID(int=chunk_id),
        lexical_text=f"the mill of number{chunk_id}",
        language="english",
        vector=VECTORS[chunk_id],
        principals=(),
        source_type="file",
        update_time=datetime(2026, 11, 23, tzinfo=UTC),
        metadata={},
    )


async def found(cluster: Cluster, number: int) -> Sequence[int]:
    """Return everything that a node finds."""
    settings = cluster.settings().model_copy(
        update={"grpc_target": f"127.0.0.1:{cluster.nodes[number].grpc_port}"}
    )
    condition = condition_of(Extent([1]), ("ann",), None)
    async with open_weaviate(settings) as weaviate:
        proposed = await weaviate.semantic(SPACE, VECTORS[0], condition, limit=50)
    return sorted(each.chunk_id for each in proposed)


async def until(cluster: Cluster, expected: Sequence[int]) -> None:
    """Wait until every node has the expected objects; each hears of a class a moment later than the one that
    is asked."""
    seen: list[Sequence[int]] = []
    for _ in range(100):
        seen = [await found(cluster, number) for number in range(len(cluster.nodes))]
        if seen == [expected] * len(cluster.nodes):
            return
        await asyncio.sleep(0.1)
    assert seen == [expected] * len(cluster.nodes)


async def test_what_was_backed_up_comes_back_to_every_node(bucket: dict[str, str], tmp_path: Path) -> None:
    numbers = list(range(20))
    async with (
        weaviate_nodes(3, tmp_path, environment=bucket) as cluster,
        open_weaviate(cluster.settings()) as weaviate,
    ):
        await weaviate.create(SPACE)
        assert not await weaviate.write(SPACE, [chunk(number) for number in numbers])
        # A log of vectors is named by the second in which it begins; a backup lacks its own second's.
        await asyncio.sleep(2)
        backup = await backed_up(cluster)

        shown = await restored(cluster, backup, tmp_path)
        assert '"status":"FAILED"' in shown
        assert "already exists" in await reason_of_failure(cluster, backup)

        await weaviate.drop(SPACE)
        await until(cluster, [])
        assert '"status":"SUCCESS"' in await restored(cluster, backup, tmp_path)
        await until(cluster, numbers)
        assert not await weaviate.write(SPACE, [chunk(20)])
        await until(cluster, [*numbers, 20])
