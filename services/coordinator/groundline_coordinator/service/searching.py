"""The part of the workflow that Chat, Answer and Search share: rewrite, retrieve, look, again, rerank, fetch.

A search by one query whose ranking takes no model is one call: the retriever ranks and fetches too.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from groundline.v1 import (
    candidate_pb2,
    chat_pb2,
    error_pb2,
    generator_service_pb2,
    options_pb2,
    passage_pb2,
    reranker_service_pb2,
    retriever_service_pb2,
)
from groundline_ranking import MODELS, arm_scores, is_weak, rank, ranked_with_texts, read_passages
from groundline_runtime.context import deadline_within, span
from groundline_runtime.errors import (
    Code,
    FieldViolation,
    GroundlineError,
    InvalidArgumentError,
    UnimplementedError,
)
from opentelemetry import trace

from groundline_coordinator.domain.passages import (
    adjacent_chunks_of,
    chunks_of_sources,
)
from groundline_coordinator.domain.rewriting import (
    MAX_SUB_QUERIES,
    queries_of,
    status_of,
    wants_rewriting,
)
from groundline_coordinator.domain.turns import Inquiry, Scope
from groundline_coordinator.ports import Generator, Reranker, Retriever
from groundline_coordinator.service.progress import StageReport, share
from groundline_coordinator.service.telemetry import retrieval_attributes

__all__ = ["Emit", "Event", "PassageSearch", "SearchLimits", "Searched", "chunks_read_for", "stage_errors"]

type Event = chat_pb2.ChatStarted | chat_pb2.ChatStatus | chat_pb2.ChatSources | chat_pb2.ChatCompleted
type Emit = Callable[[Event | str], Awaitable[None]]
"""Takes the next event of a chat; a `str` is text to append to the answer."""

_tracer = trace.get_tracer("groundline_coordinator")

# Shares of the time that is left when a step begins. Rewriting and reranking have fallbacks.
_REWRITING_SHARE = 0.2
_RETRIEVING_SHARE = 0.4
_RERANKING_SHARE = 0.3
_FETCHING_SHARE = 0.4

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

type Rewrite = generator_service_pb2.RewriteQueryResponse


@dataclass(frozen=True)
class SearchLimits:
    """Maximum seconds of each step, and the cosine similarity below which a search found too little."""

    rewrite_timeout_seconds: float
    retrieve_timeout_seconds: float
    rerank_timeout_seconds: float
    weak_similarity: float


@dataclass
class Searched:
    """What a search found, and what it was for: the question, or its rewrite."""

    rewrite: Rewrite
    status: chat_pb2.ChatStatus
    """What of the rewriting a client is told."""
    passages: Sequence[passage_pb2.Passage] = ()
    cut: Sequence[passage_pb2.CutPassage] = ()
    versions: Mapping[str, int] = field(default_factory=dict)
    """Of the collections of the passages, as they were when those were read, where the retriever tells it."""


@dataclass
class _Found:
    """What has been retrieved so far."""

    sets: list[candidate_pb2.CandidateSet] = field(default_factory=list)
    responses: list[retriever_service_pb2.RetrieveResponse] = field(default_factory=list)

    @property
    def ranked(self) -> retriever_service_pb2.RankedPassages | None:
        """What the retriever has ranked, where it has."""
        return next((each.ranked for each in self.responses if each.HasField("ranked")), None)


class PassageSearch:
    """Finds passages."""

    def __init__(
        self,
        *,
        retriever: Retriever,
        reranker: Reranker,
        generator: Generator,
        limits: SearchLimits,
        trace_texts: bool,
    ) -> None:
        self._retriever = retriever
        self._reranker = reranker
        self._generator = generator
        self._limits = limits
        self._trace_texts = trace_texts

    async def find(
        self,
        inquiry: Inquiry,
        scope: Scope,
        progress: StageReport,
        emit: Emit,
        *,
        history: Sequence[chat_pb2.ChatMessage] = (),
        mode: options_pb2.RewritingMode.ValueType = options_pb2.REWRITING_MODE_OFF,
    ) -> Searched:
        """The best passages, for the question or for what it was rewritten to.

        What is worth it is rewritten first; a search that finds too little is repeated once, with a rewriting
        where there was none and with the question as it was asked where there was one.
        """
        with span(_tracer, "retrieval"):
            searched = await self._find(inquiry, scope, progress, emit, history, mode)
            current = trace.get_current_span()
            if current.is_recording():
                current.set_attributes(
                    retrieval_attributes(
                        searched.rewrite.standalone_query,
                        tuple(scope.versions),
                        searched.passages,
                        with_texts=self._trace_texts,
                    )
                )
        return searched

    async def _find(
        self,
        inquiry: Inquiry,
        scope: Scope,
        progress: StageReport,
        emit: Emit,
        history: Sequence[chat_pb2.ChatMessage],
        mode: options_pb2.RewritingMode.ValueType,
    ) -> Searched:
        asked = generator_service_pb2.RewriteQueryResponse(standalone_query=inquiry.query)
        rewrite, rewritten = asked, not scope.is_empty and wants_rewriting(mode, inquiry.query, history)
        if rewritten:
            rewrite = await self._rewrite(asked, history, progress, emit)
        found, queries = _Found(), queries_of(rewrite)
        looks_again = mode != options_pb2.REWRITING_MODE_OFF and not scope.is_empty
        ranking: retriever_service_pb2.Ranking | None = None
        if len(queries) == 1 and scope.rerank.strategy not in MODELS:
            weak = self._limits.weak_similarity if looks_again else None
            ranking = retriever_service_pb2.Ranking(options=scope.rerank, weak_similarity=weak)
        await self._retrieve(inquiry, scope, rewrite, queries, found, progress, emit, ranking)
        if (ranked := found.ranked) is not None:
            status = status_of(inquiry.query, rewrite)
            return Searched(rewrite, status, ranked.passages, ranked.cut, ranked.collection_versions)
        if looks_again and is_weak(arm_scores(found.sets), self._limits.weak_similarity):
            if not rewritten:
                rewrite = await self._rewrite(asked, history, progress, emit)
            searched_for = {each.query for each in found.sets}
            missed = [each for each in (*queries_of(rewrite), inquiry.query) if each not in searched_for]
            if missed:
                await self._retrieve(inquiry, scope, rewrite, missed, found, progress, emit)
        searched = Searched(rewrite, status_of(inquiry.query, rewrite))
        found.sets = [each for each in found.sets if each.features.chunk_ids]
        if found.sets:
            await self._rank_and_fetch(searched, scope, found, progress, emit)
        return searched

    async def _rewrite(
        self,
        asked: Rewrite,
        history: Sequence[chat_pb2.ChatMessage],
        progress: StageReport,
        emit: Emit,
    ) -> Rewrite:
        """What was asked where it fails, which is declared."""
        request = generator_service_pb2.RewriteQueryRequest(
            query=asked.standalone_query, chat_history=history, max_sub_queries=MAX_SUB_QUERIES
        )
        await emit(chat_pb2.ChatStatus(stage=passage_pb2.STAGE_REWRITING))
        with progress.stage(passage_pb2.STAGE_REWRITING):
            try:
                async with deadline_within(share(_REWRITING_SHARE, self._limits.rewrite_timeout_seconds)):
                    rewrite = await self._generator.rewrite(request)
            except GroundlineError as error:
                trace.get_current_span().set_attribute("error.type", error.reason)
                progress.degrade(
                    passage_pb2.COMPONENT_REWRITING,
                    error_pb2.REWRITING_UNAVAILABLE,
                    "the question could not be rewritten and was searched for as it is",
                )
                return asked
        if not rewrite.standalone_query:
            rewrite.standalone_query = asked.standalone_query
        return rewrite

    async def _retrieve(
        self,
        inquiry: Inquiry,
        scope: Scope,
        rewrite: Rewrite,
        queries: Sequence[str],
        found: _Found,
        progress: StageReport,
        emit: Emit,
        ranking: retriever_service_pb2.Ranking | None = None,
    ) -> None:
        """Search for every query, which are those of `rewrite` or some of them, at the same time; with
        `ranking`, for a single one, the retriever ranks too.

        Those that fail are declared; where nothing has been retrieved at all, the first failure is raised.
        """
        status = status_of(inquiry.query, rewrite)
        status.stage = passage_pb2.STAGE_RETRIEVING
        await emit(status)
        with progress.stage(passage_pb2.STAGE_RETRIEVING):
            if scope.is_empty:
                return
            seconds = share(_RETRIEVING_SHARE, self._limits.retrieve_timeout_seconds)
            outcomes = await _outcomes(
                [self._retrieve_one(query, inquiry, scope, seconds, ranking) for query in queries]
            )
            retrieved: list[retriever_service_pb2.RetrieveResponse] = []
            failures: list[BaseException] = []
            for query, outcome in zip(queries, outcomes, strict=True):
                if isinstance(outcome, BaseException):
                    failures.append(outcome)
                else:
                    retrieved.append(outcome)
                    found.sets.append(
                        candidate_pb2.CandidateSet(
                            query=query, lists=outcome.lists, features=outcome.features
                        )
                    )
            found.responses += retrieved
            for failure in failures:
                if not isinstance(failure, GroundlineError) or not found.responses:
                    raise failure
            progress.add_slowest(timing for each in retrieved for timing in each.timings)
        if failures:
            progress.degrade(
                passage_pb2.COMPONENT_RETRIEVAL,
                error_pb2.SEARCH_INCOMPLETE,
                f"{len(failures)} of {len(queries)} searches for this question failed",
            )
        for response in retrieved:
            progress.degraded.extend(each for each in response.degraded if each not in progress.degraded)

    async def _retrieve_one(
        self,
        query: str,
        inquiry: Inquiry,
        scope: Scope,
        seconds: float,
        ranking: retriever_service_pb2.Ranking | None,
    ) -> retriever_service_pb2.RetrieveResponse:
        request = retriever_service_pb2.RetrieveRequest(
            query=query,
            collection_ids=scope.versions.keys(),
            collection_versions=scope.versions.values(),
            filter=inquiry.filter,
            options=inquiry.retrieval,
            min_position=inquiry.min_position,
            ranking=ranking,
        )
        with stage_errors("retrieval"):
            async with deadline_within(seconds):
                return await self._retriever.retrieve(request)

    async def _rank_and_fetch(
        self, searched: Searched, scope: Scope, found: _Found, progress: StageReport, emit: Emit
    ) -> None:
        adjacent = adjacent_chunks_of(found.responses)
        await emit(chat_pb2.ChatStatus(stage=passage_pb2.STAGE_RERANKING))
        with progress.stage(passage_pb2.STAGE_RERANKING):
            ranking = await self._rerank(searched.rewrite.standalone_query, found, scope.rerank)
        progress.degraded.extend(ranking.degraded)
        searched.cut = ranking.cut
        with progress.stage(passage_pb2.STAGE_FETCHING):
            searched.passages = await read_passages(ranking.ranked, adjacent, self._fetch)

    async def _rerank(
        self, query: str, found: _Found, options: options_pb2.RerankOptions
    ) -> reranker_service_pb2.RerankResponse:
        """By the reranker where the strategy asks a model; what is arithmetic is done here. Where it fails,
        which is declared, the fused order is left."""
        request = reranker_service_pb2.RerankRequest(query=query, candidate_sets=found.sets, options=options)
        rerank = self._reranker.rerank if options.strategy in MODELS else rank
        try:
            with stage_errors("rerank"):
                async with deadline_within(share(_RERANKING_SHARE, self._limits.rerank_timeout_seconds)):
                    return await ranked_with_texts(rerank, request, self._fetch)
        except GroundlineError as error:
            if error.code not in _RERANKER_DOWN:
                raise
            trace.get_current_span().set_attribute("error.type", error.reason)
            request.options.strategy = options_pb2.RERANK_STRATEGY_NONE
            ranking = await rank(request)
            ranking.degraded.add(
                component=passage_pb2.COMPONENT_RERANKER,
                reason=error_pb2.RERANKER_UNAVAILABLE,
                message="the reranker did not answer; passages are in the fused order",
            )
            return ranking

    async def _fetch(
        self, selections: Sequence[candidate_pb2.CollectionChunks]
    ) -> Sequence[candidate_pb2.FetchedChunk]:
        request = retriever_service_pb2.FetchChunksRequest(selections=selections)
        async with deadline_within(share(_FETCHING_SHARE, self._limits.retrieve_timeout_seconds)):
            return (await self._retriever.fetch(request)).chunks


async def chunks_read_for(
    retriever: Retriever, answers: Iterable[Sequence[chat_pb2.Source]]
) -> Mapping[str, passage_pb2.Chunk]:
    """By id the chunks of answers' sources: those that exist and that the caller may read."""
    chunks: dict[str, passage_pb2.Chunk] = {}
    for selections in chunks_of_sources(answers):
        response = await retriever.fetch(retriever_service_pb2.FetchChunksRequest(selections=selections))
        chunks |= {each.chunk.chunk_id: each.chunk for each in response.chunks}
    return chunks


async def _outcomes[T](searches: Sequence[Coroutine[Any, Any, T]]) -> Sequence[T | BaseException]:
    """The result or the failure of each; a single one, which is usual, needs no task."""
    if len(searches) > 1:
        outcomes: Sequence[T | BaseException] = await asyncio.gather(*searches, return_exceptions=True)
        return outcomes
    try:
        return [await search for search in searches]
    except Exception as error:
        return [error]


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
