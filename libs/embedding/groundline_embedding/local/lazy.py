"""A local model that is loaded when it is first used."""

import asyncio
import threading
from collections.abc import Sequence

from groundline_embedding.local.catalog import KnownModel
from groundline_embedding.local.embedder import LocalEmbedder
from groundline_embedding.ports import Vectors
from groundline_embedding.settings import EmbeddingSettings

__all__ = ["LazyEmbedder"]


class LazyEmbedder:
    """An Embedder that takes neither memory nor time before a text comes. Its methods raise ModelError where
    the model cannot be loaded."""

    def __init__(self, known: KnownModel, settings: EmbeddingSettings) -> None:
        """Take a model of the catalog, and the settings to load it with."""
        self.model = known.name
        self.dimensions = known.dimensions
        self.max_tokens: int | None = known.max_tokens
        self._settings = settings
        self._loading = threading.Lock()
        self._loaded: LocalEmbedder | None = None
        self._is_closed = False

    async def load(self) -> LocalEmbedder:
        """Load the model unless it is there, and return it."""
        if self._loaded is not None:
            return self._loaded
        return await asyncio.to_thread(self._load)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return self._load().count_tokens(texts)

    async def embed_query(self, text: str) -> Vectors:
        return await (await self.load()).embed_query(text)

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        return await (await self.load()).embed_documents(texts)

    async def close(self) -> None:
        self._is_closed = True
        if self._loaded is not None:
            await self._loaded.close()

    def _load(self) -> LocalEmbedder:
        with self._loading:
            if self._is_closed:
                raise RuntimeError(f"{self.model} was closed")
            if self._loaded is None:
                self._loaded = LocalEmbedder.load(self._settings)
            return self._loaded
