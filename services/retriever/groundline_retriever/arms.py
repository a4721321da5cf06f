"""The two arms of a search, BM25 and vectors, side by side over groups of collections that are searched
alike."""

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import structlog
from groundline.v1 import options_pb2, passage_pb2, reranker_service_pb2
from groundline_embedding import keyword_weight, knows_many_languages, similarity_floor
from groundline_language import LANGUAGES, guess_language
from groundline_language.concepts import other_language, translated
from groundline_ranking import ArmHits
from groundline_runtime.context import remaining_seconds
from groundline_runtime.errors import (
    DeadlineExceededError,
    FailedPreconditionError,
    GroundlineError,
    UnavailableError,
)
from groundline_runtime.reasons import reason_value

from groundline_retriever.domain import Hits, IndexedCollection, Parameters, Selection, ranked, scaled
from groundline_retriever.late import LateTasks
from groundline_retriever.ports import QueryEmbedder, SearchIndex

ARM_SHARE: Final = 0.4
"""Share of a request's remaining time after which an arm counts as late; what the other found is returned."""

MAXIMUM_NAMED: Final = 5
"""Maximum number of collections that one message names."""

REBUILD_SECONDS: Final = 5.0
"""Time after which it is worth asking again for an index that is being rebuilt."""

OTHER_LANGUAGE_SHARE: Final = 0.1
"""Weight of a keyword search in another language, as a share of the weight of vectors of many."""

TRANSLATION_WEIGHT: Final = 0.3
"""Weight of what is found for a query's words in another language, beside what is found for the query. More
finds more in that language, and costs questions that their own language answers."""

_KEYWORD: Final = reranker_service_pb2.SEARCH_ARM_KEYWORD
_SEMANTIC: Final = reranker_service_pb2.SEARCH_ARM_SEMANTIC
_ARM_NAMES: Final[Mapping[int, str]] = {_KEYWORD: "keyword search", _SEMANTIC: "semantic search"}
_COMPONENTS: Final[Mapping[int, passage_pb2.Component.ValueType]] = {
    _KEYWORD: passage_pb2.COMPONENT_KEYWORD_ARM,
    _SEMANTIC: passage_pb2.COMPONENT_SEMANTIC_ARM,
}

type Lists = list[ArmHits]
type _Task = tuple[reranker_service_pb2.SearchArm.ValueType, int]
"""An arm, and the position of the group of collections that it searches."""
type _Failure = tuple[reranker_service_pb2.SearchArm.ValueType, Exception]


type Watch = dict[passage_pb2.Stage.ValueType, float]
"""Milliseconds of stages, in the order in which they began; the longest of one that ran several times at
once."""


class Timed:
    """A stage that is timed while a block runs."""

    __slots__ = ("_stage", "_started", "_watch")

    def __init__(self, watch: Watch, stage: passage_pb2.Stage.ValueType) -> None:
        self._watch = watch
        self._stage = stage

    def __enter__(self) -> None:
        self._watch.setdefault(self._stage, 0.0)
        self._started = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        elapsed = (time.perf_counter() - self._started) * 1000
        self._watch[self._stage] = max(elapsed, self._watch[self._stage])


@dataclass(frozen=True, slots=True)
class _Group:
    """Collections that are searched alike, and the model of their vectors; None if those are not searched."""

    parameters: Parameters
    embedder: QueryEmbedder | None
    keyword_weight: float = 1.0
    """Weight of keyword search; together with the similarities of the model it weighs 2."""
    is_multilingual: bool = False
    """Whether the model is known to put texts of different languages side by side."""
    collections: list[IndexedCollection] = field(default_factory=list)

    @property
    def semantic_weight(self) -> float:
        """Weight of the similarities of the model."""
        return 2 - self.keyword_weight

    def keyword_weights(self, text: str) -> Mapping[str, float]:
        """Return the weight of the keyword search of collections in another language, by id.

        The words of another language than a collection's hardly stand in it but as names, while vectors of a
        model of many languages find what is meant.
        """
        if (spoken := guess_language(text)) is None:
            return {}
        return {
            one.collection_id: OTHER_LANGUAGE_SHARE * self.semantic_weight
            for one in self.collections
            if one.language in LANGUAGES and one.language != spoken
        }


