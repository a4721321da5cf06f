"""An Embedder over HTTP."""

import asyncio
import math
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Final, Self

import numpy as np
from groundline.v1 import chat_pb2
from groundline_runtime.charges import charge, published_cost
from groundline_runtime.errors import GroundlineError, InternalError
from groundline_runtime.provider_api import ProviderApi, Reasons

from groundline_embedding.errors import ModelError
from groundline_embedding.hosted.formats import EmbeddingFormat, EmbeddingReply, Purpose, format_of
from groundline_embedding.metrics import EMBEDDED_TOKENS
from groundline_embedding.ports import Vectors
from groundline_embedding.settings import EmbeddingSettings

ATTEMPTS: Final = 4
REQUEST_SECONDS: Final = 60.0
REASONS: Final = Reasons(
    unreachable="EMBEDDING_API_UNREACHABLE",
    quota="EMBEDDING_API_QUOTA",
    refused="EMBEDDING_API_REFUSED",
    failed="EMBEDDING_API_FAILED",
    malformed="EMBEDDING_API_MALFORMED",
)
MAX_REQUEST_CHARACTERS: Final = 400_000
"""Maximum characters of all texts of one request; providers accept some 300,000 tokens at most."""
DOCUMENT_REQUESTS: Final = 4
"""Maximum requests for documents at a time. Queries do not wait for them."""
BLANK: Final = "-"
"""Stand-in for an empty text, which providers refuse."""
_CHARACTERS_OF_A_TOKEN: Final = 6
_WORDS: Final = re.compile(r"\w+|[^\w\s]")


