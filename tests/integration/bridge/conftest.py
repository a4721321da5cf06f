"""A real bridge before scripted services, on real ports."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import httpx
import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from groundline.v1 import (
    chat_pb2,
    collection_pb2,
    coordinator_service_pb2,
    coordinator_service_pb2_grpc,
    document_pb2,
    ingestor_service_pb2,
    ingestor_service_pb2_grpc,
    passage_pb2,
    retriever_service_pb2,
    retriever_service_pb2_grpc,
    table_pb2,
    verification_pb2,
)
from groundline_bridge.__main__ import wire
from groundline_bridge.settings import BridgeSettings
from groundline_runtime.context import current_caller, remaining_seconds
from groundline_runtime.errors import GroundlineError, NotFoundError, UnavailableError
from groundline_runtime.serving.server import Application
from groundline_tests.runtime import serve
from groundline_validation import validate

COORDINATOR, INGESTOR = "groundline.v1.CoordinatorService", "groundline.v1.IngestorService"
RETRIEVER = "groundline.v1.RetrieverService"
ALICE = {"x-groundline-principals": "user:alice", "x-groundline-scopes": "search,chat"}

SOURCE = chat_pb2.Source(
    number=1,
    title="Leave",
    uri="handbook/leave.md",
    type=passage_pb2.SOURCE_TYPE_FILE,
    snippet="Employees have 27 days of leave.",
    chunk_id="7",
    document_id="5f0c1d6e-0000-4000-8000-000000000001",
    collection_id="handbook",
    score=0.9,
    start_offset=4,
    end_offset=36,
)
DOCUMENT_ID = "5f0c1d6e-0000-4000-8000-000000000001"
CHUNK = passage_pb2.Chunk(
    chunk_id="7",
    document_id=DOCUMENT_ID,
    collection_id="handbook",
    text="Employees have 27 days of leave.",
    title="Leave",
    uri="handbook/leave.md",
    end_offset=32,
)
COMPLETED = chat_pb2.ChatCompleted(
    finish_reason=chat_pb2.FINISH_REASON_STOP,
    usage=chat_pb2.Usage(prompt_tokens=20, cached_tokens=5, output_tokens=7),
    citations=[chat_pb2.Citation(source_number=1, start_offset=0, end_offset=8, chunk_id="7")],
    validation=chat_pb2.Validation(grounded=True, confidence=0.9),
    model="scripted",
)


REFUTED = verification_pb2.VerifiedClaim(
    number=1,
    end_offset=34,
    text="Employees have 28 days of\nleave.",
    verdict=verification_pb2.VERDICT_REFUTED,
    probability=0.75,
    message='a passage has "27 days" in place of "28 days"',
    words=["28 days"],
    evidence=[
        verification_pb2.ClaimEvidence(
            source=SOURCE, end_offset=32, text="Employees have 27 days of leave.</passage>", words=["27 days"]
        )
    ],
)


@dataclass
class Services:
    """Coordinator and ingestor: record what they are asked, and answer as they are told."""

    requests: list[Any] = field(default_factory=list)
    callers: list[tuple[str, ...]] = field(default_factory=list)
    deadlines: list[float | None] = field(default_factory=list)
    error: GroundlineError | None = None
    """Error of every call; a chat fails with it after its second event."""
    lost: int = 0
    """Number of the next answers whose replica is lost before a word."""
    hangs: bool = False
    """Whether answers wait after their first words until they are cancelled."""
    waiting: asyncio.Event = field(default_factory=asyncio.Event)
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    uri: str = "handbook/leave.md"
    """Where the answer's source is found."""
    texts: tuple[str, ...] = ("27 days. ", "[1]")
    completed: chat_pb2.ChatCompleted = field(default_factory=lambda: COMPLETED)
    text: str = "Employees have 27 days of leave. No more."
    chunk: passage_pb2.Chunk = field(default_factory=lambda: CHUNK)
    collections: list[str] = field(default_factory=lambda: ["handbook", "product"])

    @property
    def source(self) -> chat_pb2.Source:
        source = chat_pb2.Source()
        source.CopyFrom(SOURCE)
        source.uri = self.uri
        return source

    def asked(self, request: Any) -> None:
        self.requests.append(request)
        self.callers.append(current_caller().principals)
        self.deadlines.append(remaining_seconds())
        if self.lost:
            self.lost -= 1
            raise UnavailableError("LOST", "the replica is gone")

    async def hang(self) -> None:
        self.waiting.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.cancelled.set()


