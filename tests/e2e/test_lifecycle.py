"""Faults: what dies, hangs or is killed, and what must hold all the same."""

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import httpx
import pytest
from groundline_tests.suite import Stack, ended_job, running_stack

ROWS: Final = 40


@pytest.fixture(scope="module")
async def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lifecycle") / "data"


@pytest.fixture(scope="module")
async def stack(data: Path) -> AsyncIterator[Stack]:
    """A suite with the facts, whose services may be stopped and killed; the last test stops it for good."""
    async with running_stack(data, GROUNDLINE_GATEWAY_ANSWER_TIMEOUT_SECONDS="3") as stack:
        await ingest_facts(stack)
        yield stack


async def ingest_facts(stack: Stack) -> None:
    documents = [
        {"uri": f"fact-{n}", "text": f"The locker number of employee zebrafish{n} is {1000 + n}."}
        for n in range(ROWS)
    ]
    async with stack.client() as client:
        created = await client.post("/api/collections", json={"collectionId": "facts"})
        assert created.status_code == 200, created.text
        handed_in = await client.post("/api/collections/facts/documents", json={"documents": documents})
        assert handed_in.status_code == 200, handed_in.text
        job = await ended_job(client, handed_in.json()["job"]["jobId"])
        assert job["doneCount"] == ROWS, job


async def answers_again(client: httpx.AsyncClient) -> None:
    """Wait until searches are answered whole."""
    async with asyncio.timeout(60):
        while True:
            response = await client.post("/api/search", json={"query": "locker number"})
            if response.status_code == 200 and not response.json().get("degraded"):
                return
            assert response.status_code in (200, 503), response.text
            await asyncio.sleep(0.2)


async def found(client: httpx.AsyncClient, mode: str) -> set[str]:
    """Return the names of the facts that a search of that mode finds."""
    limits = {"keywordLimit": 1000, "semanticLimit": 1000, "mode": f"RETRIEVAL_MODE_{mode}"}
    options = {"retrieval": limits, "rerank": {"topK": 100, "deduplicationThreshold": 0}}
    body = {"query": "locker number of employee", "options": options}
    response = await client.post("/api/search", json=body)
    assert response.status_code == 200, response.text
    return {passage["chunk"]["uri"] for passage in response.json()["passages"]}


@pytest.mark.parametrize("service", ["retriever", "generator"])
async def test_a_service_that_hangs_ends_in_an_error_within_its_deadline(stack: Stack, service: str) -> None:
    async with stack.client() as client:
        os.kill(stack.ready["pids"][service], signal.SIGSTOP)
        try:
            started = time.monotonic()
            response = await client.post("/api/chat", json={"query": "Locker of zebrafish7?"})
            last = json.loads(response.text.strip().splitlines()[-1].removeprefix("data: "))
        finally:
            os.kill(stack.ready["pids"][service], signal.SIGCONT)
        # The client would have waited for 60 s: it is the suite's own deadline that ended the request.
        assert time.monotonic() - started < 30
        assert last["error"]["reason"]
        assert last["error"]["retryable"] is True
        await answers_again(client)


async def test_the_acknowledged_survives_kill_9_of_the_database_and_ctrl_c(stack: Stack, data: Path) -> None:
    everything = {f"fact-{n}" for n in range(ROWS)}
    os.kill(stack.ready["pids"]["postgres"], signal.SIGKILL)
    async with stack.client() as client:
        await answers_again(client)
        assert await found(client, "KEYWORD") == everything
        assert await found(client, "SEMANTIC") == everything
    output = (data.parent / "data.log").read_text()
    assert "postgres" in output
    assert "SIGKILL" in output
    assert str(data / "logs") in output
    assert await stack.stop() == 0
    assert stack.living() == []

    async with running_stack(data) as again, again.client() as client:
        assert await found(client, "KEYWORD") == everything
        assert await found(client, "SEMANTIC") == everything
