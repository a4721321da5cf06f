"""Wire formats of hosted embedding models, as their providers document them."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

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
    window_sizes: Sequence[int] | None = None
    """Number of vectors of each window; None from an API that knows no windows."""


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

    window_bytes: int | None = None
    """Maximum size of the chunks that are read together, in UTF-8; None if each text is read alone."""

    def headers(self, key: str) -> Mapping[str, str]:
        return {"authorization": f"Bearer {key}"}

    @abstractmethod
    def request(self, model: str, texts: Sequence[str], purpose: Purpose, dimensions: int | None) -> Request:
        """Return the request of texts that are read alone."""

    def windows_request(
        self, model: str, windows: Sequence[Sequence[str]], purpose: Purpose, dimensions: int | None
    ) -> Request:
        """Return the request of windows."""
        return self.request(model, [text for window in windows for text in window], purpose, dimensions)

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
        return EmbeddingReply(
            [row["embedding"] for row in _in_order(body["data"])],
            int((body.get("usage") or {}).get("total_tokens", 0)),
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


class VoyageContextFormat(VoyageFormat):
    """`/contextualizedembeddings` of Voyage: the chunks of a document are read together.

    A request has at most 1,000 windows and 120,000 tokens in all, a window 32,000; one of Voyage's pages has
    32,000 for the request, too, so both end at 64,000 bytes: no text has fewer than two bytes a token.
    """

    model = ""
    max_texts = 1000
    window_bytes = 64_000

    def request(self, model: str, texts: Sequence[str], purpose: Purpose, dimensions: int | None) -> Request:
        return self.windows_request(model, [[text] for text in texts], purpose, dimensions)

    def windows_request(
        self, model: str, windows: Sequence[Sequence[str]], purpose: Purpose, dimensions: int | None
    ) -> Request:
        body: dict[str, Any] = {
            "model": model,
            "inputs": [[*window] for window in windows],
            "input_type": purpose,
        }
        if dimensions is not None:
            body["output_dimension"] = dimensions
        return Request("/contextualizedembeddings", body)

    def answer(self, body: Any) -> EmbeddingReply:
        windows = [super(VoyageContextFormat, self).answer(each).vectors for each in _in_order(body["data"])]
        return EmbeddingReply(
            [vector for vectors in windows for vector in vectors],
            int((body.get("usage") or {}).get("total_tokens", 0)),
            [len(vectors) for vectors in windows],
        )


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


def _in_order(rows: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Return rows by their index. Raises ValueError unless each index is there once."""
    ordered = sorted(rows, key=lambda row: int(row["index"]))
    if [row["index"] for row in ordered] != [*range(len(ordered))]:
        raise ValueError("not one vector for each text")
    return ordered


_FORMATS: Final[Mapping[str, EmbeddingFormat]] = {
    "openai": OpenAiFormat(),
    "cohere": CohereFormat(),
    "voyage": VoyageFormat(),
    "jina": JinaFormat(),
    "gemini": GeminiFormat(),
    "tei": TeiFormat(),
}
_VOYAGE_CONTEXT: Final = VoyageContextFormat()


def format_of(provider: str, model: str) -> EmbeddingFormat:
    """Return the wire format by which a provider serves a model, "" for its default. Voyage has another
    address for models that know neighbours."""
    if provider == "voyage" and model.startswith("voyage-context-"):
        return _VOYAGE_CONTEXT
    return _FORMATS[provider]
