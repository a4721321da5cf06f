"""The workflow: load the thread, rewrite, retrieve, look, rerank, generate, validate, store.

Whatever a request names (collections, a thread, an earlier attempt) is looked up in `begin`, before the
first event, so that a caller reads NOT_FOUND as a status; what fails after that has been announced as begun.
"""

import asyncio
import time
import uuid
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import structlog
from groundline_runtime.context import (
    current_caller,
    current_trace_id,
    deadline_at,
    deadline_within,
    remaining_seconds,
)
from groundline_runtime.errors import (
    FieldViolation,
    GroundlineError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
)

from groundline_coordinator.domain import (
    TITLE_CHARACTERS,
    Answered,
    Claim,
    Collection,
    Completed,
    Degradation,
    Delta,
    Event,
    FinishReason,
    Generated,
    HistoryMessage,
    NumberedPassage,
    Options,
    Page,
    Passage,
    Question,
    Search,
    Searched,
    Source,
    SourcesFound,
    Stage,
    StageBegan,
    Started,
    StoredMessage,
    Thread,
    Timing,
    Usage,
    Validation,
    extended_text,
    merged,
    number_sources,
    recent_history,
    shortened,
)
from groundline_coordinator.ports import CollectionCatalog, Generator, Reranker, Retriever, ThreadStore
from groundline_coordinator.progress import Progress, milliseconds_since
from groundline_coordinator.searching import Emit, PassageSearch, Scope, SearchLimits, stage_errors

__all__ = ["ChatService", "Found", "Limits", "ThreadService", "Turn"]

# Of the time that is left when generation begins; generation has no fallback and gets the rest.
_STORING_SHARE = 0.1

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Limits(SearchLimits):
    """Bounds of the workflow, in seconds, messages and tokens."""

    store_timeout_seconds: float
    history_messages: int
    history_tokens: int
    default_timeout_seconds: float


@dataclass(frozen=True)
class Turn:
    """A question whose collections and thread exist; `replay` where it has been answered already."""

    question: Question
    scope: Scope
    owner: str
    history: Sequence[HistoryMessage]
    started: Started
    claim: Claim | None = None
    replay: Answered | None = None


@dataclass(frozen=True)
class Found:
    """What a search without an answer found."""

    searched: Searched
    degraded: Sequence[Degradation]
    timings: Sequence[Timing]
    trace_id: str


