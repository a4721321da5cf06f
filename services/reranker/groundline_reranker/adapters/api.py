"""The api strategy: a hosted /rerank endpoint in the wire format of Cohere, Jina or Voyage."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from groundline.v1 import chat_pb2, passage_pb2
from groundline_runtime.charges import charge
from groundline_runtime.provider_api import ProviderApi, Reasons
from pydantic import SecretStr

from groundline_reranker.adapters.documents import document, in_batches

ATTEMPTS: Final = 3
LONGEST_SECONDS: Final = 60.0
_MAX_UNITS: Final = 2**31 - 1
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
    units: Sequence[str]
    """Names that lead to the number that the provider bills, in the answer."""
    extra: Mapping[str, Any]


FORMATS: Final[Mapping[str, WireFormat]] = {
    "cohere": WireFormat(
        "https://api.cohere.com/v2",
        "rerank-v3.5",
        "top_n",
        "results",
        ("meta", "billed_units", "search_units"),
        {},
    ),
    "jina": WireFormat(
        "https://api.jina.ai/v1",
        "jina-reranker-v2-base-multilingual",
        "top_n",
        "results",
        ("usage", "total_tokens"),
        {"return_documents": False},
    ),
    "voyage": WireFormat(
        "https://api.voyageai.com/v1",
        "rerank-2.5",
        "top_k",
        "data",
        ("usage", "total_tokens"),
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
        usd_per_million_units: float | None = None,
        batch_size: int,
    ) -> None:
        self._format = wire_format
        self._model = model or wire_format.model
        self._usd_per_million = usd_per_million_units
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
        units = _units(answer, self._format.units)
        price = self._usd_per_million
        cost = None if units is None or price is None else units * price / 1_000_000
        charge(chat_pb2.Usage(rerank_units=units or 1, cost_usd=cost))
        scores: dict[int, float] = {}
        try:
            for result in answer[self._format.results]:
                scores[int(result["index"])] = float(result["relevance_score"])
            return [scores[place] for place in range(len(chunks))]
        except (KeyError, TypeError, ValueError):
            raise self._api.malformed("one score for each passage") from None


def _units(answer: Any, names: Sequence[str]) -> int | None:
    """Return what the provider bills; None where it does not tell."""
    try:
        for name in names:
            answer = answer[name]
        return min(max(0, math.ceil(float(answer))), _MAX_UNITS)
    except (KeyError, OverflowError, TypeError, ValueError):
        return None
