"""Each service alone: installed and started as in its image, probed, asked, stopped under load."""

import asyncio
from pathlib import Path

import grpc
import pytest
from groundline.v1 import (
    coordinator_service_pb2,
    coordinator_service_pb2_grpc,
    document_pb2,
    generator_service_pb2,
    generator_service_pb2_grpc,
    ingestor_service_pb2,
    ingestor_service_pb2_grpc,
    job_pb2,
    passage_pb2,
    reranker_service_pb2,
    reranker_service_pb2_grpc,
    retriever_service_pb2,
    retriever_service_pb2_grpc,
)
from groundline_tests.installed import SERVICES, Installation, Running, run, started, stop_under_load
from grpc_health.v1 import health_pb2

SERVING = health_pb2.HealthCheckResponse.SERVING
TEXT = "The relief valve of the boiler opens at 41 degrees."


async def ask_reranker(channel: grpc.aio.Channel) -> None:
    chunk = passage_pb2.Chunk(chunk_id="1", collection_id="manuals", text=TEXT, title="Boiler")
    candidate = passage_pb2.Candidate(chunk=chunk, keyword=passage_pb2.ArmScore(rank=1, score=3))
    found = reranker_service_pb2.CandidateSet(query="valve", candidates=[candidate])
    request = reranker_service_pb2.RerankRequest(query="valve", candidate_sets=[found])
    response = await reranker_service_pb2_grpc.RerankerServiceStub(channel).Rerank(request, timeout=30)
    assert [passage.chunk.chunk_id for passage in response.passages] == ["1"]


async def ask_generator(channel: grpc.aio.Channel) -> None:
    passage = generator_service_pb2.NumberedPassage(number=1, text=TEXT, title="Boiler", chunk_id="1")
    request = generator_service_pb2.GenerateRequest(query="When does the valve open?", passages=[passage])
    stub = generator_service_pb2_grpc.GeneratorServiceStub(channel)
    events = [event async for event in stub.Generate(request, timeout=30)]
    assert "41 degrees" in "".join(event.delta.text for event in events)


async def ask_ingestor(channel: grpc.aio.Channel) -> None:
    stub = ingestor_service_pb2_grpc.IngestorServiceStub(channel)
    await stub.ListCollections(ingestor_service_pb2.ListCollectionsRequest(), timeout=30)


async def ask_coordinator(channel: grpc.aio.Channel) -> None:
    stub = coordinator_service_pb2_grpc.CoordinatorServiceStub(channel)
    request = coordinator_service_pb2.ListThreadsRequest()
    response = await stub.ListThreads(request, timeout=30, metadata=[("x-groundline-principals", "user:a")])
    assert not response.threads


async def ask_retriever(channel: grpc.aio.Channel) -> None:
    stub = retriever_service_pb2_grpc.RetrieverServiceStub(channel)
    request = retriever_service_pb2.RetrieveRequest(query="relief valve", collection_ids=["manuals"])
    response = await stub.Retrieve(request, timeout=30)
    assert [candidate.chunk.text for candidate in response.candidates] == [TEXT]


ASK = {
    "coordinator": ask_coordinator,
    "generator": ask_generator,
    "ingestor": ask_ingestor,
    "reranker": ask_reranker,
    "retriever": ask_retriever,
}


@pytest.fixture(scope="module")
async def settings(
    installation: Installation, database_url: str, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, str]]:
    """What each service needs to be told; the database holds a collection with one document."""
    database = {"GROUNDLINE_DATABASE_URL": database_url}
    nowhere = {f"GROUNDLINE_COORDINATOR_{name}_TARGET": "127.0.0.1:9" for name in ("RETRIEVER", "RERANKER")}
    async with started(installation, "ingestor", tmp_path_factory.mktemp("seed"), **database) as ingestor:
        await ingestor.becomes("groundline.v1.IngestorService", SERVING)
        await fill(ingestor)
    return {
        "coordinator": {**database, **nowhere, "GROUNDLINE_COORDINATOR_GENERATOR_TARGET": "127.0.0.1:9"},
        "generator": {},
        "ingestor": database,
        "reranker": {},
        "retriever": database,
    }


async def fill(ingestor: Running) -> None:
    async with grpc.aio.insecure_channel(ingestor.target) as channel:
        stub = ingestor_service_pb2_grpc.IngestorServiceStub(channel)
        await stub.CreateCollection(
            ingestor_service_pb2.CreateCollectionRequest(collection_id="manuals"), timeout=60
        )
        document = document_pb2.DocumentInput(uri="boiler.txt", text=TEXT)
        response = await stub.IngestDocuments(
            ingestor_service_pb2.IngestDocumentsRequest(collection_id="manuals", documents=[document]),
            timeout=60,
        )
        watched = stub.WatchJob(ingestor_service_pb2.WatchJobRequest(job_id=response.job.job_id), timeout=60)
        states = [update.job.state async for update in watched]
        assert states[-1] == job_pb2.JOB_STATE_DONE


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


@pytest.mark.parametrize("service", SERVICES)
async def test_no_other_service_is_installed_with_it(service: str, installation: Installation) -> None:
    others = [f"groundline_{other}" for other in (*SERVICES, "gateway", "cli") if other != service]
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
