"""Searches: collections are looked up, the arms run for each query, their hits ranked, the passages read."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import blake2b
from itertools import chain
from typing import Final

from cachetools import LRUCache, TTLCache
from groundline.v1 import chat_pb2, error_pb2, options_pb2, passage_pb2
from groundline.v1 import retriever_service_pb2 as pb
from groundline_filters import parse, plain
from groundline_ranking import ArmHits, Candidates, is_weak, rank
from groundline_runtime.charges import metered, total
from groundline_runtime.context import Caller, current_trace_id, deadline_within, has_begun, span
from groundline_runtime.errors import (
    FailedPreconditionError,
    GroundlineError,
    InvalidArgumentError,
    NotFoundError,
)
from groundline_runtime.metrics.common import count_degradations
from groundline_runtime.metrics.declaring import BoundedNames
from groundline_runtime.quotas import Spending
from groundline_runtime.reasons import reason_value
from groundline_validation import options_of
from opentelemetry import trace

from groundline_retriever.arms import Arms, Groups, Timed, Translation, Watch, beside
from groundline_retriever.counting import CountedFacets
from groundline_retriever.domain import IndexedCollection, Selection
from groundline_retriever.passages import FetchedChunk, Wanted, add_passages, highlights_of, wanted_for
from groundline_retriever.ports import ChunkStore
from groundline_retriever.scoring import ModelScores
from groundline_retriever.telemetry import COST, PASSAGES, retrieval_attributes
from groundline_retriever.wording.languages import FoundLanguages, evening, is_spoken, translated_alone
from groundline_retriever.wording.spelling import Suspect, corrected, suspects

REMEMBERED_SEARCHES: Final = 10_000
"""Number of callers and of the collections that they name that are remembered."""

SPELLING_SECONDS: Final = 1.0
"""Maximum time for looking up whether words of a query are in the collections."""

LANGUAGES_SECONDS: Final = 60.0
"""Time for which it is remembered whether a caller's collections have texts in another language."""

_PAID_STRATEGIES: Final = frozenset({options_pb2.RERANK_STRATEGY_API, options_pb2.RERANK_STRATEGY_LLM})

_tracer = trace.get_tracer("groundline_retriever")
_clients = BoundedNames()

type _Collections = Sequence[IndexedCollection]
type _Named = tuple[Sequence[str], Sequence[str], options_pb2.IndexChoice.ValueType]
"""Principals, collections and their index, of a search."""


@dataclass(slots=True)
class _Found:
    """A search's response, and the versions of the collections whose chunks were read for it."""

    response: pb.SearchResponse
    versions: dict[str, int] = field(default_factory=dict)