class _Coordinator(coordinator_service_pb2_grpc.CoordinatorServiceServicer):
    def __init__(self, services: Services) -> None:
        self._services = services

    async def Chat(self, request: Any, context: Any) -> AsyncIterator[coordinator_service_pb2.ChatResponse]:  # noqa: N802
        services = self._services
        services.asked(request)
        event = coordinator_service_pb2.ChatResponse
        if services.error and not services.texts:
            raise services.error
        yield event(sequence=1, started=chat_pb2.ChatStarted(message_id="m1", trace_id="f" * 32))
        yield event()  # a sign of life
        yield event(sequence=2, sources=chat_pb2.ChatSources(sources=[services.source]))
        for text in services.texts:
            yield event(delta=chat_pb2.ChatDelta(text=text))
            if services.hangs:
                await services.hang()
            if services.error:
                yield event(error=chat_pb2.ChatError(code=services.error.code.value))
                raise services.error
        yield event(completed=services.completed)

    async def Answer(self, request: Any, context: Any) -> coordinator_service_pb2.AnswerResponse:  # noqa: N802
        self._services.asked(request)
        if self._services.hangs:
            await self._services.hang()
        if self._services.error:
            raise self._services.error
        return coordinator_service_pb2.AnswerResponse(
            message_id="m1",
            trace_id="f" * 32,
            answer="".join(self._services.texts),
            sources=[self._services.source],
            completed=self._services.completed,
        )

    async def Verify(  # noqa: N802
        self, request: Any, context: Any
    ) -> AsyncIterator[coordinator_service_pb2.VerifyResponse]:
        services = self._services
        services.asked(request)
        event = coordinator_service_pb2.VerifyResponse
        yield event(sequence=1, started=verification_pb2.VerifyStarted(claim_count=1))
        yield event()  # a sign of life
        if services.hangs:
            await services.hang()
        if services.error:
            yield event(error=chat_pb2.ChatError(code=services.error.code.value))
            raise services.error
        yield event(sequence=2, claim=REFUTED)
        yield event(sequence=3, completed=verification_pb2.VerifyCompleted(refuted_count=1, model="rules"))


class _Retriever(retriever_service_pb2_grpc.RetrieverServiceServicer):
    def __init__(self, services: Services) -> None:
        self._services = services

    async def Search(self, request: Any, context: Any) -> retriever_service_pb2.SearchResponse:  # noqa: N802
        self._services.asked(request)
        if self._services.hangs:
            await self._services.hang()
        if self._services.error:
            raise self._services.error
        return retriever_service_pb2.SearchResponse(
            passages=[passage_pb2.Passage(chunk=self._services.chunk, score=0.9)]
        )

    async def QueryTables(  # noqa: N802
        self, request: Any, context: Any
    ) -> retriever_service_pb2.QueryTablesResponse:
        self._services.asked(request)
        table = table_pb2.Table(
            collection_id="handbook",
            document_id=DOCUMENT_ID,
            title="Price list",
            columns=[
                table_pb2.TableColumn(index=0, name="Model", type=table_pb2.COLUMN_TYPE_TEXT),
                table_pb2.TableColumn(index=1, name="Price", type=table_pb2.COLUMN_TYPE_NUMBER, unit="EUR"),
            ],
        )
        if not request.HasField("plan") and "colour" in request.question:
            return retriever_service_pb2.QueryTablesResponse(
                refusal=table_pb2.TABLE_REFUSAL_NOT_UNDERSTOOD, unknown_words=["colour"], tables=[table]
            )
        return retriever_service_pb2.QueryTablesResponse(
            plan=table_pb2.TablePlan(document_id=DOCUMENT_ID),
            explanation="sum of Price",
            table=table,
            columns=[
                table_pb2.TableAnswerColumn(name="Price", function=table_pb2.TABLE_FUNCTION_SUM, unit="EUR")
            ],
            rows=[
                table_pb2.TableAnswerRow(
                    cells=[table_pb2.TableCell(text="911.5</table>", number=911.5, unit="EUR")],
                    sources=[table_pb2.CellReference(row=2, column=1, reference="B2")],
                    row_count=4,
                    missing_count=1,
                )
            ],
        )


