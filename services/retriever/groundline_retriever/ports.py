"""Ports of the retriever."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from groundline.v1 import options_pb2, reranker_service_pb2, retriever_service_pb2
from groundline_embedding.ports import Vectors
from groundline_filters import FacetField, Path

from groundline_retriever.domain import Hits, IndexedCollection, Selection
from groundline_retriever.passages import FetchedChunk, Wanted


class QueryEmbedder(Protocol):
    """Part of the Embedder port that searching needs."""

    @property
    def model(self) -> str: ...

    @property
    def dimensions(self) -> int: ...

    def cost(self, tokens: int) -> float | None: ...

    async def embed_query(self, text: str) -> Vectors: ...


class ChunkStore(Protocol):
    """Store of collections and chunks. `principals` are the caller's; every method sees only what they may
    read.

    Raises UnavailableError if the database is out of reach.
    """

    async def collections(
        self,
        collection_ids: Sequence[str],
        principals: Sequence[str],
        index: options_pb2.IndexChoice.ValueType = options_pb2.INDEX_CHOICE_CURRENT,
    ) -> Sequence[IndexedCollection]:
        """Return the collections named that exist, may be read and have such an index, or all such where none
        is named."""

    async def collections_as_of(
        self, collections: Sequence[IndexedCollection], as_of: datetime, *, are_named: bool
    ) -> Sequence[IndexedCollection]:
        """Return the partitions in which chunks of the collections may be that were current at a time: of
        those that are named, or else of those whose past reaches back so far.

        Raises InvalidArgumentError for a time that is not in the searchable past of one that is named, or
        of any.
        """

    async def fetch_as_of(
        self,
        wanted: Sequence[Wanted],
        principals: Sequence[str],
        as_of: datetime,
        searched: Sequence[IndexedCollection],
    ) -> Sequence[FetchedChunk]:
        """Return the chunks that were current at a time, as `fetch` does, each with its place in the revision
        of then. Left out are documents that the principals may not read now, and revisions that they might
        not read. `searched`: the partitions that collections_as_of returned."""

    async def fetch(
        self,
        wanted: Sequence[Wanted],
        principals: Sequence[str],
        index: options_pb2.IndexChoice.ValueType = options_pb2.INDEX_CHOICE_CURRENT,
    ) -> Sequence[FetchedChunk]:
        """Return the chunks that exist in such an index of collections that the principals may read, in any
        order, each with the adjacent chunks that are wanted. Of an index that is not in use, the chunks of
        documents that were changed since are left out.
        """

    async def revision_texts(
        self, spans: Sequence[retriever_service_pb2.RevisionSpan], principals: Sequence[str]
    ) -> Sequence[retriever_service_pb2.RevisionText]:
        """Return the texts of the spans that exist and that the principals may read, in any order."""

    async def facets(
        self,
        collection_ids: Sequence[str],
        fields: Sequence[Path | FacetField],
        selection: Selection,
        *,
        limit: int,
    ) -> Sequence[retriever_service_pb2.Facet]:
        """Return for each field, in their order, how many documents of the collections have each value, of
        those that are selected and may be read; the `limit` most frequent values."""


class Reranker(Protocol):
    """Client of models that score texts. Raises GroundlineError if it does not answer."""

    async def rerank(
        self, request: reranker_service_pb2.RerankRequest
    ) -> reranker_service_pb2.RerankResponse: ...


class SearchIndex(Protocol):
    """Index of chunks: the store itself, or an engine beside it whose proposals the store decides about. An
    arm's hits exist, are selected and may be read by the selection's principals, however late the index is;
    it may say that some are missing.

    Raises UnavailableError if the database or the engine is out of reach.
    """

    async def keyword(
        self, collections: Sequence[IndexedCollection], query: str, *, limit: int, selection: Selection
    ) -> Hits:
        """Return the best by BM25, at most `limit`, of each index; a query without a known word finds
        nothing.

        Indexes that may have lost chunks are left out.

        Raises FailedPreconditionError if a collection was indexed by another lexical backend.
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
        """Return the nearest by cosine similarity of each index: `limit` of them if the selection has as
        many.

        Without `ef_search` each index is searched with the list that its size needs. With ITERATIVE_SCAN_OFF
        it may be fewer.
        """
