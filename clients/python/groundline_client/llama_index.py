"""LlamaIndex: a retriever. Needs the extra `llama-index`.

It works blocking and with asyncio; every refusal of the gateway is raised as GatewayError.
"""

from collections.abc import Sequence
from typing import Any, Final

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.callbacks import CallbackManager
from llama_index.core.schema import (
    NodeRelationship,
    NodeWithScore,
    QueryBundle,
    RelatedNodeInfo,
    TextNode,
)

from groundline_client.framework import Connection, chunk_of, metadata_of, search_options
from groundline_client.json_form import JsonObject
from groundline_client.models import Passage, SearchOptions, SearchResponse

__all__ = ["GroundlineRetriever"]

# Names of the contract that tell a model something; ids, offsets and scores are for programs.
_FOR_MODELS: Final = frozenset({"uri", "title"})


class GroundlineRetriever(BaseRetriever):
    """Passages of a gateway's collections, best first, as nodes with scores.

    A node's id is its chunk's, its source node the document; its metadata is the ingested document's, with
    `uri`, `title`, ids and offsets. Models see title, uri and the document's own metadata.
    """

    def __init__(
        self,
        gateway: str,
        api_key: str,
        *,
        collection_ids: Sequence[str] = (),
        filter: JsonObject | None = None,  # noqa: A002 (the contract's name)
        top_k: int | None = None,
        options: SearchOptions | JsonObject | None = None,
        timeout_seconds: float | None = None,
        callback_manager: CallbackManager | None = None,
    ) -> None:
        """Connect to a gateway. `filter` is the one of POST /api/search; without `top_k` the collection's
        default holds."""
        super().__init__(callback_manager=callback_manager)
        self._connection = Connection(gateway, api_key, timeout_seconds)
        self._arguments: dict[str, Any] = {
            "collection_ids": collection_ids,
            "filter": filter,
            "options": search_options(options, top_k),
        }

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return _nodes(self._connection.client.search(query_bundle.query_str, **self._arguments))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return _nodes(await self._connection.async_client.search(query_bundle.query_str, **self._arguments))

    def close(self) -> None:
        """Close the connections of blocking calls."""
        self._connection.close()

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        await self._connection.aclose()


def _nodes(found: SearchResponse) -> list[NodeWithScore]:
    return [NodeWithScore(node=_node(passage), score=passage.score) for passage in found.passages]


def _node(passage: Passage) -> TextNode:
    chunk = chunk_of(passage)
    metadata = metadata_of(passage)
    hidden = sorted(set(metadata) - set(chunk.metadata or {}) - _FOR_MODELS)
    return TextNode(
        id_=chunk.chunk_id,
        text=chunk.text,
        metadata=metadata,
        start_char_idx=chunk.start_offset,
        end_char_idx=chunk.end_offset,
        mimetype=chunk.mime_type or "text/plain",
        excluded_llm_metadata_keys=hidden,
        excluded_embed_metadata_keys=hidden,
        relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=chunk.document_id)},
    )