@dataclass(frozen=True, slots=True)
class Groups:
    """Collections of a search, by how they are searched."""

    groups: Sequence[_Group]
    adjacent_chunks: Mapping[str, int]
    """Number of adjacent chunks that a collection's passages are read with; 0 for a collection that is not in
    it."""
    corrected: Sequence[_Group] = ()
    """Groups in whose queries misspelled words are corrected."""
    multilingual: Sequence[_Group] = ()
    """Groups whose model is known to put texts of different languages side by side."""

    @property
    def collections(self) -> Sequence[IndexedCollection]:
        return [one for group in self.groups for one in group.collections]

    def cost_money(self) -> bool:
        """Tell whether a search of them costs money, or may. Reads a list of prices at first."""
        return any(group.embedder is not None and group.embedder.cost(1) != 0 for group in self.groups)

    def translation(self, text: str) -> "Translation | None":
        """Translate a query for the collections whose model puts texts of different languages side by side;
        None without any, or if no word is known. Reads the vocabulary at first."""
        groups = self.multilingual
        spoken = guess_language(text) if groups else None
        language = other_language(spoken)
        if spoken is None or language is None or not (words := translated(text, spoken)):
            return None
        return Translation(words, spoken, language, Groups(groups, self.adjacent_chunks, (), groups))


@dataclass(frozen=True, slots=True)
class Translation:
    """A query's words in another language, and the collections to search for them."""

    text: str
    spoken: str
    """Language of the query."""
    language: str
    groups: Groups


_log = structlog.get_logger(__name__)


