"""Embedding with a cache: a text that was embedded before is not embedded again."""

import asyncio
import hashlib
from collections.abc import Sequence
from typing import Final

import numpy as np
from cachetools import LRUCache
from groundline_embedding import Embedder, Embedders
from groundline_indexing.hashes import content_hash
from groundline_indexing.texts import Vectors
from groundline_runtime.metrics.common import count_lookups

from groundline_ingestor.adapters.postgres.embeddings import PostgresEmbeddingCache

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

    async def embed(
        self, embedder: Embedder, documents: Sequence[Sequence[str]]
    ) -> tuple[Vectors, Sequence[bool]]:
        """Embed the chunks of documents, or of parts of them, with one of the embedders: return float16 of
        shape (number of chunks, dimensions), and for each chunk whether the model read it.

        A window is embedded again if one of its vectors is not known. Raises the errors of the Embedder and
        the cache.
        """
        cut, hashes = await asyncio.to_thread(_keyed_windows, embedder, documents)
        if not cut:
            return np.empty((0, embedder.dimensions), np.float16), ()
        if self._cache is None:
            vectors = (await embedder.embed_windows(cut)).astype(np.float16)
            return vectors, [True] * len(vectors)
        all_keys = [key for keys in hashes for key in keys]
        remembered = ((key, self._memory.get((embedder.model, key))) for key in all_keys)
        known = {key: vector for key, vector in remembered if vector is not None}
        if unknown := list(dict.fromkeys(key for key in all_keys if key not in known)):
            known |= await self._cache.get(embedder.model, unknown)
        new = {
            keys: window
            for keys, window in zip(hashes, cut, strict=True)
            if not all(key in known for key in keys)
        }
        misses = sum(map(len, new))
        count_lookups("chunk_vectors", hits=len(all_keys) - misses, misses=misses)
        if new:
            vectors = (await embedder.embed_windows(list(new.values()))).astype(np.float16)
            new_keys = (key for keys in new for key in keys)
            made: dict[bytes, Vectors] = dict(zip(new_keys, vectors, strict=True))
            await self._cache.put(embedder.model, made)
            known |= made
        if self._memory.maxsize:
            self._memory.update({(embedder.model, key): vector for key, vector in known.items()})
        vectors_of_all = np.stack([known[key] for key in all_keys]).astype(np.float16, copy=False)
        read: list[bool] = []
        for keys in hashes:
            read += [new.pop(keys, None) is not None] * len(keys)
        return vectors_of_all, read


def _keyed_windows(
    embedder: Embedder, documents: Sequence[Sequence[str]]
) -> tuple[list[Sequence[str]], list[tuple[bytes, ...]]]:
    """Return the windows of documents, and the cache keys of the chunks of each: the text's hash, in a window
    of several followed by a hash of the window and the place in it. Deletion finds both by the first."""
    cut = [window for document in documents for window in embedder.windows(document)]
    keys: list[tuple[bytes, ...]] = []
    for window in cut:
        own = [content_hash(text) for text in window]
        if len(own) > 1:
            whole = b"".join(own)
            places = (hashlib.sha256(whole + index.to_bytes(4)).digest() for index in range(len(own)))
            own = [text + place for text, place in zip(own, places, strict=True)]
        keys.append(tuple(own))
    return cut, keys
