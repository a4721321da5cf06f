"""An embedder for unit tests: deterministic, instant, and close for texts that share words."""

import hashlib
import re
from collections.abc import Sequence

import numpy as np
from groundline_embedding.ports import ReadsTextsAlone, Vectors


class FakeEmbedder(ReadsTextsAlone):
    """Feature hashing of a bag of words: each word counts at the index that its hash gives.

    The same words, in whatever order and case, have the same vector in every process. Reads the first
    `max_tokens` words.
    """

    def __init__(
        self, model: str = "groundline/fake-bag-of-words", dimensions: int = 256, max_tokens: int = 256
    ) -> None:
        self.model = model
        self.dimensions = dimensions
        self.max_tokens = max_tokens
        self._closed = False

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [len(_words(text)) for text in texts]

    def cost(self, tokens: int) -> float | None:
        return 0.0

    async def embed_query(self, text: str) -> Vectors:
        return self._embed(text)

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        vectors = np.empty((len(texts), self.dimensions), np.float32)
        for row, text in enumerate(texts):
            vectors[row] = self._embed(text)
        return vectors

    async def close(self) -> None:
        self._closed = True

    def _embed(self, text: str) -> Vectors:
        if self._closed:
            raise RuntimeError("the embedder is closed")
        vector = np.zeros(self.dimensions, np.float32)
        for word in _words(text)[: self.max_tokens]:
            digest = hashlib.blake2b(word.encode(), digest_size=8).digest()
            vector[int.from_bytes(digest) % self.dimensions] += 1
        if not vector.any():
            vector[0] = 1  # a text without words also has a vector of length 1
        return vector / np.linalg.norm(vector)


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())
