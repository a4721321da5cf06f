"""The ingestor as its own process, wired as in production: real model, real database, signals."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass

import grpc
import pytest
from groundline.v1 import document_pb2, job_pb2
from groundline.v1 import ingestor_service_pb2 as pb
from groundline.v1.ingestor_service_pb2_grpc import IngestorServiceStub
from groundline_tests.ingestor.messages import EVERYONES_ACCESS, settings_of
from grpc_health.v1 import health_pb2, health_pb2_grpc

START_SECONDS = 60


@dataclass
class Service:
    process: asyncio.subprocess.Process
    output: asyncio.StreamReader
    target: str

    async def lines(self) -> str:
        """Yield its log lines until it ends."""
        return (await self.output.read()).decode()


@pytest.fixture
async def service(database_url: str) -> AsyncIterator[Service]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GROUNDLINE_")}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "groundline_ingestor",
        env={
            **inherited,
            "GROUNDLINE_DATABASE_URL": database_url,
            "GROUNDLINE_LOG_FORMAT": "json",
            "GROUNDLINE_DRAIN_SECONDS": "0",
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert process.stdout
    try:
        async with asyncio.timeout(START_SECONDS):
            yield Service(process, process.stdout, f"127.0.0.1:{await _port(process.stdout)}")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _port(output: asyncio.StreamReader) -> int:
    logged = []
    async for line in output:
        logged.append(line)
        if b"service_started" in line:
            return int(json.loads(line)["port"])
    raise AssertionError(b"".join(logged).decode())


async def test_it_serves_and_ends_cleanly_and_logs_no_document(service: Service) -> None:
    async with grpc.aio.insecure_channel(service.target) as channel:
        watch = health_pb2_grpc.HealthStub(channel).Watch(
            health_pb2.HealthCheckRequest(service="groundline.v1.IngestorService")
        )
        async for health in watch:
            if health.status == health_pb2.HealthCheckResponse.SERVING:
                break
        watch.cancel()
        stub = IngestorServiceStub(channel)
        await stub.CreateCollection(
            pb.CreateCollectionRequest(
                collection_id="process", settings=settings_of({"access": EVERYONES_ACCESS})
            )
        )
        given = document_pb2.DocumentInput(uri="hush.md", text="# Zebra\n\nconfidential words")
        response = await stub.IngestDocuments(
            pb.IngestDocumentsRequest(collection_id="process", documents=[given])
        )
        watched = stub.WatchJob(pb.WatchJobRequest(job_id=response.job.job_id))
        states = [state.job.state async for state in watched]
        assert states[-1] == job_pb2.JOB_STATE_DONE
        shown = await stub.GetCollection(pb.GetCollectionRequest(collection_id="process"))
        assert shown.collection.settings.embedding.dimensions == 384
        assert shown.collection.chunk_count == 1
    service.process.terminate()
    logged = await service.lines()
    assert await service.process.wait() == 0, logged
    assert "item_ended" in logged
    for word in ("hush", "Zebra", "confidential"):
        assert word not in logged
