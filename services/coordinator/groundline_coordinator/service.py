"""The workflow: resolve, retrieve, rerank, generate, store.

Whatever a request names (collections, a thread) is looked up in `begin`, before the first event, so that a
caller reads NOT_FOUND as a status; what fails after that has already been announced as begun.
"""

import time
import uuid
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field, replace

from groundline_runtime.context import (
    current_caller,
    current_trace_id,
    deadline_at,
    deadline_within,
    remaining_seconds,
)
from groundline_runtime.errors import (
    Code,
    GroundlineError,
    InternalError,
    NotFoundError,
)
from opentelemetry import trace

from groundline_coordinator.domain import (
    DEFAULT_TOP_K,
    TITLE_CHARACTERS,
    Answered,
    Collection,
    Completed,
    Degradation,
    Delta,
    Event,
    Generated,
    HistoryMessage,
    NumberedPassage,
    Options,
    Page,
    Passage,
    Question,
    Ranking,
    Retrieval,
    Search,
    Source,
    SourcesFound,
    Stage,
    StageBegan,
    Started,
    StoredMessage,
    Thread,
    Timing,
    by_one_arm,
    extended_text,
    merged,
    number_sources,
    recent_history,
    shortened,
    without_repeats,
)
from groundline_coordinator.ports import CollectionCatalog, Generator, Reranker, Retriever, ThreadStore

__all__ = ["ChatService", "Limits", "Searched", "ThreadService", "Turn"]

type Emit = Callable[[Event], Awaitable[None]]

# Shares of the time that is left when a step begins. Reranking has a fallback, generation has none.
_RETRIEVING_SHARE = 0.4
_RERANKING_SHARE = 0.3
_STORING_SHARE = 0.1

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

_tracer = trace.get_tracer("groundline_coordinator")


@dataclass(frozen=True)
class Limits:
    """Bounds of the workflow, in seconds, messages and code points."""

    retrieve_timeout_seconds: float
    rerank_timeout_seconds: float
    store_timeout_seconds: float
    history_messages: int
    history_characters: int


@dataclass(frozen=True)
class Scope:
    """What is searched, with the defaults it gives."""

    collection_ids: Sequence[str]
    empty: bool
    rerank: Options
    generation: Options


@dataclass(frozen=True)
class Turn:
    """A question whose collections and thread exist."""

    question: Question
    scope: Scope
    owner: str
    new_thread: bool
    history: Sequence[HistoryMessage]
    started: Started


@dataclass(frozen=True)
class Searched:
    """What a search found."""

    ranking: Ranking
    degraded: Sequence[Degradation]
    timings: Sequence[Timing]
    trace_id: str


@dataclass
class _Progress:
    """What a request has gathered for its last event."""

    degraded: list[Degradation] = field(default_factory=list)
    timings: list[Timing] = field(default_factory=list)

    @contextmanager
    def stage(self, stage: Stage) -> Iterator[None]:
        """A span and a timing around a stage; the timing stands before those of its parts."""
        position, begun = len(self.timings), time.perf_counter()
        with _tracer.start_as_current_span(stage.value):
            yield
        self.timings.insert(position, Timing(stage.value, _milliseconds_since(begun)))


