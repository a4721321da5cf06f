"""Searches of Chat and Answer: for the question or its rewriting, again if that finds too little, and for
what the passages found lack."""

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import batched
from math import inf
from typing import Final

import structlog
from groundline.v1 import (
    chat_pb2,
    error_pb2,
    generator_service_pb2,
    options_pb2,
    passage_pb2,
    retriever_service_pb2,
)
from groundline_contracts import limits_of
from groundline_runtime.charges import usage_of
from groundline_runtime.context import deadline_within, remaining_seconds
from groundline_runtime.errors import GroundlineError
from opentelemetry import trace

from groundline_coordinator.domain.passages import (
    ReadSources,
    chunks_of_sources,
    numbered_passages,
    span_key,
    span_of,
)
from groundline_coordinator.domain.rewriting import (
    MAX_SUB_QUERIES,
    further_searches,
    queries_of,
    status_of,
    wants_rewriting,
    with_corrections,
)
from groundline_coordinator.domain.turns import Inquiry, Plan
from groundline_coordinator.ports import Generator, Retriever
from groundline_coordinator.service.progress import StageReport, share

_log = structlog.get_logger(__name__)

type Event = (
    chat_pb2.ChatStarted
    | chat_pb2.ChatStatus
    | chat_pb2.ChatSources
    | chat_pb2.UnsupportedSentence
    | chat_pb2.AnswerCorrection
    | chat_pb2.ChatCompleted
)
type Emit = Callable[[Event | str], Awaitable[None]]
"""Takes the next event of a chat; a `str` is text to append to the answer."""

# Shares of the time left when a step begins. Rewriting has a fallback.
_REWRITING_SHARE: Final = 0.2
_SEARCHING_SHARE: Final = 0.6
_READING_SHARE: Final = 0.15

_NOT_REWRITTEN: Final = "the question could not be rewritten by the model"

_DEEPENING_SHARE: Final = 0.5
"""Share of the time left when the search begins that must still be left for another search."""

_SPANS_AT_ONCE: Final = 100

_READ_PASSAGES: Final = 20
"""Number of the best passages that are read for what is missing."""

_MAX_QUERIES: Final = 1 + limits_of(retriever_service_pb2.SearchRequest, "additional_queries").max_items

type Rewrite = generator_service_pb2.RewriteQueryResponse


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """Maximum seconds of each step, and the cosine similarity below which a search found too little."""

    rewrite_timeout_seconds: float
    search_timeout_seconds: float
    weak_similarity: float


@dataclass(frozen=True, slots=True)
class Searched:
    """Result of a search, and its query: the question, or its rewriting."""

    rewrite: Rewrite
    status: chat_pb2.ChatStatus
    """Status that tells a client of the rewriting."""
    passages: Sequence[passage_pb2.Passage] = ()
    multilingual_collections: Sequence[str] = ()
    """Ids of the collections in which a similarity also counts between two languages."""


