"""Wire formats of hosted embedding models, as their providers document them."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

__all__ = ["FORMATS", "EmbeddingFormat", "EmbeddingReply", "Purpose", "Request"]

type Purpose = Literal["query", "document"]


@dataclass(frozen=True, slots=True)
class Request:
    """Path below the base URL and body of a request."""

    path: str
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class EmbeddingReply:
    """Vectors in the order of the texts, and the tokens that the provider counted; 0 if it reports none."""

    vectors: Sequence[Sequence[float]]
    tokens: int


class EmbeddingFormat(ABC):
    """Form of one provider's requests and answers."""

    base_url: str = ""
    """Default address; "" if it has to be set."""
    model: str = ""
    """Default model; "" if it has to be set."""
    prices_id: str | None = None
    """Provider in genai-prices; None if its models' prices are not there."""
    max_texts: int = 96
    """Maximum texts in one request."""
    max_characters: int = 24_000
    """Maximum characters of one text; the rest is cut off, since the provider would refuse the text."""

    def headers(self, key: str) -> Mapping[str, str]:
        return {"authorization": f"Bearer {key}"}

    @abstractmethod
    def request(
        self, model: str, texts: Sequence[str], purpose: Purpose, dimensions: int | None
    ) -> Request: ...

    @abstractmethod
    def answer(self, body: Any) -> EmbeddingReply:
        """Parse an answer. Raises KeyError, TypeError or ValueError for one of another form."""


class OpenAiFormat(EmbeddingFormat):
    """`/embeddings` of OpenAI, which vLLM, Ollama and many others speak."""

    base_url = "https://api.openai.com/v1"
    model = "text-embedding-3-small"
    prices_id: str | None = "openai"
    max_texts = 256

    def request(self, model: str, texts: Sequence[str], purpose: Purpose, dimensions: int | None) -> Request:
        body: dict[str, Any] = {"model": model, "input": [*texts], "encoding_format": "float"}
        return Request("/embeddings", body if dimensions is None else body | {"dimensions": dimensions})

    def answer(self, body: Any) -> EmbeddingReply:
        rows = sorted(body["data"], key=lambda row: int(row["index"]))
        if [row["index"] for row in rows] != [*range(len(rows))]:
            raise ValueError("not one vector for each text")
        return EmbeddingReply(
            [row["embedding"] for row in rows], int((body.get("usage") or {}).get("total_tokens", 0))
        )


class VoyageFormat(OpenAiFormat):
    """Voyage: queries and documents are told apart."""

    base_url = "https://api.voyageai.com/v1"
    model = "voyage-3.5"
    prices_id = "voyage"
    max_texts = 128

    def request(self, model: str, texts: Sequence[str], purpose: Purpose, dimensions: int | None) -> Request:
        body: dict[str, Any] = {
            "model": model,
            "input": [*texts],
            "input_type": purpose,
            "truncation": True,
        }
        if dimensions is not None:
            body["output_dimension"] = dimensions
        return Request("/embeddings", body)


class JinaFormat(OpenAiFormat):
    """Jina: a task for queries and one for documents."""

    base_url = "https://api.jina.ai/v1"
    model = "jina-embeddings-v3"
    prices_id = None
    max_texts = 128

    def request(self, model: str, texts: Sequence[str], purpose: Purpose, dimensions: int | None) -> Request:
        task = "retrieval.query" if purpose == "query" else "retrieval.passage"
        body: dict[str, Any] = {"model": model, "input": [*texts], "task": task, "truncate": True}
        return Request("/embeddings", body if dimensions is None else body | {"dimensions": dimensions})


class CohereFormat(EmbeddingFormat):
    """`/v2/embed` of Cohere."""

    base_url = "https://api.cohere.com/v2"
    model = "embed-v4.0"
    prices_id = "cohere"
    max_texts = 96

    def request(self, model: str, texts: Sequence[str], purpose: Purpose, dimensions: int | None) -> Request:
        body: dict[str, Any] = {
            "model": model,
            "texts": [*texts],
            "input_type": f"search_{purpose}",
            "embedding_types": ["float"],
            "truncate": "END",
        }
        return Request("/embed", body if dimensions is None else body | {"output_dimension": dimensions})

    def answer(self, body: Any) -> EmbeddingReply:
        billed = (body.get("meta") or {}).get("billed_units") or {}
        return EmbeddingReply(body["embeddings"]["float"], int(billed.get("input_tokens", 0)))


class GeminiFormat(EmbeddingFormat):
    """`batchEmbedContents` of the Gemini API; vectors of reduced dimensions are not of unit length."""

    base_url = "https://generativelanguage.googleapis.com/v1beta"
    model = "gemini-embedding-001"
    prices_id = "google"
    max_texts = 100
    max_characters = 8_000

    def headers(self, key: str) -> Mapping[str, str]:
        return {"x-goog-api-key": key}

    def request(self, model: str, texts: Sequence[str], purpose: Purpose, dimensions: int | None) -> Request:
        name = f"models/{model}"
        each: dict[str, Any] = {"model": name, "taskType": f"RETRIEVAL_{purpose.upper()}"}
        if dimensions is not None:
            each["outputDimensionality"] = dimensions
        requests = [each | {"content": {"parts": [{"text": text}]}} for text in texts]
        return Request(f"/{name}:batchEmbedContents", {"requests": requests})

    def answer(self, body: Any) -> EmbeddingReply:
        return EmbeddingReply([one["values"] for one in body["embeddings"]], 0)


class TeiFormat(EmbeddingFormat):
    """`/embed` of text-embeddings-inference, which knows one model and its own prompts."""

    max_texts = 32

    def request(self, model: str, texts: Sequence[str], purpose: Purpose, dimensions: int | None) -> Request:
        body: dict[str, Any] = {"inputs": [*texts], "truncate": True, "normalize": True}
        return Request("/embed", body if dimensions is None else body | {"dimensions": dimensions})

    def answer(self, body: Any) -> EmbeddingReply:
        if not isinstance(body, list):
            raise TypeError("not a list of vectors")
        return EmbeddingReply(body, 0)


FORMATS: Final[Mapping[str, EmbeddingFormat]] = {
    "openai": OpenAiFormat(),
    "cohere": CohereFormat(),
    "voyage": VoyageFormat(),
    "jina": JinaFormat(),
    "gemini": GeminiFormat(),
    "tei": TeiFormat(),
}
