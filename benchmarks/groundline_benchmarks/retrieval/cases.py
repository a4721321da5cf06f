"""What is searched for, and in which ways."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from groundline_client import JsonObject

from groundline_benchmarks.retrieval.corpus import FILTER

__all__ = [
    "ANSWER",
    "ANSWERED",
    "CASES",
    "CLIENTS",
    "COORDINATOR",
    "FILTERED",
    "FLOOR",
    "FLOOR_WITH_TEXTS",
    "GATEWAY",
    "HYBRID",
    "KEYWORD",
    "RETRIEVER",
    "SEMANTIC",
    "Case",
    "Search",
]

CLIENTS = 8
"""That search at once where throughput is measured."""

FLOOR, FLOOR_WITH_TEXTS = "floor", "floor, with texts"
RETRIEVER, COORDINATOR = "retriever, gRPC", "coordinator, gRPC"
GATEWAY = "POST /api/search"
ANSWER = "POST /api/answer"


@dataclass(frozen=True)
class Case:
    """A mode, with or without the filter, or an answer from what that finds."""

    name: str
    mode: str
    filtered: bool = False
    ways: tuple[str, ...] = (FLOOR, FLOOR_WITH_TEXTS, RETRIEVER, COORDINATOR, GATEWAY)

    def request(self, query: str, collection: str) -> JsonObject:
        """As the gateway and the coordinator take it."""
        request: JsonObject = {
            "query": query,
            "collectionIds": [collection],
            "options": {"retrieval": {"mode": f"RETRIEVAL_MODE_{self.mode.upper()}"}},
        }
        if self.filtered:
            request["filter"] = FILTER
        return request


KEYWORD = Case("keyword", "keyword")
SEMANTIC = Case("semantic", "semantic")
HYBRID = Case("hybrid", "hybrid")
FILTERED = Case("hybrid, 1% filter", "hybrid", filtered=True)
ANSWERED = Case("extractive answer", "hybrid", ways=(ANSWER,))
CASES = (KEYWORD, SEMANTIC, HYBRID, FILTERED, ANSWERED)

type Search = Callable[[Case, str], Awaitable[None]]
"""Searches once, for a case's query."""