class SearchService:
    """Use cases: search, and reading chunks by their ids."""

    def __init__(
        self,
        store: ChunkStore,
        arms: Arms,
        scores: ModelScores,
        *,
        spending: Spending,
        scored_candidates: int,
        trace_texts: bool = False,
    ) -> None:
        """Take the ports. `scored_candidates`: number of the best fused candidates that a strategy reads."""
        self._spending = spending
        self._has_budgets = spending.have_budgets
        self._store = store
        self._arms = arms
        self._scores = scores
        self._scored_candidates = scored_candidates
        self._trace_texts = trace_texts
        self._known: LRUCache[_Named, _Collections] = LRUCache(REMEMBERED_SEARCHES)
        self._languages = FoundLanguages()
        self._spoken: TTLCache[bytes, bool] = TTLCache(REMEMBERED_SEARCHES, LANGUAGES_SECONDS)

    async def search(self, caller: Caller, request: pb.SearchRequest) -> pb.SearchResponse:
        """Return the best passages for the request's queries.

        Raises NotFoundError (COLLECTION_NOT_FOUND), InvalidArgumentError for what is beyond a collection's
        limits, ResourceExhaustedError (QUOTA_EXHAUSTED) if the search costs money and a budget is spent, what
        Arms.grouped raises, and where no query could be searched for, the error of the first.
        """
        with span(_tracer, "retrieval") as recorded, metered() as paid:
            try:
                response = await self._search_known(caller, request)
            finally:
                if paid:
                    self._book(caller, total(paid))
            if paid:
                response.usage.CopyFrom(total(paid))
            PASSAGES.record(len(response.passages))
            if response.degraded:
                count_degradations(response.degraded)
            if recorded is not None:
                recorded.set_attributes(
                    retrieval_attributes(
                        request.query.strip(),
                        request.collection_ids,
                        response.passages,
                        top_k=request.options.rerank.top_k,
                        with_texts=self._trace_texts,
                    )
                )
        return response

    async def fetch(self, caller: Caller, request: pb.FetchChunksRequest) -> pb.FetchChunksResponse:
        """Return the chunks as they are now and the texts of spans, those that exist and may be read."""
        wanted = [
            Wanted(each.collection_id, list(map(int, each.chunk_ids)), with_lines=request.with_lines)
            for each in request.selections
        ]
        fetched = await self._store.fetch(wanted, caller.principals)
        lines = {(each.chunk.document_id, page.page): page for each in fetched for page in each.lines}
        return pb.FetchChunksResponse(
            chunks=[each.chunk for each in fetched],
            lines=[pb.DocumentLines(document_id=name, page=page) for (name, _), page in lines.items()],
            texts=await self._store.revision_texts(request.spans, caller.principals) if request.spans else (),
        )

    async def require_collections(self, caller: Caller, named: Sequence[str]) -> None:
        """Raise NotFoundError (COLLECTION_NOT_FOUND) unless the caller may read all of these collections."""
        if named:
            unique = tuple(dict.fromkeys(named))
            await self._collections(caller.principals, unique, options_pb2.INDEX_CHOICE_CURRENT)

    async def _search_known(self, caller: Caller, request: pb.SearchRequest) -> pb.SearchResponse:
        """Search the collections as this caller found them when it last named the same ones.

        The statement that reads the texts tells their versions and decides who may read them. Only where
        it does not prove that all are as they were, or the search fails, are they looked up; what a search
        makes of collections that are no longer so, failures included, does not count.
        """
        named = (caller.principals, tuple(dict.fromkeys(request.collection_ids)), _index_of(request))
        expected = self._known.get(named)
        if expected is None:
            return (await self._search(caller, request, await self._collections(*named))).response
        failure: GroundlineError | None = None
        found: _Found | None = None
        try:
            found = await self._search(caller, request, expected)
        except GroundlineError as error:
            failure = error
        else:
            if found.versions == _versions(expected):
                # The chunks read show that the collections are unchanged, and may be read.
                return found.response
        current = await self._collections(*named)
        if _versions(current) != _versions(expected):
            return (await self._search(caller, request, current)).response
        if found is None:
            assert failure is not None
            raise failure
        return found.response

    async def _collections(
        self,
        principals: Sequence[str],
        named: Sequence[str],
        index: options_pb2.IndexChoice.ValueType,
    ) -> _Collections:
        """Look the collections up; all that the principals may read where none is named."""
        collections = await self._store.collections(named, principals, index)
        known = {each.collection_id for each in collections}
        if missing := sorted(name for name in named if name not in known):
            if index != options_pb2.INDEX_CHOICE_CURRENT:
                await self._collections(principals, named, options_pb2.INDEX_CHOICE_CURRENT)
                raise FailedPreconditionError(
                    "INDEX_NOT_FOUND", f"no such index of the collection: {', '.join(missing)}"
                )
            # The same for a missing collection and one that may not be read.
            raise NotFoundError(
                "COLLECTION_NOT_FOUND",
                f"no such collection: {', '.join(missing)}",
                metadata={"collection_ids": ",".join(missing)},
            )
        if named:
            self._known[principals, tuple(named), index] = collections
        return collections

    async def _search(self, caller: Caller, request: pb.SearchRequest, collections: _Collections) -> _Found:
        if request.HasField("as_of"):
            collections = await self._store.collections_as_of(
                collections, _moment(request), are_named=bool(request.collection_ids)
            )
        settings = {each.collection_id: each.settings for each in collections}
        rerank, violations = options_of(request.options.rerank, settings)
        if violations:
            raise InvalidArgumentError(violations)
        watch: Watch = {}
        with Timed(watch, passage_pb2.STAGE_RETRIEVING):
            groups = self._arms.grouped(collections, request.options.retrieval, rerank.fusion)
            selection = _selection(caller, request)
            if self._has_budgets and not has_begun():  # a chat that has begun is finished
                await self._require_budget(caller, rerank, groups)
            with (
                CountedFacets(self._store, request, list(settings), selection)
                if request.facets
                else nullcontext()
            ) as facets:
                found = await self._passages(request, selection, rerank, groups, watch)
                if groups.corrected and (
                    corrections := await self._corrections(request, selection, groups, found.response)
                ):
                    request = _with_corrections(request, corrections)
                    found = await self._passages(request, selection, rerank, groups, watch)
                    found.response.corrections.extend(
                        passage_pb2.Correction(given=each.given, used=each.used) for each in corrections
                    )
                if request.include_highlights:
                    languages = {each.collection_id: each.language for each in collections}
                    passages = found.response.passages
                    await asyncio.to_thread(_highlight, passages, _queries(request), languages)
                if facets is not None:
                    await facets.add_to(found.response)
        for stage, milliseconds in watch.items():
            found.response.timings.add(stage=stage, duration_ms=milliseconds)
        return found

    def _book(self, caller: Caller, usage: chat_pb2.Usage) -> None:
        if usage.cost_usd:
            COST.add(usage.cost_usd, {"client": _clients(caller.owner)})
        self._spending.book(caller.owner, usage)

    async def _require_budget(
        self, caller: Caller, rerank: options_pb2.RerankOptions, groups: Groups
    ) -> None:
        """Raise if a search costs money and a budget is spent."""
        if rerank.strategy in _PAID_STRATEGIES or await asyncio.to_thread(groups.cost_money):
            await self._spending.require(caller.owner)

    async def _passages(
        self,
        request: pb.SearchRequest,
        selection: Selection,
        rerank: options_pb2.RerankOptions,
        groups: Groups,
        watch: Watch,
    ) -> _Found:
        """Search and rank; return the response with the passages that are kept."""
        found = _Found(pb.SearchResponse(trace_id=current_trace_id() or ""))
        searched = dict.fromkeys(_queries(request), groups)
        translation: Translation | None = None
        if groups.multilingual and (
            translation := await self._translation(selection.principals, request, groups)
        ):
            searched[translation.text] = translation.groups
        hits = await self._found(searched, selection, watch, found.response)
        translated = hits.pop(translation.text, None) if translation else None
        sets = list(hits.values())
        if translation and translated is not None:
            own = list(chain.from_iterable(sets))
            sets += await self._beside(selection.principals, request, translation, own, translated, found)
        if request.HasField("weak_similarity"):
            lists = [each for lists in sets for each in lists]
            found.response.is_weak = is_weak(lists, request.weak_similarity)
        if not found.response.is_weak:
            await self._keep(selection.principals, request, rerank, groups, sets, watch, found)
        if groups.multilingual:
            shown = {passage.chunk.collection_id for passage in found.response.passages}
            known = {one.collection_id for group in groups.multilingual for one in group.collections}
            found.response.multilingual_collection_ids.extend(sorted(shown & known))
        return found

    async def _corrections(
        self,
        request: pb.SearchRequest,
        selection: Selection,
        groups: Groups,
        response: pb.SearchResponse,
    ) -> Sequence[Suspect]:
        """Return the words of the query that are misspelled: like a word of the passages, and in nothing that
        the caller may read. What cannot be looked up in time is taken as right, which is declared."""
        languages = {one.language for group in groups.corrected for one in group.collections}
        chunks = [passage.chunk for passage in response.passages]
        texts = [part for chunk in chunks for part in (chunk.title, chunk.context, chunk.text)]
        found = suspects(request.query, texts, languages)
        if not found:
            return ()
        try:
            async with deadline_within(SPELLING_SECONDS):
                held = await asyncio.gather(
                    *(self._arms.holds(each.given, groups, selection) for each in found)
                )
        except GroundlineError as error:
            response.degraded.add(
                component=passage_pb2.COMPONENT_KEYWORD_ARM,
                reason=reason_value(error.reason),
                message="words that may be misspelled could not be looked up in time",
            )
            return ()
        return [each for each, is_held in zip(found, held, strict=True) if not is_held]

    async def _translation(
        self, principals: Sequence[str], request: pb.SearchRequest, groups: Groups
    ) -> Translation | None:
        """Translate the query; None if it is known that no text is in the other language, or if the request
        has the same words."""
        translation = await asyncio.to_thread(groups.translation, request.query.strip())
        if translation is None or translation.text in _queries(request):
            return None
        return translation if self._spoken.get(_spoken(principals, request, translation), True) else None

    async def _beside(
        self,
        principals: Sequence[str],
        request: pb.SearchRequest,
        translation: Translation,
        own: Sequence[ArmHits],
        translated: Sequence[ArmHits],
        found: _Found,
    ) -> list[list[ArmHits]]:
        """Return what counts beside what was found for the query, if texts that the caller may read are in
        the other language: what its translation found, and what evens out texts of both if both are there."""

        async def read(chunks: Mapping[str, Sequence[int]]) -> Mapping[int, passage_pb2.Chunk]:
            wanted = [Wanted(name, chunk_ids) for name, chunk_ids in chunks.items()]
            fetched = await self._fetched(wanted, principals, request, translation.groups, found)
            return {each.chunk_id: each.chunk for each in fetched}

        languages = await self._languages.of([*own, *translated], read)
        spoken = _spoken(principals, request, translation)
        if any(each.hits for each in translated) and spoken not in self._spoken:
            self._spoken[spoken] = is_spoken(translation.language, translated, languages)
        if not self._spoken.get(spoken, False):
            return []
        is_mixed = is_spoken(translation.spoken, own, languages)
        counted = beside(own, translated_alone(translated, translation, languages, is_mixed=is_mixed))
        evened = [[evening(own, counted, translation, languages)]] if is_mixed else []
        return [counted, *evened]

    async def _found(
        self,
        queries: Mapping[str, Groups],
        selection: Selection,
        watch: Watch,
        response: pb.SearchResponse,
    ) -> dict[str, list[ArmHits]]:
        """Return what the arms find for each query in its collections. A query that fails is declared; the
        first error is raised where all do."""
        searches = [self._arms.search(query, groups, selection, watch) for query, groups in queries.items()]
        if len(searches) == 1:  # which is usual, and needs no task
            hits, degraded = await searches[0]
            response.degraded.extend(degraded)
            return dict.fromkeys(queries, hits)
        outcomes = await asyncio.gather(*searches, return_exceptions=True)
        failures = [each for each in outcomes if isinstance(each, BaseException)]
        for failure in failures:
            if not isinstance(failure, GroundlineError) or len(failures) == len(outcomes):
                raise failure
        if failures:
            response.degraded.add(
                component=passage_pb2.COMPONENT_RETRIEVAL,
                reason=error_pb2.SEARCH_INCOMPLETE,
                message=f"{len(failures)} of {len(outcomes)} searches for this question failed",
            )
        found = {}
        for query, outcome in zip(queries, outcomes, strict=True):
            if not isinstance(outcome, BaseException):
                found[query] = outcome[0]
                response.degraded.extend(each for each in outcome[1] if each not in response.degraded)
        return found

    async def _keep(
        self,
        principals: Sequence[str],
        request: pb.SearchRequest,
        options: options_pb2.RerankOptions,
        groups: Groups,
        sets: Sequence[Sequence[ArmHits]],
        watch: Watch,
        found: _Found,
    ) -> None:
        """Put into the response the passages that ranking keeps of what the arms found."""

        async def read(wanted: Mapping[str, Sequence[int]]) -> Mapping[int, passage_pb2.Chunk]:
            each_wanted = [Wanted(name, chunk_ids) for name, chunk_ids in wanted.items()]
            chunks = await self._fetched(each_wanted, principals, request, groups, found)
            return {each.chunk_id: each.chunk for each in chunks}

        async def documents(wanted: Mapping[str, Sequence[int]]) -> Mapping[int, str]:
            return {chunk_id: chunk.document_id for chunk_id, chunk in (await read(wanted)).items()}

        async def score(chunks: Sequence[passage_pb2.Chunk]) -> Sequence[float] | passage_pb2.Degradation:
            return await self._scores.of(query, chunks, options)

        query, candidates = request.query.strip(), Candidates.of(sets)
        with Timed(watch, passage_pb2.STAGE_RERANKING):
            ranking = await rank(
                candidates,
                query,
                options,
                read=read,
                score=score,
                documents=documents,
                window=self._scored_candidates,
            )
        found.response.degraded.extend(ranking.degraded)
        found.response.cut.extend(ranking.cut)
        if ranking.ranked:
            with Timed(watch, passage_pb2.STAGE_FETCHING):
                kept = wanted_for(
                    ranking.ranked, groups.adjacent_chunks, with_vectors=request.include_vectors
                )
                chunks = await self._fetched(kept, principals, request, groups, found)
                add_passages(found.response, ranking.ranked, chunks)

    async def _fetched(
        self,
        wanted: Sequence[Wanted],
        principals: Sequence[str],
        request: pb.SearchRequest,
        groups: Groups,
        found: _Found,
    ) -> Sequence[FetchedChunk]:
        if request.HasField("as_of"):
            chunks = await self._store.fetch_as_of(wanted, principals, _moment(request), groups.collections)
        else:
            chunks = await self._store.fetch(wanted, principals, _index_of(request))
        found.versions |= {each.chunk.collection_id: each.collection_version for each in chunks}
        return chunks