class ChatService:
    """Chat, Answer and Search."""

    def __init__(
        self,
        *,
        retriever: Retriever,
        reranker: Reranker,
        generator: Generator,
        catalog: CollectionCatalog,
        threads: ThreadStore,
        limits: Limits,
    ) -> None:
        self._retriever = retriever
        self._reranker = reranker
        self._generator = generator
        self._catalog = catalog
        self._threads = threads
        self._limits = limits

    async def begin(self, question: Question) -> Turn:
        """Look up what the question names. Raises NotFoundError (COLLECTION_NOT_FOUND, THREAD_NOT_FOUND)."""
        owner = _owner()
        scope = await self._scope(question.search)
        history = await self._history(owner, question)
        return Turn(
            question=question,
            scope=scope,
            owner=owner,
            new_thread=question.thread_id is None,
            history=history,
            started=Started(
                thread_id=question.thread_id or str(uuid.uuid4()),
                message_id=str(uuid.uuid4()),
                trace_id=current_trace_id() or "",
            ),
        )

    async def chat(self, turn: Turn, emit: Emit) -> None:
        """Emit the events of an answer: Started, StageBegan and SourcesFound, Delta, and Completed last."""
        progress = _Progress()
        await emit(turn.started)
        ranking = await self._passages(turn.question.search, turn.scope, progress, emit)
        sources = number_sources(ranking.passages)
        await emit(SourcesFound(sources))
        await emit(StageBegan(Stage.GENERATING))
        with progress.stage(Stage.GENERATING):
            answer, generated = await self._generate(turn, ranking.passages, progress, emit)
        await self._store(turn, answer, sources, generated, progress)
        await emit(Completed(generated, tuple(progress.degraded), tuple(progress.timings)))

    async def answer(self, question: Question) -> Answered:
        """The same work, gathered."""
        turn = await self.begin(question)
        gathered: list[Event] = []

        async def gather(event: Event) -> None:
            gathered.append(event)

        await self.chat(turn, gather)
        completed = gathered[-1]
        assert isinstance(completed, Completed)
        return Answered(
            started=turn.started,
            answer="".join(event.text for event in gathered if isinstance(event, Delta)),
            sources=next(event.sources for event in gathered if isinstance(event, SourcesFound)),
            completed=completed,
        )

    async def search(self, search: Search) -> Searched:
        """Retrieve and rerank. Raises NotFoundError (COLLECTION_NOT_FOUND)."""
        progress = _Progress()
        ranking = await self._passages(search, await self._scope(search), progress, _ignore)
        return Searched(ranking, tuple(progress.degraded), tuple(progress.timings), current_trace_id() or "")

    async def _scope(self, search: Search) -> Scope:
        found = await self._catalog.readable(current_caller().principals, search.collection_ids)
        known = {collection.collection_id for collection in found}
        if missing := [name for name in search.collection_ids if name not in known]:
            raise NotFoundError("COLLECTION_NOT_FOUND", f"no such collection: {', '.join(missing)}")
        # Defaults of several collections could contradict each other, so they count for a single one only.
        defaults = found[0] if len(found) == 1 else Collection("")
        return Scope(search.collection_ids, not found, defaults.rerank, defaults.generation)

    async def _history(self, owner: str, question: Question) -> Sequence[HistoryMessage]:
        stored: Sequence[HistoryMessage] = ()
        if question.thread_id is not None:
            # Read even where the request brings its own: the thread must be the caller's to be appended to.
            stored = await self._threads.history(owner, question.thread_id, self._limits.history_messages)
        if question.chat_history is not None:
            return question.chat_history
        return recent_history(
            stored,
            max_messages=self._limits.history_messages,
            max_characters=self._limits.history_characters,
        )

    async def _passages(self, search: Search, scope: Scope, progress: _Progress, emit: Emit) -> Ranking:
        await emit(StageBegan(Stage.RETRIEVING))
        with progress.stage(Stage.RETRIEVING):
            retrieval = await self._retrieve(search, scope)
            progress.timings.extend(
                replace(timing, stage=f"{Stage.RETRIEVING.value}.{timing.stage}")
                for timing in retrieval.timings
            )
        progress.degraded.extend(retrieval.degraded)
        if not retrieval.candidates:
            return Ranking()
        await emit(StageBegan(Stage.RERANKING))
        with progress.stage(Stage.RERANKING):
            ranking = await self._rerank(search, scope, retrieval)
        progress.degraded.extend(ranking.degraded)
        return replace(ranking, passages=without_repeats(ranking.passages))

    async def _retrieve(self, search: Search, scope: Scope) -> Retrieval:
        if scope.empty:
            return Retrieval()
        async with deadline_within(_share(_RETRIEVING_SHARE, self._limits.retrieve_timeout_seconds)):
            return await self._retriever.retrieve(
                search.query, scope.collection_ids, search.retrieval, search.filter
            )

    async def _rerank(self, search: Search, scope: Scope, retrieval: Retrieval) -> Ranking:
        options = merged(scope.rerank, search.rerank)
        try:
            async with deadline_within(_share(_RERANKING_SHARE, self._limits.rerank_timeout_seconds)):
                return await self._reranker.rerank(search.query, retrieval.candidates, options)
        except GroundlineError as error:
            if error.code not in _RERANKER_DOWN:
                raise
            trace.get_current_span().set_attribute("error.type", error.reason)
            passages = by_one_arm(retrieval.candidates, int(options.get("topK", DEFAULT_TOP_K)))
            return Ranking(
                passages,
                degraded=(
                    Degradation(
                        "reranker",
                        "RERANKER_UNAVAILABLE",
                        "the reranker did not answer; passages are in the order of one search arm",
                    ),
                ),
            )

    async def _generate(
        self, turn: Turn, passages: Sequence[Passage], progress: _Progress, emit: Emit
    ) -> tuple[str, Generated]:
        begun = time.perf_counter()
        answer: list[str] = []
        generated: Generated | None = None
        with _time_to_store_left():
            events = self._generator.generate(
                turn.question.search.query,
                _numbered(passages),
                turn.history,
                merged(turn.scope.generation, turn.question.generation),
                turn.question.additional_context,
            )
            async with aclosing(events):
                async for event in events:
                    if isinstance(event, Generated):
                        generated = event
                        continue
                    if not answer:
                        progress.timings.append(
                            Timing(f"{Stage.GENERATING.value}.first_token", _milliseconds_since(begun))
                        )
                    answer.append(event.text)
                    await emit(event)
        if generated is None:
            raise InternalError("ANSWER_INCOMPLETE", "the answer ended without a finish reason")
        return "".join(answer), generated

    async def _store(
        self,
        turn: Turn,
        answer: str,
        sources: Sequence[Source],
        generated: Generated,
        progress: _Progress,
    ) -> None:
        """Store question and answer. The caller has read the answer by now, so a failure only degrades it."""
        query = turn.question.search.query
        messages = (
            StoredMessage(str(uuid.uuid4()), "user", query),
            StoredMessage(
                turn.started.message_id,
                "assistant",
                answer,
                sources=sources,
                citations=generated.citations,
                usage=generated.usage,
                finish_reason=generated.finish_reason,
                model=generated.model,
            ),
        )
        try:
            async with deadline_within(self._limits.store_timeout_seconds):
                await self._threads.append(
                    turn.owner,
                    turn.started.thread_id,
                    shortened(query, TITLE_CHARACTERS),
                    messages,
                    create=turn.new_thread,
                )
        except GroundlineError as error:
            progress.degraded.append(
                Degradation("history", error.reason, f"the messages were not stored: {error.message}")
            )