class PassageSearch:
    """Search of passages for questions."""

    def __init__(self, retriever: Retriever, generator: Generator, limits: SearchLimits) -> None:
        self._retriever = retriever
        self._generator = generator
        self._limits = limits

    async def find(
        self,
        inquiry: Inquiry,
        plan: Plan,
        progress: StageReport,
        emit: Emit,
        *,
        history: Sequence[chat_pb2.ChatMessage] = (),
        effort: options_pb2.Effort.ValueType = options_pb2.EFFORT_QUICK,
    ) -> Searched:
        """Return the best passages, for the question or for what it was rewritten to.

        A question that is worth it is rewritten first; a search that finds too little is repeated once,
        for the rewritten question and for the question as it was asked. What is found may be read, and what
        it lacks searched for; `effort` decides.
        """
        until = _instant_to_end(_DEEPENING_SHARE)
        asked = generator_service_pb2.RewriteQueryResponse(standalone_query=inquiry.query)
        rewrite, rewritten = asked, not plan.is_empty and wants_rewriting(effort, inquiry.query, history)
        if rewritten:
            rewrite = await self._rewrite(asked, history, progress, emit)
        queries = queries_of(rewrite)
        await emit(_retrieving(inquiry, rewrite))
        if plan.is_empty:
            return Searched(rewrite, status_of(inquiry.query, rewrite))
        looks_again = effort != options_pb2.EFFORT_QUICK
        weak_similarity = self._limits.weak_similarity if looks_again else None
        found = await self._search(inquiry, queries, progress, weak_similarity)
        if found.is_weak:
            if not rewritten:
                rewrite = await self._rewrite(asked, history, progress, emit)
            queries = tuple(dict.fromkeys((*queries_of(rewrite), inquiry.query)))
            await emit(_retrieving(inquiry, rewrite))
            found = await self._search(inquiry, queries, progress)
        if found.corrections:
            rewrite = with_corrections(rewrite, found.corrections)
            await emit(_retrieving(inquiry, rewrite, found.corrections))
        for _ in range(further_searches(effort, rewrite)):
            if time.monotonic() > until:
                break
            further = await self._deepen(inquiry, rewrite, found, progress, emit)
            if further is None:
                break
            found = further
        return Searched(
            rewrite,
            status_of(inquiry.query, rewrite, found.corrections),
            found.passages,
            found.multilingual_collection_ids,
        )

    async def _rewrite(
        self,
        asked: Rewrite,
        history: Sequence[chat_pb2.ChatMessage],
        progress: StageReport,
        emit: Emit,
    ) -> Rewrite:
        """Rewrite the question; return what was asked if rewriting fails, which is declared."""
        request = generator_service_pb2.RewriteQueryRequest(
            query=asked.standalone_query, chat_history=history, max_sub_queries=MAX_SUB_QUERIES
        )
        await emit(chat_pb2.ChatStatus(stage=passage_pb2.STAGE_REWRITING))
        with progress.stage(passage_pb2.STAGE_REWRITING):
            try:
                async with deadline_within(share(_REWRITING_SHARE, self._limits.rewrite_timeout_seconds)):
                    rewrite = await self._generator.rewrite(request)
            except GroundlineError as error:
                progress.paid.append(usage_of(error))
                _degrade(progress, error.reason, f"{_NOT_REWRITTEN}; it was searched for as it is")
                return asked
            progress.paid.append(rewrite.usage)
            if rewrite.fallback_reason:
                _degrade(progress, rewrite.fallback_reason, f"{_NOT_REWRITTEN}; rules did it")
        if not rewrite.standalone_query:
            rewrite.standalone_query = asked.standalone_query
        return rewrite

    async def _deepen(
        self,
        inquiry: Inquiry,
        rewrite: Rewrite,
        found: retriever_service_pb2.SearchResponse,
        progress: StageReport,
        emit: Emit,
    ) -> retriever_service_pb2.SearchResponse | None:
        """Read what was found, and search for what it lacks together with all that was searched for, so that
        all passages are ranked in one list.

        The new queries become parts of the rewriting. Return None if what was found suffices, if no query is
        known for the rest, or if that fails, which is declared.
        """
        judged = await self._lacking(rewrite, found, progress, emit)
        searched = queries_of(rewrite)
        new = [query for query in judged.queries if query not in searched][: _MAX_QUERIES - len(searched)]
        if not new:
            return None
        deeper = generator_service_pb2.RewriteQueryResponse()
        deeper.CopyFrom(rewrite)
        deeper.sub_queries.extend(new)
        deeper.model = judged.model
        status = _retrieving(inquiry, deeper, found.corrections)
        status.missing = judged.missing
        await emit(status)
        try:
            further = await self._search(inquiry, queries_of(deeper), progress)
        except GroundlineError as error:
            trace.get_current_span().set_attribute("error.type", error.reason)
            progress.degrade(
                passage_pb2.COMPONENT_RETRIEVAL,
                error_pb2.SEARCH_INCOMPLETE,
                "what the passages lack was not searched for",
            )
            return None
        rewrite.CopyFrom(deeper)
        further.corrections.extend(each for each in found.corrections if each not in further.corrections)
        return further

    async def _lacking(
        self,
        rewrite: Rewrite,
        found: retriever_service_pb2.SearchResponse,
        progress: StageReport,
        emit: Emit,
    ) -> generator_service_pb2.JudgeSufficiencyResponse:
        """Ask what the passages lack; nothing if that fails."""
        request = generator_service_pb2.JudgeSufficiencyRequest(
            query=rewrite.standalone_query,
            passages=numbered_passages(found.passages[:_READ_PASSAGES], found.multilingual_collection_ids),
            searched_queries=queries_of(rewrite),
        )
        await emit(chat_pb2.ChatStatus(stage=passage_pb2.STAGE_READING))
        with progress.stage(passage_pb2.STAGE_READING):
            try:
                async with deadline_within(share(_READING_SHARE, self._limits.rewrite_timeout_seconds)):
                    judged = await self._generator.judge_sufficiency(request)
            except GroundlineError as error:
                progress.paid.append(usage_of(error))
                _degrade(progress, error.reason, "what was found could not be read; it was taken as it is")
                return generator_service_pb2.JudgeSufficiencyResponse()
        if judged.fallback_reason:
            _degrade(
                progress,
                judged.fallback_reason,
                "what was found could not be read by the model; rules did it",
            )
        progress.paid.append(judged.usage)
        return judged

    async def _search(
        self,
        inquiry: Inquiry,
        queries: Sequence[str],
        progress: StageReport,
        weak_similarity: float | None = None,
    ) -> retriever_service_pb2.SearchResponse:
        """Search for all queries in one call; the first one decides the order."""
        query, *additional = queries
        request = retriever_service_pb2.SearchRequest(
            query=query,
            additional_queries=additional,
            collection_ids=inquiry.collection_ids,
            filter=inquiry.filter,
            options=options_pb2.SearchOptions(retrieval=inquiry.retrieval, rerank=inquiry.rerank),
            min_position=inquiry.min_position,
            as_of=inquiry.as_of,
            weak_similarity=weak_similarity,
        )
        with progress.stage(passage_pb2.STAGE_RETRIEVING):
            async with deadline_within(share(_SEARCHING_SHARE, self._limits.search_timeout_seconds)):
                found = await self._retriever.search(request)
            progress.timings.extend(
                each for each in found.timings if each.stage != passage_pb2.STAGE_RETRIEVING
            )
        progress.degraded.extend(each for each in found.degraded if each not in progress.degraded)
        progress.paid_by_retriever.append(found.usage)
        return found


