"""Shared parts of the adapters langchain.py, llama_index.py and haystack.py."""

import asyncio
import threading
from collections.abc import Mapping
from dataclasses import is_dataclass
from typing import Any
from weakref import WeakKeyDictionary

from groundline_client.async_client import AsyncClient
from groundline_client.json_form import JsonObject, to_json
from groundline_client.models import Chunk, Passage, SearchOptions
from groundline_client.sync_client import Client
from groundline_client.transport.messages import present

__all__ = ["Connection", "chunk_of", "metadata_of", "options_json", "search_options"]


class Connection:
    """Clients of one gateway, made at first use, since a framework says neither when nor in which event loop
    it will call, and kept for later calls."""

    def __init__(self, gateway: str, api_key: str, timeout_seconds: float | None = None) -> None:
        self._gateway = gateway
        self._api_key = api_key
        self._timeout_seconds = timeout_seconds
        self._client: Client | None = None
        # A pooled connection belongs to the event loop that opened it.
        self._async_clients: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncClient] = WeakKeyDictionary()
        self._lock = threading.Lock()

    @property
    def client(self) -> Client:
        with self._lock:
            if self._client is None:
                self._client = Client(self._gateway, self._api_key, timeout_seconds=self._timeout_seconds)
            return self._client

    @property
    def async_client(self) -> AsyncClient:
        """Client of the running event loop."""
        loop = asyncio.get_running_loop()
        with self._lock:
            found = self._async_clients.get(loop)
            if found is None:
                found = AsyncClient(self._gateway, self._api_key, timeout_seconds=self._timeout_seconds)
                self._async_clients[loop] = found
            return found

    def close(self) -> None:
        """Close the connections of blocking calls."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        with self._lock:
            client = self._async_clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()


def options_json(options: Any) -> JsonObject:
    """Return options, given as a model, as JSON or not at all, as JSON that may be changed."""
    if options is None:
        return {}
    given = to_json(options, omit_defaults=True) if is_dataclass(options) else options
    return {name: dict(value) if isinstance(value, Mapping) else value for name, value in given.items()}


def search_options(options: SearchOptions | JsonObject | None, top_k: int | None) -> JsonObject:
    """Return the options of a search; `top_k` replaces theirs if given."""
    found = options_json(options)
    if top_k is not None:
        found["rerank"] = {**found.get("rerank", {}), "topK": top_k}
    return found


def chunk_of(passage: Passage) -> Chunk:
    """Return the passage's chunk. Raises ProtocolError if it is missing."""
    return present(passage.chunk, "chunk")


def metadata_of(passage: Passage) -> dict[str, Any]:
    """Return the metadata of a passage's document, and its other fields under the contract's names.

    The contract's names win over metadata of the same name. All values are JSON.
    """
    chunk = chunk_of(passage)
    known: dict[str, Any] = {
        "uri": chunk.uri,
        "title": chunk.title,
        "collection_id": chunk.collection_id,
        "document_id": chunk.document_id,
        "chunk_id": chunk.chunk_id,
        "chunk_index": chunk.chunk_index,
        "start_offset": chunk.start_offset,
        "end_offset": chunk.end_offset,
        "context": chunk.context,
        "mime_type": chunk.mime_type,
        "score": passage.score,
    }
    if chunk.update_time is not None:
        known["update_time"] = chunk.update_time.isoformat()
    if passage.adjacent_chunks:
        known["adjacent_texts"] = [adjacent.text for adjacent in passage.adjacent_chunks]
    return {**(chunk.metadata or {}), **known}
