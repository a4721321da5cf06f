"""A local model that is loaded when it is used, and given up when it is not."""

import asyncio
import ctypes
import gc
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Final

from groundline_embedding.local.catalog import KnownModel
from groundline_embedding.ports import ReadsTextsAlone, Vectors
from groundline_embedding.settings import EmbeddingSettings

if TYPE_CHECKING:
    from groundline_embedding.local.embedder import LocalEmbedder

IDLE_SECONDS: Final = 600.0
"""Time without a text after which a model is given up, in seconds. It is loaded again within some 0.1 s."""

_LOOKS: Final = 10
"""Number of times that it is looked for while that passes."""


class LazyEmbedder(ReadsTextsAlone):
    """An Embedder that takes neither memory nor time while no text comes. Its methods raise ModelError where
    the model cannot be loaded."""

    def __init__(
        self, known: KnownModel, settings: EmbeddingSettings, *, idle_seconds: float = IDLE_SECONDS
    ) -> None:
        """Take a model of the catalog, and the settings to load it with."""
        self.model = known.name
        self.dimensions = known.dimensions
        self.max_tokens: int | None = known.max_tokens
        self._settings = settings
        self._idle_seconds = idle_seconds
        self._lock = threading.Lock()
        self._loaded: LocalEmbedder | None = None
        self._uses = 0
        self._used_at = 0.0
        self._watch: asyncio.Task[None] | None = None
        self._is_closed = False

    @property
    def is_loaded(self) -> bool:
        """Whether it takes memory now."""
        return self._loaded is not None

    async def load(self) -> None:
        """Load the model unless it is there."""
        async with self._using():
            pass

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        with self._used() as loaded:
            return loaded.count_tokens(texts)

    def cost(self, tokens: int) -> float:
        return 0.0

    async def embed_query(self, text: str) -> Vectors:
        async with self._using() as loaded:
            return await loaded.embed_query(text)

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        async with self._using() as loaded:
            return await loaded.embed_documents(texts)

    async def close(self) -> None:
        self._is_closed = True
        if self._watch is not None:
            self._watch.cancel()
        if self._loaded is not None:
            await self._loaded.close()

    @asynccontextmanager
    async def _using(self) -> AsyncIterator["LocalEmbedder"]:
        if self._loaded is None:
            # Takes longer than the event loop may wait. Not counted as a use: a cancelled one would not end.
            await asyncio.to_thread(self._load)
        with self._used() as loaded:
            if self._watch is None or self._watch.done():
                self._watch = asyncio.create_task(self._give_up_when_idle())
            yield loaded

    @contextmanager
    def _used(self) -> Iterator["LocalEmbedder"]:
        with self._lock:
            loaded = self._loaded_now()
            self._uses += 1
        try:
            yield loaded
        finally:
            with self._lock:
                self._uses -= 1
                self._used_at = time.monotonic()

    def _load(self) -> None:
        with self._lock:
            self._loaded_now()
            self._used_at = time.monotonic()

    def _loaded_now(self) -> "LocalEmbedder":
        """Return the model, which is loaded unless it is there; the lock is held."""
        if self._is_closed:
            raise RuntimeError(f"{self.model} was closed")
        if self._loaded is None:
            # Its libraries take 22 MB.
            from groundline_embedding.local.embedder import LocalEmbedder

            self._loaded = LocalEmbedder.load(self._settings)
        return self._loaded

    async def _give_up_when_idle(self) -> None:
        while self._loaded is not None:
            await asyncio.sleep(self._idle_seconds / _LOOKS)
            idle = self._taken_if_idle()
            if idle is not None:
                await idle.close()
                del idle
                await asyncio.to_thread(_return_memory)

    def _taken_if_idle(self) -> "LocalEmbedder | None":
        """Return the model if it was not used for long, and give it up; None otherwise."""
        with self._lock:
            if self._uses or time.monotonic() - self._used_at < self._idle_seconds:
                return None
            idle, self._loaded = self._loaded, None
            return idle


def _return_memory() -> None:
    """Return to the system what the process has freed, where the C library can."""
    gc.collect()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