@dataclass
class _Exchange:
    """An answer as far as it has come."""

    turn: Turn
    searched: Searched | None = None
    sources: Sequence[Source] = ()
    pieces: list[str] = field(default_factory=list)
    ended: bool = False
    """Whether it has been stored, or is being stored."""

    @property
    def answer(self) -> str:
        return "".join(self.pieces)

    def answered(self, completed: Completed) -> Answered:
        return Answered(
            started=self.turn.started,
            answer=self.answer,
            sources=self.sources,
            completed=completed,
            rewritten_query=self.searched.rewritten_query if self.searched else "",
            sub_queries=self.searched.sub_queries if self.searched else (),
            rewriting_model=self.searched.rewriting_model if self.searched else "",
        )


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
        self._passages = PassageSearch(
            retriever=retriever, reranker=reranker, generator=generator, limits=limits
        )
        self._generator = generator
        self._catalog = catalog
        self._threads = threads
        self._limits = limits
        self._storing: set[asyncio.Task[None]] = set()

    async def begin(self, question: Question) -> Turn:
        """Look up what the question names, and claim its request_id.

        Raises NotFoundError (COLLECTION_NOT_FOUND, THREAD_NOT_FOUND), InvalidArgumentError for what is beyond
        a collection's limits, and what ThreadStore.claim raises.
        """
        owner = _owner()
        scope = await self._scope(question.search, question.generation)
        history = await self._history(owner, question)
        started = Started(
            thread_id=question.thread_id or str(uuid.uuid4()),
            message_id=str(uuid.uuid4()),
            trace_id=current_trace_id() or "",
        )
        turn = Turn(question, scope, owner, history, started)
        if not question.request_id:
            return turn
        claim = Claim(owner, question.request_id, question.fingerprint, started.message_id)
        replay = await self._threads.claim(claim, self._lease_seconds())
        if replay is None:
            return replace(turn, claim=claim)
        earlier = replace(replay.started, trace_id=started.trace_id)
        return replace(turn, started=earlier, replay=replace(replay, started=earlier))

    async def chat(self, turn: Turn, emit: Emit) -> Answered:
        """Emit the events of an answer: Started, StageBegan and SourcesFound, Delta, and Completed last.

        Cancelled, it stores what was said until then as cancelled; failed, it stores nothing.
        """
        if turn.replay is not None:
            await _replay(turn.replay, emit)
            return turn.replay
        exchange = _Exchange(turn)
        try:
            return await self._converse(exchange, emit)
        except asyncio.CancelledError:
            if not exchange.ended:
                self._detach(self._store_cancelled(exchange))
            raise
        except BaseException:
            if turn.claim is not None and not exchange.ended:
                self._detach(self._in_own_time(self._threads.release(turn.claim)))
            raise

    async def answer(self, question: Question) -> Answered:
        """The same work, whole."""
        return await self.chat(await self.begin(question), _ignore)

    async def search(self, search: Search) -> Found:
        """Retrieve and rerank. Raises NotFoundError (COLLECTION_NOT_FOUND) and as `begin` for limits."""
        progress = Progress()
        scope = await self._scope(search, {})
        searched = await self._passages.find(search, scope, progress, _ignore)
        return Found(searched, tuple(progress.degraded), tuple(progress.timings), current_trace_id() or "")

    async def settle(self) -> None:
        """Wait for what is still being stored; call it when no more requests come."""
        await asyncio.gather(*self._storing, return_exceptions=True)

    async def _converse(self, exchange: _Exchange, emit: Emit) -> Answered:
        turn, progress = exchange.turn, Progress()
        await emit(turn.started)
        searched = await self._passages.find(
            turn.question.search,
            turn.scope,
            progress,
            emit,
            history=turn.history,
            mode=turn.question.rewriting,
        )
        exchange.searched = searched
        exchange.sources = number_sources(searched.ranking.passages)
        await emit(SourcesFound(exchange.sources))
        await emit(StageBegan(Stage.GENERATING))
        with progress.stage(Stage.GENERATING):
            generated = await self._generate(exchange, searched, progress, emit)
        generated = replace(generated, usage=generated.usage + searched.usage)
        exchange.ended = True
        # Whoever leaves now has read the whole answer: it is stored as such.
        await asyncio.shield(self._detach(self._store(exchange, generated, progress)))
        completed = Completed(generated, tuple(progress.degraded), tuple(progress.timings))
        await emit(completed)
        return exchange.answered(completed)

    async def _scope(self, search: Search, generation: Options) -> Scope:
        found = await self._catalog.readable(current_caller().principals, search.collection_ids)
        known = {collection.collection_id for collection in found}
        if missing := [name for name in search.collection_ids if name not in known]:
            raise NotFoundError("COLLECTION_NOT_FOUND", f"no such collection: {', '.join(missing)}")
        beyond = [
            FieldViolation(f"options.{path}", f"{description} in collection {collection.collection_id}")
            for collection in found
            for path, description in collection.limits.excesses(search.rerank, generation)
        ]
        if beyond:
            raise InvalidArgumentError(beyond)
        # Defaults of several collections could contradict each other, so they count for a single one only.
        defaults = found[0] if len(found) == 1 else Collection("")
        return Scope(search.collection_ids, not found, defaults.rerank, defaults.generation)

    async def _history(self, owner: str, question: Question) -> Sequence[HistoryMessage]:
        messages = question.chat_history
        if question.thread_id is not None:
            # Read even where the request brings its own: the thread must be the caller's to be appended to.
            stored = await self._threads.history(owner, question.thread_id, self._limits.history_messages)
            messages = stored if messages is None else messages
        return recent_history(messages or (), max_tokens=self._limits.history_tokens)

    def _lease_seconds(self) -> float:
        """How long an attempt may take: when it died without a word, a retry may begin after that."""
        left = remaining_seconds()
        allowed = self._limits.default_timeout_seconds if left is None else left
        return allowed + self._limits.store_timeout_seconds

    async def _generate(
        self, exchange: _Exchange, searched: Searched, progress: Progress, emit: Emit
    ) -> Generated:
        turn = exchange.turn
        begun = time.perf_counter()
        generated: Generated | None = None
        with _time_to_store_left(), stage_errors("generation"):
            events = self._generator.generate(
                searched.query,
                _numbered(searched.ranking.passages),
                turn.history,
                merged(turn.scope.generation, turn.question.generation),
                turn.question.additional_context,
            )
            async with aclosing(events):
                async for event in events:
                    if isinstance(event, Generated):
                        generated = event
                        continue
                    if not exchange.pieces:
                        progress.timings.append(
                            Timing(f"{Stage.GENERATING.value}.first_token", milliseconds_since(begun))
                        )
                    exchange.pieces.append(event.text)
                    await emit(event)
        if generated is None:
            raise InternalError("ANSWER_INCOMPLETE", "the answer ended without a finish reason")
        return generated

    async def _store(self, exchange: _Exchange, generated: Generated, progress: Progress) -> None:
        """Store the exchange. The caller has read the answer by now, so a failure only degrades it."""
        completed = Completed(generated, tuple(progress.degraded), tuple(progress.timings))
        try:
            async with deadline_within(self._limits.store_timeout_seconds):
                await self._append(exchange, generated, exchange.answered(completed))
        except GroundlineError as error:
            progress.degraded.append(
                Degradation("history", error.reason, f"the messages were not stored: {error.message}")
            )
            if exchange.turn.claim is not None:
                self._detach(self._in_own_time(self._threads.release(exchange.turn.claim)))

    async def _store_cancelled(self, exchange: _Exchange) -> None:
        """Store what was said until the caller went away; a retry of the request is done anew."""
        generated = Generated(
            FinishReason.CANCELLED,
            exchange.searched.usage if exchange.searched else Usage(),
            citations=(),
            validation=Validation(),
            model="",
        )
        await self._in_own_time(self._append(exchange, generated, None))
        if exchange.turn.claim is not None:
            await self._in_own_time(self._threads.release(exchange.turn.claim))

    async def _append(self, exchange: _Exchange, generated: Generated, answered: Answered | None) -> None:
        turn = exchange.turn
        query = turn.question.search.query
        messages = (
            StoredMessage(str(uuid.uuid4()), "user", query),
            StoredMessage(
                turn.started.message_id,
                "assistant",
                exchange.answer,
                sources=exchange.sources,
                citations=generated.citations,
                usage=generated.usage,
                finish_reason=generated.finish_reason,
                model=generated.model,
            ),
        )
        await self._threads.append(
            turn.owner,
            turn.started.thread_id,
            shortened(query, TITLE_CHARACTERS),
            messages,
            create=turn.question.thread_id is None,
            answered=(turn.claim, answered) if turn.claim and answered else None,
        )

    async def _in_own_time(self, work: Coroutine[Any, Any, None]) -> None:
        """Do it although the request is over; it waits for nobody, so a failure is only logged."""
        seconds = self._limits.store_timeout_seconds
        try:
            with deadline_at(time.monotonic() + seconds):
                async with deadline_within(seconds):
                    await work
        except GroundlineError as error:
            _log.warning("not_stored_after_request", reason=error.reason)

    def _detach(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run it to its end, whatever happens to the request."""
        task = asyncio.create_task(work, name="store")
        self._storing.add(task)
        task.add_done_callback(self._storing.discard)
        return task


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


async def _replay(answered: Answered, emit: Emit) -> None:
    await emit(answered.started)
    if answered.rewritten_query or answered.sub_queries:
        await emit(
            StageBegan(
                Stage.RETRIEVING, answered.rewritten_query, answered.sub_queries, answered.rewriting_model
            )
        )
    await emit(SourcesFound(answered.sources))
    if answered.answer:
        await emit(Delta(answered.answer))
    await emit(answered.completed)


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


@contextmanager
def _time_to_store_left() -> Iterator[None]:
    """Narrow the deadline of the calls made inside, so that an answer that uses it up can still be stored."""
    left = remaining_seconds()
    if left is None:
        yield
        return
    with deadline_at(time.monotonic() + left * (1 - _STORING_SHARE)):
        yield
