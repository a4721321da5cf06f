"""Addresses of the bridge. It speaks other protocols, so the contract does not name them."""

from collections.abc import Set
from dataclasses import dataclass
from typing import Final

from groundline_gateway.scopes import OF_COLLECTIONS, Scope


@dataclass(frozen=True, slots=True)
class Bridged:
    """HTTP method and path of another protocol."""

    name: str
    """Name of its route, in logs."""
    verb: str | None
    """GET, POST and so on; None for every method."""
    path: str
    """Path, or a regular expression unless `is_fixed`."""
    scopes: Set[Scope]
    """Scopes of which a caller needs one."""
    answers: bool = False
    """Whether the deadline of answers applies."""
    is_fixed: bool = True
    """Whether it has one path only."""


BRIDGED: Final = (
    Bridged("OpenAiCreateChatCompletion", "POST", "/v1/chat/completions", {Scope.CHAT}, answers=True),
    Bridged("OpenAiCreateResponse", "POST", "/v1/responses", {Scope.CHAT}, answers=True),
    # Callers embed texts in order to search or to ingest elsewhere.
    Bridged("OpenAiCreateEmbeddings", "POST", "/v1/embeddings", {Scope.SEARCH, Scope.INGEST}, answers=True),
    Bridged("OpenAiListModels", "GET", "/v1/models", OF_COLLECTIONS),
    Bridged("OpenAiGetModel", "GET", "/v1/models/[^/]+", OF_COLLECTIONS, is_fixed=False),
    # The bridge shows and runs only the tools that the scopes allow; it has no sessions.
    Bridged("McpRequest", None, "/mcp", OF_COLLECTIONS, answers=True),
)
