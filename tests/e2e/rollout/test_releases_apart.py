"""Services of one release apart, with the schema of either: what the order of an upgrade rests on.

The release before is the last tag or, before the first one, the commit before the newest migration of the
ingestor, which the new one then misses.
"""

import asyncio
import io
import itertools
import os
import subprocess
import sys
import tarfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from groundline_cli.stack.postgres import EmbeddedPostgres
from groundline_tests.gateway.versions import gateway_to, version
from groundline_tests.suite import ROOT, Stack, ended_job

MIGRATED: Final = ("ingestor", "coordinator", "gateway")


def git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True).stdout


def release_before() -> str:
    """Return the commit of the release before."""
    if tags := git("tag", "--list", "v*", "--sort=-v:refname", "--merged", "HEAD").decode().split():
        return tags[0]
    migrations = "services/ingestor/*/migrations/*.sql"
    newest = git("log", "-1", "--format=%P", "--diff-filter=A", "--", migrations).decode()
    if not newest.strip():
        pytest.skip("a clone without history has no release before")
    return newest.split()[0]


@pytest.fixture(scope="session")
def before(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """Return the environment in which the programs are those of the release before."""
    folder = tmp_path_factory.mktemp("before")
    archive = git("archive", release_before(), "libs", "services", "gateway")
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
    packages = sorted(path.parent for path in folder.glob("**/pyproject.toml"))
    return {"PYTHONPATH": os.pathsep.join(map(str, packages))}


async def run(*arguments: str, **environment: str) -> tuple[int, str]:
    """Run a program of Python to its end; return its exit code, and all that it has printed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *arguments,
        env={**os.environ, **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        # A service that starts although its schema is too old would not end.
        printed, _ = await asyncio.wait_for(process.communicate(), 120)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode is not None
    return process.returncode, printed.decode()


FACT: Final = "The hatch screws of the DN-4 are closed with 1.8 Nm."


async def hand_in(gateway: str, key: str, uri: str) -> None:
    """Ingest a document into the collection `apart`, which is created first if it does not exist."""
    async with httpx.AsyncClient(base_url=gateway, headers={"x-api-key": key}, timeout=60) as client:
        created = await client.post("/api/collections", json={"collectionId": "apart", "name": "Apart"})
        assert created.status_code in (200, 409), created.text
        document = {"uri": uri, "text": f"{uri}: {FACT}", "mimeType": "text/plain"}
        response = await client.post("/api/collections/apart/documents", json={"documents": [document]})
        assert response.status_code == 200, response.text
        job = await ended_job(client, response.json()["job"]["jobId"])
        assert job["state"] == "JOB_STATE_DONE", job


async def ask(gateway: str, key: str) -> tuple[set[str], Any, Any]:
    """Return the documents that a search finds, and an answer with the messages of its thread."""
    async with httpx.AsyncClient(base_url=gateway, headers={"x-api-key": key}, timeout=60) as client:
        question = {"query": "With what torque are the hatch screws closed?", "collectionIds": ["apart"]}
        found = await client.post("/api/search", json=question)
        assert found.status_code == 200, found.text
        assert not found.json()["degraded"]
        answer = await client.post("/api/answer", json=question)
        assert answer.status_code == 200, answer.text
        thread = await client.get(f"/api/threads/{answer.json()['threadId']}")
        assert thread.status_code == 200, thread.text
        uris = {passage["chunk"]["uri"] for passage in found.json()["passages"]}
        return uris, answer.json(), thread.json()["messages"]


@pytest.fixture
async def old_schema(postgres: EmbeddedPostgres, before: Mapping[str, str]) -> AsyncIterator[str]:
    """URL of a database that the release before has migrated."""
    url = await postgres.create_database("release_before")
    for name in MIGRATED:
        await migrated(name, {**before, "GROUNDLINE_DATABASE_URL": url})
    yield url
    await postgres.drop_database("release_before")


async def migrated(name: str, environment: Mapping[str, str]) -> None:
    code, printed = await run("-m", f"groundline_{name}", "migrate", **environment)
    assert code == 0, printed


async def test_services_of_both_releases_work_together_on_the_schema_of_either(
    stack: Stack, old_schema: str, before: Mapping[str, str], tmp_path: Path
) -> None:
    """Where a new service cannot, it says what it misses, and those of before go on."""
    key, url = stack.ready["api_key"], {"GROUNDLINE_DATABASE_URL": old_schema}
    old, new = {**before, **url}, url
    async with AsyncExitStack() as running:

        async def started(name: str, environment: Mapping[str, str], **targets: str) -> str:
            began = version(stack, name, tmp_path, environment=environment, **targets)
            return await running.enter_async_context(began)

        ingestors: dict[str, str] = {"old": await started("ingestor", old)}
        retrievers: dict[str, str] = {"old": await started("retriever", old)}
        addresses = {"ingestor": ingestors["old"], "retriever": retrievers["old"]}
        addresses["coordinator"] = await started("coordinator", old, retriever=retrievers["old"])
        gateway = await running.enter_async_context(gateway_to(stack, tmp_path, {}, **addresses))
        handed_in = {"before the migration"}
        await hand_in(gateway, key, *handed_in)

        code, printed = await run("-m", "groundline_ingestor", **new)
        assert code == 1
        assert "SCHEMA_TOO_OLD" in printed
        assert "run `groundline-ingestor migrate`" in printed
        assert (await ask(gateway, key))[0] == handed_in

        for name in MIGRATED:
            await migrated(name, new)
        ingestors["new"] = await started("ingestor", new)
        retrievers["new"] = await started("retriever", new)
        # Each pair of services meets in each combination of releases.
        for retriever, coordinator in itertools.product(("old", "new"), repeat=2):
            ingestor = "old" if retriever == coordinator else "new"
            addresses = {"ingestor": ingestors[ingestor], "retriever": retrievers[retriever]}
            addresses["coordinator"] = await started(
                "coordinator", {"old": old, "new": new}[coordinator], retriever=retrievers[retriever]
            )
            async with gateway_to(stack, tmp_path, {}, **addresses) as mixed:
                uri = f"{retriever} retriever, {coordinator} coordinator, {ingestor} ingestor"
                await hand_in(mixed, key, uri)
                handed_in.add(uri)
                found, answer, messages = await ask(mixed, key)
                assert found == handed_in
                assert "1.8 Nm" in answer["answer"]
                assert len(messages) == 2
