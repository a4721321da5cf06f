"""What retrieval asks of the outside."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from groundline_embedding.ports import Vectors

from groundline_retriever.domain import Chunk, Collection, Hit, IterativeScan, Selection

__all__ = ["ChunkStore", "EncodedVector", "QueryEmbedder"]

type EncodedVector = object
"""A query vector as the store wants it; made once per query by ChunkStore.encode."""


class QueryEmbedder(Protocol):
    """The part of the Embedder port that searching needs."""

    @property
    def model(self) -> str: ...

    @property
    def dimensions(self) -> int: ...

    async def embed_query(self, text: str) -> Vectors: ...


class ChunkStore(Protocol):
    """Where chunks are searched. `principals` are the caller's; every method sees only what they may read.

    Raises UnavailableError where the database is out of reach.
    """

    async def collections(
        self, collection_ids: Sequence[str], principals: Sequence[str]
    ) -> Sequence[Collection]:
        """Those of the collections named that exist and may be read, or all such where none is named."""

    async def keyword(
        self,
        collection: Collection,
        query: str,
        *,
        limit: int,
        selection: Selection,
        include_vectors: bool,
    ) -> Sequence[Hit]:
        """The best by BM25, at most `limit`; a query without a known word finds nothing.

        Raises FailedPreconditionError where the collection was indexed by another lexical backend.
        """

    def encode(self, vector: Vectors) -> EncodedVector: ...

    async def semantic(
        self,
        collection: Collection,
        vector: EncodedVector,
        *,
        limit: int,
        ef_search: int,
        iterative_scan: IterativeScan,
        selection: Selection,
        include_vectors: bool,
    ) -> Sequence[Hit]:
        """The nearest by cosine similarity: `limit` of them if the selection has as many.

        With IterativeScan.OFF it may be fewer.
        """

    async def neighbours(
        self, collection: Collection, hits: Sequence[Chunk], *, distance: int, principals: Sequence[str]
    ) -> Mapping[int, Sequence[Chunk]]:
        """By chunk id of the hit: the chunks of its document at most `distance` before or after it."""
