"""Hosted embedding models: each wire format against a local server that speaks it."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest
from groundline.v1 import chat_pb2
from groundline_embedding import Embedder, EmbeddingSettings, ModelError, create_embedder
from groundline_embedding.hosted.embedder import HostedEmbedder
from groundline_runtime.charges import metered, total
from groundline_runtime.errors import GroundlineError, InternalError, ResourceExhaustedError, UnavailableError
from groundline_tests.embedding import EmbedderContract
from groundline_tests.embedding.provider import KEY, LIMITS, Provider, serving, settings_for
from pydantic import SecretStr

PROVIDERS = ("openai", "cohere", "voyage", "voyage-context", "jina", "gemini", "tei")
WINDOW_BYTES = 64_000


@pytest.fixture(params=PROVIDERS)
def provider(request: pytest.FixtureRequest) -> Iterator[Provider]:
    with serving(request.param) as provider:
        yield provider


@pytest.fixture
def openai() -> Iterator[Provider]:
    with serving("openai") as provider:
        yield provider


@pytest.fixture
def contextual() -> Iterator[Provider]:
    with serving("voyage-context") as provider:
        yield provider


@asynccontextmanager
async def embedding(provider: Provider, **more: Any) -> AsyncIterator[Embedder]:
    async with create_embedder(settings_for(provider, **more)) as embedder:
        provider.requests.clear()
        yield embedder


class TestHostedEmbedder(EmbedderContract):
    @pytest.fixture
    async def embedder(self, provider: Provider) -> AsyncIterator[Embedder]:
        async with embedding(provider) as embedder:
            yield embedder

    async def test_the_key_goes_along_as_the_provider_wants_it(
        self, embedder: Embedder, provider: Provider
    ) -> None:
        await embedder.embed_query("lease")
        assert set(provider.keys) == {KEY if provider.kind == "gemini" else f"Bearer {KEY}"}

    async def test_many_documents_go_in_requests_that_the_provider_takes(
        self, embedder: Embedder, provider: Provider
    ) -> None:
        vectors = await embedder.embed_documents([f"number {i}" for i in range(300)])
        assert vectors.shape == (300, 256)
        assert len(provider.requests) == -(-300 // LIMITS[provider.kind])

    async def test_queries_and_documents_are_told_apart_where_the_provider_does(
        self, embedder: Embedder, provider: Provider
    ) -> None:
        await embedder.embed_query("lease")
        await embedder.embed_documents(["lease"])
        query, document = provider.requests
        names = {"cohere": "input_type", "voyage": "input_type", "jina": "task", "gemini": "taskType"}
        name = names.get(provider.kind.removesuffix("-context"), "none")
        told = [body.get("requests", [body])[0].get(name) for body in (query, document)]
        assert told == {
            "cohere": ["search_query", "search_document"],
            "voyage": ["query", "document"],
            "jina": ["retrieval.query", "retrieval.passage"],
            "gemini": ["RETRIEVAL_QUERY", "RETRIEVAL_DOCUMENT"],
        }.get(provider.kind.removesuffix("-context"), [None, None])


async def test_what_passes_is_tried_again_after_the_pause_that_is_asked_for(openai: Provider) -> None:
    async with embedding(openai) as embedder:
        openai.refusals = [(429, {"retry-after": "0"}), (503, {"retry-after": "0"})]
        assert (await embedder.embed_query("lease")).shape == (256,)
        assert len(openai.requests) == 3


@pytest.mark.parametrize(
    ("status", "error"),
    [(429, ResourceExhaustedError), (500, UnavailableError), (401, InternalError), (404, InternalError)],
)
async def test_what_does_not_pass_says_so_without_repeating_the_text(
    openai: Provider, status: int, error: type[GroundlineError]
) -> None:
    async with embedding(openai) as embedder:
        openai.refusals = [(status, {})] * 4
        with pytest.raises(error) as refused:
            await embedder.embed_query("something confidential")
        assert (refused.value.wait_seconds is not None) == (status in (429, 500))
        assert "confidential" not in str(refused.value)
        assert KEY not in str(refused.value)
        assert len(openai.requests) == (4 if status in (429, 500) else 1)


@pytest.mark.parametrize(
    "answer",
    [
        {},
        [],
        {"data": []},
        {"data": [{"index": 1, "embedding": [1.0] * 256}]},
        {"data": [{"index": 0, "embedding": [1.0] * 255}]},
        {"data": [{"index": 0, "embedding": [0.0] * 256}]},
        {"data": [{"index": 0, "embedding": ["x"] * 256}]},
        {"data": [{"index": 0, "embedding": None}]},
    ],
)
async def test_an_answer_that_is_not_a_vector_for_each_text_is_none(openai: Provider, answer: Any) -> None:
    async with embedding(openai) as embedder:
        openai.next_answer = answer
        with pytest.raises(InternalError) as refused:
            await embedder.embed_query("lease")
        assert refused.value.reason == "EMBEDDING_API_MALFORMED"


async def test_a_model_that_cannot_be_asked_is_told_at_start(openai: Provider) -> None:
    openai.refusals = [(401, {})]
    with pytest.raises(ModelError, match="does not accept the key"):
        async with create_embedder(settings_for(openai)):
            pass
    with pytest.raises(ModelError, match="gives 256: set dimensions"):
        async with create_embedder(settings_for(openai, dimensions=512)):
            pass
    with pytest.raises(ModelError, match="tei needs base_url and model"):
        async with create_embedder(EmbeddingSettings(provider="tei")):
            pass


async def test_dimensions_are_asked_for_and_part_of_the_name(openai: Provider) -> None:
    async with embedding(openai, dimensions=256) as embedder:
        await embedder.embed_query("lease")
        assert openai.requests[-1]["dimensions"] == 256
        assert embedder.model == "encoder-1@256"


async def test_a_query_does_not_wait_for_documents(openai: Provider) -> None:
    async with embedding(openai, batch_size=1) as embedder:
        documents = asyncio.create_task(embedder.embed_documents([f"number {i}" for i in range(400)]))
        await embedder.embed_query("lease")
        assert not documents.done()
        documents.cancel()
        with pytest.raises(asyncio.CancelledError):
            await documents


async def test_long_texts_share_no_request_that_is_too_large(openai: Provider) -> None:
    async with embedding(openai) as embedder:
        vectors = await embedder.embed_documents(["lease " * 20_000] * 40)
        assert np.allclose(vectors, vectors[0])
        sizes = [[len(text) for text in request["input"]] for request in openai.requests]
        assert max(map(sum, sizes)) <= 400_000
        assert {size for request in sizes for size in request} == {24_000}


async def test_tokens_cost_what_the_settings_say_else_what_the_provider_publishes(openai: Provider) -> None:
    async with embedding(openai, usd_per_million_tokens=2.0) as embedder:
        assert embedder.cost(500_000) == 1.0
    # A server of one's own has no published price, whatever its model is called.
    async with embedding(openai, model="text-embedding-3-small") as embedder:
        assert embedder.cost(500_000) is None
    published = EmbeddingSettings(provider="openai", api_key=SecretStr(KEY))
    for provider, expected in (("openai", 0.02), ("cohere", 0.12), ("gemini", 0.15), ("voyage", 0.06)):
        embedder = HostedEmbedder(published.model_copy(update={"provider": provider}))
        assert embedder.cost(1_000_000) == pytest.approx(expected)
        await embedder.close()
    named = EmbeddingSettings(provider="voyage", model="voyage-context-3", api_key=SecretStr(KEY))
    embedder = HostedEmbedder(named)
    assert embedder.cost(1_000_000) == pytest.approx(0.18)
    await embedder.close()


async def test_calls_charge_the_tokens_that_the_provider_counts_else_an_estimate(provider: Provider) -> None:
    texts = ["the lease of a replica", "a quorum"]
    async with embedding(provider, usd_per_million_tokens=2.0) as embedder:
        with metered() as paid:
            await asyncio.gather(embedder.embed_query(texts[0]), embedder.embed_documents(texts))
            estimated = sum(embedder.count_tokens([texts[0], *texts]))
    tokens = estimated if provider.kind in ("gemini", "tei") else 7 + 7
    assert total(paid) == chat_pb2.Usage(embedding_tokens=tokens, cost_usd=tokens * 2 / 1_000_000)


async def test_a_model_without_a_price_has_no_cost(openai: Provider) -> None:
    async with embedding(openai) as embedder:
        with metered() as paid:
            await embedder.embed_query("lease")
    answered = chat_pb2.Usage(output_tokens=5, cost_usd=0.25)
    assert total([*paid, answered]) == chat_pb2.Usage(embedding_tokens=7, output_tokens=5)


@pytest.mark.parametrize(
    ("status", "error"), [(429, ResourceExhaustedError), (503, UnavailableError), (400, InternalError)]
)
async def test_a_refused_window_says_so_without_repeating_its_chunks(
    contextual: Provider, status: int, error: type[GroundlineError]
) -> None:
    async with embedding(contextual) as embedder:
        contextual.refusals = [(status, {"retry-after": "0"})] * 4
        with pytest.raises(error) as refused:
            await embedder.embed_windows([["something confidential", "and more"]])
        assert "confidential" not in str(refused.value)
        assert len(contextual.requests) == (1 if status == 400 else 4)


@pytest.mark.parametrize("counts", [[], [1], [3], [1, 2], [2], [2, 1, 1], [2, 2]])
async def test_vectors_of_other_windows_are_none(contextual: Provider, counts: list[int]) -> None:
    async with embedding(contextual) as embedder:
        row = [1.0] * 256
        contextual.next_answer = {
            "data": [
                {"index": index, "data": [{"index": place, "embedding": row} for place in range(count)]}
                for index, count in enumerate(counts)
            ]
        }
        with pytest.raises(InternalError) as refused:
            await embedder.embed_windows([["a lease", "of a replica"], ["bread"]])
        assert refused.value.reason == "EMBEDDING_API_MALFORMED"


async def test_chunks_of_a_document_are_read_together_and_in_order(contextual: Provider) -> None:
    async with embedding(contextual, dimensions=256) as embedder:
        alone = await embedder.embed_documents(["a lease", "of a replica"])
        windows = [*embedder.windows(["a lease", "of a replica", " "]), *embedder.windows(["bread"])]
        together = await embedder.embed_windows(windows)
        assert contextual.requests[-1] == {
            "model": "voyage-context-3",
            "inputs": [["a lease", "of a replica", "-"], ["bread"]],
            "input_type": "document",
            "output_dimension": 256,
        }
        assert together.shape == (4, 256)
        assert [int(np.argmax(alone @ row)) for row in together[:2]] == [0, 1]
        assert not np.allclose(together[:2], alone, atol=0.1)


async def test_a_long_document_has_windows_that_the_provider_takes(contextual: Provider) -> None:
    many = ["x"] * 1001
    long = ["lease " * 300, "Größe東京 " * 4_000, *["bread " * 300] * 70]
    async with embedding(contextual, batch_size=2) as embedder:
        assert [len(window) for window in embedder.windows(many)] == [1000, 1]
        windows = embedder.windows(long)
        assert [chunk for window in windows for chunk in window] == long
        sizes = [sum(len(chunk[:24_000].encode()) for chunk in window) for window in windows]
        assert max(sizes) <= WINDOW_BYTES
        # As few as possible: the next chunk would have been too much.
        assert all(size + 1800 > WINDOW_BYTES for size in sizes[1:-1])
        assert (await embedder.embed_windows(windows)).shape == (72, 256)
        assert [len(request["inputs"]) for request in contextual.requests] == [1] * len(windows)
