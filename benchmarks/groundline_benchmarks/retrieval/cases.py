"""Cases of searches, and the ways to them."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from groundline_client import JsonObject

from groundline_benchmarks.retrieval.corpus import filter_of

CLIENTS: Final = 8
"""Concurrent clients when throughput is measured."""

FLOOR: Final = "floor"
FLOOR_WITH_TEXTS: Final = "floor, with texts"
ONE_HOP: Final = "floor, one gRPC hop"
TWO_HOPS: Final = "floor, with texts, two hops"
RETRIEVER: Final = "retriever, gRPC"
GATEWAY: Final = "POST /api/search"
ANSWER: Final = "POST /api/answer"
WEAVIATE_RETRIEVER: Final = f"{RETRIEVER}, Weaviate"
WEAVIATE_GATEWAY: Final = f"{GATEWAY}, Weaviate"


@dataclass(frozen=True, slots=True)
class Case:
    """A mode, with or without a filter, or an answer from what that finds."""

    name: str
    mode: str
    one_in: int | None = None
    """Chunks of which a filter keeps one; None without a filter."""
    ways: tuple[str, ...] = (
        FLOOR,
        FLOOR_WITH_TEXTS,
        ONE_HOP,
        TWO_HOPS,
        RETRIEVER,
        GATEWAY,
        WEAVIATE_RETRIEVER,
        WEAVIATE_GATEWAY,
    )
    """Ways to measure, if available."""
    effort: str | None = None
    """How much work an answer may take."""

    def request(self, query: str, collection: str) -> JsonObject:
        """Return the search as the gateway takes it."""
        # Made-up words all look like misspellings of others.
        retrieval = {"mode": f"RETRIEVAL_MODE_{self.mode.upper()}", "correctSpelling": False}
        request: JsonObject = {
            "query": query,
            "collectionIds": [collection],
            "options": {"retrieval": retrieval},
        }
        if self.effort is not None:
            request["options"]["effort"] = f"EFFORT_{self.effort.upper()}"
        if self.one_in is not None:
            request["filter"] = filter_of(self.one_in)
        return request


KEYWORD: Final = Case("keyword", "keyword")
SEMANTIC: Final = Case("semantic", "semantic")
HYBRID: Final = Case("hybrid", "hybrid")
TENTH: Final = Case("semantic, 10% filter", "semantic", one_in=10)
FIFTIETH: Final = Case("semantic, 2% filter", "semantic", one_in=50)
FILTERED: Final = Case("hybrid, 1% filter", "hybrid", one_in=100)
RARE: Final = Case("hybrid, 0.1% filter", "hybrid", one_in=1000)
ANSWERED: Final = Case("extractive answer", "hybrid", ways=(ANSWER,), effort="quick")
# The vectors are artificial, so none is near to a question, which would count as a search that found too
# little.
SEARCHED_AGAIN: Final = Case("the same, found too little", "hybrid", ways=(ANSWER,), effort="balanced")
CASES: Final = (KEYWORD, SEMANTIC, TENTH, FIFTIETH, HYBRID, FILTERED, RARE, ANSWERED, SEARCHED_AGAIN)

type Search = Callable[[Case, str], Awaitable[None]]
"""Searches once, for a case's query."""
