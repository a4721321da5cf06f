"""The port to an embedding model."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

# Takes 12 MB, also where nothing but settings is wanted.
if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

type Vectors = NDArray[np.float32]


class Embedder(Protocol):
    """A model that turns text into unit vectors whose dot product is their cosine similarity.

    Queries do not queue behind documents. After `close` both methods raise RuntimeError.
    """

    @property
    def model(self) -> str:
        """Stable name of the model; stored with a collection, whose vectors only this model can search."""

    @property
    def dimensions(self) -> int:
        """Length of every vector."""

    @property
    def max_tokens(self) -> int | None:
        """Maximum tokens read at once, special tokens included. The rest of a query is ignored; of a longer
        document every part counts if the provider supports it. None: no limit."""

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of each whole text, without special tokens; those beyond `max_tokens` count too.

        An estimate if the model's tokenizer is out of reach. CPU work, safe in any thread.
        """

    def cost(self, tokens: int) -> float | None:
        """Return the price of embedding as many tokens, in US dollars: 0 of a local model, None if it is not
        known. Reads a list of prices at first, so not for the event loop."""

    async def embed_query(self, text: str) -> Vectors:
        """Embed a search query: float32 of shape (dimensions,), unit length."""

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Embed passages: float32 of shape (len(texts), dimensions), unit length, in the order given."""

    def windows(self, chunks: Sequence[str]) -> list[Sequence[str]]:
        """Cut the chunks of a document, in their order, into windows: a vector depends on the chunk and on
        those in its window. A model that reads each text alone has windows of one.

        The same chunks have the same windows in every process, whatever its settings of resources. CPU work,
        safe in any thread.
        """

    async def embed_windows(self, windows: Sequence[Sequence[str]]) -> Vectors:
        """Embed the chunks of windows: float32 of shape (number of chunks, dimensions), unit length, in the
        order given. A window of one has the vector that `embed_documents` gives."""

    async def close(self) -> None:
        """Wait for the work under way and release the model. May be called again."""


class ReadsTextsAlone(ABC):
    """Windows of an Embedder whose vectors depend on no other text."""

    @abstractmethod
    async def embed_documents(self, texts: Sequence[str]) -> Vectors: ...

    def windows(self, chunks: Sequence[str]) -> list[Sequence[str]]:
        return [(chunk,) for chunk in chunks]

    async def embed_windows(self, windows: Sequence[Sequence[str]]) -> Vectors:
        return await self.embed_documents([chunk for window in windows for chunk in window])
