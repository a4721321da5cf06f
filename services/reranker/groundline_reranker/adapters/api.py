"""The api strategy: a hosted /rerank endpoint in the wire format of Cohere, Jina or Voyage."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from groundline.v1 import passage_pb2
from groundline_runtime.provider_api import ProviderApi, Reasons
from pydantic import SecretStr

from groundline_reranker.adapters.documents import document, in_batches

__all__ = ["FORMATS", "ApiScorer", "WireFormat"]

ATTEMPTS: Final = 3
LONGEST_SECONDS: Final = 60.0
REASONS: Final = Reasons(
    unreachable="RERANK_API_UNREACHABLE",
    quota="RERANK_API_QUOTA",
    refused="RERANK_API_REFUSED",
    failed="RERANK_API_FAILED",
    malformed="RERANK_API_MALFORMED",
)


@dataclass(frozen=True, slots=True)
class WireFormat:
    """Differences between the formats; all take model, query and documents, and answer index and
    relevance_score."""

    base_url: str
    model: str
    count: str
    """Name of the field with the number of scores wanted."""
    results: str
    """Name of the list in the answer."""
    extra: Mapping[str, Any]


FORMATS: Final[Mapping[str, WireFormat]] = {
    "cohere": WireFormat("https://api.cohere.com/v2", "rerank-v3.5", "top_n", "results", {}),
    "jina": WireFormat(
        "https://api.jina.ai/v1",
        "jina-reranker-v2-base-multilingual",
        "top_n",
        "results",
        {"return_documents": False},
    ),
    "voyage": WireFormat(
        "https://api.voyageai.com/v1",
        "rerank-2.5",
        "top_k",
        "data",
        {"return_documents": False, "truncation": True},
    ),
}


class ApiScorer:
    """A Scorer over HTTP. `base_url` and `model` None: the format's provider's own.

    Passages go in batches, all at once.
    """

    def __init__(
        self,
        wire_format: WireFormat,
        key: SecretStr | None,
        *,
        base_url: str | None = None,
        model: str | None = None,
        batch_size: int,
    ) -> None:
        self._format = wire_format
        self._model = model or wire_format.model
        self._batch_size = batch_size
        headers = {"authorization": f"Bearer {key.get_secret_value()}"} if key else {}
        # The request's own deadline ends a call.
        self._api = ProviderApi(
            base_url or wire_format.base_url,
            headers,
            name="the rerank API",
            reasons=REASONS,
            attempts=ATTEMPTS,
            timeout_seconds=LONGEST_SECONDS,
        )

    async def score(
        self, query: str, chunks: Sequence[passage_pb2.Chunk], model: str | None
    ) -> Sequence[float]:
        """Return the provider's relevance scores, 0 to 1."""
        name = model or self._model
        return await in_batches(chunks, self._batch_size, lambda batch: self._batch(query, batch, name))

    async def close(self) -> None:
        await self._api.close()

    async def _batch(self, query: str, chunks: Sequence[passage_pb2.Chunk], model: str) -> list[float]:
        answer = await self._api.post(
            "/rerank",
            {
                "model": model,
                "query": query,
                "documents": [document(chunk) for chunk in chunks],
                self._format.count: len(chunks),
                **self._format.extra,
            },
        )
        scores: dict[int, float] = {}
        try:
            for result in answer[self._format.results]:
                scores[int(result["index"])] = float(result["relevance_score"])
            return [scores[place] for place in range(len(chunks))]
        except (KeyError, TypeError, ValueError):
            raise self._api.malformed("one score for each passage") from None
