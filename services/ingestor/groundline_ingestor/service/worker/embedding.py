"""Embedding with a cache: a text that was embedded before is not embedded again."""

import asyncio
from collections.abc import Sequence
from typing import Final

import numpy as np
from cachetools import LRUCache
from groundline_embedding import Embedder, Embedders
from groundline_indexing.hashes import content_hash
from groundline_indexing.texts import Vectors
from groundline_runtime.metrics.common import count_lookups

from groundline_ingestor.adapters.postgres.embeddings import PostgresEmbeddingCache

__all__ = ["GROUP_CHUNKS", "RememberingEmbedder"]

GROUP_CHUNKS: Final = 256
"""Chunks that are embedded together: enough for the embedder to batch by length, and few enough to store
meanwhile."""


class RememberingEmbedder:
    """Vectors of Embedders in half precision, as they are stored; through the process's memory, then the
    cache of the database."""

    def __init__(
        self, embedders: Embedders, cache: PostgresEmbeddingCache | None, *, remembered: int
    ) -> None:
        """Take embedders and cache. `remembered`: maximum vectors kept in memory. Without a cache every text
        is embedded."""
        self.embedders = embedders
        self._cache = cache
        self._memory: LRUCache[tuple[str, bytes], Vectors] = LRUCache(remembered)

    async def embed(self, embedder: Embedder, texts: Sequence[str]) -> tuple[Vectors, Sequence[bool]]:
        """Embed with one of them: return float16 of shape (len(texts), dimensions), and for each text whether
        the model read it.

        Raises the errors of the Embedder and the cache.
        """
        if not texts:
            return np.empty((0, embedder.dimensions), np.float16), ()
        if self._cache is None:
            return (await embedder.embed_documents(texts)).astype(np.float16), [True] * len(texts)
        hashes = await asyncio.to_thread(lambda: [content_hash(text) for text in texts])
        remembered = ((key, self._memory.get((embedder.model, key))) for key in hashes)
        known = {key: vector for key, vector in remembered if vector is not None}
        if unknown := list(dict.fromkeys(key for key in hashes if key not in known)):
            known |= await self._cache.get(embedder.model, unknown)
        new = {key: text for key, text in zip(hashes, texts, strict=True) if key not in known}
        count_lookups("chunk_vectors", hits=len(hashes) - len(new), misses=len(new))
        if new:
            vectors = (await embedder.embed_documents(list(new.values()))).astype(np.float16)
            made: dict[bytes, Vectors] = dict(zip(new, vectors, strict=True))
            await self._cache.put(embedder.model, made)
            known |= made
        if self._memory.maxsize:
            self._memory.update({(embedder.model, key): vector for key, vector in known.items()})
        vectors_of_all = np.stack([known[key] for key in hashes]).astype(np.float16, copy=False)
        return vectors_of_all, [new.pop(key, None) is not None for key in hashes]
