"""A worker in a process of its own, which stops at a stage and waits there to be killed.

Arguments: the database's URL, the stage, and the target of a collector where it is to crawl. The stage is
leased, embedding, counting, storing (where a lock of the test holds it) or crawling (where a site of the test
holds it). Prints the stage's name when it is there, but for the last.
"""

import asyncio
import sys
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

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

sys.path.insert(0, str(Path(__file__).parents[2]))
from groundline_tests.embedding import FakeEmbedder


class StuckEmbedder(FakeEmbedder):
    """Never comes back from where it is to stop."""

    def __init__(self, stage: str) -> None:
        super().__init__()
        self._stage = stage

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        if self._stage == "embedding":
            print("embedding", flush=True)
            await asyncio.Event().wait()
        vectors = await super().embed_documents(texts)
        if self._stage == "storing":
            print("storing", flush=True)
        return vectors

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        if self._stage == "counting":
            print("counting", flush=True)
            time.sleep(3600)
        return super().count_tokens(texts)


async def main(database_url: str, stage: str, collector_target: str | None = None) -> None:
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
            Embedders([StuckEmbedder(stage)]),
            sandbox,
            PageTokens(bytes(32)),
            collector=collector,
        )
        if stage == "leased":
            await PostgresQueue(pool).lease(
                str(uuid.uuid4()), models=[FakeEmbedder().model], limit=10, seconds=1
            )
            print("leased", flush=True)
            await asyncio.Event().wait()
        await worker.run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
