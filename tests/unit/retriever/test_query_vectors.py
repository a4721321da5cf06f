import asyncio
from collections.abc import Callable

import pytest
from groundline_embedding.ports import Vectors
from groundline_retriever.embeddings import QueryVectors
from groundline_runtime.context import Caller, acting_as
from groundline_runtime.errors import UnavailableError
from groundline_tests.embedding import FakeEmbedder
from groundline_tests.retriever.service import EMBEDDER, LOST, SlowEmbedder

# Query vectors


def cache(embedder: FakeEmbedder, size: int = 2, now: Callable[[], float] = lambda: 0.0) -> QueryVectors:
    return QueryVectors(embedder, size, ttl_seconds=60, clock=now)


async def test_the_vectors_of_the_last_queries_are_kept() -> None:
    embedder = SlowEmbedder()
    embedder.go.set()
    vectors = cache(embedder)
    for text in ("a", "b", "a", "c", "a", "b"):
        assert (await vectors.embed_query(text) == await EMBEDDER.embed_query(text)).all()
    assert embedder.asked == 4, "a, b, c, and b again: it was used longest ago when c came"


async def test_how_quickly_an_answer_comes_tells_nobody_what_another_client_asked() -> None:
    embedder = SlowEmbedder()
    embedder.go.set()
    vectors = cache(embedder)
    for principals, asked in ((("user:ada",), 1), (("user:ada", "group:x"), 1), (("user:eve",), 2)):
        with acting_as(Caller(principals)):
            await vectors.embed_query("a")
        assert embedder.asked == asked


async def test_a_vector_is_kept_for_its_time_only() -> None:
    embedder = SlowEmbedder()
    embedder.go.set()
    now = [0.0]
    vectors = cache(embedder, now=lambda: now[0])
    for seconds, asked in ((0.0, 1), (59.9, 1), (60.0, 2), (119.9, 2)):
        now[0] = seconds
        await vectors.embed_query("a")
        assert embedder.asked == asked


async def test_a_query_asked_by_several_at_once_is_embedded_once() -> None:
    embedder = SlowEmbedder()
    vectors = cache(embedder)
    callers = [asyncio.create_task(vectors.embed_query(text)) for text in ("a", "a", "b", "a")]
    await asyncio.sleep(0)
    callers[0].cancel()
    embedder.go.set()
    outcomes = await asyncio.gather(*callers, return_exceptions=True)
    assert isinstance(outcomes[0], asyncio.CancelledError)
    assert not any(isinstance(outcome, BaseException) for outcome in outcomes[1:])
    assert embedder.asked == 2


async def test_a_query_that_nobody_waits_for_any_longer_is_not_embedded() -> None:
    class Watched(SlowEmbedder):
        ended = asyncio.Event()

        async def embed_query(self, text: str) -> Vectors:
            try:
                return await super().embed_query(text)
            except asyncio.CancelledError:
                self.ended.set()
                raise

    embedder = Watched()
    vectors = cache(embedder)
    callers = [asyncio.create_task(vectors.embed_query("a")) for _ in range(2)]
    await asyncio.sleep(0)
    for caller in callers:
        caller.cancel()
    await asyncio.gather(*callers, return_exceptions=True)
    async with asyncio.timeout(10):
        await embedder.ended.wait()
    embedder.go.set()
    assert (await vectors.embed_query("a") == await EMBEDDER.embed_query("a")).all()
    assert embedder.asked == 2


async def test_a_failed_embedding_is_not_kept() -> None:
    class Failing(SlowEmbedder):
        async def embed_query(self, text: str) -> Vectors:
            await super().embed_query(text)
            raise LOST

    embedder = Failing()
    embedder.go.set()
    vectors = cache(embedder)
    for asked in (1, 2):
        with pytest.raises(UnavailableError):
            await vectors.embed_query("a")
        assert embedder.asked == asked


async def test_a_cache_of_size_zero_keeps_nothing() -> None:
    embedder = SlowEmbedder()
    embedder.go.set()
    vectors = cache(embedder, size=0)
    await vectors.embed_query("a")
    await vectors.embed_query("a")
    assert embedder.asked == 2
