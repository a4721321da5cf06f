"""The part of the workflow that Chat, Answer and Search share: rewrite, retrieve, look, again, rerank."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from groundline_runtime.context import deadline_within
from groundline_runtime.errors import (
    Code,
    FieldViolation,
    GroundlineError,
    InvalidArgumentError,
    UnimplementedError,
)
from opentelemetry import trace

from groundline_coordinator.domain import (
    DEFAULT_TOP_K,
    CandidateSet,
    Degradation,
    Event,
    HistoryMessage,
    Options,
    Ranking,
    Retrieval,
    Rewrite,
    RewritingMode,
    Search,
    Searched,
    Stage,
    StageBegan,
    Timing,
    by_one_arm,
    merged,
    without_repeats,
)
from groundline_coordinator.ports import Generator, Reranker, Retriever
from groundline_coordinator.progress import Progress, share
from groundline_coordinator.rewriting import MAX_SUB_QUERIES, is_weak, wants_rewriting

__all__ = ["Emit", "PassageSearch", "Scope", "SearchLimits", "stage_errors"]

type Emit = Callable[[Event], Awaitable[None]]

# Shares of the time that is left when a step begins. Rewriting and reranking have fallbacks.
_REWRITING_SHARE = 0.2
_RETRIEVING_SHARE = 0.4
_RERANKING_SHARE = 0.3

# The reranker's own failures, which the fallback makes good; others say that the request is wrong.
_RERANKER_DOWN = frozenset(
    {
        Code.UNAVAILABLE,
        Code.DEADLINE_EXCEEDED,
        Code.RESOURCE_EXHAUSTED,
        Code.INTERNAL,
        Code.UNKNOWN,
        Code.CANCELLED,
    }
)


@dataclass(frozen=True)
class SearchLimits:
    """Most seconds of each step, and the cosine similarity below which a search found too little."""

    rewrite_timeout_seconds: float
    retrieve_timeout_seconds: float
    rerank_timeout_seconds: float
    weak_similarity: float


@dataclass(frozen=True)
class Scope:
    """What is searched, with the defaults it gives; `empty` where the caller may read nothing."""

    collection_ids: Sequence[str]
    empty: bool
    rerank: Options
    generation: Options


class PassageSearch:
    """Finds passages."""

    def __init__(
        self, *, retriever: Retriever, reranker: Reranker, generator: Generator, limits: SearchLimits
    ) -> None:
        self._retriever = retriever
        self._reranker = reranker
        self._generator = generator
        self._limits = limits

    async def find(
        self,
        search: Search,
        scope: Scope,
        progress: Progress,
        emit: Emit,
        *,
        history: Sequence[HistoryMessage] = (),
        mode: RewritingMode = RewritingMode.OFF,
    ) -> Searched:
        """The best passages, for the question or for what it was rewritten to.

        What is worth it is rewritten first; a search that finds too little is repeated once, with a rewriting
        where there was none and with the question as it was asked where there was one.
        """
        asked = Rewrite(search.query)
        rewrite, rewritten = asked, not scope.empty and wants_rewriting(mode, search.query, history)
        if rewritten:
            rewrite = await self._rewrite(asked, history, progress, emit)
        sets = await self._retrieve(search, scope, rewrite, rewrite.queries, progress, emit)
        if mode is not RewritingMode.OFF and not scope.empty and self._weak(sets):
            if not rewritten:
                rewrite = await self._rewrite(asked, history, progress, emit)
            searched_for = {each.query for each in sets}
            missed = [each for each in (*rewrite.queries, search.query) if each not in searched_for]
            if missed:
                sets += await self._retrieve(search, scope, rewrite, missed, progress, emit, required=False)
        searched = Searched(
            query=rewrite.standalone_query,
            ranking=Ranking(),
            rewritten_query=_difference(search, rewrite),
            sub_queries=rewrite.sub_queries,
            rewriting_model=_model(search, rewrite),
            usage=rewrite.usage,
        )
        found = [each for each in sets if each.candidates]
        if not found:
            return searched
        await emit(StageBegan(Stage.RERANKING))
        with progress.stage(Stage.RERANKING):
            ranking = await self._rerank(searched.query, found, merged(scope.rerank, search.rerank))
        progress.degraded.extend(ranking.degraded)
        return replace(searched, ranking=replace(ranking, passages=without_repeats(ranking.passages)))

    def _weak(self, sets: Sequence[CandidateSet]) -> bool:
        return is_weak(
            [candidate for each in sets for candidate in each.candidates], self._limits.weak_similarity
        )

    async def _rewrite(
        self, asked: Rewrite, history: Sequence[HistoryMessage], progress: Progress, emit: Emit
    ) -> Rewrite:
        """What was asked where it fails, which is declared."""
        await emit(StageBegan(Stage.REWRITING))
        with progress.stage(Stage.REWRITING):
            try:
                async with deadline_within(share(_REWRITING_SHARE, self._limits.rewrite_timeout_seconds)):
                    return await self._generator.rewrite(asked.standalone_query, history, MAX_SUB_QUERIES)
            except GroundlineError as error:
                trace.get_current_span().set_attribute("error.type", error.reason)
                progress.degraded.append(
                    Degradation(
                        "rewriting",
                        "REWRITING_UNAVAILABLE",
                        "the question could not be rewritten and was searched for as it is",
                    )
                )
                return asked

    async def _retrieve(
        self,
        search: Search,
        scope: Scope,
        rewrite: Rewrite,
        queries: Sequence[str],
        progress: Progress,
        emit: Emit,
        *,
        required: bool = True,
    ) -> list[CandidateSet]:
        """Search for every query, which are those of `rewrite` or some of them, at the same time.

        Those that fail are declared; where all do, and the search is `required`, the first failure is raised.
        """
        await emit(
            StageBegan(
                Stage.RETRIEVING,
                _difference(search, rewrite),
                rewrite.sub_queries,
                _model(search, rewrite),
            )
        )
        with progress.stage(Stage.RETRIEVING):
            if scope.empty:
                return []
            seconds = share(_RETRIEVING_SHARE, self._limits.retrieve_timeout_seconds)
            outcomes = await asyncio.gather(
                *(self._retrieve_one(query, search, scope, seconds) for query in queries),
                return_exceptions=True,
            )
            found: dict[str, Retrieval] = {}
            failures: list[BaseException] = []
            for query, outcome in zip(queries, outcomes, strict=True):
                if isinstance(outcome, Retrieval):
                    found[query] = outcome
                else:
                    failures.append(outcome)
            for failure in failures:
                if not isinstance(failure, GroundlineError) or (required and not found):
                    raise failure
            progress.timings.extend(_slowest(found.values()))
        if failures:
            progress.degraded.append(
                Degradation(
                    "retrieval",
                    "SEARCH_INCOMPLETE",
                    f"{len(failures)} of {len(queries)} searches for this question failed",
                )
            )
        for retrieval in found.values():
            progress.degraded.extend(each for each in retrieval.degraded if each not in progress.degraded)
        return [CandidateSet(query, retrieval.candidates) for query, retrieval in found.items()]

    async def _retrieve_one(self, query: str, search: Search, scope: Scope, seconds: float) -> Retrieval:
        with stage_errors("retrieval"):
            async with deadline_within(seconds):
                return await self._retriever.retrieve(
                    query, scope.collection_ids, search.retrieval, search.filter
                )

    async def _rerank(self, query: str, sets: Sequence[CandidateSet], options: Options) -> Ranking:
        try:
            with stage_errors("rerank"):
                async with deadline_within(share(_RERANKING_SHARE, self._limits.rerank_timeout_seconds)):
                    return await self._reranker.rerank(query, sets, options)
        except GroundlineError as error:
            if error.code not in _RERANKER_DOWN:
                raise
            trace.get_current_span().set_attribute("error.type", error.reason)
            candidates = [candidate for each in sets for candidate in each.candidates]
            return Ranking(
                by_one_arm(candidates, int(options.get("topK", DEFAULT_TOP_K))),
                degraded=(
                    Degradation(
                        "reranker",
                        "RERANKER_UNAVAILABLE",
                        "the reranker did not answer; passages are in the order of one search arm",
                    ),
                ),
            )


@contextmanager
def stage_errors(group: str) -> Iterator[None]:
    """Name the fields of a service's complaint as they are called in the client's request.

    A service knows its own message only: its `options.rrf_k` is the client's `options.rerank.rrf_k`.
    """
    try:
        yield
    except (InvalidArgumentError, UnimplementedError) as error:
        if not error.violations:
            raise
        violations = [_renamed(violation, group) for violation in error.violations]
        message = "; ".join(f"{each.field}: {each.description}" for each in violations)
        if isinstance(error, InvalidArgumentError):
            raise InvalidArgumentError(
                violations, reason=error.reason, message=message, metadata=error.metadata
            ) from error
        raise UnimplementedError(
            error.reason, message, violations=violations, metadata=error.metadata
        ) from error


def _renamed(violation: FieldViolation, group: str) -> FieldViolation:
    outer, dot, inner = violation.field.partition(".")
    if outer != "options" or not dot:
        return violation
    return FieldViolation(f"options.{group}.{inner}", violation.description)


def _difference(search: Search, rewrite: Rewrite) -> str:
    return "" if rewrite.standalone_query == search.query else rewrite.standalone_query


def _model(search: Search, rewrite: Rewrite) -> str:
    """What rewrote the question, where it became another or was taken apart."""
    return rewrite.model if rewrite.sub_queries or _difference(search, rewrite) else ""


def _slowest(retrievals: Iterable[Retrieval]) -> list[Timing]:
    """Of searches side by side the longest time of each part, which is what the request waited for."""
    parts: dict[str, float] = {}
    for retrieval in retrievals:
        for timing in retrieval.timings:
            parts[timing.stage] = max(parts.get(timing.stage, 0.0), timing.duration_ms)
    return [Timing(f"{Stage.RETRIEVING.value}.{part}", duration) for part, duration in parts.items()]
