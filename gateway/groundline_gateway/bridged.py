"""The addresses of the bridge, which speaks others' protocols: no contract names them."""

from collections.abc import Set
from dataclasses import dataclass

from groundline_gateway.scopes import Scope

__all__ = ["BRIDGED", "Bridged"]


@dataclass(frozen=True)
class Bridged:
    """An HTTP method and a path of another protocol."""

    name: str
    """Of its route, in logs."""
    verb: str | None
    """GET, POST and so on; None: each."""
    path: str
    """A path, or a regular expression where `is_fixed` is not."""
    scopes: Set[Scope]
    """A caller needs one of them."""
    answers: bool = False
    """Whether its deadline is that of answers."""
    is_fixed: bool = True
    """Whether it has one path only."""


BRIDGED = (
    Bridged("OpenAiCreateChatCompletion", "POST", "/v1/chat/completions", {Scope.CHAT}, answers=True),
    Bridged("OpenAiCreateResponse", "POST", "/v1/responses", {Scope.CHAT}, answers=True),
    # With the vectors of texts one searches elsewhere, or brings in what was embedded elsewhere.
    Bridged("OpenAiCreateEmbeddings", "POST", "/v1/embeddings", {Scope.SEARCH, Scope.INGEST}, answers=True),
    Bridged("OpenAiListModels", "GET", "/v1/models", frozenset(Scope)),
    Bridged("OpenAiGetModel", "GET", "/v1/models/[^/]+", frozenset(Scope), is_fixed=False),
    # The bridge shows and runs those tools for which the scopes are enough; sessions there are none.
    Bridged("McpRequest", None, "/mcp", frozenset(Scope), answers=True),
)