class Arms:
    """Search of collections for one query after the other, each with both arms at once."""

    def __init__(
        self, index: SearchIndex, embedders: Iterable[QueryEmbedder], *, timeout_seconds: float
    ) -> None:
        """Take the index. `embedders`: one for each model whose collections can be searched.
        `timeout_seconds`: maximum time of an arm, which ARM_SHARE may shorten."""
        self._index = index
        self._embedders = {(embedder.model, embedder.dimensions): embedder for embedder in embedders}
        self._timeout_seconds = timeout_seconds
        self._late = LateTasks()

    def grouped(
        self,
        collections: Sequence[IndexedCollection],
        given: options_pb2.RetrievalOptions,
        fusion: options_pb2.FusionMethod.ValueType = options_pb2.FUSION_METHOD_WEIGHTED,
    ) -> Groups:
        """Group collections by their parameters and models.

        Raises FailedPreconditionError (EMBEDDING_MODEL_MISMATCH).
        """
        groups: dict[tuple[Parameters, QueryEmbedder | None], _Group] = {}
        adjacent_chunks: dict[str, int] = {}
        # Most collections have the same settings, as one object; of a thousand, merging them takes long.
        merged: dict[int, tuple[options_pb2.RetrievalOptions, Parameters]] = {}
        for collection in collections:
            known = merged.get(id(collection.settings))
            if known is None:
                options = collection.options(given)
                known = merged[id(collection.settings)] = options, Parameters.of(options)
            options, parameters = known
            embedder = self._embedder_of(parameters, collection)
            # Similarities spread by model; ranks do not.
            spreads = {_KEYWORD, _SEMANTIC} <= parameters.arms and fusion != options_pb2.FUSION_METHOD_RRF
            weight = keyword_weight(collection.embedding_model) if spreads else 1.0
            group = groups.get((parameters, embedder))
            if group is None:
                knows_many = embedder is not None and knows_many_languages(embedder.model)
                group = groups[parameters, embedder] = _Group(parameters, embedder, weight, knows_many)
            group.collections.append(collection)
            if options.adjacent_chunks:
                adjacent_chunks[collection.collection_id] = options.adjacent_chunks
        found = list(groups.values())
        return Groups(
            found,
            adjacent_chunks,
            corrected=[
                group
                for group in found
                if group.parameters.corrects_spelling and _KEYWORD in group.parameters.arms
            ],
            multilingual=[group for group in found if group.is_multilingual],
        )

    async def search(
        self, text: str, groups: Groups, selection: Selection, watch: Watch
    ) -> tuple[Lists, Sequence[passage_pb2.Degradation]]:
        """Return what each arm finds in each index, as far as it succeeds in time.

        Raises the error of one of them where every arm fails.
        """
        # Keyword searches come first, so that they are under way before the query is embedded.
        tasks: dict[_Task, asyncio.Task[Lists]] = {}
        incomplete: list[_Failure] = []
        for position, group in enumerate(groups.groups):
            if _KEYWORD in group.parameters.arms:
                work = self._keyword(text, group, selection, watch, incomplete)
                tasks[_KEYWORD, position] = asyncio.create_task(work)
        for position, group in enumerate(groups.groups):
            if group.embedder is not None:
                work = self._semantic(text, group.embedder, group, selection, watch, incomplete)
                tasks[_SEMANTIC, position] = asyncio.create_task(work)
        if not tasks:
            return [], ()
        left, late = remaining_seconds(), set(tasks.values())
        seconds = self._timeout_seconds if left is None else min(self._timeout_seconds, left * ARM_SHARE)
        try:
            _, late = await asyncio.wait(late, timeout=seconds)
            return _outcomes(tasks, incomplete)
        finally:
            if late:
                self._late.leave(late)

    async def holds(self, word: str, groups: Groups, selection: Selection) -> bool:
        """Tell whether a chunk that the caller may read has a word, in the collections whose queries are
        corrected; also if it is not known."""
        readable = replace(selection, filter=None)
        for group in groups.corrected:
            found = await self._index.keyword(group.collections, word, limit=1, selection=readable)
            if any(found.lists) or found.unsound:
                return True
        return False

    def _embedder_of(self, parameters: Parameters, collection: IndexedCollection) -> QueryEmbedder | None:
        """Return the collection's embedder, where it is searched by vectors. Raises
        FailedPreconditionError."""
        if _SEMANTIC not in parameters.arms:
            return None
        embedder = self._embedders.get((collection.embedding_model, collection.dimensions))
        if embedder is None:
            running = " and ".join(
                f"{model} ({dimensions} dimensions)" for model, dimensions in self._embedders
            )
            raise FailedPreconditionError(
                "EMBEDDING_MODEL_MISMATCH",
                f"collection {collection.collection_id} was embedded with {collection.embedding_model} "
                f"({collection.dimensions} dimensions), but running is {running}; reindex the collection or "
                "search it by keyword",
                metadata={
                    "collection_id": collection.collection_id,
                    "collection_model": collection.embedding_model,
                    "running_model": ", ".join(model for model, _ in self._embedders),
                },
            )
        return embedder

    async def _keyword(
        self,
        text: str,
        group: _Group,
        selection: Selection,
        watch: Watch,
        incomplete: list[_Failure],
    ) -> Lists:
        with Timed(watch, passage_pb2.STAGE_KEYWORD_SEARCH):
            found = await self._index.keyword(
                group.collections, text, limit=group.parameters.keyword_limit, selection=selection
            )
        missing = _missing(found)
        if found.unsound and not found.lists:
            raise missing[0]
        incomplete += [(_KEYWORD, error) for error in missing]
        minimum = group.parameters.min_bm25
        weights = group.keyword_weights(text) if group.is_multilingual else {}
        usual = group.keyword_weight
        # The collections of a list of keywords have one language, by which it was asked for.
        return [
            ranked(
                _KEYWORD, hits, minimum, weights.get(hits[0].collection_id, usual) if hits else usual
            )._replace(is_cut=len(hits) >= group.parameters.keyword_limit)
            for hits in found.lists
        ]

    async def _semantic(
        self,
        text: str,
        embedder: QueryEmbedder,
        group: _Group,
        selection: Selection,
        watch: Watch,
        incomplete: list[_Failure],
    ) -> Lists:
        with Timed(watch, passage_pb2.STAGE_EMBEDDING):
            vector = await embedder.embed_query(text)
        parameters = group.parameters
        with Timed(watch, passage_pb2.STAGE_SEMANTIC_SEARCH):
            found = await self._index.semantic(
                group.collections,
                vector,
                limit=parameters.semantic_limit,
                ef_search=parameters.ef_search,
                iterative_scan=parameters.iterative_scan,
                selection=selection,
            )
        incomplete += [(_SEMANTIC, error) for error in _missing(found)]
        floor = similarity_floor(embedder.model)
        return [
            ranked(
                _SEMANTIC,
                scaled(hits, floor) if floor else hits,
                parameters.min_similarity,
                group.semantic_weight,
            )
            for hits in found.lists
        ]


