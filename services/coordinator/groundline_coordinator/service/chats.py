"""The workflow: load the thread, find passages, generate, validate, store.

Everything that a request names (collections, a thread, an earlier attempt) is looked up in `begin`, before
the first event, so that a caller gets NOT_FOUND as a status; later failures follow the event that the chat
has started.
"""

import asyncio
import hashlib
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

import structlog
from groundline.v1 import (
    chat_pb2,
    evidence_pb2,
    generator_service_pb2,
    passage_pb2,
    retriever_service_pb2,
    thread_pb2,
)
from groundline.v1 import coordinator_service_pb2 as pb
from groundline_runtime.charges import total, usage_of
from groundline_runtime.context import (
    Caller,
    begun,
    current_trace_id,
    deadline_at,
    deadline_within,
    give_place_back,
    remaining_seconds,
)
from groundline_runtime.errors import (
    GroundlineError,
    InternalError,
    named_as_sent,
)
from groundline_runtime.reasons import reason_value
from groundline_runtime.serving.detached import DetachedWork

from groundline_coordinator.domain.calibration import calibrate
from groundline_coordinator.domain.conversation import recent_history
from groundline_coordinator.domain.corrections import corrected, with_answer
from groundline_coordinator.domain.evidence import record_of
from groundline_coordinator.domain.passages import (
    number_sources,
    numbered_passages,
    resolved,
    suspicions,
)
from groundline_coordinator.domain.positions import Position
from groundline_coordinator.domain.rewriting import queries_of
from groundline_coordinator.domain.snippets import shortened
from groundline_coordinator.domain.table_answers import table_answer, table_passages
from groundline_coordinator.domain.turns import (
    Question,
    RequestClaim,
    Turn,
    inquiry_of,
    is_stored,
)
from groundline_coordinator.ports import CollectionCatalog, Generator, Retriever, ThreadStore
from groundline_coordinator.service.locating import locate_citations
from groundline_coordinator.service.progress import StageReport, count
from groundline_coordinator.service.quotas import CallerQuotas
from groundline_coordinator.service.replaying import replay
from groundline_coordinator.service.scoping import looking_up, scope_of
from groundline_coordinator.service.searching import (
    Emit,
    Event,
    PassageSearch,
    Searched,
    SearchLimits,
    read_sources,
)
from groundline_coordinator.service.tables import asked_tables

TITLE_CHARACTERS: Final = 120

# Share of the time left when generation begins; generation has no fallback and gets the rest.
_STORING_SHARE: Final = 0.1

