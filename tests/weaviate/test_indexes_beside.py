"""Indexes beside the one in use, where a real node of Weaviate is searched."""

import asyncio
from collections.abc import Sequence
from functools import partial

from groundline.v1 import ingestor_service_pb2 as pb
from groundline.v1 import job_pb2, options_pb2, retriever_service_pb2
from groundline_database import DatabaseSettings, acquire, open_pool, register_vectors
from groundline_extraction.documents import GivenDocument
from groundline_indexing.feed.state import IndexFeed
from groundline_ingestor.__main__ import feeding_index, working
from groundline_ingestor.adapters.postgres.stores import Stores, stores_on
from groundline_lexical import detect_lexical_index
from groundline_retriever.adapters.postgres.store import open_chunk_store
from groundline_retriever.adapters.weaviate import open_weaviate_search
from groundline_retriever.arms import Arms
from groundline_retriever.scoring import ModelScores
from groundline_retriever.service import SearchService
from groundline_tests.ingestor.messages import a_collection
from groundline_tests.ingestor.workers import ANYBODY, LONG, SMALLER_CHUNKS, ingestor_on
from groundline_tests.retriever.service import FakeReranker
from groundline_tests.runtime import spending_in
from groundline_tests.weaviate.nodes import Cluster
from groundline_weaviate import Space, open_weaviate
from pydantic import SecretStr

CURRENT = options_pb2.INDEX_CHOICE_CURRENT
CANDIDATE = options_pb2.INDEX_CHOICE_CANDIDATE
PREVIOUS = options_pb2.INDEX_CHOICE_PREVIOUS


async def settled(feed: IndexFeed) -> None:
    """Wait until Weaviate has all that it is to have."""
    async with asyncio.timeout(60):
        while True:
            states = await feed.partitions()
            if not any(one.is_gone or one.pending_count or not one.is_filled for one in states):
                return
            await asyncio.sleep(0.1)


async def texts_found(
    service: SearchService, name: str, choice: options_pb2.IndexChoice.ValueType
) -> Sequence[str]:
    request = retriever_service_pb2.SearchRequest(query="paragraph of its own", collection_ids=[name])
    request.options.retrieval.index = choice
    request.options.rerank.top_k = 100
    response = await service.search(ANYBODY, request)
    assert not response.degraded
    return [each.chunk.text for each in response.passages]


async def partition_beside(stores: Stores, feed: IndexFeed, name: str) -> int:
    in_use = await stores.collections.find(name)
    assert in_use
    [found] = [
        each.partition.partition_id
        for each in await feed.partitions()
        if each.collection_id == name and each.partition.partition_id != in_use.partition_id
    ]
    return found


async def test_what_is_held_back_or_kept_is_searched_there_until_it_is_given_up(
    database_url: str, one_node: Cluster
) -> None:
    engine, name = one_node.settings("Beside"), "manuals"
    settings = DatabaseSettings(database_url=SecretStr(database_url), pool_max_size=8)
    async with (
        open_pool(settings, init=register_vectors) as pool,
        open_chunk_store(settings) as store,
        open_weaviate(engine) as weaviate,
        open_weaviate_search(engine, store, max_lag_seconds=0) as index,
    ):
        async with acquire(pool) as connection:
            stores = stores_on(pool, await detect_lexical_index(connection))
        async with (
            ingestor_on(stores, database_url, weaviate=engine) as ingestor,
            working(ingestor.worker, ingestor.settings),
            feeding_index(pool, ingestor.settings),
        ):
            feed, model = IndexFeed(pool), ingestor.embedder
            arms = Arms(index, [model], timeout_seconds=20)
            scores = ModelScores(FakeReranker(), timeout_seconds=20)
            service = SearchService(store, arms, scores, spending=spending_in(), scored_candidates=50)

            found = partial(texts_found, service, name)

            async def lengths(choice: options_pb2.IndexChoice.ValueType = CURRENT) -> set[str]:
                return {"short" if len(text) <= 300 else "long" for text in await found(choice)}

            await stores.collections.create(
                a_collection(name, model=model.model, dimensions=model.dimensions), "", ""
            )
            await ingestor.ingest(name, GivenDocument(LONG, uri="a"), GivenDocument(LONG[:900], uri="b"))
            job = await ingestor.reindexing(name, SMALLER_CHUNKS, hold=True, keep_previous=True)
            async with asyncio.timeout(60):
                async for state in ingestor.jobs.watch(ANYBODY, job.job_id):
                    if state.job.is_held:
                        break
            await settled(feed)
            assert (await lengths(), await lengths(CANDIDATE)) == ({"long"}, {"short"})

            swapped = await ingestor.reindex.swap(ANYBODY, job.job_id)
            assert (await ingestor.ended(swapped))[0].state == job_pb2.JOB_STATE_DONE
            assert (await lengths(), await lengths(PREVIOUS)) == ({"short"}, {"long"})

            await ingestor.ingest(name, GivenDocument("A cormorant dives.", uri="a"))
            await settled(feed)
            assert set(await found(PREVIOUS)) <= set(LONG[:900].split("\n\n")) | {LONG[:900]}, "a was changed"
            reverted = await ingestor.reindex.revert(ANYBODY, pb.RevertIndexRequest(collection_id=name))
            assert (await ingestor.ended(reverted))[0].state == job_pb2.JOB_STATE_DONE
            assert "A cormorant dives." in await found(CURRENT)

            kept = await partition_beside(stores, feed, name)
            space = Space(model.model, model.dimensions)
            assert await weaviate.entries(space, kept)
            assert await ingestor.reindex.reclaim(ANYBODY, name)
            await stores.reindex.settle(0)
            await settled(feed)
            assert await lengths() == {"long", "short"}
            assert not await weaviate.entries(space, kept)
            await stores.collections.delete(name)
