"""The api strategy: a hosted /rerank endpoint in the wire format of Cohere, Jina or Voyage."""

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx
from groundline.v1 import passage_pb2
from groundline_runtime.context import remaining_seconds
from groundline_runtime.errors import (
    GroundlineError,
    InternalError,
    PermissionDeniedError,
    ResourceExhaustedError,
    UnavailableError,
)
from pydantic import SecretStr

from groundline_reranker.adapters.documents import document, in_batches

__all__ = ["FORMATS", "ApiScorer", "WireFormat"]

ATTEMPTS = 3
FIRST_PAUSE_SECONDS = 0.2
LONGEST_SECONDS = 60.0


@dataclass(frozen=True)
class WireFormat:
    """Where the formats differ; all take model, query and documents, and answer index and relevance_score."""

    base_url: str
    model: str
    count: str
    """Name of the field that says how many scores are wanted."""
    results: str
    """Name of the list in the answer."""
    extra: Mapping[str, Any]


FORMATS: Mapping[str, WireFormat] = {
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
    """A Scorer over HTTP. `base_url` and `model` None: those of the provider whose format it is.

    Passages go in batches, all at once. What passes (429, 5xx, a broken connection) is tried again as long as
    the request's time allows.
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
        # The request's own deadline ends a call. Redirects are not followed: the key would go with them.
        self._http = httpx.AsyncClient(
            base_url=(base_url or wire_format.base_url).rstrip("/"), headers=headers, timeout=LONGEST_SECONDS
        )

    async def score(
        self, query: str, chunks: Sequence[passage_pb2.Chunk], model: str | None
    ) -> Sequence[float]:
        """The provider's relevance scores, 0 to 1."""
        name = model or self._model
        return await in_batches(chunks, self._batch_size, lambda batch: self._batch(query, batch, name))

    async def close(self) -> None:
        await self._http.aclose()

    async def _batch(self, query: str, chunks: Sequence[passage_pb2.Chunk], model: str) -> list[float]:
        answer = await self._post(
            {
                "model": model,
                "query": query,
                "documents": [document(chunk) for chunk in chunks],
                self._format.count: len(chunks),
                **self._format.extra,
            }
        )
        scores: dict[int, float] = {}
        try:
            for result in answer[self._format.results]:
                scores[int(result["index"])] = float(result["relevance_score"])
            return [scores[place] for place in range(len(chunks))]
        except (KeyError, TypeError, ValueError):
            raise _malformed() from None

    async def _post(self, body: Mapping[str, Any]) -> Any:
        pause = FIRST_PAUSE_SECONDS
        for attempt in itertools.count(1):
            try:
                response = await self._http.post("/rerank", json=body)
            except httpx.HTTPError:
                error: GroundlineError = UnavailableError(
                    "RERANK_API_UNREACHABLE", "the rerank API cannot be reached"
                )
            else:
                if response.is_success:
                    try:
                        return response.json()
                    except ValueError:
                        raise _malformed() from None
                error = _refusal(response)
            wait = error.retry_after_seconds or pause
            left = remaining_seconds()
            passing = isinstance(error, UnavailableError | ResourceExhaustedError)
            if not passing or attempt >= ATTEMPTS or (left is not None and wait >= left):
                raise error
            await asyncio.sleep(wait)
            pause *= 2
        raise AssertionError("the last attempt returns or raises")


def _refusal(response: httpx.Response) -> GroundlineError:
    """What a status means; the body is the provider's and may repeat the passages, so it is not shown."""
    status = response.status_code
    if status == 429:
        return ResourceExhaustedError(
            "RERANK_API_QUOTA",
            "the rerank API's quota is used up",
            retry_after_seconds=_retry_after(response),
        )
    if status in (401, 403):
        return PermissionDeniedError("RERANK_API_REFUSED", "the rerank API does not accept the key")
    if status >= 500:
        return UnavailableError(
            "RERANK_API_FAILED",
            f"the rerank API answered {status}",
            retry_after_seconds=_retry_after(response),
        )
    return InternalError(
        "RERANK_API_REFUSED", f"the rerank API answered {status}: is its address right, and the model known?"
    )


def _retry_after(response: httpx.Response) -> float | None:
    try:
        return max(float(response.headers.get("retry-after", "")), 0.0)
    except ValueError:
        return None


def _malformed() -> InternalError:
    return InternalError("RERANK_API_MALFORMED", "the rerank API's answer is not one score for each passage")
