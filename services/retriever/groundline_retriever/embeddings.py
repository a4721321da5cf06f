"""Query vectors, remembered."""

from collections import OrderedDict

from groundline_embedding.ports import Vectors

from groundline_retriever.ports import QueryEmbedder

__all__ = ["QueryVectors"]


class QueryVectors:
    """An embedder of queries that keeps the vectors of the last `size` of them; 0 keeps none."""

    def __init__(self, embedder: QueryEmbedder, size: int) -> None:
        self._embedder = embedder
        self._size = size
        self._kept: OrderedDict[str, Vectors] = OrderedDict()

    @property
    def model(self) -> str:
        return self._embedder.model

    @property
    def dimensions(self) -> int:
        return self._embedder.dimensions

    async def embed_query(self, text: str) -> Vectors:
        known = self._kept.get(text)
        if known is not None:
            self._kept.move_to_end(text)
            return known
        vector = await self._embedder.embed_query(text)
        self._kept[text] = vector
        while len(self._kept) > self._size:
            self._kept.popitem(last=False)
        return vector
