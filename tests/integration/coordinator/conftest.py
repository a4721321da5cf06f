import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest
from groundline.v1 import (
    chat_pb2,
    coordinator_service_pb2_grpc,
    generator_service_pb2,
    generator_service_pb2_grpc,
    passage_pb2,
    retriever_service_pb2,
    retriever_service_pb2_grpc,
    verification_pb2,
)
from groundline_coordinator.__main__ import wire
from groundline_coordinator.adapters import generator, retriever
from groundline_coordinator.adapters.postgres import PostgresThreads
from groundline_coordinator.ports import ThreadStore
from groundline_coordinator.servicer import SERVICE
from groundline_coordinator.settings import CoordinatorSettings
from groundline_database import DatabaseSettings, Pool, open_pool
from groundline_runtime.channels import open_channel
from groundline_runtime.serving.server import Application
from groundline_tests.coordinator.fakes import DOCUMENT_ID, FakeThreads
from groundline_tests.coordinator.threads import NewDocument, new_id
from groundline_tests.runtime import serve
from groundline_validation import validate
from pydantic import SecretStr

TEXTS = ("The gateway listens on port 8080.", "Backups run every night.")


@dataclass
class Backends:
    """How the scripted services behave, and what they were asked. Reset before each test."""

    error: dict[str, Exception] = field(default_factory=dict)
    hang: set[str] = field(default_factory=set)
    pieces: tuple[str, ...] = ("It is ", "8080. [1]")
    requests: dict[str, Any] = field(default_factory=dict)
    principals: dict[str, str] = field(default_factory=dict)
    time_left: dict[str, float] = field(default_factory=dict)
    entered: dict[str, asyncio.Event] = field(default_factory=dict)
    left: dict[str, asyncio.Event] = field(default_factory=dict)
    sent: int = 0
    standalone_query: str = ""
    sub_queries: tuple[str, ...] = ()
    missing: str = ""
    queries: list[list[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        for service in ("retriever", "fetching", "generator", "rewriting", "reading", "judging", "choosing"):
            self.entered[service] = asyncio.Event()
            self.left[service] = asyncio.Event()

    def reset(self) -> None:
        self.__dict__.update(Backends().__dict__)

    def remember(self, service: str, request: Any, context: Any) -> None:
        self.requests[service] = request
        self.principals[service] = dict(context.invocation_metadata()).get("x-groundline-principals", "")
        self.time_left[service] = context.time_remaining()

    async def behave(self, service: str) -> None:
        self.entered[service].set()
        try:
            if service in self.error:
                raise self.error[service]
            if service in self.hang:
                await asyncio.get_running_loop().create_future()
        finally:
            self.left[service].set()


class ScriptedRetriever(retriever_service_pb2_grpc.RetrieverServiceServicer):
    def __init__(self, backends: Backends) -> None:
        self._backends = backends

    async def Search(self, request: Any, context: Any) -> retriever_service_pb2.SearchResponse:  # noqa: N802
        self._backends.remember("retriever", request, context)
        self._backends.queries.append([request.query, *request.additional_queries])
        await self._backends.behave("retriever")
        stages = (passage_pb2.STAGE_RETRIEVING, passage_pb2.STAGE_KEYWORD_SEARCH, passage_pb2.STAGE_RERANKING)
        return retriever_service_pb2.SearchResponse(
            passages=[
                passage_pb2.Passage(
                    chunk=chunk,
                    score=0.5,
                    explanation=passage_pb2.ScoreExplanation(
                        semantic=passage_pb2.ArmScore(rank=rank), final_score=0.5
                    ),
                )
                for rank, chunk in enumerate(_chunks(), start=1)
            ],
            timings=[passage_pb2.StageTiming(stage=stage, duration_ms=1.5) for stage in stages],
        )

    async def FetchChunks(  # noqa: N802
        self, request: Any, context: Any
    ) -> retriever_service_pb2.FetchChunksResponse:
        self._backends.remember("fetching", request, context)
        await self._backends.behave("fetching")
        return retriever_service_pb2.FetchChunksResponse(chunks=_chunks())

    async def QueryTables(  # noqa: N802
        self, request: Any, context: Any
    ) -> retriever_service_pb2.QueryTablesResponse:
        return retriever_service_pb2.QueryTablesResponse()


def _chunks() -> list[passage_pb2.Chunk]:
    chunks = [
        passage_pb2.Chunk(
            chunk_id=str(number),
            document_id=DOCUMENT_ID,
            collection_id="docs",
            text=text,
            title="Operations",
            source_type=passage_pb2.SOURCE_TYPE_FILE,
            end_offset=len(text),
        )
        for number, text in enumerate(TEXTS, start=1)
    ]
    for chunk in chunks:
        chunk.metadata.update({"team": "ops", "year": 2026})
    return chunks


class ScriptedGenerator(generator_service_pb2_grpc.GeneratorServiceServicer):
    def __init__(self, backends: Backends) -> None:
        self._backends = backends

    async def Generate(  # noqa: N802
        self, request: Any, context: Any
    ) -> AsyncIterator[generator_service_pb2.GenerateResponse]:
        self._backends.remember("generator", request, context)
        for piece in self._backends.pieces:
            yield generator_service_pb2.GenerateResponse(
                delta=generator_service_pb2.GenerateDelta(text=piece)
            )
            self._backends.sent += 1
        await self._backends.behave("generator")
        yield generator_service_pb2.GenerateResponse(
            completed=generator_service_pb2.GenerateCompleted(
                finish_reason=chat_pb2.FINISH_REASON_STOP,
                usage=chat_pb2.Usage(prompt_tokens=20, cached_tokens=4, output_tokens=6),
                citations=[
                    chat_pb2.Citation(source_number=1, end_offset=11, supporting_text=TEXTS[0], chunk_id="1")
                ],
                validation=chat_pb2.Validation(grounded=True, confidence=0.75),
                model="scripted",
            )
        )

    async def _none(self, request: Any, context: Any) -> Any:
        raise NotImplementedError

    async def RewriteQuery(  # noqa: N802
        self, request: Any, context: Any
    ) -> generator_service_pb2.RewriteQueryResponse:
        self._backends.remember("rewriting", request, context)
        await self._backends.behave("rewriting")
        return generator_service_pb2.RewriteQueryResponse(
            standalone_query=self._backends.standalone_query or request.query,
            sub_queries=self._backends.sub_queries,
            model="rules",
            usage=chat_pb2.Usage(prompt_tokens=5, output_tokens=2),
        )

    async def SplitClaims(  # noqa: N802
        self, request: Any, context: Any
    ) -> generator_service_pb2.SplitClaimsResponse:
        claims = [
            generator_service_pb2.Claim(
                text=found.group(), start_offset=found.start(), end_offset=found.end()
            )
            for found in re.finditer(r"[^ .][^.]*\.", request.text)
        ]
        return generator_service_pb2.SplitClaimsResponse(claims=claims)

    async def JudgeClaims(  # noqa: N802
        self, request: Any, context: Any
    ) -> generator_service_pb2.JudgeClaimsResponse:
        self._backends.remember("judging", request, context)
        await self._backends.behave("judging")
        evidence = generator_service_pb2.PassageEvidence(passage_number=1, end_offset=11, words=["gateway"])
        verdict = generator_service_pb2.ClaimVerdict(
            verdict=verification_pb2.VERDICT_REFUTED, probability=0.5, evidence=[evidence]
        )
        usage = chat_pb2.Usage(prompt_tokens=5, output_tokens=2)
        return generator_service_pb2.JudgeClaimsResponse(verdicts=[verdict], model="scripted", usage=usage)

    async def JudgeSufficiency(  # noqa: N802
        self, request: Any, context: Any
    ) -> generator_service_pb2.JudgeSufficiencyResponse:
        self._backends.remember("reading", request, context)
        await self._backends.behave("reading")
        return generator_service_pb2.JudgeSufficiencyResponse(
            missing=self._backends.missing,
            queries=[self._backends.missing] if self._backends.missing else [],
            model="rules",
        )

    async def GetModelChoice(  # noqa: N802
        self, request: Any, context: Any
    ) -> generator_service_pb2.GetModelChoiceResponse:
        await self._backends.behave("choosing")
        return generator_service_pb2.GetModelChoiceResponse(models=["scripted", "other"])

    ContextualizeChunks = DescribePicture = JudgeRelevance = PlanTable = _none


@pytest.fixture(scope="module")
def backend_state() -> Backends:
    return Backends()


@pytest.fixture
def backends(backend_state: Backends) -> Backends:
    backend_state.reset()
    return backend_state


@pytest.fixture(scope="module")
async def settings(database_url: str, backend_state: Backends) -> AsyncIterator[CoordinatorSettings]:
    """Settings of a coordinator whose two backends are scripted servers on real ports."""
    registrations: dict[str, Callable[[grpc.aio.Server], None]] = {
        retriever.SERVICE: lambda server: retriever_service_pb2_grpc.add_RetrieverServiceServicer_to_server(
            ScriptedRetriever(backend_state), server
        ),
        generator.SERVICE: lambda server: generator_service_pb2_grpc.add_GeneratorServiceServicer_to_server(
            ScriptedGenerator(backend_state), server
        ),
    }
    async with AsyncExitStack() as stack:
        targets = [
            await stack.enter_async_context(serve(Application({name: register}, validate)))
            for name, register in registrations.items()
        ]
        yield CoordinatorSettings(
            database_url=SecretStr(database_url), retriever_target=targets[0], generator_target=targets[1]
        )


@pytest.fixture(scope="module")
async def coordinator_target(settings: CoordinatorSettings) -> AsyncIterator[str]:
    async with wire(settings) as application, serve(application) as target:
        yield target


@pytest.fixture(scope="module")
async def coordinator(
    coordinator_target: str,
) -> AsyncIterator["coordinator_service_pb2_grpc.CoordinatorServiceAsyncStub"]:
    async with open_channel(coordinator_target, service=SERVICE) as channel:
        yield coordinator_service_pb2_grpc.CoordinatorServiceStub(channel)


@pytest.fixture(scope="module")
async def database(database_url: str) -> AsyncIterator[Pool]:
    async with open_pool(DatabaseSettings(database_url=SecretStr(database_url))) as pool:
        yield pool


@pytest.fixture(scope="module")
def add_collection(database: Pool) -> Callable[..., Any]:
    """Writes a collection as the ingestor does."""

    async def add(
        name: str,
        *,
        readers: tuple[str, ...] = (),
        writers: tuple[str, ...] = (),
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        async with database.acquire() as connection, connection.transaction():
            partition = await connection.fetchval(
                """
                INSERT INTO chunk_partitions (collection_id, embedding_model, dimensions, language,
                                              lexical_backend)
                VALUES ($1, 'm', 3, 'english', 'pg_search') RETURNING partition_id
                """,
                name,
            )
            await connection.execute(
                """
                INSERT INTO collections (collection_id, name, settings, readers, writers, partition_id)
                VALUES ($1, $1, $2, $3, $4, $5)
                """,
                name,
                settings or {},
                list(readers),
                list(writers),
                partition,
            )

    return add


@pytest.fixture(scope="module")
def add_document(database: Pool) -> Callable[..., Any]:
    """Writes a document as the ingestor does, without chunks."""

    async def add(
        collection_id: str, document_id: str, *, title: str = "T", metadata: Mapping[str, Any] | None = None
    ) -> None:
        await database.execute(
            """
            INSERT INTO documents (document_id, collection_id, uri, source_type, title, mime_type,
                                   content_hash, ingestion_hash, size_bytes, metadata, state)
            VALUES ($1, $2, $3, 'file', $4, '', '', '', 1, $5, 'done')
            """,
            document_id,
            collection_id,
            f"{document_id}.md",
            title,
            metadata or {},
        )

    return add


@pytest.fixture(params=["fake", "postgres"])
def threads(request: pytest.FixtureRequest, database: Pool) -> ThreadStore:
    return FakeThreads() if request.param == "fake" else PostgresThreads(database)


@pytest.fixture(scope="module")
async def restricted(add_collection: Callable[..., Awaitable[None]]) -> None:
    await add_collection("open", settings={"rerank": {"topK": 3}, "generation": {"temperature": 0.5}, "x": 1})
    await add_collection("staff", readers=("group:staff",), writers=("user:editor",))
    await add_collection("notes", writers=("user:editor",))
    await add_collection(
        "strict",
        readers=("user:limited",),
        settings={"generationLimits": {"models": ["m"], "maxTemperature": 0.5, "maxTopK": 3}},
    )


@pytest.fixture
def new_document(
    threads: ThreadStore, add_document: Callable[..., Awaitable[None]], restricted: None
) -> NewDocument:
    """Stores a document of the collection open, and returns its id; the fake believes what sources say."""

    async def add(**fields: Any) -> str:
        document_id = new_id()
        if isinstance(threads, PostgresThreads):
            await add_document("open", document_id, **fields)
        return document_id

    return add