def _instant_to_end(part: float) -> float:
    """Return the instant of time.monotonic() when `part` of the request's remaining time is left."""
    left = remaining_seconds()
    return inf if left is None else time.monotonic() + (1 - part) * left


def _degrade(progress: StageReport, reason: str, message: str) -> None:
    trace.get_current_span().set_attribute("error.type", reason)
    progress.degrade(passage_pb2.COMPONENT_REWRITING, error_pb2.REWRITING_UNAVAILABLE, message)


def _retrieving(
    inquiry: Inquiry, rewrite: Rewrite, corrections: Iterable[passage_pb2.Correction] = ()
) -> chat_pb2.ChatStatus:
    status = status_of(inquiry.query, rewrite, corrections)
    status.stage = passage_pb2.STAGE_RETRIEVING
    return status


async def read_sources(retriever: Retriever, answers: Sequence[Sequence[chat_pb2.Source]]) -> ReadSources:
    """Return the chunks of answers' sources, those that exist and that the caller may read, and for others
    the texts of the revisions that were cited."""
    chunks: dict[str, passage_pb2.Chunk] = {}
    for selections in chunks_of_sources(answers):
        response = await retriever.fetch(retriever_service_pb2.FetchChunksRequest(selections=selections))
        chunks |= {each.chunk_id: each for each in response.chunks}
    missing = [
        span_of(source)
        for sources in answers
        for source in sources
        if source.revision and source.chunk_id not in chunks
    ]
    texts: Mapping[bytes, str] = {}
    try:
        texts = await read_spans(retriever, missing)
    except GroundlineError as error:
        # A part takes reading the whole text of a revision; the rest of a thread does not wait for that.
        _log.warning("cited_texts_not_read", reason=error.reason)
    return ReadSources(chunks, texts)


async def read_spans(
    retriever: Retriever, spans: Iterable[retriever_service_pb2.RevisionSpan]
) -> Mapping[bytes, str]:
    """Return the texts of parts of revisions by `span_key`, those that exist and that the caller may read."""
    wanted = {span_key(span): span for span in spans}
    texts: dict[bytes, str] = {}
    for some in batched(wanted.values(), _SPANS_AT_ONCE):
        response = await retriever.fetch(retriever_service_pb2.FetchChunksRequest(spans=some))
        texts |= {span_key(each.span): each.text for each in response.texts}
    return texts