def beside(found: Iterable[ArmHits], translated: Iterable[ArmHits]) -> list[ArmHits]:
    """Return what was found for a translation, weighted for its place beside what was found for the query.

    Fusion takes a keyword score as a share of the best in its list. A best one that is lower than the query's
    counts for less, so that a stray word of a translation does not stand beside a match of the query.
    """
    best = _best_keyword(found)
    lists = list(translated)
    share = min(1.0, _best_keyword(lists) / best) if best else 1.0
    return [
        each._replace(weight=each.weight * TRANSLATION_WEIGHT * (share if each.arm == _KEYWORD else 1.0))
        for each in lists
    ]


def _best_keyword(found: Iterable[ArmHits]) -> float:
    return max((hit.score for each in found if each.arm == _KEYWORD for hit in each.hits[:1]), default=0.0)


def _outcomes(
    tasks: Mapping[_Task, asyncio.Task[Lists]], incomplete: Sequence[_Failure]
) -> tuple[Lists, Sequence[passage_pb2.Degradation]]:
    found: Lists = []
    failures: list[_Failure] = []
    for (arm, _), task in tasks.items():
        if not task.done():
            late = f"{_ARM_NAMES[arm]} did not answer in time"
            failures.append((arm, DeadlineExceededError("DEADLINE_EXCEEDED", late)))
        elif (error := task.exception()) is None:
            found.extend(task.result())
        else:
            assert isinstance(error, Exception)
            failures.append((arm, error))
    if len(failures) == len(tasks):
        # The error of an arm tells more than lateness of the other.
        raise min(
            (error for _, error in failures), key=lambda error: isinstance(error, DeadlineExceededError)
        )
    failures += incomplete
    return found, _degradations(failures) if failures else ()


def _missing(found: Hits) -> list[UnavailableError]:
    """Return what an arm lacks, though it answered; an index that is being rebuilt comes first."""
    errors = []
    if found.unsound:
        named = _named(found.unsound)
        text = f"the keyword index of {named} is missing or may lack chunks, and left out until it is rebuilt"
        errors.append(UnavailableError("LEXICAL_INDEX_UNSOUND", text, retry_after_seconds=REBUILD_SECONDS))
    if found.behind:
        text = f"what was written lately into {_named(found.behind)} is not in the distributed index yet"
        errors.append(UnavailableError("SEARCH_INDEX_BEHIND", text))
    if found.is_incomplete:
        text = "there may be more matches: of what the index proposed, too little is selected or may be read"
        errors.append(UnavailableError("SEARCH_INDEX_INCOMPLETE", text))
    return errors


def _named(collection_ids: Sequence[str]) -> str:
    more = len(collection_ids) - MAXIMUM_NAMED
    return ", ".join(collection_ids[:MAXIMUM_NAMED]) + (f" and {more} more" if more > 0 else "")


def _degradations(failures: Iterable[_Failure]) -> Sequence[passage_pb2.Degradation]:
    """Return one for each arm and reason; an unexpected error is logged and shows nothing of itself."""
    found: dict[tuple[int, str], passage_pb2.Degradation] = {}
    for arm, error in failures:
        if isinstance(error, GroundlineError):
            reason, message = error.reason, error.message
            _log.warning("arm_failed", arm=_ARM_NAMES[arm], reason=reason)
        else:
            reason, message = "INTERNAL", f"{_ARM_NAMES[arm]} failed"
            _log.error("arm_failed", arm=_ARM_NAMES[arm], reason=reason, exc_info=error)
        found.setdefault(
            (arm, reason),
            passage_pb2.Degradation(component=_COMPONENTS[arm], reason=reason_value(reason), message=message),
        )
    return list(found.values())
