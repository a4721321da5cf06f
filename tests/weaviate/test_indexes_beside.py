"""Indexes beside the one in use, where a real node of Weaviate is searched."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

import pytest
from groundline.v1 import ingestor_service_pb2 as pb
from groundline.v1 import job_pb2, options_pb2, retriever_service_pb2
from groundline_database import DatabaseSettings, acquire, open_pool, register_vectors
from groundline_extraction.documents import GivenDocument
from groundline_indexing.feed.changes import FedPartition
from groundline_indexing.feed.state import IndexFeed
from groundline_ingestor.__main__ import feeding_index, working
from groundline_ingestor.adapters.postgres.stores import stores_on
from groundline_lexical import detect_lexical_index
from groundline_retriever.adapters.postgres.store import open_chunk_store
from groundline_retriever.adapters.weaviate import open_weaviate_search
from groundline_retriever.arms import Arms
from groundline_retriever.scoring import ModelScores
from groundline_retriever.service import SearchService
from groundline_tests.ingestor.messages import a_collection
from groundline_tests.ingestor.workers import ANYBODY, LONG, SMALLER_CHUNKS, Ingestor, ingestor_on
from groundline_tests.retriever.service import FakeReranker
from groundline_tests.runtime import spending_in
from groundline_tests.weaviate.nodes import Cluster
from groundline_weaviate import Space, open_weaviate
from pydantic import SecretStr

CURRENT = options_pb2.INDEX_CHOICE_CURRENT
CANDIDATE = options_pb2.INDEX_CHOICE_CANDIDATE
PREVIOUS = options_pb2.INDEX_CHOICE_PREVIOUS


NAME = "manuals"


@dataclass(frozen=True, slots=True)
class Manuals:
    """A collection with the documents a and b that workers feed to the node on which it is searched."""

    ingestor: Ingestor
    feed: IndexFeed
    service: SearchService

    async def settled(self, own: int) -> None:
        """Wait until the node has everything in this number of partitions of the collection's own."""
        async with asyncio.timeout(60):
            while True:
                states = await self.feed.partitions()
                late = any(each.is_gone or each.pending_count or not each.is_filled for each in states)
                if not late and sum(each.collection_id == NAME for each in states) == own:
                    return
                await asyncio.sleep(0.1)

    async def held(self) -> str:
        """Hold an index of smaller chunks back, and return its job."""
        job = await self.ingestor.reindexing(NAME, SMALLER_CHUNKS, hold=True, keep_previous=True)
        async with asyncio.timeout(60):
            async for state in self.ingestor.jobs.watch(ANYBODY, job.job_id):
                if state.job.is_held:
                    break
        await self.settled(1)
        return job.job_id

    async def done(self, job: job_pb2.IngestionJob) -> bool:
        return (await self.ingestor.ended(job))[0].state == job_pb2.JOB_STATE_DONE

    async def found(self, choice: options_pb2.IndexChoice.ValueType = CURRENT) -> Sequence[str]:
        request = retriever_service_pb2.SearchRequest(query="paragraph of its own", collection_ids=[NAME])
        request.options.retrieval.index = choice
        request.options.rerank.top_k = 100
        response = await self.service.search(ANYBODY, request)
        assert not response.degraded
        return [each.chunk.text for each in response.passages]

    async def lengths(self, choice: options_pb2.IndexChoice.ValueType = CURRENT) -> set[str]:
        return {"short" if len(text) <= 300 else "long" for text in await self.found(choice)}

    async def kept(self) -> FedPartition:
        """Return the partition of the collection that is not in use."""
        in_use = await self.ingestor.stores.collections.find(NAME)
        assert in_use
        [kept] = [
            each.partition
            for each in await self.feed.partitions()
            if each.collection_id == NAME and each.partition.partition_id != in_use.partition_id
        ]
        return kept


@pytest.fixture
async def manuals(database_url: str, one_node: Cluster) -> AsyncIterator[Manuals]:
    engine = one_node.settings("Beside")
    settings = DatabaseSettings(database_url=SecretStr(database_url), pool_max_size=8)
    async with (
        open_pool(settings, init=register_vectors) as pool,
        open_chunk_store(settings) as store,
        open_weaviate_search(engine, store, max_lag_seconds=0) as index,
    ):
        async with acquire(pool) as connection:
            stores = stores_on(pool, await detect_lexical_index(connection))
        async with (
            ingestor_on(stores, database_url, weaviate=engine) as ingestor,
            working(ingestor.worker, ingestor.settings),
            feeding_index(pool, ingestor.settings),
        ):
            model, scores = ingestor.embedder, ModelScores(FakeReranker(), timeout_seconds=20)
            arms = Arms(index, [model], timeout_seconds=20)
            new = a_collection(NAME, model=model.model, dimensions=model.dimensions)
            await stores.collections.create(new, "", "")
            await ingestor.ingest(NAME, GivenDocument(LONG, uri="a"), GivenDocument(LONG[:900], uri="b"))
            service = SearchService(store, arms, scores, spending=spending_in(), scored_candidates=50)
            yield Manuals(ingestor, IndexFeed(pool), service)
            await stores.collections.delete(NAME)


async def test_what_is_held_back_or_kept_is_searched_there_until_it_is_given_up(
    manuals: Manuals, one_node: Cluster
) -> None:
    ingestor = manuals.ingestor
    job_id = await manuals.held()
    assert (await manuals.lengths(), await manuals.lengths(CANDIDATE)) == ({"long"}, {"short"})

    assert await manuals.done(await ingestor.reindex.swap(ANYBODY, job_id))
    await manuals.settled(2)
    assert (await manuals.lengths(), await manuals.lengths(PREVIOUS)) == ({"short"}, {"long"})

    await ingestor.ingest(NAME, GivenDocument("A cormorant dives.", uri="a"))
    await manuals.settled(2)
    assert await manuals.found(PREVIOUS) == [LONG[:900]], "a was changed"
    reverting = pb.RevertIndexRequest(collection_id=NAME)
    assert await manuals.done(await ingestor.reindex.revert(ANYBODY, reverting))
    assert "A cormorant dives." in await manuals.found()

    kept = await manuals.kept()
    async with open_weaviate(one_node.settings("Beside")) as weaviate:
        space = Space(kept.embedding_model, kept.dimensions, kept.is_quantized)
        assert await weaviate.entries(space, kept.partition_id)
        assert await ingestor.reindex.reclaim(ANYBODY, NAME)
        await ingestor.stores.reindex.settle(0)
        await manuals.settled(1)
        assert not await weaviate.entries(space, kept.partition_id)
    assert await manuals.lengths() == {"long", "short"}


async def test_a_setting_for_quantized_vectors_holds_from_the_next_index_on(
    manuals: Manuals, one_node: Cluster
) -> None:
    ingestor = manuals.ingestor
    await manuals.settled(0)
    found = await manuals.found()
    collection = await ingestor.stores.collections.find(NAME)
    assert collection
    collection.message.settings.vector_index.quantized = True
    assert await ingestor.stores.collections.update(collection.message)
    assert await manuals.found() == found

    assert await manuals.done(await ingestor.reindexing(NAME))
    await manuals.settled(1)

    assert await manuals.found() == found
    [own] = [each.partition for each in await manuals.feed.partitions(NAME) if each.collection_id == NAME]
    async with open_weaviate(one_node.settings("Beside")) as weaviate:
        held = {
            is_quantized: len(
                await weaviate.entries(
                    Space(own.embedding_model, own.dimensions, is_quantized), own.partition_id
                )
            )
            for is_quantized in (False, True)
        }
    assert held == {False: 0, True: len(found)}