LEASE_SECONDS: Final = 10.0
"""Time after which a retry may begin if a coordinator has died, in seconds."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ChatLimits(SearchLimits):
    """Limits of the workflow, in seconds, messages and tokens."""

    store_timeout_seconds: float
    history_messages: int
    history_tokens: int


@dataclass(slots=True)
class _Exchange:
    """An answer so far."""

    turn: Turn
    progress: StageReport = field(default_factory=StageReport)
    searched: Searched | None = None
    sources: Sequence[chat_pb2.Source] = ()
    pieces: list[str] = field(default_factory=list)
    is_corrected: bool = False
    """Whether the caller was sent a correction."""
    asking: asyncio.Task[GroundlineError | None] | None = None
    """Task that stores the question, and returns why it could not; None if it is not stored."""
    has_ended: bool = False
    """Whether it has been stored, or is being stored."""

    @property
    def answer(self) -> str:
        return "".join(self.pieces)

    def correct(self, correction: chat_pb2.AnswerCorrection) -> None:
        self.pieces = [corrected(self.answer, correction)]
        self.is_corrected = True

    def record(self, completed: chat_pb2.ChatCompleted) -> evidence_pb2.AnswerRecord:
        found = self.searched
        if found is None:
            return record_of(self.turn, (), chat_pb2.ChatStatus(), (), completed)
        return record_of(self.turn, queries_of(found.rewrite), found.status, found.passages, completed)

    def answered(self, completed: chat_pb2.ChatCompleted) -> pb.AnswerResponse:
        status = self.searched.status if self.searched else chat_pb2.ChatStatus()
        return pb.AnswerResponse(
            thread_id=self.turn.started.thread_id,
            message_id=self.turn.started.message_id,
            trace_id=self.turn.started.trace_id,
            answer=self.answer,
            sources=self.sources,
            completed=completed,
            rewritten_query=status.rewritten_query,
            sub_queries=status.sub_queries,
            rewriting_model=status.rewriting_model,
            corrections=status.corrections,
        )


class ChatService:
    """Use cases of Chat and Answer."""

    def __init__(
        self,
        *,
        retriever: Retriever,
        generator: Generator,
        catalog: CollectionCatalog,
        threads: ThreadStore,
        quotas: CallerQuotas,
        limits: ChatLimits,
        renewal_seconds: float = LEASE_SECONDS / 3,
    ) -> None:
        """Take the ports and limits. `renewal_seconds`: time between renewals of the claim of a request under
        way."""
        self._passages = PassageSearch(retriever, generator, limits)
        self._retriever = retriever
        self._generator = generator
        self._catalog = catalog
        self._threads = threads
        self._quotas = quotas
        self._limits = limits
        self._renewal_seconds = renewal_seconds
        self._work = DetachedWork(limits.store_timeout_seconds)

    async def begin(self, caller: Caller, question: Question, *, after: str = "") -> Turn:
        """Look up the names in the question, and claim its request_id.

        `after` is the id of the last event of an earlier attempt; a replay continues behind it.

        Raises NotFoundError (COLLECTION_NOT_FOUND, THREAD_NOT_FOUND), InvalidArgumentError for values beyond
        a collection's limits, ResourceExhaustedError (QUOTA_EXHAUSTED), UnavailableError if the database
        does not answer in time, and the errors of ThreadStore.claim.
        """
        owner, inquiry = caller.owner, inquiry_of(question)
        identity = _identity(owner, question)
        started = chat_pb2.ChatStarted(
            thread_id=question.thread_id.lower() or (str(identity) if is_stored(question) else ""),
            message_id=str(uuid.uuid4()),
            trace_id=current_trace_id() or "",
        )
        new_thread_id = "" if question.thread_id else started.thread_id
        # Concurrently: the count for the quotas then delays no answer.
        async with looking_up(self._limits.store_timeout_seconds):
            plan, history, used = await asyncio.gather(
                scope_of(self._catalog, caller, inquiry, question.options.generation),
                self._history(caller, question),
                self._quotas.used(owner, new_thread_id),
            )
        turn = Turn(question, str(identity), inquiry, plan, owner, history, started, used)
        if not question.request_id:
            self._quotas.require_room(used, new_thread_id)
            return turn
        claim = RequestClaim(owner, question.request_id, _fingerprint(question), started.message_id)
        async with looking_up(self._limits.store_timeout_seconds):
            replay = await self._threads.claim(claim, caller.principals, LEASE_SECONDS)
        if replay is None:
            try:
                self._quotas.require_room(used, new_thread_id)
            except GroundlineError:
                await self._threads.release(claim)
                raise
            return replace(turn, claim=claim)
        read = await read_sources(self._retriever, [replay.sources])
        resolved(replay.sources, replay.completed.citations, replay.answer, inquiry.query, read)
        replay.trace_id = started.trace_id
        earlier = chat_pb2.ChatStarted(
            thread_id=replay.thread_id, message_id=replay.message_id, trace_id=replay.trace_id
        )
        position = Position.of(after)
        is_of_this = position is not None and replay.message_id.startswith(position.answer)
        return replace(turn, started=earlier, replay=replay, resumed=position if is_of_this else None)

    async def chat(self, turn: Turn, emit: Emit) -> pb.AnswerResponse:
        """Emit the events of an answer: started, status and sources, texts, and completed last.

        The question is stored first, so that a thread that is told of is there; one that cannot be stored is
        not told of, and the answer says why. If cancelled, the text so far is stored as cancelled; if
        it fails, no answer is stored.
        """
        if turn.replay is not None:
            await replay(turn, turn.replay, emit)
            return turn.replay
        exchange = _Exchange(turn)
        if is_stored(turn.question):
            exchange.asking = self._work.run(self._work.in_own_time(self._ask(exchange)))
        renewal = asyncio.create_task(self._renew(turn.claim)) if turn.claim else None
        try:
            with begun():
                return await self._converse(exchange, emit)
        except asyncio.CancelledError:
            if not exchange.has_ended:
                self._work.run(self._store_cancelled(exchange))
            raise
        except BaseException as error:
            if not exchange.has_ended:
                failed = usage_of(error) if isinstance(error, GroundlineError) else None
                self._work.run(self._spend(exchange, failed))
            if exchange.asking is not None:
                # A client that is told of the failure can read the thread.
                await asyncio.wait([exchange.asking])
            if turn.claim is not None and not exchange.has_ended:
                self._work.run(self._work.in_own_time(self._threads.release(turn.claim)))
            raise
        finally:
            if renewal is not None:
                renewal.cancel()

    async def answer(self, caller: Caller, question: pb.AnswerRequest) -> pb.AnswerResponse:
        """Do the same work, and return the whole answer."""
        return await self.chat(await self.begin(caller, question), _ignore)

    async def settle(self) -> None:
        """Wait for pending writes; call it when no more requests come."""
        await self._work.settle()

    async def _converse(self, exchange: _Exchange, emit: Emit) -> pb.AnswerResponse:
        turn, progress = exchange.turn, exchange.progress
        is_continued = bool(turn.question.thread_id)
        if exchange.asking and not is_continued and await asyncio.shield(exchange.asking) is not None:
            turn.started.thread_id = ""
        await emit(turn.started)
        searched = await self._passages.find(
            turn.inquiry,
            turn.plan,
            progress,
            emit,
            history=turn.history,
            effort=turn.question.options.effort,
        )
        asked = await asked_tables(
            self._retriever, turn, searched, progress, self._limits.search_timeout_seconds
        )
        if asked.rows:
            searched = replace(searched, passages=table_passages(asked))
        exchange.searched = searched
        exchange.sources = number_sources(searched.passages, searched.rewrite.standalone_query)
        await emit(chat_pb2.ChatSources(sources=exchange.sources))
        await emit(chat_pb2.ChatStatus(stage=passage_pb2.STAGE_GENERATING))
        with progress.stage(passage_pb2.STAGE_GENERATING):
            if asked.rows:
                generated = await _say(exchange, asked, emit)
            else:
                generated = await self._generate(exchange, searched, progress, emit)
        await locate_citations(
            self._retriever,
            generated.citations,
            searched.passages,
            progress,
            self._limits.store_timeout_seconds,
        )
        cited = {citation.source_number for citation in generated.citations}
        progress.degraded.extend(generated.degraded)
        generated.validation.issues.extend(suspicions(exchange.sources, cited))
        if not asked.rows:  # what was measured are answers out of passages
            calibrate(generated.validation, turn.plan.calibration)
        completed = chat_pb2.ChatCompleted(
            finish_reason=generated.finish_reason,
            usage=total([generated.usage, *progress.paid, *progress.paid_by_retriever]),
            citations=generated.citations,
            validation=generated.validation,
            degraded=progress.degraded,
            timings=progress.timings,
            model=generated.model,
            prompt_version=generated.prompt_version,
        )
        completed.nearly_used.extend(self._quotas.nearly_used(turn.owner, turn.used, completed.usage))
        if completed.usage.ListFields():  # local models take nothing
            self._work.run(self._spend(exchange, generated.usage))
        exchange.has_ended = True
        # A client that leaves now has read the whole answer: it is stored as complete.
        await asyncio.shield(self._work.run(self._store(exchange, completed)))
        count(completed, turn.owner, turn.inquiry.collection_ids)
        await emit(with_answer(completed, exchange.answer) if exchange.is_corrected else completed)
        return exchange.answered(completed)

    async def _history(self, caller: Caller, question: Question) -> Sequence[chat_pb2.ChatMessage]:
        messages: Sequence[chat_pb2.ChatMessage] = question.chat_history
        if question.thread_id:
            # Read even if the request brings its own: the thread must be the caller's to be appended to.
            stored = await self._threads.history(
                caller.owner, caller.principals, question.thread_id, self._limits.history_messages
            )
            messages = messages or stored
        return recent_history(messages, max_tokens=self._limits.history_tokens)

    async def _renew(self, claim: RequestClaim) -> None:
        """Hold a claim until cancelled."""
        while True:
            await asyncio.sleep(self._renewal_seconds)
            await self._work.in_own_time(self._threads.renew(claim, LEASE_SECONDS))

    async def _generate(
        self, exchange: _Exchange, searched: Searched, progress: StageReport, emit: Emit
    ) -> generator_service_pb2.GenerateCompleted:
        turn = exchange.turn
        request = generator_service_pb2.GenerateRequest(
            query=searched.rewrite.standalone_query,
            passages=numbered_passages(searched.passages, searched.multilingual_collections),
            chat_history=turn.history,
            options=turn.plan.generation,
            additional_context=turn.question.additional_context,
            accepts_corrections=not turn.question.options.append_only,
        )
        asked, completed = time.perf_counter(), None
        give_place_back()
        with _time_to_store_left(), named_as_sent("generation"):
            async with aclosing(self._generator.generate(request)) as events:
                async for event in events:
                    if event.HasField("completed"):
                        # Read to its end: a call that is broken off counts as its replica's failure.
                        completed = event.completed
                        continue
                    if event.HasField("waiting"):
                        await emit(
                            chat_pb2.ChatStatus(stage=passage_pb2.STAGE_GENERATING, waiting=event.waiting)
                        )
                        continue
                    if event.HasField("unsupported"):
                        await emit(event.unsupported)
                        continue
                    if event.HasField("correction"):
                        exchange.correct(event.correction)
                        await emit(event.correction)
                        continue
                    if not exchange.pieces:
                        progress.answering(asked)
                    exchange.pieces.append(event.delta.text)
                    await emit(event.delta.text)
        if completed is None:
            raise InternalError("ANSWER_INCOMPLETE", "the answer ended without a finish reason")
        return completed

    async def _store(self, exchange: _Exchange, completed: chat_pb2.ChatCompleted) -> None:
        """Store the exchange. The caller has read the answer by now, so a failure only degrades it."""
        replayed = exchange.answered(completed) if exchange.turn.claim else None
        try:
            async with deadline_within(self._limits.store_timeout_seconds):
                await self._append(exchange, completed, replayed)
        except GroundlineError as error:
            completed.degraded.add(
                component=passage_pb2.COMPONENT_HISTORY,
                reason=reason_value(error.reason),
                message=f"the messages were not stored: {error.message}",
            )
            if exchange.turn.claim is not None:
                self._work.run(self._work.in_own_time(self._threads.release(exchange.turn.claim)))

    async def _spend(self, exchange: _Exchange, last: chat_pb2.Usage | None = None) -> None:
        """Count what an answer took. `last`: usage of the call that wrote it, or failed to."""
        own, searches = exchange.progress.paid, exchange.progress.paid_by_retriever
        usage = total(own if last is None else [*own, last])
        await self._work.in_own_time(self._quotas.spend(exchange.turn.owner, usage, total(searches)))

    async def _store_cancelled(self, exchange: _Exchange) -> None:
        """Store the text up to the caller's cancellation; a retry of the request is done anew."""
        completed = chat_pb2.ChatCompleted(
            finish_reason=chat_pb2.FINISH_REASON_CANCELLED,
            usage=total([*exchange.progress.paid, *exchange.progress.paid_by_retriever]),
        )
        await self._spend(exchange)
        await self._work.in_own_time(self._append(exchange, completed, None))
        if exchange.turn.claim is not None:
            await self._work.in_own_time(self._threads.release(exchange.turn.claim))

    async def _append(
        self,
        exchange: _Exchange,
        completed: chat_pb2.ChatCompleted,
        answered: pb.AnswerResponse | None,
    ) -> None:
        if exchange.asking is None:
            return
        turn = exchange.turn
        if (failure := await asyncio.shield(exchange.asking)) is not None:
            if not turn.started.thread_id:
                raise failure
            await self._ask(exchange)
        await self._threads.answer(
            turn.owner,
            turn.started.thread_id,
            turn.question_id,
            thread_pb2.Message(
                message_id=turn.started.message_id,
                role=chat_pb2.ChatMessage.ASSISTANT,
                content=exchange.answer,
                sources=exchange.sources,
                citations=completed.citations,
                usage=completed.usage,
                finish_reason=completed.finish_reason,
                model=completed.model,
            ),
            exchange.record(completed),
            answered=(turn.claim, answered) if turn.claim and answered else None,
        )

    async def _ask(self, exchange: _Exchange) -> None:
        turn, query = exchange.turn, exchange.turn.inquiry.query
        await self._threads.ask(
            turn.owner,
            turn.started.thread_id,
            shortened(query, TITLE_CHARACTERS),
            thread_pb2.Message(message_id=turn.question_id, role=chat_pb2.ChatMessage.USER, content=query),
            create=not turn.question.thread_id,
        )


