"""What is searched for, and in which ways."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from groundline_client import JsonObject

from groundline_benchmarks.retrieval.corpus import filter_of

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
    "ONE_HOP",
    "RARE",
    "RETRIEVER",
    "SEARCHED_AGAIN",
    "SEMANTIC",
    "TWO_HOPS",
    "WEAVIATE_COORDINATOR",
    "WEAVIATE_GATEWAY",
    "WEAVIATE_RETRIEVER",
    "Case",
    "Search",
]

CLIENTS = 8
"""That search at once where throughput is measured."""

FLOOR, FLOOR_WITH_TEXTS = "floor", "floor, with texts"
ONE_HOP, TWO_HOPS = "floor, one gRPC hop", "floor, with texts, two hops"
RETRIEVER, COORDINATOR = "retriever, gRPC", "coordinator, gRPC"
GATEWAY = "POST /api/search"
ANSWER = "POST /api/answer"
WEAVIATE_RETRIEVER, WEAVIATE_COORDINATOR, WEAVIATE_GATEWAY = (
    f"{way}, Weaviate" for way in (RETRIEVER, COORDINATOR, GATEWAY)
)


@dataclass(frozen=True)
class Case:
    """A mode, with or without a filter, or an answer from what that finds."""

    name: str
    mode: str
    one_in: int | None = None
    """Of so many chunks a filter keeps one."""
    ways: tuple[str, ...] = (
        FLOOR,
        FLOOR_WITH_TEXTS,
        ONE_HOP,
        TWO_HOPS,
        RETRIEVER,
        COORDINATOR,
        GATEWAY,
        WEAVIATE_RETRIEVER,
        WEAVIATE_COORDINATOR,
        WEAVIATE_GATEWAY,
    )
    """Of those that are there."""
    rewriting: str | None = None
    """Whether a chat may search again, by another wording."""

    def request(self, query: str, collection: str) -> JsonObject:
        """As the gateway and the coordinator take it."""
        request: JsonObject = {
            "query": query,
            "collectionIds": [collection],
            "options": {"retrieval": {"mode": f"RETRIEVAL_MODE_{self.mode.upper()}"}},
        }
        if self.rewriting is not None:
            request["options"]["rewriting"] = f"REWRITING_MODE_{self.rewriting.upper()}"
        if self.one_in is not None:
            request["filter"] = filter_of(self.one_in)
        return request


KEYWORD = Case("keyword", "keyword")
SEMANTIC = Case("semantic", "semantic")
HYBRID = Case("hybrid", "hybrid")
TENTH = Case("semantic, 10% filter", "semantic", one_in=10)
FIFTIETH = Case("semantic, 2% filter", "semantic", one_in=50)
FILTERED = Case("hybrid, 1% filter", "hybrid", one_in=100)
RARE = Case("hybrid, 0.1% filter", "hybrid", one_in=1000)
ANSWERED = Case("extractive answer", "hybrid", ways=(ANSWER,), rewriting="off")
# The vectors are made up, so none is near to a question, which is taken for a search that found too little.
SEARCHED_AGAIN = Case("the same, found too little", "hybrid", ways=(ANSWER,), rewriting="auto")
CASES = (KEYWORD, SEMANTIC, TENTH, FIFTIETH, HYBRID, FILTERED, RARE, ANSWERED, SEARCHED_AGAIN)

type Search = Callable[[Case, str], Awaitable[None]]
"""Searches once, for a case's query."""
