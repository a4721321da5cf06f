"""A real request to each service, which it can answer alone."""

from typing import Final

import grpc
from groundline.v1 import (
    collection_pb2,
    collector_service_pb2,
    collector_service_pb2_grpc,
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
    source_pb2,
)

TEXT: Final = "The relief valve of the boiler opens at 41 degrees."


async def ask_collector(channel: grpc.aio.Channel) -> None:
    source = source_pb2.DocumentSource(
        collection_id="manuals", name="pages", web=source_pb2.WebSource(start_url="https://example.com/")
    )
    request = collector_service_pb2.CheckSourceRequest(source=source)
    await collector_service_pb2_grpc.CollectorServiceStub(channel).CheckSource(request, timeout=30)


async def ask_reranker(channel: grpc.aio.Channel) -> None:
    chunk = passage_pb2.Chunk(chunk_id="a", text=TEXT)
    request = reranker_service_pb2.RerankRequest(query="valve", candidates=[chunk])
    response = await reranker_service_pb2_grpc.RerankerServiceStub(channel).Rerank(request, timeout=30)
    assert [ranked.chunk_id for ranked in response.ranked] == ["a"]


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
    request = retriever_service_pb2.SearchRequest(query="relief valve", collection_ids=["manuals"])
    response = await stub.Search(request, timeout=30)
    assert [each.chunk.text for each in response.passages] == [TEXT]


ASK: Final = {
    "collector": ask_collector,
    "coordinator": ask_coordinator,
    "generator": ask_generator,
    "ingestor": ask_ingestor,
    "reranker": ask_reranker,
    "retriever": ask_retriever,
}


async def fill(target: str) -> None:
    """Create the collection that the retriever is asked for, with one document."""
    async with grpc.aio.insecure_channel(target) as channel:
        stub = ingestor_service_pb2_grpc.IngestorServiceStub(channel)
        everyone = ["*"]
        access = collection_pb2.AccessSettings(readers=everyone, writers=everyone, admins=everyone)
        new = ingestor_service_pb2.CreateCollectionRequest(
            collection_id="manuals", settings=collection_pb2.CollectionSettings(access=access)
        )
        await stub.CreateCollection(new, timeout=60)
        document = document_pb2.DocumentInput(uri="boiler.txt", text=TEXT)
        response = await stub.IngestDocuments(
            ingestor_service_pb2.IngestDocumentsRequest(collection_id="manuals", documents=[document]),
            timeout=60,
        )
        watched = stub.WatchJob(ingestor_service_pb2.WatchJobRequest(job_id=response.job.job_id), timeout=60)
        states = [update.job.state async for update in watched]
        assert states[-1] == job_pb2.JOB_STATE_DONE