async def _say(
    exchange: _Exchange, found: retriever_service_pb2.QueryTablesResponse, emit: Emit
) -> generator_service_pb2.GenerateCompleted:
    """Answer by what a table says."""
    text, completed = table_answer(found)
    exchange.pieces.append(text)
    await emit(text)
    return completed


async def _ignore(event: Event | str) -> None:
    pass


def _identity(owner: str, question: Question) -> uuid.UUID:
    """Return the id of the question's message, and of a thread that begins with it.

    It is the same for each attempt at a request that has a request_id, so that a retry stores no question
    twice.
    """
    if not question.request_id:
        return uuid.uuid4()
    request = hashlib.sha256(f"{owner}\0{question.request_id}\0".encode() + _fingerprint(question))
    return uuid.UUID(bytes=request.digest()[:16], version=5)


def _fingerprint(question: Question) -> bytes:
    """Return SHA-256 of all but the request_id; the same for the same request to Chat and to Answer."""
    rest = pb.ChatRequest.FromString(question.SerializeToString())
    rest.ClearField("request_id")
    return hashlib.sha256(rest.SerializeToString(deterministic=True)).digest()


@contextmanager
def _time_to_store_left() -> Iterator[None]:
    """Narrow the deadline of the calls made inside, so that an answer that uses it up can still be stored."""
    left = remaining_seconds()
    if left is None:
        yield
        return
    with deadline_at(time.monotonic() + left * (1 - _STORING_SHARE)):
        yield