def _index_of(request: pb.SearchRequest) -> options_pb2.IndexChoice.ValueType:
    return request.options.retrieval.index or options_pb2.INDEX_CHOICE_CURRENT


def _spoken(principals: Sequence[str], request: pb.SearchRequest, translation: Translation) -> bytes:
    """Return a digest of what says which texts may be found, and of a language; filters may be long."""
    chosen = pb.SearchRequest(
        collection_ids=request.collection_ids, filter=request.filter, as_of=request.as_of
    )
    chosen.options.retrieval.index = _index_of(request)
    selected = principals, chosen.SerializeToString(deterministic=True), translation.language
    return blake2b(repr(selected).encode(), digest_size=16).digest()


def _versions(collections: _Collections) -> Mapping[str, int]:
    return {each.collection_id: each.version for each in collections}


def _selection(caller: Caller, request: pb.SearchRequest) -> Selection:
    # An empty filter does not count.
    condition = parse(plain(request.filter)) if request.filter.fields else None
    as_of = _moment(request) if request.HasField("as_of") else None
    return Selection(caller.principals, condition, request.min_position, as_of)


def _moment(request: pb.SearchRequest) -> datetime:
    return request.as_of.ToDatetime(UTC)


def _with_corrections(request: pb.SearchRequest, found: Sequence[Suspect]) -> pb.SearchRequest:
    changed = pb.SearchRequest()
    changed.CopyFrom(request)
    changed.query = corrected(request.query, found)
    for index, query in enumerate(request.additional_queries):
        changed.additional_queries[index] = corrected(query, found)
    return changed


def _queries(request: pb.SearchRequest) -> Sequence[str]:
    return list(dict.fromkeys([each.strip() for each in (request.query, *request.additional_queries)]))


def _highlight(
    passages: Sequence[passage_pb2.Passage], queries: Sequence[str], languages: Mapping[str, str]
) -> None:
    for passage in passages:
        language = languages[passage.chunk.collection_id]
        passage.highlights.CopyFrom(highlights_of(passage.chunk.text, queries, language))
