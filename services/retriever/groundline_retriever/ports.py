"""What retrieval asks of the outside."""

from collections.abc import Sequence
from typing import Protocol

from groundline.v1 import candidate_pb2, options_pb2
from groundline_embedding.ports import Vectors

from groundline_retriever.domain import Hits, IndexedCollection, Selection

__all__ = ["ChunkStore", "QueryEmbedder", "SearchIndex"]


class QueryEmbedder(Protocol):
    """The part of the Embedder port that searching needs."""

    @property
    def model(self) -> str: ...

    @property
    def dimensions(self) -> int: ...

    async def embed_query(self, text: str) -> Vectors: ...


class ChunkStore(Protocol):
    """Where collections and chunks are. `principals` are the caller's; every method sees only what they may
    read.

    Raises UnavailableError where the database is out of reach.
    """

    async def collections(
        self, collection_ids: Sequence[str], principals: Sequence[str]
    ) -> Sequence[IndexedCollection]:
        """Those of the collections named that exist and may be read, or all such where none is named."""

    async def fetch(
        self, selections: Sequence[candidate_pb2.CollectionChunks], principals: Sequence[str]
    ) -> Sequence[candidate_pb2.FetchedChunk]:
        """The chunks that exist in collections that the principals may read, in any order, each with the
        adjacent chunks that its selection asks for.
        """


class SearchIndex(Protocol):
    """Where chunks are searched: the store itself, or an engine beside it whose proposals the store decides
    about. What an arm finds exists, is selected and may be read by the selection's principals, however late
    the index is; of that it may say that it lacks something.

    Raises UnavailableError where the database or the engine is out of reach.
    """

    async def keyword(
        self, collections: Sequence[IndexedCollection], query: str, *, limit: int, selection: Selection
    ) -> Hits:
        """The best by BM25, at most `limit`, of each index; a query without a known word finds nothing.

        Indexes that may have lost chunks are left out.

        Raises FailedPreconditionError where a collection was indexed by another lexical backend.
        """

    async def semantic(
        self,
        collections: Sequence[IndexedCollection],
        vector: Vectors,
        *,
        limit: int,
        ef_search: int | None,
        iterative_scan: options_pb2.IterativeScan.ValueType,
        selection: Selection,
    ) -> Hits:
        """The nearest by cosine similarity of each index: `limit` of them if the selection has as many.

        Without `ef_search` each index is searched with the list that its size needs. With ITERATIVE_SCAN_OFF
        it may be fewer.
        """
