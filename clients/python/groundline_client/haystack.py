"""Haystack: a retriever component. Needs the extra `haystack`.

It works blocking and with asyncio; every refusal of the gateway is raised as GatewayError.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from haystack import Document, component, default_from_dict, default_to_dict
from haystack.utils import Secret

from groundline_client.framework import Connection, chunk_of, metadata_of, options_json, search_options
from groundline_client.json_form import JsonObject
from groundline_client.models import Passage, SearchOptions, SearchResponse

__all__ = ["GroundlineRetriever", "condition_of"]

_COMPARISONS: Final = {
    "==": "$eq",
    "!=": "$ne",
    ">": "$gt",
    ">=": "$gte",
    "<": "$lt",
    "<=": "$lte",
    "in": "$in",
    "not in": "$nin",
}
_COMBINATIONS: Final = {"AND": "$and", "OR": "$or"}


@component
class GroundlineRetriever:
    """Passages of a gateway's collections, best first, as documents.

    A document's id is its chunk's; its meta is the ingested document's, with `uri`, `title`, ids and offsets.
    """

    def __init__(
        self,
        gateway: str,
        *,
        api_key: Secret = Secret.from_env_var("GROUNDLINE_API_KEY"),  # noqa: B008 (Haystack's convention)
        collection_ids: Sequence[str] = (),
        filters: dict[str, Any] | None = None,
        top_k: int | None = None,
        options: SearchOptions | JsonObject | None = None,
        timeout_seconds: float | None = None,
    ) -> None:
        """Connect to a gateway. `filters` are Haystack's, on fields of meta; without `top_k` the collection's
        default holds."""
        self.gateway = gateway
        self.api_key = api_key
        self.collection_ids = list(collection_ids)
        self.filters = filters
        self.top_k = top_k
        self.options = options_json(options)
        self.timeout_seconds = timeout_seconds

    @component.output_types(documents=list[Document])
    def run(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, list[Document]]:
        """Search. `filters` and `top_k` are used instead of the component's own."""
        return _documents(self._connection.client.search(query, **self._arguments(filters, top_k)))

    @component.output_types(documents=list[Document])
    async def run_async(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, list[Document]]:
        """Search. `filters` and `top_k` are used instead of the component's own."""
        return _documents(
            await self._connection.async_client.search(query, **self._arguments(filters, top_k))
        )

    def close(self) -> None:
        """Close the connections of blocking calls."""
        self._connection.close()

    async def close_async(self) -> None:
        """Close the connections of the running event loop."""
        await self._connection.aclose()

    def to_dict(self) -> dict[str, Any]:
        """Serialise the component for a pipeline; the key is named, not shown."""
        return default_to_dict(
            self,
            gateway=self.gateway,
            api_key=self.api_key.to_dict(),
            collection_ids=self.collection_ids,
            filters=self.filters,
            top_k=self.top_k,
            options=self.options,
            timeout_seconds=self.timeout_seconds,
        )

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "GroundlineRetriever":
        """Restore the component of a serialised pipeline."""
        parameters = data["init_parameters"]
        parameters["api_key"] = Secret.from_dict(parameters["api_key"])
        return default_from_dict(cls, data)

    @cached_property
    def _connection(self) -> Connection:
        return Connection(self.gateway, self.api_key.resolve_value() or "", self.timeout_seconds)

    def _arguments(self, filters: dict[str, Any] | None, top_k: int | None) -> dict[str, Any]:
        chosen = self.filters if filters is None else filters
        return {
            "collection_ids": self.collection_ids,
            "filter": condition_of(chosen) if chosen else None,
            "options": search_options(self.options, self.top_k if top_k is None else top_k),
        }


def condition_of(filters: Mapping[str, Any]) -> JsonObject:
    """Return Haystack's filters as the condition of POST /api/search. Raises ValueError for invalid ones.

    The prefix `meta.` of a field is optional.
    """
    operator = filters.get("operator")
    if operator in _COMPARISONS and isinstance(field := filters.get("field"), str) and "value" in filters:
        return {field.removeprefix("meta."): {_COMPARISONS[operator]: filters["value"]}}
    conditions = filters.get("conditions")
    if isinstance(conditions, Sequence) and not isinstance(conditions, str):
        combined = [condition_of(one) for one in conditions]
        if operator in _COMBINATIONS:
            return {_COMBINATIONS[operator]: combined}
        if operator == "NOT":
            return {"$not": {"$and": combined}}
    raise ValueError(f"not a filter of Haystack, or one with an operator that is not known: {dict(filters)}")


def _documents(found: SearchResponse) -> dict[str, list[Document]]:
    return {"documents": [_document(passage) for passage in found.passages]}


def _document(passage: Passage) -> Document:
    chunk = chunk_of(passage)
    return Document(id=chunk.chunk_id, content=chunk.text, meta=metadata_of(passage), score=passage.score)