class ThreadService:
    """The caller's conversations."""

    def __init__(self, threads: ThreadStore) -> None:
        self._threads = threads

    async def get(
        self, thread_id: str, page_size: int, page_token: str
    ) -> tuple[Thread, Page[StoredMessage]]:
        owner = _owner()
        thread = await self._threads.get(owner, thread_id)
        return thread, await self._threads.messages(owner, thread_id, page_size, page_token)

    async def list(self, page_size: int, page_token: str) -> Page[Thread]:
        return await self._threads.threads(_owner(), page_size, page_token)

    async def delete(self, thread_id: str) -> None:
        await self._threads.delete(_owner(), thread_id)


async def _ignore(event: Event) -> None:
    pass


def _owner() -> str:
    """Who a thread belongs to: the caller's first principal, or nobody in particular."""
    return next(iter(current_caller().principals), "")


def _numbered(passages: Sequence[Passage]) -> list[NumberedPassage]:
    return [
        NumberedPassage(
            number=number,
            text=extended_text(passage),
            context=passage.chunk.context,
            title=passage.chunk.title,
            uri=passage.chunk.uri,
            chunk_id=passage.chunk.chunk_id,
            similarity=semantic.score if (semantic := passage.explanation.semantic) else None,
        )
        for number, passage in enumerate(passages, start=1)
    ]


def _share(share: float, most: float) -> float:
    left = remaining_seconds()
    return most if left is None else min(most, share * left)


@contextmanager
def _time_to_store_left() -> Iterator[None]:
    """Narrow the deadline of the calls made inside, so that an answer that uses it up can still be stored."""
    left = remaining_seconds()
    if left is None:
        yield
        return
    with deadline_at(time.monotonic() + left * (1 - _STORING_SHARE)):
        yield


def _milliseconds_since(begun: float) -> float:
    return (time.perf_counter() - begun) * 1000
