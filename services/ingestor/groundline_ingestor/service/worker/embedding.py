"""Embedding with a cache: a text that was embedded before is not embedded again."""

import asyncio
from collections.abc import Sequence
from typing import Final

import numpy as np
from cachetools import LRUCache
from groundline_embedding import Embedder
from groundline_indexing.hashes import content_hash
from groundline_indexing.texts import Vectors

from groundline_ingestor.adapters.postgres.embeddings import PostgresEmbeddingCache

__all__ = ["GROUP_CHUNKS", "RememberingEmbedder"]

GROUP_CHUNKS: Final = 256
"""Chunks that are embedded together: enough for the embedder to batch by length, and few enough to store
meanwhile."""


class RememberingEmbedder:
    """Vectors of an Embedder in half precision, as they are stored; through the process's memory, then the
    cache of the database."""

    def __init__(self, embedder: Embedder, cache: PostgresEmbeddingCache | None, *, remembered: int) -> None:
        """Take embedder and cache. `remembered`: maximum vectors kept in memory. Without a cache every text
        is embedded."""
        self.embedder = embedder
        self._cache = cache
        self._memory: LRUCache[bytes, Vectors] = LRUCache(remembered)

    async def embed(self, texts: Sequence[str]) -> tuple[Vectors, Sequence[bool]]:
        """Return float16 of shape (len(texts), dimensions), and for each text whether the model read it.

        Raises the errors of the Embedder and the cache.
        """
        if not texts:
            return np.empty((0, self.embedder.dimensions), np.float16), ()
        if self._cache is None:
            return (await self.embedder.embed_documents(texts)).astype(np.float16), [True] * len(texts)
        hashes = await asyncio.to_thread(lambda: [content_hash(text) for text in texts])
        known = {key: self._memory[key] for key in hashes if key in self._memory}
        if unknown := list(dict.fromkeys(key for key in hashes if key not in known)):
            known |= await self._cache.get(self.embedder.model, unknown)
        new = {key: text for key, text in zip(hashes, texts, strict=True) if key not in known}
        if new:
            vectors = (await self.embedder.embed_documents(list(new.values()))).astype(np.float16)
            made: dict[bytes, Vectors] = dict(zip(new, vectors, strict=True))
            await self._cache.put(self.embedder.model, made)
            known |= made
        if self._memory.maxsize:
            self._memory.update(known)
        vectors_of_all = np.stack([known[key] for key in hashes]).astype(np.float16, copy=False)
        return vectors_of_all, [new.pop(key, None) is not None for key in hashes]
