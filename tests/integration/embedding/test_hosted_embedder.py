"""Hosted embedding models: each wire format against a local server that speaks it."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest
from groundline_embedding import Embedder, EmbeddingSettings, ModelError, create_embedder
from groundline_embedding.hosted.embedder import HostedEmbedder
from groundline_runtime.errors import (
    GroundlineError,
    InternalError,
    ResourceExhaustedError,
    UnavailableError,
)
from groundline_tests.embedding import EmbedderContract, FakeEmbedder
from pydantic import SecretStr

KEY = "a-key-for-tests-only"
PROVIDERS = ("openai", "cohere", "voyage", "jina", "gemini", "tei")
LIMITS = {"openai": 256, "cohere": 96, "voyage": 128, "jina": 128, "gemini": 100, "tei": 32}


@dataclass
class Provider:
    """A server that speaks one wire format, and embeds as FakeEmbedder does."""

    kind: str
    base_url: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    refusals: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    """Statuses and headers of the next answers."""
    next_answer: Any = None

    def answer(self, path: str, body: Any) -> Any:
        if self.next_answer is not None:
            return self.next_answer
        match self.kind:
            case "openai" | "voyage" | "jina":
                assert path == "/v1/embeddings"
                rows = [
                    {"index": i, "embedding": v, "object": "embedding"}
                    for i, v in enumerate(self._vectors(body["input"]))
                ]
                rows.reverse()  # the index counts, not the place
                return {"data": rows, "model": body["model"], "usage": {"total_tokens": 7}}
            case "cohere":
                assert path == "/v1/embed"
                vectors = self._vectors(body["texts"])
                return {"embeddings": {"float": vectors}, "meta": {"billed_units": {"input_tokens": 7}}}
            case "gemini":
                assert path == f"/v1/{body['requests'][0]['model']}:batchEmbedContents"
                texts = [one["content"]["parts"][0]["text"] for one in body["requests"]]
                # Of reduced dimensions, they are not of unit length.
                return {"embeddings": [{"values": [3 * x for x in v]} for v in self._vectors(texts)]}
            case _:
                assert path == "/v1/embed"
                return self._vectors(body["inputs"])

    def _vectors(self, texts: Sequence[str]) -> list[list[float]]:
        assert 0 < len(texts) <= LIMITS[self.kind]
        assert all(text.strip() for text in texts), "providers refuse blank texts"
        embedder = FakeEmbedder(max_tokens=100_000)
        return [embedder._embed(text).tolist() for text in texts]


@contextmanager
def serving(kind: str) -> Iterator[Provider]:
    provider = Provider(kind)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            provider.requests.append(body)
            given = self.headers.get("authorization") or self.headers.get("x-goog-api-key") or ""
            provider.keys.append(given)
            status, headers = provider.refusals.pop(0) if provider.refusals else (200, {})
            answer = provider.answer(self.path, body) if status == 200 else {"error": str(body)}
            content = json.dumps(answer).encode()
            self.send_response(status)
            for name, value in {**headers, "content-length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        provider.base_url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield provider
        finally:
            server.shutdown()
            thread.join()


def settings_for(provider: Provider, **more: Any) -> EmbeddingSettings:
    given = {"model": "encoder-1", "api_key": SecretStr(KEY), "base_url": provider.base_url, **more}
    return EmbeddingSettings(provider=provider.kind, **given)


@pytest.fixture(params=PROVIDERS)
def provider(request: pytest.FixtureRequest) -> Iterator[Provider]:
    with serving(request.param) as provider:
        yield provider


@pytest.fixture
def openai() -> Iterator[Provider]:
    with serving("openai") as provider:
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
        name = names.get(provider.kind, "none")
        told = [body.get("requests", [body])[0].get(name) for body in (query, document)]
        assert told == {
            "cohere": ["search_query", "search_document"],
            "voyage": ["query", "document"],
            "jina": ["retrieval.query", "retrieval.passage"],
            "gemini": ["RETRIEVAL_QUERY", "RETRIEVAL_DOCUMENT"],
        }.get(provider.kind, [None, None])


async def test_what_passes_is_tried_again_after_the_pause_that_is_asked_for(openai: Provider) -> None:
    async with embedding(openai) as embedder:
        openai.refusals = [(429, {"retry-after": "0"}), (503, {"retry-after": "0"})]
        assert (await embedder.embed_query("lease")).shape == (256,)
        assert len(openai.requests) == 3


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (429, ResourceExhaustedError),
        (500, UnavailableError),
        (401, InternalError),
        (404, InternalError),
    ],
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