class HostedEmbedder:
    """An Embedder over HTTP.

    Transient failures (429, 5xx, a broken connection) are retried while the request's time allows; others are
    raised as ResourceExhaustedError, UnavailableError or InternalError.
    """

    max_tokens: int | None = None

    def __init__(self, settings: EmbeddingSettings) -> None:
        """Prepare the client. Raises ModelError if an address or a name is missing."""
        chosen = settings.model if "model" in settings.model_fields_set else ""
        self._format: EmbeddingFormat = format_of(settings.provider, chosen)
        self._name = chosen or self._format.model
        base_url = str(settings.base_url or "") or self._format.base_url
        if not self._name or not base_url:
            raise ModelError(f"the provider {settings.provider} needs base_url and model")
        self._base_url = base_url
        self._usd_per_million = settings.usd_per_million_tokens
        self._asked_dimensions = settings.dimensions
        self._batch = self._format.max_texts
        if "batch_size" in settings.model_fields_set:  # its default is the local model's
            self._batch = min(settings.batch_size, self._batch)
        headers = self._format.headers(settings.api_key.get_secret_value()) if settings.api_key else {}
        self._api = ProviderApi(
            base_url,
            headers,
            name="the embedding API",
            reasons=REASONS,
            attempts=ATTEMPTS,
            timeout_seconds=REQUEST_SECONDS,
        )
        self._documents = asyncio.Semaphore(DOCUMENT_REQUESTS)
        self._dimensions = 0
        self._closed = False

    @classmethod
    async def load(cls, settings: EmbeddingSettings) -> Self:
        """Return an embedder after a first call, which tells its dimensions. Raises ModelError."""
        embedder = cls(settings)
        try:
            [vector] = (await embedder._post([["dimensions"]], "query")).vectors
            embedder._dimensions = len(vector)
            if settings.dimensions not in (None, embedder._dimensions):
                raise ModelError(
                    f"{embedder._name} was asked for {settings.dimensions} dimensions and gives "
                    f"{embedder._dimensions}: set dimensions to what it can give"
                )
        except GroundlineError as error:
            await embedder.close()
            raise ModelError(f"{settings.provider}: {error.message}") from error
        except BaseException:
            await embedder.close()
            raise
        return embedder

    @property
    def model(self) -> str:
        """Name of the model, with the dimensions if they were asked for: vectors of other lengths are not
        comparable."""
        return self._name if self._asked_dimensions is None else f"{self._name}@{self._asked_dimensions}"

    @property
    def dimensions(self) -> int:
        return self._dimensions

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Estimate the tokens of each text: words and signs, long words in pieces."""
        return [
            sum(math.ceil(len(word) / _CHARACTERS_OF_A_TOKEN) for word in _WORDS.findall(text))
            for text in texts
        ]

    def cost(self, tokens: int) -> float | None:
        """Return the price of tokens by the settings, else by what the provider publishes."""
        return None if self._usd_per_token is None else tokens * self._usd_per_token

    @cached_property
    def _usd_per_token(self) -> float | None:
        if self._usd_per_million is not None:
            return self._usd_per_million / 1_000_000
        if self._format.prices_id is None:
            return None
        address = None if self._base_url == self._format.base_url else self._base_url
        cost = published_cost(
            self._name, provider=self._format.prices_id, base_url=address, prompt_tokens=1_000_000
        )
        return None if cost is None else cost / 1_000_000

    async def embed_query(self, text: str) -> Vectors:
        row: Vectors = (await self._embed([[text]], "query"))[0]
        return row

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        return await self.embed_windows([(text,) for text in texts])

    def windows(self, chunks: Sequence[str]) -> list[Sequence[str]]:
        """Cut a document into windows of as many chunks as the model reads together, from its beginning."""
        if self._format.window_bytes is None:
            return [(chunk,) for chunk in chunks]
        sizes = [self._size_bytes(chunk) for chunk in chunks]
        windows: list[Sequence[str]] = []
        start, size = 0, 0
        for index, added in enumerate(sizes):
            count = index - start
            if count and (count == self._format.max_texts or size + added > self._format.window_bytes):
                windows.append(chunks[start:index])
                start, size = index, 0
            size += added
        return [*windows, chunks[start:]] if chunks else []

    async def embed_windows(self, windows: Sequence[Sequence[str]]) -> Vectors:
        self._require_open()
        if not windows:
            return np.empty((0, self._dimensions), np.float32)

        async def embedded(batch: Sequence[Sequence[str]]) -> Vectors:
            async with self._documents:
                return await self._embed(batch, "document")

        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(embedded(batch)) for batch in self._batches(windows)]
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None  # as itself, since whoever asks may try again
        return np.concatenate([task.result() for task in tasks])

    async def close(self) -> None:
        self._closed = True
        await self._api.close()

    def _require_open(self) -> None:
        if self._closed:
            raise RuntimeError("the embedder is closed")

    def _size_bytes(self, text: str) -> int:
        """Return the size of what is sent of a text."""
        return len(text[: self._format.max_characters].encode(errors="surrogatepass"))

    def _batches(self, windows: Sequence[Sequence[str]]) -> Iterator[list[Sequence[str]]]:
        """Yield the windows in groups that fit into one request; a window of more texts than that is one."""
        batch: list[Sequence[str]] = []
        count = size = 0
        for window in windows:
            if self._format.window_bytes is None:
                length, limit = sum(self._length(text) for text in window), MAX_REQUEST_CHARACTERS
            else:
                length, limit = sum(map(self._size_bytes, window)), self._format.window_bytes
            if batch and (count + len(window) > self._batch or size + length > limit):
                yield batch
                batch, count, size = [], 0, 0
            batch.append(window)
            count += len(window)
            size += length
        yield batch

    def _length(self, text: str) -> int:
        return min(len(text), self._format.max_characters)

    async def _embed(self, windows: Sequence[Sequence[str]], purpose: Purpose) -> Vectors:
        """Return unit vectors of windows that fit into one request."""
        self._require_open()
        given = [
            [text[: self._format.max_characters] if text.strip() else BLANK for text in window]
            for window in windows
        ]
        answer = await self._post(given, purpose)
        try:
            vectors = np.array(answer.vectors, np.float32)
        except (TypeError, ValueError):
            raise self._malformed() from None
        expected = (sum(map(len, windows)), self._dimensions)
        if vectors.shape != expected or not np.isfinite(vectors).all():
            raise self._malformed()
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not lengths.all():
            raise self._malformed()
        unit: Vectors = vectors / lengths
        return unit

    async def _post(self, windows: Sequence[Sequence[str]], purpose: Purpose) -> EmbeddingReply:
        request = self._format.windows_request(self._name, windows, purpose, self._asked_dimensions)
        body = await self._api.post(request.path, request.body)
        answer = self._answer(body, [len(each) for each in windows])
        tokens = answer.tokens or sum(self.count_tokens([text for window in windows for text in window]))
        # A list of prices is read at the first call.
        cost = await asyncio.to_thread(self.cost, tokens)
        charge(chat_pb2.Usage(embedding_tokens=tokens, cost_usd=cost))
        if answer.tokens:
            EMBEDDED_TOKENS.add(answer.tokens, {"gen_ai.request.model": self._name})
        return answer

    def _answer(self, body: Any, sizes: Sequence[int]) -> EmbeddingReply:
        try:
            answer = self._format.answer(body)
            if len(answer.vectors) != sum(sizes) or answer.window_sizes not in (None, sizes):
                raise ValueError("not one vector for each text")
        except (AttributeError, KeyError, TypeError, ValueError):
            raise self._malformed() from None
        return answer

    def _malformed(self) -> InternalError:
        return self._api.malformed("one vector for each text")
