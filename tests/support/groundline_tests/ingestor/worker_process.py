"""A worker in a process of its own, which stops at a stage and waits there to be killed.

The stage is leased, embedding, counting, storing (where a lock of the test holds it) or crawling (where a
site of the test holds it). The worker sends the stage's name when it is there, but for the last.
"""

import asyncio
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

from groundline_database import acquire, open_pool, register_vectors
from groundline_embedding import Embedders
from groundline_embedding.ports import Vectors
from groundline_indexing.preparation import open_sandbox
from groundline_ingestor.__main__ import open_collector, wire_on
from groundline_ingestor.adapters.postgres.queue import PostgresQueue
from groundline_ingestor.adapters.postgres.stores import stores_on
from groundline_ingestor.settings import IngestorSettings
from groundline_lexical import detect_lexical_index
from groundline_runtime.paging import PageTokens
from pydantic import SecretStr

from groundline_tests.commands.processes import FORKING, forked
from groundline_tests.embedding import FakeEmbedder


@contextmanager
def worker_process(
    database_url: str, stage: str, collector_target: str | None = None
) -> "Iterator[Connection[None, str]]":
    """Run the worker; provide where the stage's name comes, and kill it with -9 at the end."""
    arriving, telling = FORKING.Pipe(duplex=False)
    with arriving:
        with telling:
            process = forked(run, telling, database_url, stage, collector_target)
        try:
            yield arriving
        finally:
            process.kill()
            process.join()


class StuckEmbedder(FakeEmbedder):
    """Never comes back from where it is to stop."""

    def __init__(self, stage: str, telling: "Connection[str, None]") -> None:
        super().__init__()
        self._stage = stage
        self._telling = telling

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        if self._stage == "embedding":
            self._telling.send("embedding")
            await asyncio.Event().wait()
        vectors = await super().embed_documents(texts)
        if self._stage == "storing":
            self._telling.send("storing")
        return vectors

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        if self._stage == "counting":
            self._telling.send("counting")
            time.sleep(3600)
        return super().count_tokens(texts)


async def main(
    telling: "Connection[str, None]", database_url: str, stage: str, collector_target: str | None
) -> None:
    settings = IngestorSettings(
        database_url=SecretStr(database_url), collector_target=collector_target, workers=1, lease_seconds=1
    )
    async with (
        open_pool(settings, init=register_vectors) as pool,
        open_sandbox(settings) as sandbox,
        open_collector(settings) as collector,
    ):
        async with acquire(pool) as connection:
            lexical = await detect_lexical_index(connection)
        _, worker = wire_on(
            settings,
            stores_on(pool, lexical),
            Embedders([StuckEmbedder(stage, telling)]),
            sandbox,
            PageTokens(bytes(32)),
            collector=collector,
        )
        if stage == "leased":
            await PostgresQueue(pool).lease(
                str(uuid.uuid4()), models=[FakeEmbedder().model], limit=10, seconds=1
            )
            telling.send("leased")
            await asyncio.Event().wait()
        await worker.run()


def run(*arguments: Any) -> None:
    asyncio.run(main(*arguments))
