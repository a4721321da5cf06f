"""A model provider that refuses every third call: jobs slow down, and end with every context."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

from groundline.v1 import chat_pb2, generator_service_pb2_grpc, job_pb2
from groundline_database import Pool, acquire
from groundline_embedding import Embedders
from groundline_extraction.documents import GivenDocument
from groundline_generator.adapters.openai import OpenAIModel
from groundline_generator.domain.calls import ModelChoice
from groundline_generator.service.answers.answering import AnswerService
from groundline_generator.service.breaker import Breaker
from groundline_generator.service.claims.cascade import ClaimCascade
from groundline_generator.service.contextualizing import Contextualizer
from groundline_generator.service.guarded_model import GuardedModel
from groundline_generator.service.quota import Limiter
from groundline_generator.service.rewriting import RuleRewriter
from groundline_generator.service.sufficiency import RuleSufficiency
from groundline_generator.servicer import GeneratorServicer, UseCases
from groundline_indexing.partitions import chunk_table
from groundline_indexing.preparation import open_sandbox
from groundline_ingestor.__main__ import wire_on, working
from groundline_ingestor.adapters.contextualizing import GENERATOR_SERVICE, GrpcTextWriter
from groundline_ingestor.adapters.postgres.stores import Stores
from groundline_ingestor.settings import IngestorSettings
from groundline_runtime.channels import open_channel
from groundline_runtime.context import Caller
from groundline_runtime.paging import PageTokens
from groundline_runtime.serving.server import Application
from groundline_tests.embedding import FakeEmbedder
from groundline_tests.generator.providers import OpenAIWire, ProviderServer, Reply, Request, Wire
from groundline_tests.ingestor.messages import a_collection
from groundline_tests.runtime import serve
from groundline_validation import validate
from pydantic import SecretStr

CALLS_A_MINUTE = 6
A_MINUTE = 1.5
"""In seconds of this test, whose limiter lives forty times as fast."""

CHUNKS = 25
DOCUMENTS = 3
CHOSEN: dict[str, Any] = {
    "chunking": {"strategy": "CHUNKING_STRATEGY_SENTENCES", "chunkSize": 40, "chunkOverlap": 0},
    "contextualization": {"mode": "CONTEXTUALIZATION_MODE_LLM"},
}
PROMPT, CACHED, OUTPUT = 90, 60, 7
"""Tokens of each call that the provider answers."""


class BusyProvider:
    """Refuses every third call with 429 and every seventh with 503; answers the others."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self.arrivals: list[float] = []
        self.answered = 0

    def __call__(self, request: Request) -> Reply:
        self.arrivals.append(asyncio.get_running_loop().time())
        count = len(self.arrivals)
        if count % 3 == 0:
            return self._wire.failure(429, {"retry-after": "0.3"})
        if count % 7 == 0:
            return self._wire.failure(503)
        self.answered += 1
        numbers = re.findall(r'<chunk-\w+ number=\\"(\d+)\\">', json.dumps(request.body))
        contexts = [{"chunk": int(number), "context": f"On part {number}."} for number in numbers]
        wire = self._wire
        texts = [wire.text(json.dumps({"contexts": contexts})), wire.end()]
        return Reply([*texts, wire.usage(PROMPT, CACHED, OUTPUT)])


@asynccontextmanager
async def generator(server: ProviderServer, wire: Wire) -> AsyncIterator[str]:
    """Run the generator's servicer over a provider's SDK, with a limit; yield its address."""
    provider = OpenAIModel(base_url=wire.base_url(server), api_key=SecretStr("sesame"), silence_seconds=10)
    lapse = 60 / A_MINUTE
    limiter = Limiter(
        requests_per_minute=CALLS_A_MINUTE,
        clock=lambda: asyncio.get_running_loop().time() * lapse,
        sleep=lambda seconds: asyncio.sleep(seconds / lapse),
    )
    async with aclosing(provider):
        chat = GuardedModel(provider, limiter, Breaker(), max_attempts=10, max_wait_seconds=60)
        use_cases = UseCases(
            AnswerService(None),  # type: ignore[arg-type]  # nobody asks for answers
            RuleRewriter(),
            RuleSufficiency(),
            ClaimCascade(),
            contextualizer=Contextualizer(chat, ModelChoice("m"), 100_000),
        )
        servicer = GeneratorServicer(use_cases)
        application = Application(
            services={
                GENERATOR_SERVICE: lambda server: (
                    generator_service_pb2_grpc.add_GeneratorServiceServicer_to_server(servicer, server)
                )
            },
            validate=validate,
        )
        async with serve(application) as target:
            yield target


async def test_a_provider_that_refuses_every_third_call_slows_a_job_and_does_not_end_it(
    pool: Pool, stores: Stores, database_url: str
) -> None:
    wire = OpenAIWire()
    provider = BusyProvider(wire)
    embedders = Embedders([embedder := FakeEmbedder()])
    settings = IngestorSettings(database_url=SecretStr(database_url))
    name = "busy"
    collection = await stores.collections.create(
        a_collection(name, model=embedder.model, dimensions=embedder.dimensions, **CHOSEN), "", ""
    )
    async with (
        ProviderServer() as server,
        generator(server, wire) as target,
        open_channel(target, service=GENERATOR_SERVICE) as channel,
        open_sandbox(settings) as sandbox,
    ):
        server.respond = provider
        servicer, worker = wire_on(
            settings, stores, embedders, sandbox, PageTokens(bytes(32)), GrpcTextWriter(channel)
        )
        ingestion, jobs = servicer._ingestion, servicer._jobs
        texts = [
            " ".join(f"Sentence {number} of document {document}." for number in range(CHUNKS))
            for document in range(DOCUMENTS)
        ]
        given = [GivenDocument(text, uri=f"{name}-{number}.txt") for number, text in enumerate(texts)]
        job = (await ingestion.ingest(Caller(), name, given, "")).job
        async with working(worker, settings):
            states = [state.job async for state in jobs.watch(Caller(), job.job_id)]
    job, items = states[-1], await stores.jobs.items(job.job_id, None, after=-1, limit=10)

    assert job.state == job_pb2.JOB_STATE_DONE
    assert [item.chunks.stored for item in items] == [CHUNKS] * DOCUMENTS
    async with acquire(pool) as connection:
        rows = await connection.fetch(
            f"SELECT context_annotation FROM {chunk_table(collection.partition_id)} WHERE collection_id = $1",
            collection.collection_id,
        )
    assert len(rows) == CHUNKS * DOCUMENTS
    assert all(re.fullmatch(r"On part \d+\.", row["context_annotation"]) for row in rows)

    # Ten chunks a call, and the call's tokens on its document's account; what was refused cost nothing.
    calls_each = 3
    assert provider.answered == calls_each * DOCUMENTS
    for item in items:
        item.usage.ClearField("embedding_tokens")
    assert [item.usage for item in items] == [
        chat_pb2.Usage(
            prompt_tokens=PROMPT * calls_each,
            cached_tokens=CACHED * calls_each,
            output_tokens=OUTPUT * calls_each,
        )
    ] * DOCUMENTS

    # By the provider's own record. A call takes a little while from the limiter to the provider, hence the
    # margin; a limiter that is right on average only would let twice as many into the first minute.
    for first, beyond in zip(provider.arrivals, provider.arrivals[CALLS_A_MINUTE:], strict=False):
        assert beyond - first > 0.6 * A_MINUTE
