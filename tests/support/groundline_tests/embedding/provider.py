"""A server that speaks the wire formats of hosted embedding models."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from groundline_embedding import EmbeddingSettings
from pydantic import SecretStr

from groundline_tests.embedding.fake import FakeEmbedder
from groundline_tests.http_server import Answering, listening

KEY = "a-key-for-tests-only"
LIMITS = {
    "openai": 256,
    "cohere": 96,
    "voyage": 128,
    "voyage-context": 1000,
    "jina": 128,
    "gemini": 100,
    "tei": 32,
}


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
            case "voyage-context":
                assert path == "/v1/contextualizedembeddings"
                return self._of_windows(body["inputs"])
            case "cohere":
                assert path == "/v1/embed"
                vectors = self._vectors(body["texts"])
                return {"embeddings": {"float": vectors}, "meta": {"billed_units": {"input_tokens": 7}}}
            case "gemini":
                assert path == f"/v1/{body['requests'][0]['model']}:batchEmbedContents"
                texts = [one["content"]["parts"][0]["text"] for one in body["requests"]]
                # Vectors of reduced dimensions do not have unit length.
                return {"embeddings": [{"values": [3 * x for x in v]} for v in self._vectors(texts)]}
            case _:
                assert path == "/v1/embed"
                return self._vectors(body["inputs"])

    def _of_windows(self, windows: Sequence[Sequence[str]]) -> Any:
        """Answer vectors that have something of the others in their window."""
        vectors = iter(self._vectors([text for window in windows for text in window]))
        data = []
        for index, window in enumerate(windows):
            own = np.array([next(vectors) for _ in window])
            mixed = own + (0.25 * (own.sum(axis=0) - own) if len(own) > 1 else 0)
            rows = [{"index": place, "embedding": row} for place, row in enumerate(mixed.tolist())]
            data.append({"index": index, "data": rows[::-1]})
        return {"data": data[::-1], "usage": {"total_tokens": 7}}

    def _vectors(self, texts: Sequence[str]) -> list[list[float]]:
        assert 0 < len(texts) <= LIMITS[self.kind]
        assert all(text.strip() for text in texts), "providers refuse blank texts"
        embedder = FakeEmbedder(max_tokens=100_000)
        return [embedder._embed(text).tolist() for text in texts]


@contextmanager
def serving(kind: str) -> Iterator[Provider]:
    provider = Provider(kind)

    class Handler(Answering):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:  # noqa: N802
            body = json.loads(self.given())
            provider.requests.append(body)
            given = self.headers.get("authorization") or self.headers.get("x-goog-api-key") or ""
            provider.keys.append(given)
            status, headers = provider.refusals.pop(0) if provider.refusals else (200, {})
            answer = provider.answer(self.path, body) if status == 200 else {"error": str(body)}
            self.answer(status, json.dumps(answer).encode(), headers)

    with listening(Handler) as url:
        provider.base_url = f"{url}/v1"
        yield provider


def settings_for(provider: Provider, **more: Any) -> EmbeddingSettings:
    model = "voyage-context-3" if provider.kind == "voyage-context" else "encoder-1"
    given = {"model": model, "api_key": SecretStr(KEY), "base_url": provider.base_url, **more}
    return EmbeddingSettings(provider=provider.kind.removesuffix("-context"), **given)