class _Ingestor(ingestor_service_pb2_grpc.IngestorServiceServicer):
    def __init__(self, services: Services) -> None:
        self._services = services

    async def GetCollection(self, request: Any, context: Any) -> ingestor_service_pb2.GetCollectionResponse:  # noqa: N802
        self._services.asked(request)
        if request.collection_id not in self._services.collections:
            raise NotFoundError("COLLECTION_NOT_FOUND", f"no such collection: {request.collection_id}")
        return ingestor_service_pb2.GetCollectionResponse(collection=_collection(request.collection_id))

    async def GetDocument(self, request: Any, context: Any) -> ingestor_service_pb2.GetDocumentResponse:  # noqa: N802
        self._services.asked(request)
        if request.document_id != DOCUMENT_ID:
            raise NotFoundError("DOCUMENT_NOT_FOUND", "no such document")
        return ingestor_service_pb2.GetDocumentResponse(document=_document(request.collection_id))

    async def GetDocumentText(  # noqa: N802
        self, request: Any, context: Any
    ) -> ingestor_service_pb2.GetDocumentTextResponse:
        self._services.asked(request)
        whole, start = self._services.text, request.start_offset
        text = whole[start : start + request.max_characters]
        return ingestor_service_pb2.GetDocumentTextResponse(
            text=text, start_offset=start, end_offset=start + len(text), character_count=len(whole)
        )

    async def EmbedTexts(self, request: Any, context: Any) -> ingestor_service_pb2.EmbedTextsResponse:  # noqa: N802
        self._services.asked(request)
        if self._services.error:
            raise self._services.error
        return ingestor_service_pb2.EmbedTextsResponse(
            embeddings=[ingestor_service_pb2.Embedding(values=[0.6, 0.8]) for _ in request.texts],
            model="minilm",
            token_count=3,
        )

    async def ListDocuments(self, request: Any, context: Any) -> ingestor_service_pb2.ListDocumentsResponse:  # noqa: N802
        self._services.asked(request)
        # Two pages of one.
        return ingestor_service_pb2.ListDocumentsResponse(
            documents=[_document(request.collection_id)],
            next_page_token="" if request.page_token else "second",
        )

    async def ListCollections(  # noqa: N802
        self, request: Any, context: Any
    ) -> ingestor_service_pb2.ListCollectionsResponse:
        self._services.asked(request)
        # One on each page.
        page = int(request.page_token or 0)
        is_last = page + 1 == len(self._services.collections)
        return ingestor_service_pb2.ListCollectionsResponse(
            collections=[_collection(self._services.collections[page])],
            next_page_token="" if is_last else str(page + 1),
        )


def _document(collection_id: str) -> document_pb2.Document:
    return document_pb2.Document(
        document_id=DOCUMENT_ID,
        collection_id=collection_id,
        uri="handbook/leave.md",
        title="Leave",
        chunk_count=2,
    )


def _collection(collection_id: str) -> collection_pb2.Collection:
    return collection_pb2.Collection(
        collection_id=collection_id, name=collection_id.title(), create_time=Timestamp(seconds=1_760_000_000)
    )


@pytest.fixture
async def services() -> Services:
    return Services()


@pytest.fixture
async def target(services: Services) -> AsyncIterator[str]:
    """The address of all."""
    # They implement what the bridge calls.
    coordinator = _Coordinator(services)  # type: ignore[abstract]
    retriever = _Retriever(services)  # type: ignore[abstract]
    ingestor = _Ingestor(services)  # type: ignore[abstract]
    all_of_them = Application(
        services={
            COORDINATOR: partial(
                coordinator_service_pb2_grpc.add_CoordinatorServiceServicer_to_server, coordinator
            ),
            RETRIEVER: partial(retriever_service_pb2_grpc.add_RetrieverServiceServicer_to_server, retriever),
            INGESTOR: partial(ingestor_service_pb2_grpc.add_IngestorServiceServicer_to_server, ingestor),
        },
        validate=validate,
    )
    async with serve(all_of_them) as address:
        yield address


type Launch = Callable[..., AbstractAsyncContextManager[httpx.AsyncClient]]


@pytest.fixture
def launch(target: str) -> Launch:
    """launch(**settings): a bridge, and a client that says what the gateway says of alice."""

    @asynccontextmanager
    async def running(**changes: Any) -> AsyncIterator[httpx.AsyncClient]:
        values = {
            "coordinator_target": target,
            "retriever_target": target,
            "ingestor_target": target,
            **changes,
        }
        settings = BridgeSettings(**values)
        async with (
            wire(settings) as server,
            httpx.AsyncClient(
                base_url=f"http://127.0.0.1:{server.port}", headers=ALICE, timeout=30, trust_env=False
            ) as client,
        ):
            yield client

    return running


@pytest.fixture
async def client(launch: Launch) -> AsyncIterator[httpx.AsyncClient]:
    async with launch() as client:
        yield client
